"""What a kernel is asked: the pairs, their uncertainty, their lengths and their band, as torch tensors."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from udtw import inputs, likelihood
from udtw.prior import Band

COST, LOG_VARIANCE, DEVIATION, ONE = range(4)
"""Built-in fields: C, log Σ, (Σ − 1)² and 1."""


@dataclass(frozen=True)
class Problem:
    """A batch of B pairs. The base cost D is ``‖x_m − y_n‖²`` or ``cost``; C is D, or D over the variance.

    ``var_x`` and ``var_y`` come together (Σ is their mean) and exclude ``variance``.
    """

    gamma: Tensor  # (B,)
    lengths: Tensor  # (2, B) int64
    band: Band
    x: Tensor | None = None  # (B, N, d)
    y: Tensor | None = None  # (B, M, d)
    cost: Tensor | None = None  # (B, N, M)
    var_x: Tensor | None = None  # (B, N)
    var_y: Tensor | None = None  # (B, M)
    variance: Tensor | None = None  # (B, N, M)

    @property
    def main(self) -> Tensor:
        """A tensor that tells dtype and device."""
        if self.x is not None:
            return self.x
        assert self.cost is not None, "a Problem has sequences or a cost"
        return self.cost

    @property
    def shape(self) -> tuple[int, int, int]:
        if self.x is not None and self.y is not None:
            return self.x.shape[0], self.x.shape[1], self.y.shape[1]
        count, rows, columns = self.main.shape
        return count, rows, columns

    @property
    def uncertain(self) -> bool:
        return self.var_x is not None or self.variance is not None

    def base_cost(self) -> Tensor:
        """``D`` (B, N, M)."""
        if self.x is not None and self.y is not None:
            return likelihood.squared_distances(self.x, self.y)
        return self.main

    def pair_variance(self) -> Tensor | None:
        """``Σ`` (B, N, M); None where it is 1 throughout."""
        if self.var_x is not None and self.var_y is not None:
            return likelihood.mean_variance(self.var_x, self.var_y)
        return self.variance

    def weighted_cost(self) -> Tensor:
        """``C = D / Σ`` (B, N, M)."""
        variance = self.pair_variance()
        return self.base_cost() if variance is None else self.base_cost() / variance

    def check_values(self, fields: Sequence[Tensor] = ()) -> None:
        """Raise a named error for the first value that no kernel could use."""
        inputs.check_values(
            {"x": self.x, "y": self.y, "cost": self.cost},
            {"var_x": self.var_x, "var_y": self.var_y, "variance": self.variance},
            self.lengths,
            *self.shape[1:],
            fields,
        )

    def to(self, dtype: torch.dtype) -> "Problem":
        """The same problem in another floating-point type."""
        names = ("gamma", "x", "y", "cost", "var_x", "var_y", "variance")
        tensors = {name: getattr(self, name) for name in names}
        changes: dict[str, Any] = {name: None if t is None else t.to(dtype) for name, t in tensors.items()}
        return replace(self, **changes)

    def replace(self, **changes) -> "Problem":
        return replace(self, **changes)
