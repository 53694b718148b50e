"""The forecast figure: what was observed, what came, what was foretold and how certain it was."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from udtw.errors import LengthError, ShapeError

# The Okabe-Ito palette, told apart by all common kinds of colour vision; dashes tell the lines apart in print.
COLORS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", (0, (5, 1.5)), (0, (1.5, 1)), (0, (5, 1, 1, 1)))
OBSERVED_COLOR, TRUTH_COLOR = "#777777", "black"

PANEL_INCHES = (3.6, 1.9)
MAX_COLUMNS = 3

Floats = NDArray[np.float64]


def plot_forecast(
    observed: Any,
    truth: Any,
    forecast: Any,
    std: Any = None,
    *,
    width: float = 2.0,
    titles: Any = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Draw forecasts against the truth, one panel a series and feature, with a band of ``± width·std``.

    Parameters
    ----------
    observed : (T_in,), (n, T_in) or (n, T_in, d)
        The past; it ends where the forecast begins.
    truth : (T_out,), (n, T_out) or (n, T_out, d), or None
        The future as it came, if it is known.
    forecast : array like ``truth``, or dict of name to array
        One or several forecasts; several are told apart by name, colour and dashes.
    std : array like ``forecast``, or dict of name to array, optional
        Standard deviations; in a dict only the forecasts named there get a band.
    width : float
        Half the width of the band in standard deviations: 2 holds 95 % of a Gaussian.
    titles : sequence of str, optional
        One a panel, panels ordered by series and then by feature.
    figsize : (width, height) in inches

    Returns
    -------
    Figure
        It belongs to nobody: save it with ``savefig``.
    """
    past = _series("observed", observed)
    named = forecast if isinstance(forecast, Mapping) else {"forecast": forecast}
    if not named:
        raise LengthError("forecast is empty; at least one is needed.")
    futures = {name: _series(f"forecast {name!r}", value) for name, value in named.items()}
    first = next(iter(futures.values()))
    shape = (len(past), first.shape[1], past.shape[2])
    given = std if isinstance(std, Mapping) else {} if std is None else {next(iter(futures)): std}
    if strangers := set(given) - set(futures):
        raise ShapeError(f"std names forecasts that are not there: {sorted(strangers)}; there are {sorted(futures)}.")
    bands = {name: _series(f"std {name!r}", value) for name, value in given.items()}
    came = None if truth is None else _series("truth", truth)
    for name, array in {**{f"forecast {n!r}": f for n, f in futures.items()}, "truth": came}.items():
        _check(name, array, shape)
    for name, array in bands.items():
        _check(f"std of {name!r}", array, shape)

    count, _, features = shape
    panels = count * features
    columns = min(panels, MAX_COLUMNS)
    rows = -(-panels // columns)
    size = figsize or (columns * PANEL_INCHES[0], rows * PANEL_INCHES[1] + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True).ravel()
    for panel, (i, j) in enumerate((i, j) for i in range(count) for j in range(features)):
        pick = {name: f[i, :, j] for name, f in futures.items()}
        spread = {name: width * b[i, :, j] for name, b in bands.items()}
        _draw(axes[panel], past[i, :, j], None if came is None else came[i, :, j], pick, spread, f"± {width:g} std")
        axes[panel].set_title(_title(titles, panel, i, j, count, features), fontsize=9)
    for empty in axes[panels:]:
        empty.set_axis_off()
    for axis in axes[max(0, panels - columns) : panels]:
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("step")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=min(len(labels), 5), frameon=False, fontsize=9)
    return figure


def _draw(
    axes: Axes,
    past: Floats,
    truth: Floats | None,
    forecasts: dict[str, Floats],
    spread: dict[str, Floats],
    band_label: str,
) -> None:
    """One series: lines of the future start at the last observed value, so that nothing seems missing between."""
    start = len(past)
    axes.plot(np.arange(start), past, color=OBSERVED_COLOR, linewidth=1.1, label="observed")
    if truth is not None:
        axes.plot(*_joined(past, truth), color=TRUTH_COLOR, linewidth=1.3, label="truth")
    for i, (name, values) in enumerate(forecasts.items()):
        color = COLORS[i % len(COLORS)]
        if name in spread:
            steps = np.arange(start, start + len(values))
            axes.fill_between(
                steps, values - spread[name], values + spread[name], color=color, alpha=0.18, linewidth=0,
                label=band_label if len(forecasts) == 1 else f"{name} {band_label}",
            )  # fmt: skip
        axes.plot(*_joined(past, values), color=color, linestyle=DASHES[i % len(DASHES)], linewidth=1.3, label=name)
    axes.axvline(start - 1, color=OBSERVED_COLOR, linewidth=0.7, linestyle=(0, (2, 2)))
    axes.set_xlim(0, start + len(next(iter(forecasts.values()))) - 1)
    axes.locator_params(axis="x", integer=True, nbins=6)
    axes.locator_params(axis="y", nbins=4)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)


def _joined(past: Floats, future: Floats) -> tuple[Floats, Floats]:
    return np.arange(len(past) - 1, len(past) + len(future), dtype=float), np.concatenate([past[-1:], future])


def _title(titles: Any, panel: int, i: int, j: int, count: int, features: int) -> str:
    if titles is not None:
        return str(titles[panel])
    parts = ([f"series {i}"] if count > 1 else []) + ([f"feature {j}"] if features > 1 else [])
    return ", ".join(parts)


def _series(name: str, value: Any) -> Floats:
    """(n, T, d) from (T,), (n, T) or (n, T, d)."""
    array = np.asarray(value.detach().cpu() if isinstance(value, Tensor) else value, dtype=np.float64)
    if array.ndim not in (1, 2, 3) or 0 in array.shape:
        raise ShapeError(f"{name} must have shape (T,), (n, T) or (n, T, d), none of them 0; got {array.shape}.")
    array = array[None] if array.ndim == 1 else array
    return array[..., None] if array.ndim == 2 else array


def _check(name: str, array: Floats | None, shape: tuple[int, int, int]) -> None:
    if array is not None and array.shape != shape:
        raise ShapeError(f"{name} must have shape {shape} as (n, T_out, d), like the others; got {array.shape}.")
