"""What goes into a forecaster and comes out: windows of long series, and calibrated bands around forecasts."""

import itertools
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from udtw._engine.inputs import order_features, read_names
from udtw._engine.series_set import load_one_series
from udtw.errors import LengthError, OptionError, ShapeError

Floats = NDArray[np.floating]
Pair = tuple[Floats, Floats]

MOST_WINDOWS = 5000
"""Most windows for training; longer series are read with a stride."""
POWERS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0)
"""Candidate powers of σ in the calibrated standard deviation."""
UNIT_POWERS = (0.0, 0.5, 1.0)
"""Candidate powers of the unit of each window (`SimpleForecast.unit`)."""
RESOLUTION = 1000
"""Number of quantiles of the ratios of errors to their standard deviation."""


@dataclass(frozen=True)
class Form:
    """Form in which long series were passed, which is the form of their forecasts."""

    single: bool
    """True for one series rather than several."""
    axes: int
    """Axes of the forecasts of several series: 2 if the series are (T,), 3 if they are (T, d)."""
    names: list[str] | None = None
    """Of the features, if the series are data frames."""


def long_series(name: str, data: Any, names: list[str] | None = None) -> tuple[list[Floats], Form]:
    """Return the series (T, d) of ``data``: one (T,) or (T, d), several (n, T, d), or a list of (T,) or (T, d).

    Data frames are matched by the ``names`` of their columns, by default those of the first; the `Form` has them.
    """
    listed = isinstance(data, list | tuple) and len(data) > 0 and np.ndim(data[0]) > 0
    single = not listed and np.ndim(data) != 3
    named = {name: data} if single else {f"{name}[{i}]": one for i, one in enumerate(data)}
    names = names or read_names(next(iter(named.values())))
    frames = [(label, order_features(label, one, "the first series", names)) for label, one in named.items()]
    series = [load_one_series(label, one)[0].astype(float) for label, one in frames]
    if len({one.shape[1] for one in series}) > 1:
        raise ShapeError(f"All series must have the same number of features; got {[one.shape[1] for one in series]}.")
    return series, Form(single, 2 if all(np.ndim(one) == 1 for one in named.values()) else 3, names)


def window_for(series: list[Floats], window: Any, horizon: Any, season: int = 1) -> int:
    """Return ``window``, by default twice the horizon or four seasons, or what leaves enough windows.

    Raise a `LengthError` if none fits.
    """
    for name, value in (("horizon", horizon), ("window", window)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
            raise OptionError(f"{name} must be a whole number of steps, 1 or more; got {value!r}.", parameter=name)
    longest = max(len(one) for one in series)
    if window is None:
        seasonal = min(4 * season, (longest - horizon) // 2) if season > 1 else 0
        window = max(1, min(max(2 * horizon, seasonal), longest - horizon - 10))
    if longest < window + horizon + 1:
        steps, features = next(one.shape for one in series if len(one) == longest)
        hint = " Rows are steps; for several series pass a list." if features > steps else ""
        raise LengthError(
            f"A window of {window} steps and a horizon of {horizon} require a series of at least "
            f"{window + horizon + 1} steps; the longest has {steps}.{hint}"
        )
    return int(window)


def last_windows(name: str, series: list[Floats], window: int) -> Floats:
    """Return the last ``window`` steps of each series, (n, window, d)."""
    short = min(len(one) for one in series)
    if short < window:
        raise LengthError(
            f"The window has {window} steps, but a series of {name} has only {short}. Pass longer series."
        )
    return np.stack([one[-window:] for one in series])


def cut_windows(series: list[Floats], window: int, horizon: int, held: float) -> tuple[Pair, Pair | None]:
    """Cut pasts (n, window, d) and futures (n, horizon, d); the last share ``held`` of each series is for validation.

    No step belongs to a future for training and to one for validation.
    """
    train, valid = [], []
    for one in series:
        starts = np.arange(max(0, len(one) - window - horizon + 1))
        count = int(held * len(starts))
        first = len(starts) - count
        kept = starts[: first - horizon + 1] if count and first >= horizon else starts[:first]
        train.append((one, kept))
        valid.append((one, starts[first:]))
    stride = -(-sum(len(starts) for _, starts in train) // MOST_WINDOWS)
    held_out = _pairs(valid, window, horizon, stride)
    return _pairs(train, window, horizon, stride), held_out if len(held_out[0]) else None


def _pairs(starts: list[tuple[Floats, NDArray]], window: int, horizon: int, stride: int) -> Pair:
    cut = [one[some[::-stride][::-1, None] + np.arange(window + horizon)] for one, some in starts if len(some)] or [
        np.empty((0, window + horizon, starts[0][0].shape[1]))
    ]
    both = np.concatenate(cut)
    return both[:, :window], both[:, window:]


@dataclass(frozen=True)
class Bands:
    """Calibrated uncertainty of forecasts: ``scale·σ^power·unit^unit_power``, and intervals by quantiles.

    - ``scale`` (T, d) and the powers maximize the Gaussian likelihood of the errors;
    - ``quantiles`` (1001,) are those of ``|error| / std`` over all held-out series, steps and features;
    - ``count`` is the number of held-out series.
    """

    power: float
    scale: Floats
    quantiles: Floats
    count: int
    unit_power: float = 0.0

    @classmethod
    def of(
        cls, errors: Floats, sigma: Floats | None, unit: Floats | None = None, *, overlap: int = 1
    ) -> "Bands":  # fmt: skip
        """Calibrate on ``errors`` (n, T, d) of held-out series, σ of their forecasts and their units, as in `fit_std`.

        ``overlap`` windows that follow each other count as one.
        """
        power, unit_power, scale = fit_std(errors, sigma, unit)
        bands = cls(power, scale, np.empty(0), -(-len(errors) // overlap), unit_power)
        one = np.ones(())
        std = bands.std(one if sigma is None else sigma, one if unit is None else unit)
        ratios = np.abs(errors) / np.where(std > 0, std, 1.0)
        return replace(bands, quantiles=np.quantile(ratios, np.linspace(0, 1, RESOLUTION + 1)))

    @classmethod
    def gaussian(cls, power: float, scale: Floats) -> "Bands":
        """Return bands with the quantiles of Gaussian errors, for files without quantiles."""
        levels = np.linspace(0, 1, RESOLUTION + 1)
        levels[-1] = 1 - 0.5 / RESOLUTION
        return cls(power, scale, ndtri(0.5 + 0.5 * levels), RESOLUTION)

    def std(self, sigma: Floats, unit: Any = 1.0) -> Floats:
        """Return the standard deviation (n, T, d) of forecasts with this σ, from windows of this unit."""
        return self.scale * sigma**self.power * unit**self.unit_power

    def half_width(self, level: Any) -> float:
        """Return half the width of an interval of that coverage, in standard deviations.

        Split conformal prediction: the quantile ``level·(n + 1)/n`` of the ratios of n held-out series, all steps and
        features together. The factor (n + 1)/n corrects for few series.
        """
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
            raise OptionError(f"level must be a number between 0 and 1, such as 0.9; got {level!r}.")
        corrected = min(1.0, float(level) * (self.count + 1) / self.count)
        return float(np.interp(corrected, np.linspace(0, 1, len(self.quantiles)), self.quantiles))


def fit_std(errors: Floats, sigma: Floats | None, unit: Floats | None = None) -> tuple[float, float, Floats]:
    """Return powers p and q and the scale s (T, d) that maximize the likelihood of ``errors`` under ``s·σᵖ·unit^q``.

    The likelihood is Gaussian; ``errors`` are (n, T, d), ``sigma`` is (n, T, d) or (n, T, 1) and ``unit`` (n, 1, d), or
    None for 1 (then the power is 0). For each pair of powers, s is the root mean square of ``error/(σᵖ·unit^q)``.
    """
    fits = []
    powers = itertools.product((0.0,) if sigma is None else POWERS, (0.0,) if unit is None else UNIT_POWERS)
    for power, unit_power in powers:
        shape = np.ones(()) if sigma is None else sigma**power
        shape = shape if unit is None else shape * unit**unit_power
        scale = np.sqrt(np.square(errors / shape).mean(0))
        # With this scale the squared ratios average to 1 for any power, so that only the logarithms differ.
        with np.errstate(divide="ignore"):
            fits.append((float(np.log(shape * scale).mean()), power, unit_power, scale))
    _, power, unit_power, scale = min(fits, key=lambda fit: fit[0])
    return power, unit_power, scale
