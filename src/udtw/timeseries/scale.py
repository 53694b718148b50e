"""Standardisation of series: one mean and one deviation a feature, so that shapes are kept."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Scale:
    """``apply(x) = (x − mean) / std`` for x (n, T, d); ``mean`` and ``std`` are (d,)."""

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, series: Floats) -> "Scale":
        """From all series and steps together; a constant feature keeps its unit."""
        mean, std = series.mean((0, 1), dtype=float), series.std((0, 1), dtype=float)
        rounding = 10 * np.finfo(float).eps * np.abs(series).max((0, 1))
        return cls(mean, np.where(std > rounding, std, 1.0))

    def apply(self, series: Floats) -> Floats:
        return (series - self.mean) / self.std

    def undo(self, series: Floats) -> Floats:
        return series * self.std + self.mean
