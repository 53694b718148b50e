"""Draw series, their mean, and the uncertainty of each step of the mean."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from udtw._engine.series_set import load_series
from udtw.errors import LengthError, OptionError, ShapeError
from udtw.plots.style import FONT, X_COLOR, Floats, hide_box, new_figure

if TYPE_CHECKING:  # drawing does not need scikit-learn
    from udtw.timeseries.barycenter import Barycenter

SERIES_COLOR, MEAN_COLOR, SIGMA_COLOR = "#B5B5B5", X_COLOR, "#D62728"
PANEL_INCHES, SIGMA_INCHES = (2.9, 1.9), 0.75


def plot_barycenter(
    X: Any,
    barycenters: "Barycenter | Mapping[str, Barycenter]",
    *,
    max_series: int = 50,
    band: bool = True,
    **figure_options: Any,
) -> Figure:
    """Plot the series in gray, each mean on top of them, and its uncertainty σ_μ in red.

    The figure has one column per barycenter and one row per feature. If any barycenter has an uncertainty, a last row
    shows σ_μ of every step, on one scale for all columns. Series of another length than the mean are stretched to it
    in time. Axes are labeled "NAME/FEATURE", features from 0, and "NAME/sigma". The figure is not registered with
    pyplot: save it with ``savefig``.

    Parameters
    ----------
    X : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
        The averaged series.
    barycenters : Barycenter or dict of name to Barycenter
        Results of `udtw.timeseries.barycenter` for them, for one or several metrics.
    max_series : int
        Largest number of series to draw, evenly chosen; many more than fifty would merge into a gray area.
    band : bool
        Whether to draw ``mean ± σ_μ`` around the mean.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_barycenter
    >>> from udtw.timeseries import barycenter
    >>> X = np.sin(np.arange(20) / 3 + np.array([[0.0], [0.3], [0.6]]))
    >>> figure = plot_barycenter(X, {"DTW": barycenter(X, metric="dtw", max_iter=5)})
    >>> [axes.get_label() for axes in figure.axes]
    ['DTW/0']
    """
    if max_series < 1:
        raise OptionError(f"max_series must be 1 or more; got {max_series}.")
    named = barycenters if isinstance(barycenters, Mapping) else {"": barycenters}
    if not named:
        raise LengthError("barycenters is empty; at least one is needed.")
    series = load_series("X", X)
    features = series.values.shape[2]
    means = {name: _mean(name, one.mean, features) for name, one in named.items()}
    sigmas = {name: np.sqrt(np.asarray(one.variance, float)) for name, one in named.items()}
    uncertain = any(sigma.any() for sigma in sigmas.values())
    chosen = np.unique(np.linspace(0, len(series) - 1, min(max_series, len(series))).astype(int))
    rows = [series.values[i, : series.lengths[i]] for i in chosen]

    heights = [PANEL_INCHES[1]] * features + [SIGMA_INCHES] * uncertain
    figure = new_figure((PANEL_INCHES[0] * len(named) + 0.4, sum(heights) + 0.6), figure_options)
    labels: list[Any] = [[f"{name}/{row}" for name in named] for row in [*range(features), *["sigma"] * uncertain]]
    axes: dict[Any, Axes] = figure.subplot_mosaic(labels, height_ratios=heights)
    first = next(iter(named))
    for name, mean in means.items():
        for feature in range(features):
            panel = axes[f"{name}/{feature}"]
            _draw_mean(panel, [row[:, feature] for row in rows], mean[:, feature], sigmas[name] if band else None)
            if name != first:
                panel.sharey(axes[f"{first}/{feature}"])
                panel.tick_params(labelleft=False)
        axes[f"{name}/0"].set_title(name, fontsize=10)
        if uncertain:
            _draw_sigma(axes[f"{name}/sigma"], sigmas[name], max(float(s.max()) for s in sigmas.values()))
            axes[f"{name}/sigma"].tick_params(labelleft=name == first)
        last = axes[f"{name}/sigma" if uncertain else f"{name}/{features - 1}"]
        last.set_xlabel("step")
        for row in labels[:-1]:
            panel = axes[row[list(named).index(name)]]
            panel.sharex(last)
            panel.tick_params(labelbottom=False)
        last.set_xlim(0, max(len(mean) - 1, 1))
    for feature in range(features):
        axes[f"{first}/{feature}"].set_ylabel("value" if features == 1 else f"feature {feature}")
    if uncertain:
        axes[f"{first}/sigma"].set_ylabel(r"$\sigma_\mu$", color=SIGMA_COLOR)
    return figure


def _mean(name: str, mean: Any, features: int) -> Floats:
    """Return the mean as (L, d)."""
    values = np.asarray(mean, float)
    values = values[:, None] if values.ndim == 1 else values
    if values.shape[1] != features:
        raise ShapeError(f"Barycenter {name!r} has {values.shape[1]} feature(s), but the series have {features}.")
    return values


def _draw_mean(axes: Axes, rows: list[Floats], mean: Floats, sigma: Floats | None) -> None:
    steps = np.arange(len(mean))
    for row in rows:
        at = steps if len(row) == len(mean) else np.linspace(0, len(mean) - 1, len(row))
        axes.plot(at, row, color=SERIES_COLOR, linewidth=0.6, alpha=max(0.35, 1 - 0.02 * len(rows)))
    if sigma is not None and sigma.any():
        axes.fill_between(steps, mean - sigma, mean + sigma, color=SIGMA_COLOR, alpha=0.22, linewidth=0, zorder=3)
    axes.plot(steps, mean, color=MEAN_COLOR, linewidth=1.6, zorder=4)
    # The limits ignore the band, so that one very uncertain step does not flatten the rest.
    low, high = (extreme([*(extreme(row) for row in rows), extreme(mean)]) for extreme in (np.min, np.max))
    margin = 0.06 * (high - low) or 1.0
    axes.set_ylim(low - margin, high + margin)
    axes.tick_params(labelsize=FONT)
    hide_box(axes)


def _draw_sigma(axes: Axes, sigma: Floats, highest: float) -> None:
    if sigma.any():
        axes.plot(np.arange(len(sigma)), sigma, color=SIGMA_COLOR, linewidth=1.2)
        axes.fill_between(np.arange(len(sigma)), sigma, color=SIGMA_COLOR, alpha=0.15, linewidth=0)
    else:  # a line at zero would look as if the mean were certain
        axes.text(0.5, 0.5, "none", transform=axes.transAxes, ha="center", va="center", color="#777777", fontsize=FONT)
    axes.set_ylim(0, 1.1 * highest)
    axes.locator_params(axis="y", nbins=3)
    axes.tick_params(labelsize=FONT)
    hide_box(axes)
