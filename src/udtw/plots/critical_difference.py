"""Average ranks of methods over data sets, and which of them cannot be told apart."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from udtw.errors import ShapeError
from udtw.plots.style import FONT, MODE_COLOR, SMALL_FONT, new_figure, shade

LEVEL = 0.05


def plot_critical_difference(scores: Mapping[str, Sequence[float]], **figure_options: Any) -> Figure:
    """A figure of the average ranks; bars join groups without a significant difference (Wilcoxon, Holm, 5 %).

    Parameters
    ----------
    scores : mapping of str to sequence of float
        For each method its scores on the same data sets; larger is better.
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
            "Ranks need two methods or more with as many scores each; got "
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
    axes.tick_params(labelsize=SMALL_FONT)
    axes.set_xlabel("average rank (1 is best)", fontsize=SMALL_FONT, loc="left")
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)
    return figure


def _groups(table: np.ndarray) -> list[tuple[int, int]]:
    """First and last method of every longest run, in the order of ranks, in which no pair differs significantly."""
    from scipy.stats import wilcoxon

    pairs = list(combinations(range(len(table)), 2))
    p = np.array([wilcoxon(table[i] - table[j]).pvalue if np.any(table[i] != table[j]) else 1.0 for i, j in pairs])
    differs = np.zeros((len(table), len(table)), bool)
    for place, k in enumerate(np.argsort(p)):  # Holm: the smallest p must be below level/pairs, the next …
        if p[k] > LEVEL / (len(pairs) - place):
            break
        differs[pairs[k]] = True
    found: list[tuple[int, int]] = []
    for first in range(len(table) - 1):
        last = first
        while last + 1 < len(table) and not differs[first : last + 2, first : last + 2].any():
            last += 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
