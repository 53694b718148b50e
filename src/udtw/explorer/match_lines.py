"""Draw the first view of the series tab: matched steps by DTW, soft-DTW and uDTW, on the same axes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import html

from udtw.explorer.figures import FAINT, INK, TEXT, axis, closed, layout, margins, note, scatter, shape
from udtw.explorer.series_alignment import LEVEL, SeriesResult
from udtw.plots.alignment import value_limits
from udtw.plots.style import MODE_COLOR, PROBABILITY_POWER, WRONG_COLOR, X_COLOR, Y_COLOR

HEIGHT = 600
MARGIN = margins(26, 10, 42, 42)
PANEL_HEIGHT = 0.32
"""Share of the height of each panel."""
LINES = 64
"""Largest number of lines."""
WRONG_STEPS = 3
"""Matches further than this from the true one are drawn in `WRONG_COLOR`."""
SHADES = ("#D5DAE0", "#A9B1BB", "#6C7681", "#3A424D", INK)
"""Line colors, from improbable to certain; the probabilities between them are (k / 5)² in every figure."""
GAP = 0.55
"""Distance between the series, as a share of the larger range of their values."""
HEADROOM = 0.2
"""Room for the title of a panel, as a share of its height."""
TICKS = 5


@dataclass(frozen=True)
class Panel:
    """Hold one panel: the axes of the steps of y, of the steps of x and of the values, and where it stands."""

    steps_y: str
    steps_x: str
    values: str
    bottom: float

    @property
    def top(self) -> float:
        return self.bottom + PANEL_HEIGHT


PANELS = {
    "DTW": Panel("x", "x2", "y", 0.68), "soft-DTW": Panel("x3", "x4", "y2", 0.34), "uDTW": Panel("x5", "x6", "y3", 0.0)
}  # fmt: skip


def match_figure(result: SeriesResult) -> dict[str, Any]:
    """Draw x above y once for each method; a line is as black as the match is probable, and red if it is wrong."""
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
    axes: dict[str, Any] = {}
    for place, panel in enumerate(PANELS.values()):
        ends = {"anchor": panel.values, "overlaying": panel.steps_y, **above}
        steps_x = _step_axis("x", n, times_x, **ends, **plain) if place == 0 else axis(**ends, **hidden)
        lowest = place == len(PANELS) - 1
        steps_y = _step_axis("y", m, times_y, anchor=panel.values, range=range_y, **plain)
        steps_y = steps_y if lowest else axis(anchor=panel.values, range=range_y, **hidden)
        for name, one in ((panel.steps_x, steps_x), (panel.steps_y, steps_y)):
            axes[f"xaxis{name[1:]}"] = one
        axes[f"yaxis{panel.values[1:]}"] = values | {"domain": [panel.bottom, panel.top]}
    return {
        "data": [*_dtw_traces(curves), *_matched_traces(curves, "soft-DTW"), *_matched_traces(curves, "uDTW")],
        "layout": layout(
            HEIGHT,
            margin=MARGIN,
            dragmode="select",
            selectdirection="h",
            selections=[],
            selectionrevision=repr(result.prepared.broken),
            annotations=[*_titles(result), *curves.names()],
            shapes=_doubtful_bars(curves),
            **axes,
        ),
    }


def key(result: SeriesResult) -> list[html.Span]:
    """Explain the colors, in HTML because the legend of plotly.js does not fit a narrow screen."""
    entries = {}
    if result.prepared.truth is not None:
        entries["wrong"] = f"more than {WRONG_STEPS} steps from the true match"
    if result.related and result.matches.doubtful():
        entries["stretch"] = f"doubtful stretch ({LEVEL:.0%} intervals)"
    if result.step_variances[0] is not None and result.prepared.x.shape[1] == 1:
        entries["sigma"] = "± σ"
    steps = [f"{(k / len(SHADES)) ** (1 / PROBABILITY_POWER):.2g}" for k in range(len(SHADES) + 1)]
    scale = [html.Span([html.I(className=f"swatch shade-{k}"), steps[k + 1]]) for k in range(len(SHADES))]
    named = [html.Span([html.I(className=f"swatch {kind}"), text]) for kind, text in entries.items()]
    return [html.Span(["probability up to", *scale], className="scale"), *named]


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
        _lines(curves, panel, pairs[~wrong], SHADES[-1], 1),  # DTW states every match as certain
        _lines(curves, panel, pairs[wrong], WRONG_COLOR, 1.3),
        *curves.series(panel, bands=False),
    ]


def _matched_traces(curves: Curves, name: str) -> list[dict[str, Any]]:
    panel, own = PANELS[name], name == "uDTW"
    matches = curves.result.matches if own else curves.result.soft
    if own and not curves.result.related:
        return curves.series(panel, bands=True)
    steps = _chosen(len(curves.x))
    steps = steps[matches.index[steps] >= 0]
    pairs = np.stack([steps, matches.index[steps]], 1)
    probability = matches.probability[steps]
    shade = np.clip(len(SHADES) * probability**PROBABILITY_POWER, 0, len(SHADES) - 1).astype(int)
    wrong = _is_wrong(curves.result, pairs)
    return [
        *([_fans(curves, panel)] if own else []),
        *(_lines(curves, panel, pairs[(shade == k) & ~wrong], SHADES[k], 1 + 0.1 * k) for k in range(len(SHADES))),
        _lines(curves, panel, pairs[wrong], WRONG_COLOR, 1.3),
        *curves.series(panel, bands=own),
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
    texts = ["one path, no doubt", "σ = 1 everywhere", "noisy steps count less"]
    if result.errors is not None:
        texts = [f"{error:.1f} steps off" for error in result.errors]
    if not result.related:
        texts[2] = "no match, no lines"
    drawn: dict[str, Any] = {"xanchor": "right", "yanchor": "top", "font": {"size": 14, "color": TEXT}}
    return [
        note(f"<b>{name}</b>: {text}", 1, panel.top, **drawn)
        for (name, panel), text in zip(PANELS.items(), texts, strict=True)
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
