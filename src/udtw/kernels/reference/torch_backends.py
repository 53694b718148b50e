"""The torch backends, `portable` and `enumeration`, on a `Problem`: they need C and the fields as matrices.

They work in the log domain, where float32 loses accuracy as γ gets small, so they compute in float64 wherever the
device has it and round at the end.
"""

from collections.abc import Iterable
from types import ModuleType

import torch
from torch import Tensor

from udtw.kernels.problem import COST, DEVIATION, LOG_VARIANCE, Problem
from udtw.kernels.reference import enumeration, portable
from udtw.prior import admissible

BACKENDS: dict[str, ModuleType] = {"portable": portable, "enumeration": enumeration}


def _widest(problem: Problem) -> Problem:
    return problem if problem.main.device.type == "mps" else problem.to(torch.float64)


def _admissible(problem: Problem) -> Tensor:
    return admissible(problem.band, problem.lengths, *problem.shape[1:])


def _field(which: int, cost: Tensor, variance: Tensor | None) -> Tensor:
    if which == COST:
        return cost
    if which in (LOG_VARIANCE, DEVIATION):
        if variance is None:
            return torch.zeros_like(cost)
        return variance.log() if which == LOG_VARIANCE else (variance - 1).square()
    return torch.ones_like(cost)


def sums_and_expectations(
    problem: Problem, wanted: Iterable[int], fields: list[Tensor], backend: str
) -> tuple[Tensor, list[Tensor]]:
    """soft_min (B,), and the expectations (B,) of the ``wanted`` built-in fields and of ``fields`` (B, N, M)."""
    narrow, problem = problem.main.dtype, _widest(problem)
    inside = _admissible(problem)
    variance = problem.pair_variance()
    base = torch.where(inside, problem.base_cost(), 0)
    if variance is not None:
        variance = torch.where(inside, variance, 1)
        base = base / variance
    every = [_field(which, base, variance) for which in wanted] + [field.to(base.dtype) for field in fields]
    soft_min, means = BACKENDS[backend].expectations(base, problem.gamma, inside, problem.lengths, every)
    return soft_min.to(narrow), [mean.to(narrow) for mean in means]


def coupling(problem: Problem, backend: str) -> Tensor:
    """π* (B, N, M)."""
    wide = _widest(problem)
    result = BACKENDS[backend].coupling(wide.weighted_cost(), wide.gamma, _admissible(wide), wide.lengths)
    return result.to(problem.main.dtype)


def transitions(problem: Problem, backend: str) -> Tensor:
    """(3, B, N, M)."""
    wide = _widest(problem)
    result = BACKENDS[backend].transitions(wide.weighted_cost(), wide.gamma, _admissible(wide), wide.lengths)
    return result.to(problem.main.dtype)


def least_cost(problem: Problem, backend: str) -> tuple[Tensor, Tensor]:
    """(B,), (B, N, M) uint8."""
    return BACKENDS[backend].least_cost(problem.weighted_cost(), _admissible(problem), problem.lengths)
