"""One object for "which distance, with which options": differentiable between pairs, or a table of all pairs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw.align import align, dtw, euclidean
from udtw.errors import OptionError
from udtw.pairwise import METRICS, pairwise
from udtw.series import SeriesSet


@dataclass(frozen=True)
class Metric:
    """A metric of `udtw.pairwise` and its options. For "udtw" the value is the objective ``d² + βΩ + λΩ'``."""

    name: str = "udtw"
    gamma: float = 1.0
    beta: float = 1.0
    lam: float = 0.0
    band: Any = None
    normalize: str | None = None

    def __post_init__(self) -> None:
        if self.name not in METRICS:
            raise OptionError(f"metric must be one of {METRICS}; got {self.name!r}.")

    @property
    def elastic(self) -> bool:
        """Whether series of different lengths can be compared."""
        return self.name != "euclidean"

    def between(self, x: "Batch", y: "Batch") -> Tensor:
        """(B,) distances of x[b] to y[b], differentiable in values and variances."""
        lengths: dict[str, Any] = {"lengths_x": x.lengths, "lengths_y": y.lengths, "normalize": self.normalize}
        if self.name == "euclidean":
            return euclidean(x.values, y.values, **lengths)
        if self.name == "dtw":
            return dtw(x.values, y.values, band=self.band, **lengths)
        sharp = self.name == "udtw"
        return align(
            x.values,
            y.values,
            x.variances if sharp else None,
            y.variances if sharp else None,
            gamma=self.gamma,
            beta=self.beta if sharp else 0.0,
            lam=self.lam if sharp else 0.0,
            band=self.band,
            distance="expected" if sharp else "soft_min",
            debias=self.name == "soft_dtw_divergence",
            **lengths,
        ).loss

    def table(self, x: SeriesSet, y: SeriesSet | None, n_jobs: int | None = None) -> np.ndarray:
        """(n, m) distances of all pairs, or (n, n) of x with itself. No gradients."""
        sharp = self.name == "udtw"
        options: dict[str, Any] = {"normalize": self.normalize, "n_jobs": n_jobs}
        if self.name != "euclidean":
            options |= {"gamma": self.gamma, "band": self.band}
        if sharp:
            options |= {"beta": self.beta, "lam": self.lam, "var_x": x.variance_rows()}
            if y is not None:
                options["var_y"] = y.variance_rows()
        return pairwise(x.rows(), None if y is None else y.rows(), metric=self.name, **options)


@dataclass(frozen=True)
class Batch:
    """A `SeriesSet` as tensors: ``values`` (B, T, d), ``lengths`` (B,) or None if full, ``variances`` (B, T)."""

    values: Tensor
    lengths: Tensor | None = None
    variances: Tensor | None = None

    @classmethod
    def of(cls, series: SeriesSet, dtype: torch.dtype = torch.float32) -> "Batch":
        full = bool((series.lengths == series.values.shape[1]).all())
        return cls(
            torch.as_tensor(series.values, dtype=dtype),
            None if full else torch.as_tensor(series.lengths),
            None if series.variances is None else torch.as_tensor(series.variances, dtype=dtype),
        )

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Tensor) -> "Batch":
        return Batch(*(None if t is None else t[index] for t in (self.values, self.lengths, self.variances)))  # type: ignore[arg-type]

    def with_variances(self, variances: Tensor | None) -> "Batch":
        return Batch(self.values, self.lengths, variances)
