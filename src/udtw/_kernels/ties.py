"""Answers about pairs with tie points: those of any backend about the same pairs with the ties in mask and cost."""

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from udtw._engine.prior import MASK, Band, admissible
from udtw._engine.problem import WARPS, Problem
from udtw._kernels import memory_estimate
from udtw._kernels.base import Backend
from udtw._kernels.reference.torch_backends import clean

NATS_LEFT = 50.0
"""With gaps a step with a hard tie is left out with a probability below exp(−50)."""


def fold_ties(problem: Problem) -> tuple[Problem, Tensor | None]:
    """Return a problem without ties that has the same paths, and what its free energies lack (B,).

    Hard ties alone become a mask, and None is returned, since nothing is lacking and the fields of the problem stay.
    Otherwise the energy of the cells becomes a ready-made cost. With gaps, where a step may be left out, a match that a
    hard tie demands gets a bonus. Dropping the other matches of step j and adding (i, j) turns any path without that
    match into one with it; the bonus exceeds what this may cost by `NATS_LEFT` and the number of paths that become the
    same.
    """
    prior, ties = problem.prior, problem.prior.ties
    assert ties is not None, "the caller has ties"
    inside = admissible(prior.band, problem.lengths, *problem.shape[1:]) & ~ties.isposinf()
    without = replace(prior, ties=None, band=Band(MASK, 0.0, inside))
    soft = torch.where(ties.isfinite(), ties, 0)
    hard = ties.isneginf().expand(problem.shape)
    if not bool(soft.any()) and not (prior.gaps and bool(hard.any())):
        return problem.replace(prior=without), None
    energy = torch.where(inside, problem.energy() + problem.gamma[:, None, None] * soft, 0)
    lacking = problem.constant_energy()
    if prior.gaps:
        assert prior.gap_penalty is not None, "the prior has gaps"
        assert prior.gap_opening is not None, "it comes with the penalty"
        with torch.no_grad():
            rows = problem.shape[1]
            per_step = prior.gap_penalty + prior.step_prices(problem.gamma).abs().amax(0)
            nats = NATS_LEFT + math.log(2 * rows**2)
            least = rows * per_step + 4 * prior.gap_opening + problem.gamma * nats
            bonus = least[:, None, None] + energy.abs() + energy.clamp_max(0).abs().sum(1, keepdim=True)
            bonus = torch.where(hard, bonus, 0)
        energy, lacking = energy - bonus, lacking + bonus.sum((1, 2))
    matrix = {"x": None, "y": None, "var_x": None, "var_y": None, "variance": None, "beta": None, "cost": energy}
    return problem.replace(prior=without, **matrix), lacking


class TiedBackend(Backend):
    """Asks ``inner``, which knows of no ties."""

    all_pairs = False

    def __init__(self, inner: Backend) -> None:
        self.name, self.inner = inner.name, inner

    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        folded, lacking = self._fold(problem)
        if lacking is None:
            return self.inner.sums(folded, wanted)
        path_fields = [which for which in wanted if which == WARPS]
        free, *warps = self.inner.sums(folded, path_fields).unbind(1)
        problem = clean(problem)
        fields = [problem.field(which).to(problem.main) for which in wanted if which != WARPS]
        means = list(self.inner.expectations(folded, fields).unbind(1)) if fields else []
        columns = [(warps if which == WARPS else means).pop(0) for which in wanted]
        return torch.stack([free + lacking, *columns], 1)

    def free_energy(self, problem: Problem) -> Tensor:
        folded, lacking = self._fold(problem)
        return _with(lacking, self.inner.free_energy(folded))

    def expectations(self, problem: Problem, fields: Sequence[Tensor]) -> Tensor:
        return self.inner.expectations(self._fold(problem)[0], fields)

    def energies(self, problem: Problem) -> tuple[Tensor, Tensor]:
        folded, lacking = self._fold(problem)
        free, mean = self.inner.energies(folded)
        return _with(lacking, free), _with(lacking, mean)

    def coupling(self, problem: Problem) -> Tensor:
        return self.inner.coupling(self._fold(problem)[0])

    def transitions(self, problem: Problem) -> tuple[Tensor, Tensor]:
        return self.inner.transitions(self._fold(problem)[0])

    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        folded, lacking = self._fold(problem)
        value, last, choice = self.inner.least_cost(folded, with_choice)
        return _with(lacking, value), last, choice

    def least_cells(self, problem: Problem) -> tuple[Tensor, Tensor]:
        folded, lacking = self._fold(problem)
        value, cells = self.inner.least_cells(folded)
        return _with(lacking, value), cells

    def dtw(self, problem: Problem) -> Tensor:
        folded, lacking = self._fold(problem)
        return _with(lacking, self.inner.dtw(folded))

    def least_path(self, problem: Problem) -> Tensor:
        return self.inner.least_path(self._fold(problem)[0])

    def sample_matches(self, problem: Problem, k: int, generator: torch.Generator | None) -> list[list[Tensor]]:
        return self.inner.sample_matches(self._fold(problem)[0], k, generator)

    def match_sums(self, problem: Problem, tail: float) -> Tensor:
        with torch.no_grad():
            return self.inner.match_sums(self._fold(problem)[0], tail)

    def bytes_needed(self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
        return self.inner.bytes_needed(problem, question, built_in, fields)

    @staticmethod
    def _fold(problem: Problem) -> tuple[Problem, Tensor | None]:
        if problem.prior.ties is None:  # a series with itself
            return problem, None
        memory_estimate.refuse_cost_matrix(problem)
        return fold_ties(clean(problem))


def _with(lacking: Tensor | None, values: Tensor) -> Tensor:
    return values if lacking is None else values + lacking
