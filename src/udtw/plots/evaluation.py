"""Draw how methods compare: coverage of intervals, trust in the steps of series, and average ranks."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from udtw._engine.calibration import Calibration
from udtw.errors import OptionError, ShapeError
from udtw.plots.style import (
    COLORS,
    FONT,
    MODE_COLOR,
    STD_COLORS,
    as_array,
    new_figure,
    set_std_ticks,
    shade,
    std_norm,
)

SIGNIFICANCE = 0.05


def plot_calibration(
    levels: Sequence[float] | Calibration,
    observed: Mapping[str, Sequence[float]] | None = None,
    **figure_options: Any,
) -> Figure:
    """Plot observed coverage over stated level, one line for each name in ``observed``.

    Intervals are calibrated on the diagonal, and overconfident below it.

    Parameters
    ----------
    levels : sequence of float, or Calibration
        Stated probabilities, such as those passed to `Alignment.matches`; or the result of `udtw.calibrate`.
    observed : mapping of str to sequence of float
        Shares of true matches inside the intervals, one per level.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Examples
    --------
    >>> from udtw.plots import plot_calibration
    >>> figure = plot_calibration([0.5, 0.9], {"soft-DTW": [0.3, 0.6], "uDTW": [0.5, 0.92]})
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['soft-DTW', 'uDTW']
    """
    if isinstance(levels, Calibration):
        fitted = levels
        levels = fitted.levels
        observed = {f"γ = {fitted.gamma:.3g}, ω = {fitted.warp_penalty:.3g}": fitted.observed, **(observed or {})}
    if observed is None:
        raise OptionError("Pass levels and observed shares, or the result of udtw.calibrate.")
    for name, values in observed.items():
        if len(values) != len(levels):
            raise ShapeError(f"{name!r} has {len(values)} values for {len(levels)} levels.")
    figure = new_figure((5.2, 4.8), figure_options)
    axes = figure.add_subplot()
    low = 100 * min([*levels, *(value for values in observed.values() for value in values)])
    axes.plot([low, 100], [low, 100], color="0.6", linewidth=1, linestyle="--")
    for (name, values), color in zip(observed.items(), COLORS * (1 + len(observed) // len(COLORS)), strict=False):
        axes.plot([100 * level for level in levels], [100 * v for v in values], marker="o", color=color, label=name)
    axes.set_xlabel("stated probability, %", fontsize=FONT)
    axes.set_ylabel("observed coverage, %", fontsize=FONT)
    axes.tick_params(labelsize=FONT)
    figure.legend(fontsize=FONT, frameon=False, loc="outside lower center", ncols=2)
    return figure


def plot_reliability(series: Mapping[str, tuple[Any, Any, Any]], **figure_options: Any) -> Figure:
    """Plot each series in a panel with a band of ±σ, colored by σ on a logarithmic scale about 1: red is uncertain.

    Parameters
    ----------
    series : mapping of str to (values, sigma, faulty)
        Title to (T,) values, (T,) standard deviations, and (T,) booleans for steps to shade in gray, or None.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_reliability
    >>> figure = plot_reliability({"burst": (np.sin(np.arange(30) / 4), np.linspace(0.5, 2, 30), None)})
    >>> figure.axes[0].get_title()
    'burst'
    """
    arrays = {}
    for name, (values, sigma, faulty) in series.items():
        given = [as_array(one) for one in (values, sigma, np.zeros(len(values), bool) if faulty is None else faulty)]
        shapes = [one.shape for one in given]
        if len(set(shapes)) != 1 or len(shapes[0]) != 1:
            raise ShapeError(f"{name!r} must have values and sigma of shape (T,); got {shapes}.")
        arrays[name] = given
    norm = std_norm(np.concatenate([given[1] for given in arrays.values()]))
    columns = min(2, len(arrays))
    rows = -(-len(arrays) // columns)
    figure = new_figure((4.4 * columns, 1.9 * rows + 0.5), figure_options)
    panels = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    for axes, (name, (values, sigma, faulty)) in zip(panels, arrays.items(), strict=False):
        steps = np.arange(len(values))
        for step in np.flatnonzero(faulty):
            axes.axvspan(step - 0.5, step + 0.5, color=shade(0.1), linewidth=0)
        points = np.stack([steps, values], 1)
        segments = np.stack([points[:-1], points[1:]], 1)
        lines = LineCollection(list(segments), cmap=STD_COLORS, norm=norm, linewidth=1.6)
        lines.set_array(0.5 * (sigma[:-1] + sigma[1:]))
        axes.add_collection(lines)
        axes.fill_between(steps, values - sigma, values + sigma, color="0.5", alpha=0.15, linewidth=0)
        axes.margins(x=0)
        axes.autoscale_view()
        axes.set_title(name, fontsize=FONT)
        axes.tick_params(labelsize=FONT)
    for axes in panels[len(arrays) :]:
        axes.set_visible(False)
    bar = figure.colorbar(lines, ax=list(panels), shrink=0.8)
    bar.set_label("σ", fontsize=FONT)
    set_std_ticks(bar)
    bar.ax.tick_params(labelsize=FONT)
    return figure


def plot_critical_difference(scores: Mapping[str, Sequence[float]], **figure_options: Any) -> Figure:
    """Plot average ranks; bars join groups without a significant difference (Wilcoxon, Holm, 5 %).

    Parameters
    ----------
    scores : mapping of str to sequence of float
        Scores of each method on the same data sets; larger is better.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Examples
    --------
    >>> from udtw.plots import plot_critical_difference
    >>> figure = plot_critical_difference({"A": [0.9, 0.8, 0.7], "B": [0.8, 0.7, 0.6], "C": [0.5, 0.6, 0.4]})
    >>> len(figure.axes)
    1
    """
    from scipy.stats import rankdata

    if len({len(values) for values in scores.values()}) != 1 or len(scores) < 2:
        raise ShapeError(
            "Pass at least two methods with the same number of scores; got "
            f"{ {name: len(values) for name, values in scores.items()} }."
        )
    names = list(scores)
    table = np.array([scores[name] for name in names], dtype=float)
    ranks = rankdata(-table, axis=0).mean(1)
    order = np.argsort(ranks, kind="stable")
    groups = _groups(table[order])
    figure = new_figure((6.4, 0.9 + 0.28 * len(names) + 0.12 * len(groups)), figure_options)
    axes = figure.add_subplot()
    for place, i in enumerate(order):
        color = MODE_COLOR if place == 0 else shade(0.75)
        axes.plot([ranks[i]] * 2, [0, -1 - place], color=color, linewidth=1)
        axes.plot([ranks[i], len(names) + 0.15], [-1 - place] * 2, color=color, linewidth=1)
        label = f"{names[i]}  {ranks[i]:.2f}"
        axes.text(len(names) + 0.2, -1 - place, label, va="center", fontsize=FONT, color=color)
    for number, (first, last) in enumerate(groups):
        height = 0.35 + 0.3 * number
        ends = [ranks[order[first]] - 0.03, ranks[order[last]] + 0.03]
        axes.plot(ends, [height] * 2, color=shade(1), linewidth=3, solid_capstyle="butt")
    axes.axhline(0, color=shade(1), linewidth=0.8, xmax=len(names) / (len(names) + 2.2))
    axes.set_xlim(0.8, len(names) + 2.6)
    axes.set_ylim(-len(names) - 0.6, 0.6 + 0.3 * len(groups))
    axes.set_xticks(range(1, len(names) + 1))
    axes.tick_params(labelsize=FONT)
    axes.set_xlabel("average rank (1 is best)", fontsize=FONT, loc="left")
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    return figure


def _groups(table: np.ndarray) -> list[tuple[int, int]]:
    """Find the first and last method of every longest run, in the order of ranks, without a significant difference."""
    from scipy.stats import wilcoxon

    pairs = list(combinations(range(len(table)), 2))
    p = np.array([wilcoxon(table[i] - table[j]).pvalue if np.any(table[i] != table[j]) else 1.0 for i, j in pairs])
    differs = np.zeros((len(table), len(table)), bool)
    for place, k in enumerate(np.argsort(p)):  # Holm: compare the k-th smallest p with level / (pairs − k)
        if p[k] > SIGNIFICANCE / (len(pairs) - place):
            break
        differs[pairs[k]] = True
    groups: list[tuple[int, int]] = []
    for first in range(len(table) - 1):
        last = first
        while last + 1 < len(table) and not differs[first : last + 2, first : last + 2].any():
            last += 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups
