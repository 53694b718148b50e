"""Accuracy over episodes, with its 95 % confidence interval."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from udtw.errors import ShapeError

NORMAL_975 = 1.959964
"""97.5 % quantile of the normal distribution."""


@dataclass(frozen=True)
class Accuracy:
    """``mean ± half_width`` over ``n_episodes``; the interval is ``1.96·std/√n``, as the field reports it."""

    mean: float
    half_width: float
    n_episodes: int

    def __str__(self) -> str:
        return f"{100 * self.mean:.1f} ± {100 * self.half_width:.1f} %"


def accuracy_of(per_episode: Sequence[float] | np.ndarray) -> Accuracy:
    """Mean and interval of the accuracies of single episodes, each in [0, 1]."""
    values = np.asarray(per_episode, dtype=float)
    if values.ndim != 1 or values.size == 0:
        raise ShapeError(f"One accuracy an episode is needed, shape (n,) with n ≥ 1; got {values.shape}.")
    spread = float(values.std(ddof=1)) if values.size > 1 else float("nan")
    return Accuracy(float(values.mean()), NORMAL_975 * spread / values.size**0.5, values.size)
