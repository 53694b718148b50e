"""The torch backends, `portable` and `enumeration`: they need C and the fields as matrices.

They work in the log domain, where float32 loses accuracy as γ gets small, so they compute in float64 wherever the
device has it and round at the end.
"""

from collections.abc import Iterable, Sequence
from types import ModuleType

import torch
from torch import Tensor

from udtw.inputs import check_gamma, check_lengths, range_error, visible
from udtw.kernels import memory_estimate
from udtw.kernels.base import Backend
from udtw.kernels.reference import enumeration, portable
from udtw.prior import MASK, admissible, check_mask
from udtw.problem import COST, DEVIATION, LOG_VARIANCE, Problem

SKEWED_GRIDS = {
    "expectations": (5.5, 18.0),
    "coupling": (8.5, 22.0),
    "transitions": (11.0, 11.0),
    "choices": (4.5, 4.5),
    "least_cost": (4.5, 5.0),
}
"""Grids (B, N, N + M) of eight-byte numbers at the peak, without and with a gradient; see `memory_estimate`."""
GRIDS_PER_FIELD = (3.0, 5.0)
"""The same for every field whose expectation is taken."""


class TorchBackend(Backend):
    """A module with ``expectations``, ``coupling``, ``transitions`` and ``least_cost`` of cost matrices."""

    def __init__(self, name: str, method: ModuleType, all_pairs: bool) -> None:
        self.name, self.method, self.all_pairs = name, method, all_pairs

    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", len(wanted))
        self._check(problem)
        soft_min, means = self.sums_and_expectations(problem, wanted, [])
        result = torch.stack([soft_min, *means], 1)
        if visible(result) and not bool(torch.isfinite(result).all()):
            raise range_error(problem.main.dtype)
        return result

    def sums_and_expectations(
        self, problem: Problem, wanted: Iterable[int], fields: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """soft_min (B,), and the expectations (B,) of the ``wanted`` built-in fields and of ``fields`` (B, N, M).

        Values are not checked.
        """
        narrow, problem = problem.main.dtype, _widest(problem)
        inside = _admissible(problem)
        variance = problem.pair_variance()
        base = torch.where(inside, problem.base_cost(), 0)
        if variance is not None:
            variance = torch.where(inside, variance, 1)
            base = base / variance
        every = [_field(which, base, variance) for which in wanted] + [field.to(base.dtype) for field in fields]
        soft_min, means = self.method.expectations(base, problem.gamma, inside, problem.lengths, every)
        return soft_min.to(narrow), [mean.to(narrow) for mean in means]

    def expectations(self, problem: Problem, fields: Sequence[Tensor]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", fields=fields)
        self._check(problem, fields)
        return torch.stack(self.sums_and_expectations(problem, [], list(fields))[1], 1)

    def coupling(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "coupling")
        self._check(problem)
        return self.unchecked_coupling(problem)

    def unchecked_coupling(self, problem: Problem) -> Tensor:
        """π* (B, N, M) of values that are known to be usable."""
        wide = _widest(problem)
        result = self.method.coupling(wide.weighted_cost(), wide.gamma, _admissible(wide), wide.lengths)
        return result.to(problem.main.dtype)

    @torch.no_grad()
    def transitions(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "transitions")
        self._check(problem)
        wide = _widest(problem)
        result = self.method.transitions(wide.weighted_cost(), wide.gamma, _admissible(wide), wide.lengths)
        return result.to(problem.main.dtype)

    @torch.no_grad()
    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor]:
        self._refuse_if_too_large(problem, "choices" if with_choice else "least_cost")
        return self._least_cost(problem)

    def dtw(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "least_cost")
        return self._least_cost(problem)[0]

    def _least_cost(self, problem: Problem) -> tuple[Tensor, Tensor]:
        self._check(problem)
        return self.method.least_cost(problem.weighted_cost(), _admissible(problem), problem.lengths)

    def bytes_needed(self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
        count, rows, columns = problem.shape
        gradient = memory_estimate.gradient_expected(problem, fields)
        tables = SKEWED_GRIDS[question][gradient] + GRIDS_PER_FIELD[gradient] * (built_in + len(fields))
        return int(tables * 8 * count * rows * (rows + columns))

    def _check(self, problem: Problem, fields: Sequence[Tensor] = ()) -> None:
        if not visible(problem.main, problem.gamma, problem.lengths):
            return
        check_lengths(problem.lengths, *problem.shape[1:])
        check_gamma(problem.gamma)
        if problem.band.kind == MASK and problem.band.mask is not None:
            check_mask(problem.band.mask.cpu().numpy(), problem.lengths.cpu().numpy())
        problem.check_values(fields)


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


PORTABLE = TorchBackend("portable", portable, all_pairs=True)
BACKENDS = {"portable": PORTABLE, "enumeration": TorchBackend("enumeration", enumeration, all_pairs=False)}
