"""Figures of the third tab: a pose and the poses it is matched with, the coupling, and σ over time."""

from typing import Any

import numpy as np

from udtw.explorer.figures import (
    COUPLING_TICKS,
    COUPLING_TITLE,
    axis,
    blank_axis,
    colour_bar,
    coupling_trace,
    layout,
    margins,
    mode_traces,
    note,
    typed,
    under,
)
from udtw.explorer.skeleton_alignment import GRAPH, ChosenClip, SkeletonResult
from udtw.plots.skeleton import Body, body
from udtw.plots.style import MODE_COLOR, X_COLOR, Y_COLOR

HEIGHT, SIGMA_HEIGHT = 470, 210
MARGIN, SIGMA_MARGIN = margins(8, 14, 30, 92), margins(52, 14, 10, 46)
BAR = under(44, HEIGHT, MARGIN)
SHOWN_POSES, LEAST_SHOWN = 5, 0.02
"""At most so many poses of y are drawn, those that are matched with at least this probability."""

HEAD, JOINT = 20, 6
WIDTHS = ((0.0, 0.25), (0.27, 0.52), (0.61, 1.0))


def match_figure(x: ChosenClip, y: ChosenClip, found: SkeletonResult) -> dict[str, Any]:
    """The pose of x at a frame, the poses of y that it is matched with (likely ones dark), and the coupling."""
    bodies = [body(one.clip.frames, GRAPH) for one in (x, y)]
    row = found.coupling[found.frame]
    best = int(row.argmax())
    strongest = [int(n) for n in np.argsort(-row)[:SHOWN_POSES] if row[n] > LEAST_SHOWN][::-1]
    data = [_pose(bodies[0], found.frame, X_COLOR, 1.0, "", f"x, frame {found.frame}")]
    data += [
        _pose(bodies[1], n, Y_COLOR, float(row[n]), "2", f"y, frame {n}: π* = {row[n]:.3f}")
        for n in strongest
        if n != best
    ]
    data.append(_pose(bodies[1], best, Y_COLOR, 1.0, "2", f"y, frame {best}: π* = {row[best]:.3f}"))
    n, m = found.coupling.shape
    third: dict[str, Any] = {"xaxis": "x3", "yaxis": "y3"}
    data += [
        coupling_trace(
            found.coupling, hover="x frame %{y}, y frame %{x}<br>π* = %{customdata:.4f}<extra></extra>",
            colorbar=colour_bar(COUPLING_TITLE, sum(WIDTHS[2]) / 2, 0.36, BAR, **COUPLING_TICKS),
            **third,
        ),
        *mode_traces(found.mode, "most probable path", **third),
    ]  # fmt: skip
    line = {
        "type": "line", "xref": "x3", "yref": "y3", "x0": -0.5, "x1": m - 0.5, "y0": found.frame, "y1": found.frame,
        "line": {"color": X_COLOR, "width": 1.5, "dash": "dot"},
    }  # fmt: skip
    titles = [
        note(f"<b>x</b>  {x.clip.name}, frame {found.frame}", sum(WIDTHS[0]) / 2, 1, yanchor="bottom", yshift=4),
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


def _pose(shape: Body, frame: int, color: str, opacity: float, end: str, label: str) -> dict[str, Any]:
    """The bones of one frame as a line with gaps; missing joints are left out."""
    points = shape.points[frame, 0]
    gap = np.full((1, 2), np.nan)
    bones = np.concatenate([part for edge in shape.graph.edges for part in (points[list(edge)], gap)])
    head = shape.graph.joints.index("head")
    sizes = [HEAD if joint == head else JOINT for edge in shape.graph.edges for joint in (*edge, -1)]
    return {
        "type": "scatter", "mode": "lines+markers", "x": typed(bones[:, 0]), "y": typed(bones[:, 1]),
        "line": {"color": color, "width": 3}, "marker": {"color": color, "size": sizes, "line": {"width": 0}},
        "opacity": 0.15 + 0.85 * opacity,
        "xaxis": f"x{end}", "yaxis": f"y{end}", "name": label, "hovertemplate": f"{label}<extra></extra>",
    }  # fmt: skip


def _pose_axes(shape: Body, end: str, domain: tuple[float, float]) -> dict[str, Any]:
    width, height = shape.size
    return {
        f"xaxis{end}": blank_axis(domain=domain, range=[-0.6 * width, 0.6 * width], anchor=f"y{end}"),
        f"yaxis{end}": blank_axis(
            range=[-0.56 * height, 0.56 * height], scaleanchor=f"x{end}", scaleratio=1, anchor=f"x{end}"
        ),
    }


def sigma_figure(found: SkeletonResult) -> dict[str, Any]:
    """σ of the frames of both clips; lines mark the frames that are shown."""
    best = int(found.coupling[found.frame].argmax())
    data, more = [], {}
    shapes = []
    sides = (
        ("x", found.var_x, len(found.x), X_COLOR, found.frame, (0.0, 0.48)),
        ("y", found.var_y, len(found.y), Y_COLOR, best, (0.52, 1.0)),
    )
    highest = max([2.0, *(float(np.sqrt(one).max()) for one in (found.var_x, found.var_y) if one is not None)])
    for k, (name, variance, steps, color, frame, domain) in enumerate(sides):
        end = "" if k == 0 else "2"
        sigma = np.ones(steps) if variance is None else np.sqrt(variance)
        data.append(
            {
                "type": "scatter", "mode": "lines", "x": typed(np.arange(steps)), "y": typed(sigma), "fill": "tozeroy",
                "fillcolor": color + "22", "line": {"color": color, "width": 2}, "xaxis": f"x{end}", "yaxis": f"y{end}",
                "hovertemplate": f"{name} frame %{{x}}: σ = %{{y:.3f}}<extra></extra>",
            }
        )  # fmt: skip
        more[f"xaxis{end}"] = axis(f"frame of {name}", domain=domain, anchor=f"y{end}", range=[0, steps - 1])
        more[f"yaxis{end}"] = axis(f"σ of {name}", anchor=f"x{end}", range=[0, 1.1 * highest], nticks=4)
        shapes.append(
            {
                "type": "line", "xref": f"x{end}", "yref": f"y{end}", "x0": frame, "x1": frame, "y0": 0,
                "y1": 1.1 * highest, "line": {"color": MODE_COLOR, "width": 1.5, "dash": "dot"},
            }
        )  # fmt: skip
    return {
        "data": data,
        "layout": layout(SIGMA_HEIGHT, margin=SIGMA_MARGIN, shapes=shapes, **more),
    }
