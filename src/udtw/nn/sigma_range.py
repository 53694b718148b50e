"""The range of σ: from an unbounded number to σ and back."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from udtw.errors import OptionError


@dataclass(frozen=True)
class SigmaRange:
    """``σ = low + (high − low)·sigmoid(raw)``.

    >>> from udtw.nn.sigma_range import SigmaRange
    >>> SigmaRange.of((0.25, 4.0)).start
    1.0
    """

    low: float
    high: float

    @classmethod
    def of(cls, sigma_range: Any) -> "SigmaRange":
        """The range from two numbers, as an estimator's ``sigma_range``."""
        try:
            low, high = (float(limit) for limit in sigma_range)
        except (TypeError, ValueError):
            raise OptionError(f"sigma_range must be two numbers, least and greatest σ; got {sigma_range!r}.") from None
        if not 0 < low < high < math.inf:
            raise OptionError(f"sigma_range must satisfy 0 < low < high; got {sigma_range!r}.")
        return cls(low, high)

    @property
    def start(self) -> float:
        """σ = 1 if the range contains it, so that training begins without uncertainty; else the middle."""
        return 1.0 if self.low < 1 < self.high else 0.5 * (self.low + self.high)

    def raw(self, sigma: float) -> float:
        """The number that gives ``sigma``."""
        return math.log((sigma - self.low) / (self.high - sigma))

    def sigma(self, raw: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * torch.sigmoid(raw)
