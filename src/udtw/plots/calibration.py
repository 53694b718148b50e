"""Stated against observed coverage of credible intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from udtw._engine.calibration import Calibration
from udtw.errors import OptionError, ShapeError
from udtw.plots.style import FONT, SMALL_FONT, new_figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The Okabe-Ito palette."""


def plot_calibration(
    levels: Sequence[float] | Calibration,
    observed: Mapping[str, Sequence[float]] | None = None,
    **figure_options: Any,
) -> Figure:
    """A figure of observed coverage over stated level, one line for each name in ``observed``.

    On the diagonal intervals keep what they promise; below it they are overconfident.

    Parameters
    ----------
    levels : sequence of float, or Calibration
        Stated probabilities, such as those given to `Alignment.matches`; or the result of `udtw.calibrate`, alone.
    observed : mapping of str to sequence of float
        Shares of true matches inside the intervals, one for each level.
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
        raise OptionError("plot_calibration needs observed shares for the levels, or the result of udtw.calibrate.")
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
    axes.tick_params(labelsize=SMALL_FONT)
    figure.legend(fontsize=SMALL_FONT, frameon=False, loc="outside lower center", ncols=2)
    return figure
