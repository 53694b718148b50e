"""Draw the matrix view of the series tab: two series around their coupling and match variance; four distances below."""

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
    closed,
    color_bar,
    coupling_trace,
    data_url,
    layout,
    margins,
    mode_traces,
    path_trace,
    places,
    scatter,
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
"""Largest number of rows and columns of a panel."""

PATH = 255
"""Index of the color of a path in `PALETTE`."""


def alignment_figure(result: SeriesResult) -> dict[str, Any]:
    """Draw x on the left with time running down, y on top, and π* and Σ between them; all zoom together."""
    n, m = result.coupling.shape
    low, high = _limits(result)
    hover = "x step %{y}, y step %{x}<br>π* = %{customdata:.4f}<extra></extra>"
    bar = color_bar(COUPLING_TITLE, sum(COUPLING) / 2, 0.4, BAR, **COUPLING_TICKS)
    sampled = {"opacity": 0.7, "showlegend": bool(result.samples)}
    data = [
        *_series(result.prepared.x, result.step_variances[0], X_COLOR, "x", upright=True),
        *_series(result.prepared.y, result.step_variances[1], Y_COLOR, "y", upright=False),
        coupling_trace(result.coupling, hover=hover, colorbar=bar),
        _variance_trace(result.variance),
    ]
    if result.related:
        data += [
            path_trace(result.samples, SAMPLE_COLOR, 1, f"{len(result.samples)} sampled paths", **sampled),
            *mode_traces(result.mode, "most probable path"),
            *mode_traces(result.mode, xaxis="x3", yaxis="y3"),
        ]
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
    """Draw a line per feature and, for a single feature, a band of ±σ."""
    time = np.arange(len(values))
    axes = {"xaxis": "x2", "yaxis": "y2"} if upright else {"xaxis": "x4", "yaxis": "y4"}

    def trace(series: np.ndarray, along: np.ndarray, **more: Any) -> dict[str, Any]:
        x, y = (series, along) if upright else (along, series)
        return scatter(x, y, **axes, **more)

    traces = []
    if variance is not None and values.shape[1] == 1:
        sigma = np.sqrt(variance)
        fill = {"fill": "toself", "fillcolor": color + BAND_OPACITY, "line": {"width": 0}}
        edge = closed(values[:, 0] + sigma, values[:, 0] - sigma)
        traces.append(trace(edge, closed(time, time), **fill, hoverinfo="skip", showlegend=False))
    hover = f"{name}: step %{{y}}, value %{{x:.4g}}" if upright else f"{name}: step %{{x}}, value %{{y:.4g}}"
    label = name if variance is None or values.shape[1] > 1 else f"{name} ± σ"
    drawn = {"line": {"color": color, "width": 1.5}, "name": label, "hovertemplate": f"{hover}<extra></extra>"}
    return traces + [trace(feature, time, showlegend=i == 0, **drawn) for i, feature in enumerate(values.T)]


def _limits(result: SeriesResult) -> tuple[float, float]:
    """Return one range of values for both margins; bands of ±σ are only drawn for a single feature."""
    sides = zip((result.prepared.x, result.prepared.y), result.step_variances, strict=True)
    return value_limits(
        *((x, None if variance is None or x.shape[1] > 1 else np.sqrt(variance)) for x, variance in sides)
    )


def _variance_trace(variance: np.ndarray) -> dict[str, Any]:
    shown, rows, columns = blocks(variance, reduce=np.add)
    low, high, logarithmic = variance_range(shown)
    bar: dict[str, Any] = {"x": sum(VARIANCE) / 2, "length": 0.4, "below": BAR}
    trace = {"type": "heatmap", "xaxis": "x3", "yaxis": "y3", "colorscale": "Cividis", **places(rows, columns)}
    hover = "x step %{y}, y step %{x}<br>Σ = %{VALUE:.4g}<extra></extra>"
    if not logarithmic:
        trace |= {"z": typed(shown), "zmin": low, "zmax": high, "colorbar": color_bar("match variance Σ", **bar)}
        return trace | {"hovertemplate": hover.replace("VALUE", "z")}
    ticks = log_ticks(low, high)
    named = {"tickvals": np.log10(ticks).tolist(), "ticktext": [f"{tick:g}" for tick in ticks]}
    trace |= {"z": typed(np.log10(shown)), "colorbar": color_bar("match variance Σ (logarithmic)", **bar, **named)}
    return trace | {"customdata": typed(shown), "hovertemplate": hover.replace("VALUE", "customdata")}


def _palette() -> bytes:
    """Return colors 0 to 254 from white to black, and the color of a path."""
    ink, path = (np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) for color in (INK, MODE_COLOR))
    share = np.arange(PATH)[:, None] / (PATH - 1)
    return np.concatenate([255 + share * (ink - 255), path[None]]).round().astype(np.uint8).tobytes()


PALETTE = _palette()


def comparison(result: SeriesResult) -> list[html.Figure]:
    """Build a panel per distance: a small image of the steps that it matches, and its value.

    The panels are images, not plotly.js figures, so that the browser draws them at once while a slider is dragged.
    """
    return [_panel(one, result.coupling.shape) for one in result.compared]


def _panel(one: ComparedDistance, shape: tuple[int, ...]) -> html.Figure:
    title = html.Figcaption([html.B(one.name), html.Span(shown_number(one.value, 4))])
    inside: Any = html.Div("needs equal lengths", className="absent")
    if one.path is not None:
        meaning = "the most probable path over the coupling" if one.matrix is not None else "its path"
        inside = html.Img(src=data_url(panel_pixels(one, shape), PALETTE), alt=f"{one.name}: {meaning}")
    return html.Figure([title, inside])


def panel_pixels(one: ComparedDistance, shape: tuple[int, ...]) -> np.ndarray:
    """Return (H, W) uint8 shades of the coupling, with `PATH` on the path; at most `PANEL_CELLS` rows and columns."""
    steps = [-(-side // PANEL_CELLS) for side in shape]
    if one.matrix is None:
        drawn = np.zeros([-(-side // step) for side, step in zip(shape, steps, strict=True)], np.uint8)
    else:
        drawn = np.minimum(shades(blocks(one.matrix, PANEL_CELLS)[0]), PATH - 1)
    if one.path is not None:
        drawn[one.path[:, 0] // steps[0], one.path[:, 1] // steps[1]] = PATH
    return drawn
