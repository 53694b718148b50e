"""``python -m benchmarks.typical_pair``: how far DTW, soft-DTW and uDTW are off, and the picture of a typical pair.

300 generated pairs of 64 steps (`udtw.data.known_warps`): one series is a warped copy of the other, the noise of each
has ten times the variance in a burst of 8 steps. The errors are means over the steps, in steps. Soft-DTW has the γ that
is best for it on these pairs; uDTW is `udtw.match` without any option. The pair in the picture is the one whose errors
are nearest to the medians of all three: not the best one.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

import udtw
from udtw.data.generators import TYPICAL_PAIR, known_warps
from udtw.plots.style import MODE_COLOR, WRONG_COLOR, X_COLOR, Y_COLOR, probability_shade, shade

PAIRS, SEED = 300, 0
GAMMA = 4.0
"""Best of 0.3, 1, 2, 4 and 8 for soft-DTW on these pairs (mean errors 4.8, 3.1, 2.3, 2.0 and 2.2 steps)."""
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
    sentence: str = ""


def compare(x: Floats, y: Floats) -> list[Panel]:
    """Align a pair by the three methods."""
    rows, columns = np.asarray(udtw.align(x, y, gamma=1e-3).paths.mode()).T
    on_path = np.bincount(rows, columns) / np.bincount(rows)
    soft, match = udtw.align(x, y, gamma=GAMMA).matches(), udtw.match(x, y)
    stretches = [(one.first, one.last) for one in match.doubtful()]
    return [
        Panel("DTW", on_path, on_path, np.ones(len(x)), []),
        Panel("soft-DTW", soft.expected, soft.index, soft.probability, []),
        Panel("uDTW", match.expected, match.index, match.probability, stretches, match.trust.sentence),
    ]


def errors(panels: list[Panel], truth: Floats) -> Floats:
    """Return the mean error of each method in steps."""
    return np.array([np.nanmean(np.abs(panel.expected - truth)) for panel in panels])


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
    error = np.nanmean(np.abs(panel.expected - truth))
    axes.set_title(f"{panel.name}: {error:.1f} steps off", fontsize=15, color=shade(1), loc="left")
    for name, values, color in (("x", x + shift, X_COLOR), ("y", y, Y_COLOR)):
        axes.text(-1.2, values[0], name, color=color, ha="right", va="center", fontsize=14)
    axes.set_ylim(y.min() - 0.3, top + 0.3)
    axes.set_axis_off()


def typical() -> tuple[list[Panel], Floats, Floats, Floats]:
    """Return the panels of the typical pair, x, y, and the true partners."""
    data = known_warps(TYPICAL_PAIR + 1, SEED)
    x, y, truth = (data[name][TYPICAL_PAIR] for name in ("x", "y", "match"))
    return compare(x, y), x, y, truth


def picture(method: int | None = None) -> Figure:
    """Draw the typical pair by one method, or by all three side by side."""
    panels, x, y, truth = typical()
    shown = panels if method is None else [panels[method]]
    figure = Figure(figsize=(4.6 * len(shown), 3.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        draw(panel, x, y, truth, axes)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("docs/hero.png"))
    out = parser.parse_args().out
    data = known_warps(PAIRS, SEED)
    found, covered = [], []
    for x, y, truth in zip(data["x"], data["y"], data["match"], strict=True):
        panels: Any = compare(x, y)
        found.append(errors(panels, truth))
        match = udtw.match(x, y)
        covered.append(np.mean((match.low <= truth) & (truth <= match.high)))
    table = np.stack(found)
    medians = np.median(table, 0)
    nearest = int(np.abs(table / medians - 1).max(1).argmin())
    print(f"{'method':10} {'mean':>6} {'median':>6} {'pair':>6}   steps off, {PAIRS} pairs; pair {nearest}")
    for name, mean, median, own in zip(
        ("DTW", "soft-DTW", "uDTW"), table.mean(0), medians, table[nearest], strict=True
    ):
        print(f"{name:10} {mean:6.1f} {median:6.1f} {own:6.1f}")
    print(f"90 % intervals of uDTW hold the true partner in {np.mean(covered):.0%} of the steps")
    if nearest != TYPICAL_PAIR:
        print(f"udtw.data.generators.TYPICAL_PAIR is {TYPICAL_PAIR}: change it to {nearest}.")
    picture().savefig(out, dpi=110, facecolor="white")


if __name__ == "__main__":
    main()
