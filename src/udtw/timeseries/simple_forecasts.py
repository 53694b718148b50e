"""Simple forecasts of windows, from which a network learns to depart: the last season repeated, or a smoothed level."""

import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw.errors import OptionError

Floats = NDArray[np.floating]

RATES = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
DRIFTS = (0.0, 0.5, 1.0)
CLEAR = 0.3
"""Least autocorrelation at the lag of a season that is tried."""
NEARLY = 0.8
"""Of lags with nearly the same autocorrelation, multiples of a season among them, the shortest come first."""
GAIN = 0.03
"""A season is used if it lowers the error by this share."""
MOST = 1000
"""Most windows on which simple forecasts are compared."""
LEAST_UNIT = 0.1
"""Least unit of a window, as a share of the median over all windows."""


@dataclass(frozen=True)
class SimpleForecast:
    """Forecast of windows (n, W, d): the last ``season`` repeated or, with a ``rate``, a smoothed level and a drift.

    The smoothed forecast removes the mean seasonal pattern of the window, takes the exponentially weighted mean,
    continues it by a share of the slope (0.5 in Theta), and puts the pattern back; all of the logarithms, if
    ``logarithmic``.

    >>> import numpy as np
    >>> SimpleForecast(season=2).forecast(np.array([1.0, 5, 1, 5])[None, :, None], 3).ravel().tolist()
    [1.0, 5.0, 1.0]
    """

    season: int = 1
    rate: float | None = None
    drift: float = 0.0
    logarithmic: bool = False
    least_unit: tuple[float, ...] = (0.0,)
    """Least `unit` of each feature."""

    def forecast(self, windows: Floats, horizon: int) -> Floats:
        """Return what follows the windows (n, W, d): (n, horizon, d)."""
        ahead = np.arange(horizon)
        if self.rate is None:
            return windows[:, windows.shape[1] - self.season + ahead % self.season]
        usable = not self.logarithmic or bool((windows > 0).all())
        if self.logarithmic and usable:
            windows = np.log(windows)
        seasons = windows.shape[1] // self.season
        kept = windows[:, windows.shape[1] - seasons * self.season :]
        folded = kept.reshape(len(kept), seasons, self.season, -1)
        steps = np.arange(kept.shape[1]) - (kept.shape[1] - 1)
        slope = _slope(folded.mean(2) if self.season > 1 else kept) / self.season
        flat = (kept - slope * steps[:, None]).reshape(folded.shape)
        pattern = (flat - flat.mean(2, keepdims=True)).mean(1) if self.season > 1 else 0 * flat[:, 0]
        weights = (1 - self.rate) ** -steps.astype(float)
        weights /= weights.sum()
        adjusted = kept - np.tile(pattern, (1, seasons, 1))
        level = (adjusted * weights[:, None]).sum(1, keepdims=True)
        # The weighted mean lags behind a slope by the mean age of its steps.
        age = 1 + ahead - (weights * steps).sum()
        found = level + self.drift * slope * age[:, None] + pattern[:, ahead % self.season]
        return np.exp(found) if self.logarithmic and usable else found

    def unit(self, windows: Floats) -> Floats:
        """Return how much each window (n, W, d) changes from one season to the next, (n, 1, d)."""
        change = windows[:, self.season :] - windows[:, : -self.season]
        return np.maximum(np.sqrt(np.square(change).mean(1, keepdims=True)), self.least_unit)


def choose(windows: Floats, futures: Floats, seasons: Collection[int], *, found: bool = True) -> SimpleForecast:
    """Return the simple forecast with the least squared error on these futures, for one of the ``seasons``.

    A season that was ``found``, not given, is used only if it clearly lowers the error. Errors are in units of each
    window, so that all series count equally.
    """
    stride = -(-len(windows) // MOST)
    windows, futures = windows[::stride], futures[::stride]
    steps, horizon = windows.shape[1], futures.shape[1]
    positive = bool((windows > 0).all())
    best: dict[int, tuple[float, SimpleForecast]] = {}
    for season in sorted({1, *seasons} if found or not seasons else set(seasons)):
        plain = SimpleForecast(season)
        if season > 1 and steps < season + 2:
            continue
        candidates = [plain]
        if steps >= max(3, 2 * season):
            grid = itertools.product(RATES, DRIFTS, (False, True) if positive else (False,))
            candidates += [SimpleForecast(season, *one) for one in grid]
        unit = SimpleForecast(1).unit(windows)
        unit = np.maximum(unit, LEAST_UNIT * np.median(unit, 0) + np.finfo(float).tiny)
        errors = [float(np.square((one.forecast(windows, horizon) - futures) / unit).mean()) for one in candidates]
        best[season] = min(zip(errors, candidates, strict=True), key=lambda one: one[0])
    error, least = min(best.values(), key=lambda one: one[0])
    if 1 in best and least.season > 1 and error > (1 - GAIN) * best[1][0]:
        least = best[1][1]
    units = SimpleForecast(least.season).unit(windows)
    least_unit = LEAST_UNIT * np.median(units, 0)[0]
    least_unit = np.where(least_unit > 0, least_unit, units.max((0, 1)))
    least_unit = np.where(least_unit > 0, least_unit, 1.0)  # a constant feature keeps its unit
    return replace(least, least_unit=tuple(least_unit.tolist()))


def check_season(season: Any, longest: int) -> None:
    """Raise `OptionError` unless the season is open or a number of steps that the longest series holds three times."""
    whole = isinstance(season, Integral) and not isinstance(season, bool)
    if season is not None and not (whole and 1 <= season <= max(1, longest // 3)):
        raise OptionError(
            f"season must be a whole number of steps from 1 (none) to {max(1, longest // 3)}, so that three seasons "
            f"are known; got {season!r}.",
            parameter="season",
        )


def find_seasons(series: Iterable[Floats], longest: int, count: int = 3) -> list[int]:
    """Return lags up to ``longest`` at which series (T, d) repeat most clearly, by their mean autocorrelation.

    >>> import numpy as np
    >>> find_seasons([np.sin(np.arange(200) * np.pi / 6)[:, None]], 50)[0]
    12
    """
    total, weight = np.zeros(longest + 1), 0
    for one in series:
        if len(one) < 3 * 2:
            continue
        steps = np.linspace(-1, 1, len(one))[:, None]
        flat = one - one.mean(0)
        flat = flat - steps * (flat * steps).sum(0) / np.square(steps).sum()
        size = 1 << (2 * len(one) - 1).bit_length()
        power = np.abs(np.fft.rfft(flat, size, axis=0)) ** 2
        correlation = np.fft.irfft(power, size, axis=0)[: len(one)]
        varies = correlation[0] > 0
        if not varies.any():
            continue
        own = (correlation[:, varies] / correlation[0, varies]).mean(1)[: longest + 1]
        own = own * (len(one) / (len(one) - np.arange(len(own))))
        total[: len(own)] += len(one) * np.where(np.arange(len(own)) <= len(one) // 2, own, 0)
        weight += len(one)
    if weight == 0:
        return []
    mean = total / weight
    peaks = [
        lag for lag in range(2, longest + 1)
        if mean[lag] > CLEAR and mean[lag] >= mean[lag - 1] and (lag == longest or mean[lag] > mean[lag + 1])
    ]  # fmt: skip
    clearest = max((mean[lag] for lag in peaks), default=0.0)
    return [lag for lag in peaks if mean[lag] >= NEARLY * clearest][:count]


def _slope(points: Floats) -> Floats:
    """Return the slope per point of (n, K, d), (n, 1, d), by least squares."""
    at = np.arange(points.shape[1]) - (points.shape[1] - 1) / 2
    spread = np.square(at).sum()
    return (points * at[:, None]).sum(1, keepdims=True) / (spread or 1.0)
