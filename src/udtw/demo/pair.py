"""Match one pair of series by DTW, soft-DTW and uDTW, and draw the matches: black by probability, red where wrong."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from udtw._engine.align import align
from udtw._engine.match import match
from udtw.data.generators import TYPICAL_PAIR, known_warps
from udtw.plots.style import MODE_COLOR, WRONG_COLOR, X_COLOR, Y_COLOR, probability_shade, shade

GAMMA = 4.0
"""Best of 0.3, 1, 2, 4 and 8 for soft-DTW on 300 pairs (mean errors 4.8, 3.1, 2.3, 2.0 and 2.2 steps)."""
WRONG_STEPS = 3
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Panel:
    """Hold what one method says of a pair: its partners (N,), how probable they are, and the doubtful stretches."""

    name: str
    expected: Floats
    partners: Floats
    probability: Floats
    doubtful: list[tuple[int, int]]
    interval: tuple[Floats, Floats] | None = None
    """90 % intervals of the partners, if the method has any."""

    def error(self, truth: Floats) -> float:
        """Return the mean distance to the true partners in steps."""
        return float(np.nanmean(np.abs(self.expected - truth)))

    def coverage(self, truth: Floats) -> float:
        """Return the share of true partners that the intervals hold if they are half a step wider."""
        if self.interval is None:
            return np.nan
        low, high = self.interval
        return float(np.mean((low - 0.5 <= truth) & (truth <= high + 0.5)))


def compare(x: Floats, y: Floats) -> list[Panel]:
    """Align a pair by the three methods; uDTW is `udtw.match` without any option."""
    rows, columns = np.asarray(align(x, y, gamma=1e-3).paths.mode()).T
    on_path = np.bincount(rows, columns) / np.bincount(rows)
    soft, found = align(x, y, gamma=GAMMA).matches(), match(x, y)
    stretches = [(one.first, one.last) for one in found.doubtful()]
    return [
        Panel("DTW", on_path, on_path, np.ones(len(x)), []),
        Panel("soft-DTW", soft.expected, soft.index, soft.probability, [], (soft.low, soft.high)),
        Panel("uDTW", found.expected, found.index, found.probability, stretches, (found.low, found.high)),
    ]


def draw(panel: Panel, x: Floats, y: Floats, truth: Floats, axes: Axes) -> None:
    """Draw x above y; lines are black by probability, red where they are wrong, under orange bars where doubtful."""
    shift = y.max() - x.min() + 0.9
    steps = np.flatnonzero(panel.partners >= 0)
    wrong = np.abs(panel.partners - truth)[steps] > WRONG_STEPS
    ends = [[(i, x[i] + shift), (panel.partners[i], np.interp(panel.partners[i], np.arange(len(y)), y))] for i in steps]
    colors = [
        WRONG_COLOR if bad else probability_shade(panel.probability[i]) for i, bad in zip(steps, wrong, strict=True)
    ]
    axes.add_collection(LineCollection(ends, colors=colors, linewidths=1.1))
    axes.plot(x + shift, color=X_COLOR, linewidth=1.8)
    axes.plot(y, color=Y_COLOR, linewidth=1.8)
    top = x.max() + shift + 0.5
    for first, last in panel.doubtful:
        axes.plot([first - 0.4, last + 0.4], [top, top], color=MODE_COLOR, linewidth=5, solid_capstyle="butt")
    axes.set_title(f"{panel.name}: {panel.error(truth):.1f} steps off", fontsize=15, color=shade(1), loc="left")
    for name, values, color in (("x", x + shift, X_COLOR), ("y", y, Y_COLOR)):
        axes.text(-1.2, values[0], name, color=color, ha="right", va="center", fontsize=14)
    axes.set_ylim(y.min() - 0.3, top + 0.3)
    axes.set_axis_off()


def picture(method: int | None = None) -> Figure:
    """Draw the typical pair by one method, or by all three side by side."""
    data = known_warps(TYPICAL_PAIR + 1, 0)
    x, y, truth = (data[name][TYPICAL_PAIR] for name in ("x", "y", "match"))
    panels = compare(x, y)
    shown = panels if method is None else [panels[method]]
    figure = Figure(figsize=(4.6 * len(shown), 3.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        draw(panel, x, y, truth, axes)
    return figure
