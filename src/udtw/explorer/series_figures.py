"""The figure of the first tab: two series around their coupling and match variance."""

from typing import Any

import numpy as np

from udtw.explorer.figures import (
    COUPLING_TICKS,
    COUPLING_TITLE,
    MODE_COLOR,
    SAMPLE_COLOR,
    X_COLOR,
    Y_COLOR,
    axis,
    blocks,
    colour_bar,
    coupling_trace,
    layout,
    margins,
    path_trace,
    places,
    typed,
    under,
)
from udtw.explorer.series_work import SeriesResult

HEIGHT = 540
MARGIN = margins(52, 14, 12, 92)
BAR = under(44, HEIGHT, MARGIN)
LEFT, COUPLING, VARIANCE = (0.0, 0.1), (0.115, 0.545), (0.57, 1.0)
BELOW, TOP = (0.0, 0.77), (0.8, 1.0)
LOG_FROM_RATIO = 20
BAND_OPACITY = "33"


def alignment_figure(found: SeriesResult) -> dict[str, Any]:
    """x on the left with its time down, y on top, π* and Σ in the middle; all zoom together."""
    n, m = found.coupling.shape
    low, high = _limits(found)
    mode: dict[str, Any] = {"showlegend": False}
    data = [
        *_series(found.prepared.x, found.prepared.var_x, X_COLOR, "x", upright=True),
        *_series(found.prepared.y, found.prepared.var_y, Y_COLOR, "y", upright=False),
        coupling_trace(
            found.coupling, hover="x step %{y}, y step %{x}<br>π* = %{customdata:.4f}<extra></extra>",
            colorbar=colour_bar(COUPLING_TITLE, sum(COUPLING) / 2, 0.4, BAR, **COUPLING_TICKS),
        ),
        path_trace(found.samples, SAMPLE_COLOR, 1, f"{len(found.samples)} sampled paths", opacity=0.7,
                   showlegend=bool(found.samples)),
        path_trace([found.mode], "#FFFFFF", 4, "", **mode),
        path_trace([found.mode], MODE_COLOR, 2, "most probable path"),
        _variance_trace(found.variance),
        path_trace([found.mode], "#FFFFFF", 4, "", xaxis="x3", yaxis="y3", **mode),
        path_trace([found.mode], MODE_COLOR, 2, "", xaxis="x3", yaxis="y3", **mode),
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
    """A line for each feature and, for one feature, a band of ±σ."""
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
    """One range of values for both margins; a band of σ may take half the range of the series on either side."""
    both = (found.prepared.x, found.prepared.y)
    low, high = min(float(one.min()) for one in both), max(float(one.max()) for one in both)
    room = (high - low or max(abs(high), 1.0)) * (0.06 if found.prepared.var_x is None else 0.3)
    return low - room, high + room


def _variance_trace(variance: np.ndarray) -> dict[str, Any]:
    shown, rows, columns = blocks(variance, reduce=np.add)
    low, high = float(shown.min()), float(shown.max())
    bar: dict[str, Any] = {"x": sum(VARIANCE) / 2, "length": 0.4, "below": BAR}
    trace: dict[str, Any] = {
        "type": "heatmap", "xaxis": "x3", "yaxis": "y3", "colorscale": "Cividis", **places(rows, columns),
    }  # fmt: skip
    hover = "x step %{y}, y step %{x}<br>Σ = %{VALUE:.4g}<extra></extra>"
    if high <= LOG_FROM_RATIO * low:
        flat = high - low < 1e-6 * high
        return trace | {
            "z": typed(shown), "zmin": 0.5 * low if flat else low, "zmax": 1.5 * high if flat else high,
            "hovertemplate": hover.replace("VALUE", "z"), "colorbar": colour_bar("match variance Σ", **bar),
        }  # fmt: skip
    ticks = [10.0**power for power in range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)]
    named = {"tickvals": np.log10(ticks).tolist(), "ticktext": [f"{tick:g}" for tick in ticks]}
    return trace | {
        "z": typed(np.log10(shown)), "customdata": typed(shown), "hovertemplate": hover.replace("VALUE", "customdata"),
        "colorbar": colour_bar("match variance Σ (logarithmic)", **bar, **named),
    }  # fmt: skip
