"""Draw the past, the true future, forecasts and their bands."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from udtw.errors import LengthError, OptionError, ShapeError
from udtw.plots.style import COLORS, FONT, Floats, as_array, hide_box, new_figure, shade

LINE_COLORS = (COLORS[1], COLORS[0], *COLORS[2:6])
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1, 1, 1)))
OBSERVED_COLOR = "#777777"

Bounds = tuple[Floats, Floats]

PANEL_INCHES = (3.6, 1.9)
MAX_COLUMNS = 3
LABEL_CHARACTERS = 45
"""Characters of all labels of steps below a panel."""
LEGEND_INCHES = 5.5
"""Least width of the legend."""


def plot_forecast(  # noqa: PLR0913 (what is drawn, and how)
    observed: Any,
    truth: Any,
    forecast: Any,
    std: Any = None,
    *,
    width: float = 2.0,
    interval: Any = None,
    level: float | None = None,
    titles: Any = None,
    times: Any = None,
    **figure_options: Any,
) -> Figure:
    """Plot forecasts beside the true future, one panel per series and feature, with bands.

    Parameters
    ----------
    observed : (T_in,), (n, T_in) or (n, T_in, d)
        The past, up to the step before the forecast.
    truth : (T_out,), (n, T_out) or (n, T_out, d), or None
        The true future, if known.
    forecast : array like ``truth``, or dict of name to array
        One or several forecasts, each drawn in its own color and dashes and named in the legend.
    std : array like ``forecast``, or dict of name to array, optional
        Standard deviations. Of several forecasts, only those named in the dict get a band.
    width : float
        Half the width of the band in standard deviations: ± 2 covers 95 % of a Gaussian.
    interval : (low, high) of arrays like ``forecast``, or dict of name to such pairs, optional
        Bounds of the band, as from `SequenceForecaster.predict_interval`, instead of ``std``.
    level : float, optional
        Coverage of the intervals, shown in the legend.
    titles : sequence of str, optional
        One per panel, ordered by series and then by feature.
    times : sequence of T_in + T_out labels, or one such sequence per series, optional
        Labels of the steps of past and future, of which a few are shown.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Returns
    -------
    Figure
        Not registered with pyplot: save it with ``savefig``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.plots import plot_forecast
    >>> series = np.sin(np.arange(30) / 4)
    >>> figure = plot_forecast(series[:20], series[20:], {"last value": np.full(10, series[19])}, width=1)
    >>> figure.legends[0].get_texts()[-1].get_text()
    'last value'
    """
    past = _series("observed", observed)
    named = forecast if isinstance(forecast, Mapping) else {"forecast": forecast}
    if not named:
        raise LengthError("forecast is empty; at least one is needed.")
    futures = {name: _series(f"forecast {name!r}", value) for name, value in named.items()}
    first = next(iter(futures.values()))
    shape = (len(past), first.shape[1], past.shape[2])
    future = None if truth is None else _series("truth", truth)
    for name, array in {**{f"forecast {n!r}": f for n, f in futures.items()}, "truth": future}.items():
        _check(name, array, shape)
    bands, band_label = _bands(futures, std, interval, width, level)

    count, _, features = shape
    panels = count * features
    columns = min(panels, MAX_COLUMNS)
    rows = -(-panels // columns)
    width = max(columns * PANEL_INCHES[0], LEGEND_INCHES)
    figure = new_figure((width, rows * PANEL_INCHES[1] + 0.4), figure_options)
    labels = _labels(times, count, past.shape[1] + shape[1])
    axes = figure.subplots(rows, columns, squeeze=False, sharex=labels is None).ravel()
    for panel, (i, j) in enumerate((i, j) for i in range(count) for j in range(features)):
        pick = {name: f[i, :, j] for name, f in futures.items()}
        bounds = {name: (low[i, :, j], high[i, :, j]) for name, (low, high) in bands.items()}
        _draw(axes[panel], past[i, :, j], None if future is None else future[i, :, j], pick, bounds, band_label)
        if labels is not None:
            _label_steps(axes[panel], labels[i])
        axes[panel].set_title(_title(titles, panel, i, j, count, features), fontsize=FONT)
    for empty in axes[panels:]:
        empty.set_axis_off()
    for axis in axes[max(0, panels - columns) : panels]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("step" if times is None else "")
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=min(len(names), 5), frameon=False, fontsize=FONT)
    return figure


def _bands(
    futures: dict[str, Floats], std: Any, interval: Any, width: float, level: float | None
) -> tuple[dict[str, Bounds], str]:
    """Return lower and upper bounds (n, T, d) by the name of the forecast, and their label in the legend."""
    if std is not None and interval is not None:
        raise OptionError("Pass std or interval, not both.")
    kind, given = ("std", std) if interval is None else ("interval", interval)
    named = given if isinstance(given, Mapping) else {} if given is None else {next(iter(futures)): given}
    if unknown := set(named) - set(futures):
        raise ShapeError(f"{kind} names unknown forecasts {sorted(unknown)}; the forecasts are {sorted(futures)}.")
    bands = {}
    for name, value in named.items():
        parts = [_series(f"{kind} {name!r}", part) for part in ([value] if interval is None else value)]
        for part in parts:
            _check(f"{kind} of {name!r}", part, futures[name].shape)
        if len(parts) != (1 if interval is None else 2):
            raise ShapeError(f"interval of {name!r} must be a pair (low, high); got {len(parts)} arrays.")
        bands[name] = (
            (futures[name] - width * parts[0], futures[name] + width * parts[0])
            if interval is None
            else (parts[0], parts[1])
        )
    return (
        bands,
        f"± {width:g} std" if interval is None else f"{'' if level is None else f'{100 * level:g} % '}interval",
    )


def _draw(
    axes: Axes,
    past: Floats,
    truth: Floats | None,
    forecasts: dict[str, Floats],
    bounds: dict[str, Bounds],
    band_label: str,
) -> None:
    """Draw one panel; lines of the future start at the last observed value, to leave no gap."""
    start = len(past)
    axes.plot(np.arange(start), past, color=OBSERVED_COLOR, linewidth=1.1, label="observed")
    if truth is not None:
        axes.plot(*_joined(past, truth), color=shade(1), linewidth=1.3, label="truth")
    for i, (name, values) in enumerate(forecasts.items()):
        color = LINE_COLORS[i % len(LINE_COLORS)]
        if name in bounds:
            steps = np.arange(start, start + len(values))
            label = band_label if len(forecasts) == 1 else f"{name} {band_label}"
            axes.fill_between(steps, *bounds[name], color=color, alpha=0.18, linewidth=0, label=label)
        axes.plot(*_joined(past, values), color=color, linestyle=DASHES[i % len(DASHES)], linewidth=1.3, label=name)
    axes.axvline(start - 1, color=OBSERVED_COLOR, linewidth=0.7, linestyle=(0, (2, 2)))
    axes.set_xlim(0, start + len(next(iter(forecasts.values()))) - 1)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.locator_params(axis="y", nbins=4)
    axes.tick_params(labelsize=FONT)
    hide_box(axes)


def _labels(times: Any, count: int, steps: int) -> list[list[str]] | None:
    """Return the labels of all steps for each series."""
    if times is None:
        return None
    several = len(times) > 0 and not isinstance(times[0], str) and np.ndim(times[0]) == 1
    found = [[str(one) for one in own] for own in (times if several else [times] * count)]
    if len(found) != count or any(len(own) != steps for own in found):
        raise ShapeError(
            f"times must have {steps} labels, of past and future, or as many for each of {count} series; got "
            f"{sorted({len(own) for own in found})} for {len(found)}."
        )
    return found


def _label_steps(axes: Axes, labels: list[str]) -> None:
    """Label so many steps that the labels of a panel do not collide."""
    room = max(2, int(LABEL_CHARACTERS / max(map(len, labels))))
    places = np.unique(np.linspace(0, len(labels) - 1, min(room, len(labels))).round().astype(int))
    axes.set_xticks(places, [labels[at] for at in places])
    ticks = axes.get_xticklabels()
    ticks[0].set_horizontalalignment("left")
    ticks[-1].set_horizontalalignment("right")


def _joined(past: Floats, future: Floats) -> tuple[Floats, Floats]:
    return np.arange(len(past) - 1, len(past) + len(future), dtype=float), np.concatenate([past[-1:], future])


def _title(titles: Any, panel: int, i: int, j: int, count: int, features: int) -> str:
    if titles is not None:
        return str(titles[panel])
    parts = ([f"series {i}"] if count > 1 else []) + ([f"feature {j}"] if features > 1 else [])
    return ", ".join(parts)


def _series(name: str, value: Any) -> Floats:
    """Convert (T,), (n, T) or (n, T, d) to (n, T, d)."""
    array = as_array(value).astype(np.float64)
    if array.ndim not in (1, 2, 3) or 0 in array.shape:
        raise ShapeError(f"{name} must have shape (T,), (n, T) or (n, T, d) without an empty axis; got {array.shape}.")
    array = array[None] if array.ndim == 1 else array
    return array[..., None] if array.ndim == 2 else array


def _check(name: str, array: Floats | None, shape: tuple[int, int, int]) -> None:
    if array is not None and array.shape != shape:
        raise ShapeError(f"{name} must have shape {shape} as (n, T_out, d), like the others; got {array.shape}.")
