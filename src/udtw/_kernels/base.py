"""`Backend`: one method per question that can be asked about a `Problem`."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from udtw._engine.prior import Prior
from udtw._engine.problem import COST, LOG_VARIANCE, ONE, WARPS, Problem
from udtw._kernels import memory_estimate
from udtw.errors import BackendError


class Backend(ABC):
    """Answers every question about a batch of pairs. A new backend is a subclass and a line in `backends`.

    Results have the dtype and device of the problem. Unless said otherwise they are differentiable in everything that
    the problem holds. Each method raises `SizeError` before memory runs out and a named error for unusable values.
    """

    name: str
    all_pairs = True
    """Whether `udtw.pairwise` may use it."""
    needs_check = False
    """Whether ``backend="auto"`` uses it only after `backends.self_check` on the device."""

    def misfit(self, main: Tensor) -> str | None:
        """Why it cannot compute on tensors like ``main`` (dtype, device); None if it can."""
        return None

    def refusal(self, prior: Prior) -> str | None:
        """Why it cannot answer questions about the paths of such a prior; None if it can."""
        return None

    @abstractmethod
    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        """(B, 1 + len(wanted)): free energy, then expectations of built-in fields (numbers as in `problem`)."""

    def free_energy(self, problem: Problem) -> Tensor:
        """(B,): ``−γ log Z``, the soft-min of the path energies."""
        return self.sums(problem, [])[:, 0]

    def loss_terms(self, problem: Problem, beta: float) -> tuple[Tensor, Tensor, Tensor] | None:
        """``E[C] + β E[log Σ]``, E[C] and E[log Σ], (B,) each, with the gradient of the first already computed.

        Any other gradient is as exact, but is computed when it is asked for. None if this backend gains nothing from
        computing values and gradient together, or if no gradient is to be expected.
        """
        return None

    @abstractmethod
    def expectations(self, problem: Problem, fields: Sequence[Tensor]) -> Tensor:
        """(B, K): expectations of K fields (B, N, M)."""

    def energies(self, problem: Problem) -> tuple[Tensor, Tensor]:
        """(B,) each: the free energy, and the mean energy of a path."""
        priced = problem.beta is not None and problem.uncertain
        penalty = problem.prior.warp_penalty
        fields = [COST, *([WARPS] if penalty is not None else []), *([ONE, LOG_VARIANCE] * priced)]
        free, *means = self.sums(problem, fields).unbind(1)
        mean = dict(zip(fields, means, strict=True))
        energy = mean[COST]
        if penalty is not None:
            energy = energy + penalty * mean[WARPS]
        if (skew := problem.skew_energy()) is not None:
            energy = energy + skew
        if problem.beta is not None and priced:
            relative = mean[LOG_VARIANCE] - problem.log_level() * mean[ONE]
            energy = energy + problem.beta * relative + problem.constant_energy()
        return free, energy

    @abstractmethod
    def coupling(self, problem: Problem) -> Tensor:
        """(B, N, M): π*."""

    @abstractmethod
    def transitions(self, problem: Problem) -> tuple[Tensor, Tensor]:
        """(3, B, N, M): probability that a path through a cell came from the corner, from above, from the left.

        A path that came from a corner outside of the grid starts there. And (B, N, M): the probability that a path
        ends in a cell. Not differentiable. With gaps, where these are the cells of the matches, a fourth table says
        with which probability no match comes before.
        """

    @abstractmethod
    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """(B,) least path energies, the cells (2, B) in which these paths end and, if asked for, the choices.

        Those are (B, N, M) uint8 0 corner, 1 up, 2 left, in the cells of these paths. Not differentiable.
        """

    def least_cells(self, problem: Problem) -> tuple[Tensor, Tensor]:
        """(B,) least path energies, and the cells of these paths: (3, K) pair, row and column. Not differentiable."""
        return self.least_cost(problem)[0], self.least_path(problem).nonzero().T

    @abstractmethod
    def dtw(self, problem: Problem) -> Tensor:
        """(B,) least path energies, differentiable: summed over the least path, which is held fixed."""

    def dtw_of_pair(self, x: np.ndarray, y: np.ndarray) -> np.floating | None:
        """Return `dtw` of two contiguous arrays (N, d) and (M, d); None if it is no faster or values are unusable."""
        return None

    def least_path(self, problem: Problem) -> Tensor:
        """(B, N, M): one along the path of least energy, zero elsewhere. Not differentiable."""
        with torch.enable_grad():
            energy = problem.energy().detach().requires_grad_()
            plain = problem.replace(cost=energy, x=None, y=None, var_x=None, var_y=None, variance=None, beta=None)
            return torch.autograd.grad(self.dtw(plain).sum(), [energy])[0]

    def sample_matches(self, problem: Problem, k: int, generator: torch.Generator | None) -> list[list[Tensor]]:
        """``k`` sets of matches (L, 2) for each of B pairs with gaps, in the order of their steps."""
        raise BackendError(f"backend={self.name!r} does not answer questions about gaps.")

    @abstractmethod
    def match_sums(self, problem: Problem, tail: float) -> Tensor:
        """(B, N, 7) float64: what `udtw._engine.matches.Matches` says of each step of x. Not differentiable.

        Columns: sum of the row of π*, sum of π*·column, largest entry, its first column, probability that the row is
        visited, and the first columns at which the row's running share is at least ``tail`` and ``1 − tail``.
        """

    def indexed_sums(self, problem: Problem, wanted: Sequence[int], n_threads: int) -> Tensor:
        """Return `sums` of a problem with an index, in bounded memory. Not differentiable."""
        return self._in_slices(problem, lambda part: self.sums(part, wanted), n_threads)

    def indexed_least_cost(self, problem: Problem, n_threads: int) -> Tensor:
        """(B,) values of `least_cost` of a problem with an index, in bounded memory. Not differentiable."""
        return self._in_slices(problem, lambda part: self.least_cost(part)[0], n_threads)

    @abstractmethod
    def bytes_needed(self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
        """Bytes at the peak of answering, and of the gradient if one is to be expected.

        ``question`` is "expectations" (of so many ``built_in`` fields and of ``fields``), "coupling", "transitions",
        "matches", "choices" or "least_cost".
        """

    def _refuse_if_too_large(
        self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()
    ) -> None:
        if memory_estimate.worth_estimating(problem):
            memory_estimate.refuse(self.bytes_needed(problem, question, built_in, fields), problem, question)

    @staticmethod
    def _in_slices(problem: Problem, solve, n_threads: int) -> Tensor:
        before = torch.get_num_threads()
        torch.set_num_threads(n_threads)
        try:
            with torch.no_grad():
                return torch.cat([solve(part) for part in problem.slices()])
        finally:
            torch.set_num_threads(before)


def refuse_gaps(prior: Prior) -> str | None:
    """Why kernels of paths without gaps, with one ω for both directions, cannot answer; None if they can.

    Without relaxed ends two prices are one, their mean, and a constant (`with_skew`).
    """
    if prior.gaps:
        return "knows no gaps (gap_penalty)"
    return "takes one warp_penalty for both directions where ends are relaxed" if prior.skewed_ends else None


def with_skew(problem: Problem, values: Tensor) -> Tensor:
    """Add what the skew of ω adds to every path to free energies (B,), or to the first of the columns (B, K)."""
    skew = problem.skew_energy()
    if skew is None:
        return values
    skew = skew.to(values)
    return values + skew if values.ndim == 1 else torch.cat([values[:, :1] + skew[:, None], values[:, 1:]], 1)
