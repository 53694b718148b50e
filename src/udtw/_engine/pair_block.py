"""Series in batches of tensors, and blocks of pairs by index: what a metric is evaluated on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import prior
from udtw._engine.align import _paths
from udtw._engine.problem import Problem
from udtw._engine.series_set import SeriesSet
from udtw._kernels.backends import choose
from udtw.errors import OptionError, ShapeError


@dataclass(frozen=True)
class Batch:
    """Series as tensors: ``values`` (B, T, d), ``lengths`` (B,) or None if full, ``variances`` (B, T) or None."""

    values: Tensor
    lengths: Tensor | None = None
    variances: Tensor | None = None

    @classmethod
    def of(cls, series: SeriesSet, dtype: torch.dtype = torch.float32) -> "Batch":
        """Return the series of a `SeriesSet`, on its device."""
        full = bool((series.lengths == series.values.shape[1]).all())
        values, lengths, variances = series.tensors
        return cls(values.to(dtype), None if full else lengths, None if variances is None else variances.to(dtype))

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Tensor) -> "Batch":
        index = index.to(self.values.device)
        return Batch(*(None if t is None else t[index] for t in (self.values, self.lengths, self.variances)))  # type: ignore[arg-type]

    def with_variances(self, variances: Tensor | None) -> "Batch":
        """Return the same series with other variances."""
        return Batch(self.values, self.lengths, variances)


@dataclass(frozen=True)
class PairBlock:
    """Pairs (left[i], right[j]) for the index arrays ``i`` and ``j``, evaluated by ``n_threads`` of a backend."""

    left: SeriesSet
    right: SeriesSet
    i: np.ndarray
    j: np.ndarray
    backend: str = "auto"
    n_threads: int = 1
    of_selves: bool = False
    """Whether every series is compared with itself."""

    def __len__(self) -> int:
        return len(self.i)

    @property
    def lengths(self) -> np.ndarray:
        """(2, pairs)."""
        return np.stack([self.left.lengths[self.i], self.right.lengths[self.j]])

    @property
    def uncertain(self) -> bool:
        """Whether the series have variances."""
        return self.left.variances is not None

    def path_sums(self, wanted: Sequence[int], gamma: float, **options: Any) -> np.ndarray:
        """(1 + len(wanted), pairs): free energy and the expectations of built-in fields (`udtw._engine.problem`)."""
        problem = self._problem(gamma, **options)
        backend = choose(self.backend, problem.main, problem.prior)
        return backend.indexed_sums(problem, wanted, self.n_threads).cpu().numpy().T

    def least_costs(self, **options: Any) -> np.ndarray:
        """(pairs,): classical DTW; ``options`` as in `_problem`."""
        problem = self._problem(1.0, **options)
        backend = choose(self.backend, problem.main, problem.prior)
        return backend.indexed_least_cost(problem, self.n_threads).cpu().numpy()

    def _problem(
        self,
        gamma: float,
        *,
        band: Any = None,
        beta: float | None = None,
        warp_penalty: float | tuple[float, float] = 0.0,
        relax: Any = None,
        gap_penalty: float | None = None,
        gap_opening: float = 0.0,
    ) -> Problem:
        device = self.left.device

        def every(number: float | None) -> Tensor | None:
            if number is None:
                return None
            return torch.full((len(self),), float(number), dtype=torch.float64, device=device)

        (x, of_x, var_x), (y, of_y, var_y) = self.left.tensors, self.right.tensors
        index = torch.as_tensor(np.stack([self.i, self.j]), device=device)
        temperature, lengths = every(gamma), torch.stack([of_x[index[0]], of_y[index[1]]])
        assert temperature is not None, "a number was given"
        warps = warp_penalty if isinstance(warp_penalty, tuple) else (warp_penalty, warp_penalty)
        if gap_penalty is not None and not (gap_penalty >= 0 and gap_opening >= 0):
            raise OptionError(f"gap_penalty and gap_opening must not be negative; got {gap_penalty}, {gap_opening}.")
        loose = prior.own_relax(relax, lengths) if self.of_selves else prior.parse_relax(relax, lengths)
        if loose is not None:
            prior.check_relax(loose, lengths)
        return Problem(
            gamma=temperature,
            lengths=lengths,
            prior=prior.Prior(
                parsed_band(band),
                every(0.5 * sum(warps) or None),
                loose,
                every(0.5 * (warps[1] - warps[0]) or None),
                every(gap_penalty),
                None if gap_penalty is None else every(gap_opening),
            ),
            x=x,
            y=y,
            var_x=var_x,
            var_y=var_y,
            beta=every(beta),
            index=index,
        )


def least_cells(x: Batch, y: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
    """Return the least path energies of the pairs (x[b], y[b]), (B,), and the cells of these paths.

    The cells are (3, K): pair, row and column. ``options`` are those of `udtw.dtw`. Not differentiable.
    """
    paths = _paths(x.values, y, lengths_x=x.lengths, **options)
    return paths._backend.least_cells(paths._for_kernels)


def matched(left: SeriesSet, right: SeriesSet) -> tuple[SeriesSet, SeriesSet]:
    """Both with the same dtype, and with variances on both sides or on neither; their features must agree."""
    if left.values.shape[2] != right.values.shape[2]:
        raise ShapeError(
            f"X and Y must have the same number of features; got {left.values.shape[2]} and {right.values.shape[2]}."
        )
    dtype = np.result_type(left.values, right.values)
    left, right = left.astype(dtype), right.astype(dtype)
    if left.variances is not None or right.variances is not None:
        left, right = left.with_unit_variances(), right.with_unit_variances()
    return left, right


def parsed_band(band: Any) -> prior.Band:
    """Return a band that applies to pairs of any size: a radius, a fraction or "itakura"."""
    if band is not None and not isinstance(band, int | float | str | np.number):
        raise OptionError("pairwise takes a radius, a fraction or 'itakura' as band; a mask belongs to udtw.align.")
    return prior.parse(band, 1, 1, 1, torch.device("cpu"))
