"""The torch backends, `portable` and `enumeration`: they need C and the fields as matrices.

They work in the log domain, where float32 loses accuracy as γ gets small, so they compute in float64 wherever the
device has it and round at the end.
"""

from collections.abc import Iterable, Sequence
from types import ModuleType

import torch
from torch import Tensor

from udtw._engine.checks import can_read, check_gamma, check_lengths, make_masks, make_range_error
from udtw._engine.prior import LEFT, MASK, admissible, check_mask, starts_and_ends
from udtw._engine.problem import WARPS, Problem
from udtw._kernels import memory_estimate
from udtw._kernels.base import Backend
from udtw._kernels.reference import enumerated_gaps, enumeration, gaps, portable
from udtw._kernels.reference.gaps import GapModel

SKEWED_GRIDS = {
    "expectations": (10.0, 24.0),
    "coupling": (10.0, 25.5),
    "transitions": (13.0, 13.0),
    "matches": (14.0, 14.0),
    "choices": (6.0, 6.0),
    "least_cost": (6.0, 7.0),
}
"""Grids (B, N, N + M) of eight-byte numbers at the peak, without and with a gradient; see `memory_estimate`."""
GRIDS_PER_FIELD = (3.0, 5.0)
"""The same for every field whose expectation is taken."""
ROUNDING = 1e-9
"""Probabilities that differ by less are taken for equal."""


class TorchBackend(Backend):
    """Two modules with ``expectations``, ``coupling``, ``transitions`` and the least path of cost matrices.

    The ``method`` for alignments without gaps, and that for alignments with ``gaps``.
    """

    def __init__(self, name: str, method: ModuleType, gaps: ModuleType, all_pairs: bool) -> None:
        self.name, self.method, self.gaps, self.all_pairs = name, method, gaps, all_pairs

    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", len(wanted))
        self._check(problem)
        soft_min, means = self.sums_and_expectations(problem, wanted, [])
        result = torch.stack([soft_min, *means], 1)
        if can_read(result) and not bool(torch.isfinite(result).all()):
            raise make_range_error(problem.main.dtype)
        return result

    def sums_and_expectations(
        self, problem: Problem, wanted: Iterable[int], fields: list[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Return the free energy (B,) and expectations (B,) of the ``wanted`` built-in fields and of ``fields``.

        Values are not checked.
        """
        narrow, problem = problem.main.dtype, clean(_widest(problem))
        wanted = list(wanted)
        every = [problem.field(which) for which in wanted if which != WARPS] + [
            f.to(problem.main.dtype) for f in fields
        ]
        if problem.prior.gaps and not wanted and not fields:
            return (self.gaps.free_energy(_gap_model(problem)) + problem.constant_energy()).to(narrow), []
        soft_min, steps, means = self._expectations(problem, every)
        for place, which in enumerate(wanted):
            if which == WARPS:
                means.insert(place, steps[0])
        return (soft_min + problem.constant_energy()).to(narrow), [mean.to(narrow) for mean in means]

    def _expectations(self, problem: Problem, fields: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        if problem.prior.gaps:
            return self.gaps.expectations(_gap_model(problem), fields)
        return self.method.expectations(*_described(problem), fields)

    def energies(self, problem: Problem) -> tuple[Tensor, Tensor]:
        if not problem.prior.gaps and not problem.prior.skewed_ends:
            return super().energies(problem)
        self._refuse_if_too_large(problem, "expectations", 1)
        self._check(problem)
        problem = clean(_widest(problem))
        constant = problem.constant_energy()
        if problem.prior.gaps:
            model = _gap_model(problem)
            return self.gaps.free_energy(model) + constant, self.gaps.mean_energy(model) + constant
        free, steps, (energy,) = self._expectations(problem, [problem.energy()])
        by_up, by_left = problem.prior.step_prices(problem.gamma)
        prices = steps[1] * by_up + (steps[0] - steps[1]) * by_left
        return free + constant, energy + prices + constant

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
        narrow, problem = problem.main.dtype, clean(_widest(problem))
        if problem.prior.gaps:
            return self.gaps.coupling(_gap_model(problem)).to(narrow)
        return self.method.coupling(*_described(problem)).to(narrow)

    @torch.no_grad()
    def transitions(self, problem: Problem) -> tuple[Tensor, Tensor]:
        self._refuse_if_too_large(problem, "transitions")
        self._check(problem)
        narrow, problem = problem.main.dtype, clean(_widest(problem))
        if problem.prior.gaps:
            found, ends = self.gaps.transitions(_gap_model(problem))
        else:
            found, ends = self.method.transitions(*_described(problem))
        return found.to(narrow), ends.to(narrow)

    @torch.no_grad()
    def sample_matches(self, problem: Problem, k: int, generator: torch.Generator | None) -> list[list[Tensor]]:
        self._refuse_if_too_large(problem, "transitions")
        self._check(problem)
        return self.gaps.sample_matches(_gap_model(clean(_widest(problem))), k, generator)

    @torch.no_grad()
    def match_sums(self, problem: Problem, tail: float) -> Tensor:
        self._refuse_if_too_large(problem, "matches")
        return match_sums(self.coupling(problem), self.transitions(problem)[0], tail)

    @torch.no_grad()
    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        self._refuse_if_too_large(problem, "choices" if with_choice else "least_cost")
        return self._least_cost(problem)

    def dtw(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "least_cost")
        return self._least_cost(problem)[0]

    def _least_cost(self, problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
        self._check(problem)
        problem = clean(problem)
        if problem.prior.gaps:
            none = torch.zeros((2, *problem.shape), dtype=torch.uint8, device=problem.main.device)
            value = self.gaps.least_energy(_gap_model(problem)) + problem.constant_energy()
            return value, none[:, :, 0, 0].long(), none[0]
        energy, _, *prior = _described(problem)
        value, last, choice = self.method.least_cost(energy, *prior)
        return value + problem.constant_energy(), last, choice

    def bytes_needed(self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
        count, rows, columns = problem.shape
        gradient = memory_estimate.gradient_expected(problem, fields)
        tables = SKEWED_GRIDS[question][gradient] + GRIDS_PER_FIELD[gradient] * (built_in + len(fields))
        return int(tables * 8 * count * rows * (rows + columns))

    def _check(self, problem: Problem, fields: Sequence[Tensor] = ()) -> None:
        if not can_read(problem.main, problem.gamma, problem.lengths):
            return
        check_lengths(problem.lengths, *problem.shape[1:])
        check_gamma(problem.gamma)
        band, relax = problem.prior.band, problem.prior.relax
        if band.kind == MASK and band.mask is not None and not problem.prior.gaps:
            reach = None if relax is None else relax.cpu().numpy()
            check_mask(band.mask.cpu().numpy(), problem.lengths.cpu().numpy(), reach)
        problem.check_values(fields)


def _widest(problem: Problem) -> Problem:
    return problem if problem.main.device.type == "mps" else problem.to(torch.float64)


def clean(problem: Problem) -> Problem:
    """Ready-made costs and variances with usable numbers in cells that no path may use, for the sake of gradients."""
    if problem.cost is None and problem.variance is None:
        return problem
    inside = admissible(problem.prior.band, problem.lengths, *problem.shape[1:])
    grid = make_masks(problem.lengths, *problem.shape[1:], True)[2]
    assert grid is not None, "asked for"
    return problem.replace(
        cost=None if problem.cost is None else torch.where(inside, problem.cost, 0),
        variance=None if problem.variance is None else torch.where(grid, problem.variance, 1),
    )


def _described(problem: Problem) -> tuple[Tensor, Tensor, Tensor, Tensor, tuple[Tensor, Tensor]]:
    """Energy of the cells, γ, what steps cost, admissible cells, and where paths start and end: what a method reads."""
    shape = problem.shape[1:]
    return (
        problem.energy(),
        problem.gamma,
        problem.prior.step_prices(problem.gamma),
        admissible(problem.prior.band, problem.lengths, *shape),
        starts_and_ends(problem.prior.relax, problem.lengths, *shape),
    )


def _gap_model(problem: Problem) -> GapModel:
    """Return what a module of alignments with gaps reads."""
    energy, gamma, steps, inside, _ = _described(problem)
    penalty, opening, relax = problem.prior.gap_penalty, problem.prior.gap_opening, problem.prior.relax
    assert penalty is not None, "the prior has gaps"
    assert opening is not None, "it comes with the penalty"
    relax = torch.zeros_like(problem.lengths).repeat(2, 1) if relax is None else relax
    return GapModel(energy, gamma, steps, penalty, opening, inside, problem.lengths, relax)


def match_sums(coupling: Tensor, transitions: Tensor, tail: float) -> Tensor:
    """(B, N, 7) as in `Backend.match_sums`, from π* (B, N, M) and the transitions (3, B, N, M)."""
    coupling = coupling.double()
    total, best = coupling.sum(2), coupling.amax(2)
    index = (coupling >= best[:, :, None] * (1 - ROUNDING)).int().argmax(2)
    place = torch.arange(coupling.shape[2], dtype=coupling.dtype, device=coupling.device)
    reached = coupling.cumsum(2) / total[:, :, None].clamp_min(torch.finfo(total.dtype).tiny)
    low = (reached < tail + ROUNDING).sum(2)
    high = (reached < 1 - tail - ROUNDING).sum(2)
    entered = (coupling * (1 - transitions[LEFT].double())).sum(2)
    columns = total, coupling @ place, best, index, entered, low, high
    return torch.stack([column.double() for column in columns], 2)


PORTABLE = TorchBackend("portable", portable, gaps, all_pairs=True)
BACKENDS = {
    "portable": PORTABLE,
    "enumeration": TorchBackend("enumeration", enumeration, enumerated_gaps, all_pairs=False),
}
