"""Deletion curves as a figure."""

from collections.abc import Mapping

from matplotlib.figure import Figure, SubFigure

from udtw.errors import LengthError
from udtw.images.deletion import DeletionCurves
from udtw.plots.style import FONT, SMALL_FONT, new_figure

CERTAIN_COLOR, UNCERTAIN_COLOR = "#1450A0", "#C01024"
PANEL_INCHES = (2.9, 2.5)


def plot_deletion(
    curves: DeletionCurves | Mapping[str, DeletionCurves], *, figure: Figure | SubFigure | None = None
) -> Figure | SubFigure:
    """A figure of accuracies after removing tokens from the most certain, and from the most uncertain on.

    Parameters
    ----------
    curves : DeletionCurves or mapping of titles to them
        One panel each.
    figure : Figure or SubFigure, optional
        Where to draw; by default a new figure, not registered with pyplot: save it with ``savefig``.

    Examples
    --------
    >>> from udtw.images import DeletionCurves
    >>> from udtw.plots import plot_deletion
    >>> figure = plot_deletion({"birds": DeletionCurves((0.0, 0.5), (0.8, 0.5), (0.8, 0.7), 0.1, 0.02)})
    >>> figure.axes[0].get_title()
    'birds: area 10.0 ± 2.0 points'
    """
    every = {"": curves} if isinstance(curves, DeletionCurves) else dict(curves)
    if not every:
        raise LengthError("curves is empty; at least one is needed.")
    if figure is None:
        figure = new_figure((PANEL_INCHES[0] * len(every), PANEL_INCHES[1]), {})
    panels = figure.subplots(1, len(every), squeeze=False, sharey=True)[0]
    for axes, (title, one) in zip(panels, every.items(), strict=True):
        percent = [100 * share for share in one.shares]
        certain, uncertain = ([100 * value for value in values] for values in (one.certain_first, one.uncertain_first))
        axes.fill_between(percent, certain, uncertain, color="#888888", alpha=0.15, linewidth=0)
        axes.plot(percent, uncertain, "o-", color=UNCERTAIN_COLOR, markersize=3, label="most uncertain first")
        axes.plot(percent, certain, "s-", color=CERTAIN_COLOR, markersize=3, label="most certain first")
        axes.set_title(f"{title}: {one}" if title else str(one), fontsize=FONT)
        axes.set_xlabel("tokens removed (%)", fontsize=FONT)
        axes.tick_params(labelsize=SMALL_FONT)
    panels[0].set_ylabel("accuracy (%)", fontsize=FONT)
    panels[0].legend(fontsize=SMALL_FONT, frameon=False, loc="lower left")
    return figure
