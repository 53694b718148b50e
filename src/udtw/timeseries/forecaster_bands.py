"""How far the future may be from a forecast: standard deviations and intervals, calibrated on held-out errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from udtw.errors import OptionError

Floats = NDArray[np.floating]

POWERS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 8.0)
"""Of σ in the calibrated standard deviation."""
RESOLUTION = 1000
"""Parts into which the ratios of errors to their standard deviation are divided by `Bands.quantiles`."""


@dataclass(frozen=True)
class Bands:
    """The standard deviation of a forecast is ``scale·σ^power``; an interval is a quantile of that.

    - ``scale`` (T, d) and ``power`` have the greatest Gaussian likelihood of the errors;
    - ``quantiles`` (1001,) are those of ``|error| / std`` in equal parts, over all held-out series, steps and features;
    - ``count``: held-out series.
    """

    power: float
    scale: Floats
    quantiles: Floats
    count: int

    @classmethod
    def of(cls, errors: Floats, sigma: Floats | None) -> "Bands":
        """From ``errors`` (n, T, d) of held-out series, and σ of their forecasts as in `fit_std`."""
        power, scale = fit_std(errors, sigma)
        std = scale if sigma is None else scale * sigma**power
        ratios = np.abs(errors) / np.where(std > 0, std, 1.0)
        return cls(power, scale, np.quantile(ratios, np.linspace(0, 1, RESOLUTION + 1)), len(errors))

    @classmethod
    def gaussian(cls, power: float, scale: Floats) -> "Bands":
        """With the quantiles of Gaussian errors, where none are known."""
        levels = np.linspace(0, 1, RESOLUTION + 1)
        levels[-1] = 1 - 0.5 / RESOLUTION
        return cls(power, scale, ndtri(0.5 + 0.5 * levels), RESOLUTION)

    def std(self, sigma: Floats) -> Floats:
        """The standard deviation (n, T, d) of forecasts with this σ."""
        return self.scale * sigma**self.power

    def half_width(self, level: Any) -> float:
        """Half the width of an interval of that coverage, in standard deviations.

        Split conformal prediction: the quantile ``level·(n + 1)/n`` of the ratios of n held-out series, all steps and
        features together. The correction makes up for few series.
        """
        if isinstance(level, bool) or not isinstance(level, int | float | np.number) or not 0 < level < 1:
            raise OptionError(f"level must be a number between 0 and 1, such as 0.9; got {level!r}.")
        corrected = min(1.0, float(level) * (self.count + 1) / self.count)
        return float(np.interp(corrected, np.linspace(0, 1, len(self.quantiles)), self.quantiles))


def fit_std(errors: Floats, sigma: Floats | None) -> tuple[float, Floats]:
    """Power p and scale s (T, d) with the greatest Gaussian likelihood of ``errors`` (n, T, d) under std ``s·σᵖ``.

    ``sigma``: (n, T, d) or (n, T, 1), or None for σ = 1 (then p = 0). For each p of `POWERS`, s is the root of the mean
    of ``(error/σᵖ)²`` over the series.
    """
    fits = []
    for power in (0.0,) if sigma is None else POWERS:
        shape = np.ones(()) if sigma is None else sigma**power
        scale = np.sqrt(np.square(errors / shape).mean(0))
        # With this scale the squared ratios average to 1 for any power: only the logarithms are left to compare.
        with np.errstate(divide="ignore"):
            fits.append((float(np.log(shape * scale).mean()), power, scale))
    _, power, scale = min(fits, key=lambda fit: fit[0])
    return power, scale
