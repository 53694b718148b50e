"""Series coloured by how far each step is trusted."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from udtw.errors import ShapeError
from udtw.plots.style import FONT, SMALL_FONT, STD_COLORS, as_array, new_figure, shade, std_norm


def plot_reliability(series: Mapping[str, tuple[Any, Any, Any]], **figure_options: Any) -> Figure:
    """A figure with one panel per series: its values from blue (certain) to red (uncertain), and a band of σ.

    Parameters
    ----------
    series : mapping of str to (values, sigma, faulty)
        Title to (T,) values, (T,) standard deviations, and (T,) booleans for steps to shade in grey, or None.
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
        axes.tick_params(labelsize=SMALL_FONT)
    for axes in panels[len(arrays) :]:
        axes.set_visible(False)
    bar = figure.colorbar(lines, ax=list(panels), shrink=0.8)
    bar.set_label("σ", fontsize=FONT)
    bar.ax.tick_params(labelsize=SMALL_FONT)
    return figure
