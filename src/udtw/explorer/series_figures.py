"""The second view of the first tab: two series around their coupling and match variance; four distances below it."""

from typing import Any

import numpy as np
from dash import html

from udtw.explorer.controls import shown_number
from udtw.explorer.figures import (
    COUPLING_TICKS,
    COUPLING_TITLE,
    INK,
    axis,
    blocks,
    colour_bar,
    coupling_trace,
    data_url,
    layout,
    margins,
    mode_traces,
    path_trace,
    places,
    shades,
    typed,
    under,
)
from udtw.explorer.series_alignment import ComparedDistance, SeriesResult
from udtw.plots.alignment import log_ticks, value_limits, variance_range
from udtw.plots.style import MODE_COLOR, SAMPLE_COLOR, X_COLOR, Y_COLOR

HEIGHT = 540
MARGIN = margins(52, 14, 12, 92)
BAR = under(44, HEIGHT, MARGIN)
LEFT, COUPLING, VARIANCE = (0.0, 0.1), (0.115, 0.545), (0.57, 1.0)
BELOW, TOP = (0.0, 0.77), (0.8, 1.0)
BAND_OPACITY = "33"
PANEL_CELLS = 256
"""Panels have at most this many rows and columns."""

PATH = 255
"""Index of the colour of a path in `PALETTE`."""


def alignment_figure(found: SeriesResult) -> dict[str, Any]:
    """x on the left with time running down, y on top, π* and Σ between them; all zoom together."""
    n, m = found.coupling.shape
    low, high = _limits(found)
    data = [
        *_series(found.prepared.x, found.step_variances[0], X_COLOR, "x", upright=True),
        *_series(found.prepared.y, found.step_variances[1], Y_COLOR, "y", upright=False),
        coupling_trace(
            found.coupling, hover="x step %{y}, y step %{x}<br>π* = %{customdata:.4f}<extra></extra>",
            colorbar=colour_bar(COUPLING_TITLE, sum(COUPLING) / 2, 0.4, BAR, **COUPLING_TICKS),
        ),
        path_trace(found.samples, SAMPLE_COLOR, 1, f"{len(found.samples)} sampled paths", opacity=0.7,
                   showlegend=bool(found.samples)),
        *mode_traces(found.mode, "most probable path"),
        _variance_trace(found.variance),
        *mode_traces(found.mode, xaxis="x3", yaxis="y3"),
    ]  # fmt: skip
    steps_y: dict[str, Any] = {"range": [-0.5, m - 0.5], "showgrid": False}
    steps_x: dict[str, Any] = {"range": [n - 0.5, -0.5], "showgrid": False}
    return {
        "data": data,
        "layout": layout(
            HEIGHT,
            margin=MARGIN,
            showlegend=True,
            legend={"x": VARIANCE[0], "y": 1.02, "xanchor": "left", "yanchor": "top", "font": {"size": 12}},
            xaxis=axis("step of y", domain=COUPLING, anchor="y", **steps_y),
            yaxis=axis(domain=BELOW, anchor="x", showticklabels=False, matches="y2", **steps_x),
            xaxis2=axis("x", domain=LEFT, anchor="y2", range=[high, low], nticks=4),
            yaxis2=axis("step of x", domain=BELOW, anchor="x2", **steps_x),
            xaxis3=axis("step of y", domain=VARIANCE, anchor="y3", matches="x", **steps_y),
            yaxis3=axis(domain=BELOW, anchor="x3", showticklabels=False, matches="y2", **steps_x),
            xaxis4=axis(domain=COUPLING, anchor="y4", showticklabels=False, matches="x", **steps_y),
            yaxis4=axis("y", domain=TOP, anchor="x4", range=[low, high], nticks=4),
        ),
    }


def _series(values: np.ndarray, variance: np.ndarray | None, color: str, name: str, *, upright: bool) -> list[Any]:
    """A line per feature and, if there is only one, a band of ±σ."""
    time = np.arange(len(values))
    axes = {"xaxis": "x2", "yaxis": "y2"} if upright else {"xaxis": "x4", "yaxis": "y4"}

    def trace(series: np.ndarray, along: np.ndarray, **more: Any) -> dict[str, Any]:
        x, y = (series, along) if upright else (along, series)
        return {"type": "scatter", "mode": "lines", "x": typed(x), "y": typed(y), **axes, **more}

    traces = []
    if variance is not None and values.shape[1] == 1:
        sigma = np.sqrt(variance)
        edge = np.concatenate([values[:, 0] + sigma, (values[:, 0] - sigma)[::-1]])
        there = np.concatenate([time, time[::-1]])
        traces.append(
            trace(edge, there, fill="toself", fillcolor=color + BAND_OPACITY, line={"width": 0}, hoverinfo="skip",
                  showlegend=False)
        )  # fmt: skip
    hover = f"{name}: step %{{y}}, value %{{x:.4g}}" if upright else f"{name}: step %{{x}}, value %{{y:.4g}}"
    label = name if variance is None or values.shape[1] > 1 else f"{name} ± σ"
    traces += [
        trace(feature, time, line={"color": color, "width": 1.5}, name=label, showlegend=number == 0,
              hovertemplate=f"{hover}<extra></extra>")
        for number, feature in enumerate(values.T)
    ]  # fmt: skip
    return traces


def _limits(found: SeriesResult) -> tuple[float, float]:
    """One range of values for both margins; bands of ±σ are only drawn for a single feature."""
    sides = zip((found.prepared.x, found.prepared.y), found.step_variances, strict=True)
    return value_limits(
        *((x, None if variance is None or x.shape[1] > 1 else np.sqrt(variance)) for x, variance in sides)
    )


def _variance_trace(variance: np.ndarray) -> dict[str, Any]:
    shown, rows, columns = blocks(variance, reduce=np.add)
    low, high, logarithmic = variance_range(shown)
    bar: dict[str, Any] = {"x": sum(VARIANCE) / 2, "length": 0.4, "below": BAR}
    trace: dict[str, Any] = {
        "type": "heatmap", "xaxis": "x3", "yaxis": "y3", "colorscale": "Cividis", **places(rows, columns),
    }  # fmt: skip
    hover = "x step %{y}, y step %{x}<br>Σ = %{VALUE:.4g}<extra></extra>"
    if not logarithmic:
        return trace | {
            "z": typed(shown), "zmin": low, "zmax": high, "hovertemplate": hover.replace("VALUE", "z"),
            "colorbar": colour_bar("match variance Σ", **bar),
        }  # fmt: skip
    ticks = log_ticks(low, high)
    named = {"tickvals": np.log10(ticks).tolist(), "ticktext": [f"{tick:g}" for tick in ticks]}
    return trace | {
        "z": typed(np.log10(shown)), "customdata": typed(shown), "hovertemplate": hover.replace("VALUE", "customdata"),
        "colorbar": colour_bar("match variance Σ (logarithmic)", **bar, **named),
    }  # fmt: skip


def _palette() -> bytes:
    """Colours 0 to 254 from white to black, and the colour of a path."""
    ink, path = (np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) for color in (INK, MODE_COLOR))
    share = np.arange(PATH)[:, None] / (PATH - 1)
    return np.concatenate([255 + share * (ink - 255), path[None]]).round().astype(np.uint8).tobytes()


PALETTE = _palette()


def comparison(found: SeriesResult) -> list[html.Figure]:
    """A panel per distance: a small image of the steps that it matches, and its value.

    Images, not figures of plotly.js, because the browser draws them at once while a slider is dragged.
    """
    return [_panel(one, found.coupling.shape) for one in found.compared]


def _panel(one: ComparedDistance, shape: tuple[int, ...]) -> html.Figure:
    title = html.Figcaption([html.B(one.name), html.Span(shown_number(one.value, 4))])
    inside: Any = html.Div("needs equal lengths", className="absent")
    if one.path is not None:
        meaning = "the most probable path over the coupling" if one.matrix is not None else "its path"
        inside = html.Img(src=data_url(panel_pixels(one, shape), PALETTE), alt=f"{one.name}: {meaning}")
    return html.Figure([title, inside])


def panel_pixels(one: ComparedDistance, shape: tuple[int, ...]) -> np.ndarray:
    """(H, W) uint8 shades of the coupling, and `PATH` on the path; at most `PANEL_CELLS` rows and columns."""
    steps = [-(-side // PANEL_CELLS) for side in shape]
    if one.matrix is None:
        drawn = np.zeros([-(-side // step) for side, step in zip(shape, steps, strict=True)], np.uint8)
    else:
        drawn = np.minimum(shades(blocks(one.matrix, PANEL_CELLS)[0]), PATH - 1)
    if one.path is not None:
        drawn[one.path[:, 0] // steps[0], one.path[:, 1] // steps[1]] = PATH
    return drawn
