"""Lay out the skeleton tab: two clips of a stick figure, and which of their frames are matched."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html

from udtw.explorer import scripts
from udtw.explorer.controls import graph, radio, section, slider
from udtw.explorer.figures import (
    COUPLING_TICKS,
    COUPLING_TITLE,
    axis,
    blank_axis,
    color_bar,
    coupling_trace,
    layout,
    margins,
    mode_traces,
    note,
    scatter,
    shape,
    under,
)
from udtw.explorer.skeleton_alignment import (
    GRAPH,
    LOG_GAMMA,
    VARIANCES,
    ChosenClip,
    ClipChoices,
    SkeletonResult,
    SkeletonSettings,
    align_clips,
)
from udtw.explorer.tab import COST_PER_MATCH, SHARE_MARKS, SLIDERS, SUMS, Tab, cost_per_match
from udtw.plots.skeleton import Body, body
from udtw.plots.style import MODE_COLOR, X_COLOR, Y_COLOR

STEP_MS = 150
HEIGHT, SIGMA_HEIGHT = 470, 210
MARGIN, SIGMA_MARGIN = margins(8, 14, 30, 92), margins(52, 14, 10, 46)
BAR = under(44, HEIGHT, MARGIN)
SHOWN_POSES, LEAST_SHOWN = 5, 0.02
"""Largest number of poses of y to draw, and the least probability of a match that is drawn."""

HEAD, JOINT = 20, 6
WIDTHS = ((0.0, 0.25), (0.27, 0.52), (0.61, 1.0))


class SkeletonTab(Tab):
    """Show generated clips of a stick figure."""

    name, file = "skeletons", "skeletons"
    settings = SkeletonSettings
    controls: ClassVar[Mapping[str, str | None]] = SLIDERS | {"variance": None, "frame": "share"}
    cards = SUMS | COST_PER_MATCH
    figures = ("match", "sigma")

    def __init__(self) -> None:
        self.choices = ClipChoices()

    def align(self, x: ChosenClip, y: ChosenClip, settings: SkeletonSettings) -> SkeletonResult:
        return align_clips(x, y, settings)

    def show(self, x: ChosenClip, y: ChosenClip, settings: SkeletonSettings, result: SkeletonResult) -> dict[str, Any]:
        return cost_per_match(result.alignment) | {"match": match_figure(x, y, result), "sigma": sigma_figure(result)}

    def code(self, x: ChosenClip, y: ChosenClip, settings: SkeletonSettings) -> str:
        return scripts.skeleton_script(x, y, settings)

    def layout(self) -> html.Div:
        tab, first = self.name, SkeletonSettings()
        action = next(iter(self.choices.sets))
        controls = [
            self.side("x", "Clip x", ("action", "clip"), (action, 0)),
            self.side("y", "Clip y", ("action", "clip"), (action, 1)),
            section(
                "Time",
                slider(f"{tab}-frame", "frame of x (share of the clip)", (0, 100), 0.5, first.frame, SHARE_MARKS),
                html.Button("Play", id=f"{tab}-play", className="plain"),
                dcc.Interval(id=f"{tab}-clock", interval=STEP_MS, disabled=True),
            ),
            section("Alignment", *self.alignment_sliders(LOG_GAMMA, -1, "length")),
            section("Uncertainty", radio(f"{tab}-variance", "variance σ² of the frames", VARIANCES, first.variance)),
        ]
        seen = [
            html.P(
                "Beside a frame of x are the frames of y that it is matched with, likely ones in full color.",
                className="sentence",
            ),
            graph(f"{tab}-match", HEIGHT, "Two stick figures and the coupling of their clips", wide=True),
        ]
        shown = [
            html.H2("Uncertainty of the frames"),
            graph(f"{tab}-sigma", SIGMA_HEIGHT, "Uncertainty of both clips over time", wide=True),
        ]
        return self.page(seen, controls, shown)

    def register(self, app: Dash) -> None:
        super().register(app)
        tab = self.name
        app.clientside_callback(
            ClientsideFunction("explorer", "play"),
            Output(f"{tab}-clock", "disabled"),
            Output(f"{tab}-play", "children"),
            Input(f"{tab}-play", "n_clicks"),
            State(f"{tab}-clock", "disabled"),
            prevent_initial_call=True,
        )
        app.clientside_callback(
            ClientsideFunction("explorer", "tick"),
            Output(f"{tab}-frame", "value"),
            Input(f"{tab}-clock", "n_intervals"),
            State(f"{tab}-frame", "value"),
            prevent_initial_call=True,
        )


def match_figure(x: ChosenClip, y: ChosenClip, result: SkeletonResult) -> dict[str, Any]:
    """Draw the pose of x at a frame, the poses of y that it is matched with (likely ones dark), and the coupling."""
    bodies = [body(one.clip.frames, GRAPH) for one in (x, y)]
    frame, row = result.frame, result.coupling[result.frame]
    best = int(row.argmax())
    strongest = [int(n) for n in np.argsort(-row)[:SHOWN_POSES] if row[n] > LEAST_SHOWN][::-1]
    data = [_pose(bodies[0], frame, X_COLOR, 1.0, "", f"x, frame {frame}")]
    data += [
        _pose(bodies[1], n, Y_COLOR, float(row[n]), "2", f"y, frame {n}: π* = {row[n]:.3f}")
        for n in strongest
        if n != best
    ]
    data.append(_pose(bodies[1], best, Y_COLOR, 1.0, "2", f"y, frame {best}: π* = {row[best]:.3f}"))
    n, m = result.coupling.shape
    third: dict[str, Any] = {"xaxis": "x3", "yaxis": "y3"}
    hover = "x frame %{y}, y frame %{x}<br>π* = %{customdata:.4f}<extra></extra>"
    bar = color_bar(COUPLING_TITLE, sum(WIDTHS[2]) / 2, 0.36, BAR, **COUPLING_TICKS)
    data.append(coupling_trace(result.coupling, hover=hover, colorbar=bar, **third))
    data += mode_traces(result.mode, "most probable path", **third)
    dotted = {"color": X_COLOR, "width": 1.5, "dash": "dot"}
    line = shape("line", (-0.5, m - 0.5), (frame, frame), ("x3", "y3"), line=dotted)
    titles = [
        note(f"<b>x</b>  {x.clip.name}, frame {frame}", sum(WIDTHS[0]) / 2, 1, yanchor="bottom", yshift=4),
        note(f"<b>y</b>  {y.clip.name}, frame {best}", sum(WIDTHS[1]) / 2, 1, yanchor="bottom", yshift=4),
    ]
    return {
        "data": data,
        "layout": layout(
            HEIGHT,
            margin=MARGIN,
            shapes=[line],
            annotations=titles,
            **_pose_axes(bodies[0], "", WIDTHS[0]),
            **_pose_axes(bodies[1], "2", WIDTHS[1]),
            xaxis3=axis("frame of y", domain=WIDTHS[2], anchor="y3", range=[-0.5, m - 0.5], showgrid=False),
            yaxis3=axis("frame of x", anchor="x3", range=[n - 0.5, -0.5], showgrid=False),
        ),
    }


def _pose(person: Body, frame: int, color: str, opacity: float, end: str, label: str) -> dict[str, Any]:
    """Draw the bones of one frame as a line with gaps; missing joints are left out."""
    points, edges = person.points[frame, 0], person.graph.edges
    gap = np.full((1, 2), np.nan)
    bones = np.concatenate([part for edge in edges for part in (points[list(edge)], gap)])
    head = person.graph.joints.index("head")
    sizes = [HEAD if joint == head else JOINT for edge in edges for joint in (*edge, -1)]
    drawn: dict[str, Any] = {
        "line": {"color": color, "width": 3},
        "marker": {"color": color, "size": sizes, "line": {"width": 0}},
        "opacity": 0.15 + 0.85 * opacity,
    }
    named = {"name": label, "hovertemplate": f"{label}<extra></extra>"}
    return scatter(bones[:, 0], bones[:, 1], "lines+markers", xaxis=f"x{end}", yaxis=f"y{end}", **drawn, **named)


def _pose_axes(person: Body, end: str, domain: tuple[float, float]) -> dict[str, Any]:
    width, height = person.size
    across, down = [-0.6 * width, 0.6 * width], [-0.56 * height, 0.56 * height]
    return {
        f"xaxis{end}": blank_axis(domain=domain, range=across, anchor=f"y{end}"),
        f"yaxis{end}": blank_axis(range=down, scaleanchor=f"x{end}", scaleratio=1, anchor=f"x{end}"),
    }


def sigma_figure(result: SkeletonResult) -> dict[str, Any]:
    """Draw σ of the frames of both clips; lines mark the frames that are shown."""
    best = int(result.coupling[result.frame].argmax())
    data, more = [], {}
    shapes = []
    sides = (
        ("x", result.var_x, len(result.x), X_COLOR, result.frame, (0.0, 0.48)),
        ("y", result.var_y, len(result.y), Y_COLOR, best, (0.52, 1.0)),
    )
    highest = max([2.0, *(float(np.sqrt(one).max()) for one in (result.var_x, result.var_y) if one is not None)])
    for k, (name, variance, steps, color, frame, domain) in enumerate(sides):
        end = "" if k == 0 else "2"
        sigma = np.ones(steps) if variance is None else np.sqrt(variance)
        drawn: dict[str, Any] = {"fill": "tozeroy", "fillcolor": color + "22", "line": {"color": color, "width": 2}}
        hover = f"{name} frame %{{x}}: σ = %{{y:.3f}}<extra></extra>"
        axes = {"xaxis": f"x{end}", "yaxis": f"y{end}"}
        data.append(scatter(np.arange(steps), sigma, **drawn, **axes, hovertemplate=hover))
        more[f"xaxis{end}"] = axis(f"frame of {name}", domain=domain, anchor=f"y{end}", range=[0, steps - 1])
        more[f"yaxis{end}"] = axis(f"σ of {name}", anchor=f"x{end}", range=[0, 1.1 * highest], nticks=4)
        dotted = {"color": MODE_COLOR, "width": 1.5, "dash": "dot"}
        shapes.append(shape("line", (frame, frame), (0, 1.1 * highest), (f"x{end}", f"y{end}"), line=dotted))
    return {"data": data, "layout": layout(SIGMA_HEIGHT, margin=SIGMA_MARGIN, shapes=shapes, **more)}
