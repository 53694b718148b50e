"""The data of all benchmarks: z-normalized random walks with variances between 0.5 and 1.5."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


def walks(count: int, length: int, seed: int, dim: int = 1) -> np.ndarray:
    """Return random walks (count, length, dim) float32, divided by √dim to keep squared distances independent of it."""
    steps = np.random.default_rng(seed).standard_normal((count, length, dim))
    path = steps.cumsum(1)
    path = (path - path.mean(1, keepdims=True)) / path.std(1, keepdims=True)
    return (path / np.sqrt(dim)).astype(np.float32)


def variances(count: int, length: int, seed: int) -> np.ndarray:
    """Return variances (count, length) float32, uniform between 0.5 and 1.5."""
    return (np.random.default_rng(seed).random((count, length)) + 0.5).astype(np.float32)


@dataclass(frozen=True)
class Batch:
    """Leaves of a training step: two batches of sequences and the variances of their steps."""

    x: Tensor
    y: Tensor
    var_x: Tensor
    var_y: Tensor

    @classmethod
    def make(
        cls, count: int, length: int, seed: int, dim: int = 1, dtype: torch.dtype = torch.float32, grad: bool = True
    ) -> "Batch":
        arrays = (
            walks(count, length, seed, dim),
            walks(count, length, seed + 1, dim),
            variances(count, length, seed + 2),
            variances(count, length, seed + 3),
        )
        return cls(*(torch.from_numpy(array).to(dtype).requires_grad_(grad) for array in arrays))

    @property
    def leaves(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.x, self.y, self.var_x, self.var_y

    def clear(self) -> None:
        """Forget the gradients, as an optimizer's zero_grad does."""
        for leaf in self.leaves:
            leaf.grad = None
