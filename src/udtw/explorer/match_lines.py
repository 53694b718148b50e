"""The first view of the first tab: both series with lines between the steps that match, by DTW and by uDTW."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from dash import html

from udtw.explorer.figures import FAINT, INK, TEXT, axis, layout, margins, note, typed
from udtw.explorer.series_alignment import LEVEL, SeriesResult
from udtw.plots.alignment import value_limits
from udtw.plots.style import MODE_COLOR, X_COLOR, Y_COLOR

HEIGHT = 560
MARGIN = margins(26, 10, 42, 42)
UPPER, LOWER = (0.52, 1.0), (0.0, 0.48)
LINES = 64
"""At most so many lines."""
WRONG_STEPS = 3
"""A match that is further from the true one is drawn in `WRONG_COLOR`."""
WRONG_COLOR = "#C8283A"
SHADES = ("#D5DAE0", "#A9B1BB", "#6C7681", INK)
"""Of lines, from doubtful to sure."""
GAP = 0.55
"""Distance between the series, as a share of the larger range of their values."""
HEADROOM = 0.14
"""Room for the title of a panel, as a share of its height."""
TICKS = 5


@dataclass(frozen=True)
class Panel:
    """Where one pair of series is drawn: its axes, of the steps of y, of the steps of x, and of the values."""

    steps_y: str
    steps_x: str
    values: str


PANELS = {"DTW": Panel("x", "x2", "y"), "uDTW": Panel("x3", "x4", "y2")}


def match_figure(found: SeriesResult) -> dict[str, Any]:
    """A panel for DTW and one for uDTW, x above y in both; lines of uDTW fade where the match is doubtful."""
    curves = Curves(found)
    data = [*_dtw_traces(curves), *_udtw_traces(curves)]
    n, m = found.coupling.shape
    low, high = curves.limits
    high += HEADROOM * (high - low)
    values: dict[str, Any] = {"visible": False, "fixedrange": True, "range": [low, high]}
    plain: dict[str, Any] = {"fixedrange": True, "showgrid": False, "showline": False, "zeroline": False}
    hidden: dict[str, Any] = plain | {"showticklabels": False, "ticks": ""}
    range_y, range_x = ([-0.01 * (size - 1), 1.01 * (size - 1)] for size in (m, n))
    return {
        "data": data,
        "layout": layout(
            HEIGHT,
            margin=MARGIN,
            dragmode=False,
            annotations=[*_titles(found), *curves.names()],
            shapes=_doubtful_bars(curves),
            xaxis=axis(anchor="y", range=range_y, **hidden),
            xaxis2=axis("step of x" if found.prepared.times[0] is None else "time of x", anchor="y", overlaying="x",
                        side="top", range=range_x, **plain | _ticks(n, found.prepared.times[0])),
            yaxis=values | {"domain": UPPER},
            xaxis3=axis("step of y" if found.prepared.times[1] is None else "time of y", anchor="y2", range=range_y,
                        **plain | _ticks(m, found.prepared.times[1])),
            xaxis4=axis(anchor="y2", overlaying="x3", side="top", range=range_x, **hidden),
            yaxis2=values | {"domain": LOWER},
        ),
    }  # fmt: skip


def key(found: SeriesResult) -> list[html.Span]:
    """What the colours mean; HTML, because the legend of plotly.js does not fit a narrow screen."""
    entries = {"sure": "sure match", "doubtful": "doubtful match"}
    if found.prepared.truth is not None:
        entries["wrong"] = f"more than {WRONG_STEPS} steps from the true match"
    if found.matches.doubtful():
        entries["stretch"] = f"doubtful stretch ({LEVEL:.0%} intervals)"
    if found.step_variances[0] is not None and found.prepared.x.shape[1] == 1:
        entries["sigma"] = "± σ"
    return [html.Span([html.I(className=f"swatch {kind}"), text]) for kind, text in entries.items()]


class Curves:
    """Both series as they are drawn: y below, x above it."""

    def __init__(self, found: SeriesResult) -> None:
        self.found = found
        self.x, self.y = found.prepared.x, found.prepared.y
        self.sigma_x, self.sigma_y = (
            None if one is None or self.x.shape[1] > 1 else np.sqrt(one) for one in found.step_variances
        )
        limits = [value_limits((self.x, self.sigma_x)), value_limits((self.y, self.sigma_y))]
        gap = GAP * max(high - low for low, high in limits)
        self.shift = limits[1][1] + gap - limits[0][0]
        self.limits = limits[1][0], limits[0][1] + self.shift
        self.edge_x, self.edge_y = self.x.min(1) + self.shift, self.y.max(1)

    def place(self, steps: np.ndarray) -> np.ndarray:
        """Positions of steps of x on the axis of y: both series have the same width."""
        return np.asarray(steps, float) * (len(self.y) - 1) / (len(self.x) - 1)

    def names(self) -> list[dict[str, Any]]:
        return [
            note(f"<b>{name}</b>", 0, float(at[0]), xref="paper", yref=panel.values, xanchor="right", xshift=-6,
                 font={"size": 14, "color": color})
            for panel in PANELS.values()
            for name, at, color in (("x", self.edge_x, X_COLOR), ("y", self.edge_y, Y_COLOR))
        ]  # fmt: skip

    def series(self, panel: Panel, *, bands: bool) -> list[dict[str, Any]]:
        traces = []
        sides = (
            ("x", self.x, self.shift, self.sigma_x, X_COLOR, panel.steps_x, self._hover_x(bands)),
            ("y", self.y, 0.0, self.sigma_y, Y_COLOR, panel.steps_y, None),
        )
        for name, raw, shift, sigma, color, steps, hover in sides:
            values = raw + shift
            where: dict[str, Any] = {"type": "scatter", "mode": "lines", "xaxis": steps, "yaxis": panel.values}
            time = np.arange(len(values))
            if bands and sigma is not None:
                edge = np.concatenate([values[:, 0] + sigma, (values[:, 0] - sigma)[::-1]])
                traces.append(where | {
                    "x": typed(np.concatenate([time, time[::-1]])), "y": typed(edge), "fill": "toself",
                    "fillcolor": color + "33", "line": {"width": 0}, "hoverinfo": "skip",
                })  # fmt: skip
            for feature in range(values.shape[1]):
                shown = [f"step {i} of {name}: {value:.4g}" for i, value in enumerate(raw[:, feature])]
                texts = shown if hover is None else [f"{a}<br>{b}" for a, b in zip(shown, hover, strict=True)]
                traces.append(where | {
                    "x": typed(time), "y": typed(values[:, feature]), "text": texts,
                    "hovertemplate": "%{text}<extra></extra>", "line": {"color": color, "width": 2},
                })  # fmt: skip
        return traces

    def _hover_x(self, wanted: bool) -> list[str] | None:
        """What uDTW says of each step of x."""
        if not wanted:
            return None
        m = self.found.matches
        rows = zip(m.index, m.probability, m.low, m.high, strict=True)
        return [f"matched with step {j} of y ({p:.0%}); {LEVEL:.0%} interval: {a} to {b}" for j, p, a, b in rows]


def _lines(curves: Curves, panel: Panel, pairs: np.ndarray, color: str, width: float) -> dict[str, Any]:
    """Lines between steps of x and y, ``pairs`` (L, 2), as one trace with gaps."""
    count = len(pairs)
    x, y = np.full((count, 3), np.nan), np.full((count, 3), np.nan)
    if count:
        x[:, 0], x[:, 1] = curves.place(pairs[:, 0]), pairs[:, 1]
        y[:, 0], y[:, 1] = curves.edge_x[pairs[:, 0]], curves.edge_y[pairs[:, 1]]
    return {
        "type": "scatter", "mode": "lines", "x": typed(x.ravel()), "y": typed(y.ravel()), "xaxis": panel.steps_y,
        "yaxis": panel.values, "line": {"color": color, "width": width}, "hoverinfo": "skip",
    }  # fmt: skip


def _chosen(count: int) -> np.ndarray:
    return np.unique(np.linspace(0, count - 1, min(LINES, count)).round().astype(int))


def _is_wrong(found: SeriesResult, pairs: np.ndarray) -> np.ndarray:
    truth = found.prepared.truth
    if truth is None:
        return np.zeros(len(pairs), bool)
    return np.abs(pairs[:, 1] - truth[pairs[:, 0]]) > WRONG_STEPS


def _dtw_traces(curves: Curves) -> list[dict[str, Any]]:
    panel, found = PANELS["DTW"], curves.found
    path = next(one.path for one in found.compared if one.name == "DTW")
    assert path is not None, "DTW has a path"
    pairs = path[_chosen(len(path))]
    wrong = _is_wrong(found, pairs)
    return [
        _lines(curves, panel, pairs[~wrong], SHADES[2], 1),
        _lines(curves, panel, pairs[wrong], WRONG_COLOR, 1.3),
        *curves.series(panel, bands=False),
    ]


def _udtw_traces(curves: Curves) -> list[dict[str, Any]]:
    panel, found = PANELS["uDTW"], curves.found
    steps = _chosen(len(curves.x))
    pairs = np.stack([steps, found.matches.index[steps]], 1)
    probability = found.matches.probability[steps]
    # Relative to the surest match, since at γ = 4 none is near 1.
    shade = np.minimum((len(SHADES) * probability / probability.max()).astype(int), len(SHADES) - 1)
    wrong = _is_wrong(found, pairs)
    return [
        _fans(curves, panel),
        *(_lines(curves, panel, pairs[(shade == k) & ~wrong], SHADES[k], 1 + 0.2 * k) for k in range(len(SHADES))),
        _lines(curves, panel, pairs[wrong], WRONG_COLOR, 1.3),
        *curves.series(panel, bands=True),
    ]


def _fans(curves: Curves, panel: Panel) -> dict[str, Any]:
    """From each step of x in a doubtful stretch to all partners in its interval."""
    gap = np.array([np.nan])
    x, y = [gap], [gap]
    steps = [step for one in curves.found.matches.doubtful() for step in range(one.first, one.last + 1)]
    for step in steps:
        partners = np.arange(curves.found.matches.low[step], curves.found.matches.high[step] + 1)
        x += [curves.place(np.array([step])), partners, gap]
        y += [curves.edge_x[step : step + 1], curves.edge_y[partners], gap]
    return {
        "type": "scatter", "mode": "lines", "x": typed(np.concatenate(x)), "y": typed(np.concatenate(y)),
        "fill": "toself", "fillcolor": MODE_COLOR + "2E", "line": {"width": 0}, "xaxis": panel.steps_y,
        "yaxis": panel.values, "hoverinfo": "skip",
    }  # fmt: skip


def _doubtful_bars(curves: Curves) -> list[dict[str, Any]]:
    """Bars above the stretches of x that are much more doubtful than the rest."""
    low, high = curves.limits
    thick = 0.03 * (high - low)
    return [
        {
            "type": "rect", "xref": PANELS["uDTW"].steps_x, "yref": PANELS["uDTW"].values, "x0": one.first - 0.5,
            "x1": one.last + 0.5, "y0": high - thick, "y1": high, "fillcolor": MODE_COLOR, "line": {"width": 0},
        }
        for one in curves.found.matches.doubtful()
    ]  # fmt: skip


def _titles(found: SeriesResult) -> list[dict[str, Any]]:
    errors = found.error(found.dtw_partners), found.error(found.matches.expected)
    texts = [
        f"<b>{name}</b>" + ("" if error is None else f": {error:.1f} steps off on average")
        for name, error in zip(PANELS, errors, strict=True)
    ]
    texts[0] += "" if errors[0] is not None else ": one path, no doubt"
    texts[1] += "" if errors[1] is not None else ": lines fade where the match is doubtful"
    places = (UPPER[1], LOWER[1])
    return [
        note(text, 1, place, xanchor="right", yanchor="top", font={"size": 14, "color": TEXT})
        for text, place in zip(texts, places, strict=True)
    ]


def _ticks(size: int, times: list[str] | None) -> dict[str, Any]:
    if times is None:
        return {"nticks": 8, "tickcolor": FAINT}
    steps = np.unique(np.linspace(0, size - 1, TICKS).round().astype(int)).tolist()
    texts = [times[step] for step in steps]
    days = {text[:11] for text in texts if text[10:11] in (" ", "T")}
    if len(days) == 1 and all(len(text) > 11 for text in texts):  # only the time of day differs
        texts = [text[11:] for text in texts]
    return {"tickvals": steps, "ticktext": texts, "tickcolor": FAINT}
