"""Draw many series on their common axis, and where on it each of them is."""

from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from udtw._engine.match_many import JointMatch
from udtw.plots.style import FONT, X_COLOR, hide_box, new_figure

FEATURES = 3
"""Features that are drawn, the first ones."""
SERIES_COLOR, SIGMA_COLOR = "#B5B5B5", "#D62728"


def plot_joint(joint: JointMatch, **figure_options: Any) -> Figure:
    """Plot the series on their axis in gray with mean and ±σ on top, and below the step of each series with its
    intervals.

    Series are drawn in the units of the axis. Of many features the first three are drawn. Axes are labeled "0", "1", …
    by feature, and "positions". The figure is not registered with pyplot: save it with ``savefig``.

    Parameters
    ----------
    joint : JointMatch
        Result of `udtw.match_many`.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Examples
    --------
    >>> import numpy as np
    >>> import udtw
    >>> from udtw.plots.joint import plot_joint
    >>> series = [np.sin(np.arange(30) / 4 + shift) for shift in (0.0, 0.2, 0.4)]
    >>> [axes.get_label() for axes in plot_joint(udtw.match_many(series)).axes]
    ['0', 'positions']
    """
    count, steps = joint.positions.shape
    mean, std = joint.mean.reshape(steps, -1), joint.std.reshape(steps, -1)
    drawn = min(mean.shape[1], FEATURES)
    gain, offset = (
        np.stack([np.broadcast_to(getattr(one, name), mean.shape[1]) for one in joint.noise])[:, None]
        for name in ("gain", "offset")
    )
    values, axis = (joint.aligned.reshape(count, steps, -1) - offset) / gain, np.arange(steps)
    figure = new_figure((7.5, 1.9 * drawn + 2.9), figure_options)
    panels: list[Any] = [[str(feature)] for feature in range(drawn)] + [["positions"]]
    axes = figure.subplot_mosaic(panels, sharex=True, height_ratios=[1.0] * drawn + [1.3])
    for feature in range(drawn):
        panel = axes[str(feature)]
        panel.plot(axis, values[:, :, feature].T, color=SERIES_COLOR, linewidth=0.6, alpha=max(0.35, 1 - 0.02 * count))
        middle, spread = mean[:, feature], std[:, feature]
        panel.fill_between(axis, middle - spread, middle + spread, color=SIGMA_COLOR, alpha=0.22, linewidth=0, zorder=3)
        panel.plot(axis, middle, color=X_COLOR, linewidth=1.6, zorder=4)
        panel.set_ylabel("value" if mean.shape[1] == 1 else f"feature {feature}")
    colors = matplotlib.colormaps["viridis"](np.linspace(0, 0.9, count))
    for k, color in enumerate(colors):
        known = joint.low[k] >= 0
        low, high = (np.where(known, one[k], np.nan) for one in (joint.low, joint.high))
        axes["positions"].fill_between(axis, low - 0.5, high + 0.5, color=color, alpha=0.2, linewidth=0)
        axes["positions"].plot(axis, joint.positions[k], color=color, linewidth=1.0)
    axes["positions"].set_ylabel("step of each series")
    axes["positions"].set_xlabel(f"step of the axis (series {joint.medoid}); bands: {joint.level:.0%} intervals")
    axes["positions"].set_xlim(0, steps - 1)
    for panel in axes.values():
        panel.tick_params(labelsize=FONT)
        hide_box(panel)
    figure.suptitle(joint.sentence, fontsize=FONT)
    return figure
