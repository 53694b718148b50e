"""Draw the first view of the series tab: both series with lines between matched steps, by DTW and by uDTW."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import html

from udtw.explorer.figures import FAINT, INK, TEXT, axis, closed, layout, margins, note, scatter, shape
from udtw.explorer.series_alignment import LEVEL, SeriesResult
from udtw.plots.alignment import value_limits
from udtw.plots.style import MODE_COLOR, X_COLOR, Y_COLOR

HEIGHT = 560
MARGIN = margins(26, 10, 42, 42)
UPPER, LOWER = (0.52, 1.0), (0.0, 0.48)
LINES = 64
"""Largest number of lines."""
WRONG_STEPS = 3
"""Matches further than this from the true one are drawn in `WRONG_COLOR`."""
WRONG_COLOR = "#C8283A"
SHADES = ("#D5DAE0", "#A9B1BB", "#6C7681", INK)
"""Line colors, from doubtful to sure."""
GAP = 0.55
"""Distance between the series, as a share of the larger range of their values."""
HEADROOM = 0.14
"""Room for the title of a panel, as a share of its height."""
TICKS = 5


@dataclass(frozen=True)
class Panel:
    """Name the axes on which one pair of series is drawn: steps of y, steps of x, and values."""

    steps_y: str
    steps_x: str
    values: str


PANELS = {"DTW": Panel("x", "x2", "y"), "uDTW": Panel("x3", "x4", "y2")}


def match_figure(result: SeriesResult) -> dict[str, Any]:
    """Draw a panel for DTW and one for uDTW, x above y in both; lines of uDTW fade where the match is doubtful."""
    curves = Curves(result)
    times_x, times_y = result.prepared.times
    n, m = result.coupling.shape
    low, high = curves.limits
    high += HEADROOM * (high - low)
    values: dict[str, Any] = {"visible": False, "fixedrange": True, "range": [low, high]}
    plain: dict[str, Any] = {"fixedrange": True, "showgrid": False, "showline": False, "zeroline": False}
    hidden: dict[str, Any] = plain | {"showticklabels": False, "ticks": ""}
    range_y, range_x = ([-0.01 * (size - 1), 1.01 * (size - 1)] for size in (m, n))
    above: dict[str, Any] = {"side": "top", "range": range_x}
    return {
        "data": [*_dtw_traces(curves), *_udtw_traces(curves)],
        "layout": layout(
            HEIGHT,
            margin=MARGIN,
            dragmode=False,
            annotations=[*_titles(result), *curves.names()],
            shapes=_doubtful_bars(curves),
            xaxis=axis(anchor="y", range=range_y, **hidden),
            xaxis2=_step_axis("x", n, times_x, anchor="y", overlaying="x", **plain, **above),
            yaxis=values | {"domain": UPPER},
            xaxis3=_step_axis("y", m, times_y, anchor="y2", range=range_y, **plain),
            xaxis4=axis(anchor="y2", overlaying="x3", **hidden, **above),
            yaxis2=values | {"domain": LOWER},
        ),
    }


def key(result: SeriesResult) -> list[html.Span]:
    """Explain the colors, in HTML because the legend of plotly.js does not fit a narrow screen."""
    entries = {"sure": "sure match", "doubtful": "doubtful match"} if result.related else {}
    if result.prepared.truth is not None:
        entries["wrong"] = f"more than {WRONG_STEPS} steps from the true match"
    if result.related and result.matches.doubtful():
        entries["stretch"] = f"doubtful stretch ({LEVEL:.0%} intervals)"
    if result.step_variances[0] is not None and result.prepared.x.shape[1] == 1:
        entries["sigma"] = "± σ"
    return [html.Span([html.I(className=f"swatch {kind}"), text]) for kind, text in entries.items()]


class Curves:
    """Hold both series as they are drawn: y below, x above it."""

    def __init__(self, result: SeriesResult) -> None:
        self.result = result
        self.x, self.y = result.prepared.x, result.prepared.y
        self.sigma_x, self.sigma_y = (
            None if one is None or self.x.shape[1] > 1 else np.sqrt(one) for one in result.step_variances
        )
        limits = [value_limits((self.x, self.sigma_x)), value_limits((self.y, self.sigma_y))]
        gap = GAP * max(high - low for low, high in limits)
        self.shift = limits[1][1] + gap - limits[0][0]
        self.limits = limits[1][0], limits[0][1] + self.shift
        self.edge_x, self.edge_y = self.x.min(1) + self.shift, self.y.max(1)

    def place(self, steps: np.ndarray) -> np.ndarray:
        """Return the positions of steps of x on the axis of y: both series have the same width."""
        return np.asarray(steps, float) * (len(self.y) - 1) / (len(self.x) - 1)

    def names(self) -> list[dict[str, Any]]:
        """Label both series on the left of each panel."""
        place: dict[str, Any] = {"xref": "paper", "xanchor": "right", "xshift": -6}
        sides = (("x", self.edge_x, X_COLOR), ("y", self.edge_y, Y_COLOR))
        return [
            note(f"<b>{name}</b>", 0, float(at[0]), yref=panel.values, font={"size": 14, "color": color}, **place)
            for panel in PANELS.values()
            for name, at, color in sides
        ]

    def series(self, panel: Panel, *, bands: bool) -> list[dict[str, Any]]:
        """Draw both series in a panel: a line per feature and, if wanted, bands of ±σ and the matches on hovering."""
        traces = []
        sides = (
            ("x", self.x, self.shift, self.sigma_x, X_COLOR, panel.steps_x, self._hover_x(bands)),
            ("y", self.y, 0.0, self.sigma_y, Y_COLOR, panel.steps_y, None),
        )
        for name, raw, shift, sigma, color, steps, hover in sides:
            values = raw + shift
            axes = {"xaxis": steps, "yaxis": panel.values}
            time = np.arange(len(values))
            if bands and sigma is not None:
                edge = closed(values[:, 0] + sigma, values[:, 0] - sigma)
                traces.append(scatter(closed(time, time), edge, **axes, **_fill(color + "33")))
            for feature in range(values.shape[1]):
                shown = [f"step {i} of {name}: {value:.4g}" for i, value in enumerate(raw[:, feature])]
                texts = shown if hover is None else [f"{a}<br>{b}" for a, b in zip(shown, hover, strict=True)]
                drawn: dict[str, Any] = {
                    "hovertemplate": "%{text}<extra></extra>",
                    "line": {"color": color, "width": 2},
                }
                traces.append(scatter(time, values[:, feature], **axes, text=texts, **drawn))
        return traces

    def _hover_x(self, wanted: bool) -> list[str] | None:
        """Describe the match of each step of x by uDTW."""
        if not wanted:
            return None
        m = self.result.matches
        rows = zip(m.index, m.probability, m.low, m.high, strict=True)
        if not self.result.related:
            return ["no match"] * len(self.x)
        return [
            "no partner in y" if j < 0 else f"matched with step {j} of y ({p:.0%}); {LEVEL:.0%} interval: {a} to {b}"
            for j, p, a, b in rows
        ]


def _fill(color: str) -> dict[str, Any]:
    """Return the properties of a filled area without an outline."""
    return {"fill": "toself", "fillcolor": color, "line": {"width": 0}, "hoverinfo": "skip"}


def _lines(curves: Curves, panel: Panel, pairs: np.ndarray, color: str, width: float) -> dict[str, Any]:
    """Draw lines between steps of x and y, ``pairs`` (L, 2), as one trace with gaps."""
    count = len(pairs)
    x, y = np.full((count, 3), np.nan), np.full((count, 3), np.nan)
    if count:
        x[:, 0], x[:, 1] = curves.place(pairs[:, 0]), pairs[:, 1]
        y[:, 0], y[:, 1] = curves.edge_x[pairs[:, 0]], curves.edge_y[pairs[:, 1]]
    line = {"color": color, "width": width}
    return scatter(x.ravel(), y.ravel(), xaxis=panel.steps_y, yaxis=panel.values, line=line, hoverinfo="skip")


def _chosen(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(LINES, count)).round().astype(int))


def _is_wrong(result: SeriesResult, pairs: np.ndarray) -> np.ndarray:
    truth = result.prepared.truth
    if truth is None:
        return np.zeros(len(pairs), bool)
    return np.abs(pairs[:, 1] - truth[pairs[:, 0]]) > WRONG_STEPS


def _dtw_traces(curves: Curves) -> list[dict[str, Any]]:
    panel, path = PANELS["DTW"], curves.result.dtw_path
    pairs = path[_chosen(len(path))]
    wrong = _is_wrong(curves.result, pairs)
    return [
        _lines(curves, panel, pairs[~wrong], SHADES[2], 1),
        _lines(curves, panel, pairs[wrong], WRONG_COLOR, 1.3),
        *curves.series(panel, bands=False),
    ]


def _udtw_traces(curves: Curves) -> list[dict[str, Any]]:
    panel, matches = PANELS["uDTW"], curves.result.matches
    if not curves.result.related:
        return curves.series(panel, bands=True)
    steps = _chosen(len(curves.x))
    steps = steps[matches.index[steps] >= 0]
    pairs = np.stack([steps, matches.index[steps]], 1)
    probability = matches.probability[steps]
    # Relative to the surest match, since at γ = 4 none is near 1.
    shade = np.minimum((len(SHADES) * probability / probability.max()).astype(int), len(SHADES) - 1)
    wrong = _is_wrong(curves.result, pairs)
    return [
        _fans(curves, panel),
        *(_lines(curves, panel, pairs[(shade == k) & ~wrong], SHADES[k], 1 + 0.2 * k) for k in range(len(SHADES))),
        _lines(curves, panel, pairs[wrong], WRONG_COLOR, 1.3),
        *curves.series(panel, bands=True),
    ]


def _fans(curves: Curves, panel: Panel) -> dict[str, Any]:
    """Draw a fan from each step of x in a doubtful stretch to all partners in its interval."""
    gap, matches = np.array([np.nan]), curves.result.matches
    x, y = [gap], [gap]
    for step in (step for one in matches.doubtful() for step in range(one.first, one.last + 1)):
        partners = np.arange(matches.low[step], matches.high[step] + 1)
        x += [curves.place(np.array([step])), partners, gap]
        y += [curves.edge_x[step : step + 1], curves.edge_y[partners], gap]
    axes = {"xaxis": panel.steps_y, "yaxis": panel.values}
    return scatter(np.concatenate(x), np.concatenate(y), **axes, **_fill(MODE_COLOR + "2E"))


def _doubtful_bars(curves: Curves) -> list[dict[str, Any]]:
    """Draw bars above the stretches of x that are much more doubtful than the rest."""
    if not curves.result.related:
        return []
    low, high = curves.limits
    sides = (high - 0.03 * (high - low), high)
    axes, filled = (PANELS["uDTW"].steps_x, PANELS["uDTW"].values), {"fillcolor": MODE_COLOR, "line": {"width": 0}}
    return [
        shape("rect", (one.first - 0.5, one.last + 0.5), sides, axes, **filled)
        for one in curves.result.matches.doubtful()
    ]


def _titles(result: SeriesResult) -> list[dict[str, Any]]:
    errors = result.error(result.dtw_partners), result.error(result.matches.expected)
    texts = [
        f"<b>{name}</b>" + ("" if error is None else f": {error:.1f} steps off on average")
        for name, error in zip(PANELS, errors, strict=True)
    ]
    texts[0] += "" if errors[0] is not None else ": one path, no doubt"
    if not result.related:
        texts[1] = f"<b>{list(PANELS)[1]}</b>: no match, no lines"
    elif errors[1] is None:
        texts[1] += ": lines fade where the match is doubtful"
    places = (UPPER[1], LOWER[1])
    return [
        note(text, 1, place, xanchor="right", yanchor="top", font={"size": 14, "color": TEXT})
        for text, place in zip(texts, places, strict=True)
    ]


def _step_axis(name: str, size: int, times: list[str] | None, **more: Any) -> dict[str, Any]:
    """Build the axis of the steps of a series, labeled with their times if it has any."""
    if times is None:
        return axis(f"step of {name}", nticks=8, tickcolor=FAINT, **more)
    steps = np.unique(np.linspace(0, size - 1, TICKS).round().astype(int)).tolist()
    texts = [times[step] for step in steps]
    days = {text[:11] for text in texts if text[10:11] in (" ", "T")}
    if len(days) == 1 and all(len(text) > 11 for text in texts):  # only the time of day differs
        texts = [text[11:] for text in texts]
    return axis(f"time of {name}", tickvals=steps, ticktext=texts, tickcolor=FAINT, **more)
