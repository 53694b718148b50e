"""The ``numba`` backend: exact sweeps on SIMD vectors, for float32 and float64 on the CPU."""

import os
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

import udtw._kernels.cpu.vmap  # noqa: F401 (registers the rules of the operators)
from udtw._engine.checks import FLOATS
from udtw._engine.prior import Prior
from udtw._engine.problem import Problem
from udtw._kernels import memory_estimate
from udtw._kernels.base import Backend, refuse_gaps, with_skew
from udtw._kernels.cpu import autograd, gaps, launch, operators, short
from udtw._kernels.cpu.match_sums import BEST, BEST_INDEX, ENTERED, HIGH, LOW, MOMENT, TOTAL
from udtw._kernels.cpu.rows import STATE_ROWS
from udtw._kernels.reference.torch_backends import PORTABLE

GRIDS = {"expectations": 0.0, "coupling": 1.0, "transitions": 4.0, "matches": 0.0, "choices": 0.5, "least_cost": 0.0}
"""Grids of the cost's type that the kernels make; "choices" are single bytes."""


MATCH_RESULTS = [TOTAL, MOMENT, BEST, BEST_INDEX, ENTERED, LOW, HIGH]


class NumbaBackend(Backend):
    """Calls the torch operators of `autograd`, which run the kernels; see README.md beside this folder."""

    name = "numba"

    def misfit(self, main: Tensor) -> str | None:
        if main.device.type != "cpu":
            return f"it runs on the CPU, and the data is on {main.device}"
        return None if main.dtype in FLOATS else f"it computes in float32 and float64, and the data is {main.dtype}"

    def refusal(self, prior: Prior) -> str | None:
        if prior.gaps:
            return None if prior.relax is None else "does not combine gaps (gap_penalty) with relaxed ends"
        return refuse_gaps(prior)

    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", len(wanted))
        if problem.prior.gaps:
            return gaps.sums(problem, wanted)
        return with_skew(problem, autograd.sums(*operators.arguments(problem), list(wanted)))

    def free_energy(self, problem: Problem) -> Tensor:
        if problem.prior.gaps:
            self._refuse_if_too_large(problem, "expectations")
            return gaps.free_energy(problem)
        gamma, *prices = problem.prices
        want_prices = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in prices)
        want_gamma = torch.is_grad_enabled() and gamma.requires_grad
        in_float64 = want_gamma and problem.prior.relax is not None  # see `operators.path_gradients`
        if in_float64 or not (problem.wants_gradient or want_prices or want_gamma):
            return super().free_energy(problem)
        self._refuse_if_too_large(problem, "expectations")
        return with_skew(problem, autograd.loss_terms(problem, 0.0, True, want_gamma, want_prices)[0])

    def loss_terms(self, problem: Problem, beta: float) -> tuple[Tensor, Tensor, Tensor] | None:
        if not can_fuse(problem, beta):
            return None
        self._refuse_if_too_large(problem, "expectations")
        weight = beta if problem.uncertain else 0.0
        loss, cost, log_variance, *_ = autograd.loss_terms(problem, weight, False, False, False)
        return loss, cost, log_variance

    def expectations(self, problem: Problem, fields: Sequence[Tensor]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", fields=fields)
        if problem.prior.gaps:
            return gaps.expectations(problem, fields)
        return autograd.expectations(torch.stack(list(fields)), *operators.arguments(problem))

    def coupling(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "coupling")
        if problem.prior.gaps:
            return gaps.coupling(problem)
        return autograd.coupling(*operators.arguments(problem))

    @torch.no_grad()
    def transitions(self, problem: Problem) -> tuple[Tensor, Tensor]:
        if problem.prior.gaps:
            return PORTABLE.transitions(problem)
        self._refuse_if_too_large(problem, "transitions")
        found, ends = operators.run(problem, None, launch.transitions)
        return torch.from_numpy(found), torch.from_numpy(_on_grid(ends, problem, found.dtype))

    def energies(self, problem: Problem) -> tuple[Tensor, Tensor]:
        return gaps.energies(problem) if problem.prior.gaps else super().energies(problem)

    def sample_matches(self, problem: Problem, k: int, generator: torch.Generator | None) -> list[list[Tensor]]:
        return PORTABLE.sample_matches(problem, k, generator)

    @torch.no_grad()
    def match_sums(self, problem: Problem, tail: float) -> Tensor:
        self._refuse_if_too_large(problem, "matches")
        if problem.prior.gaps:
            return torch.from_numpy(gaps.match_sums(problem, tail))[:, :, MATCH_RESULTS]
        return torch.from_numpy(operators.run(problem, None, launch.match, tail))[:, :, MATCH_RESULTS]

    @torch.no_grad()
    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        if problem.prior.gaps:
            return PORTABLE.least_cost(problem, with_choice)
        self._refuse_if_too_large(problem, "choices" if with_choice else "least_cost")
        values, last, choice = operators.run(problem, None, launch.least_cost, with_choice)
        return with_skew(problem, torch.from_numpy(values)), torch.from_numpy(last), torch.from_numpy(choice)

    @torch.no_grad()
    def least_cells(self, problem: Problem) -> tuple[Tensor, Tensor]:
        if problem.prior.gaps:
            return PORTABLE.least_cells(problem)
        self._refuse_if_too_large(problem, "choices")
        values, cells = operators.run(problem, None, launch.least_cells)
        return with_skew(problem, torch.from_numpy(values)), torch.from_numpy(cells)

    def dtw(self, problem: Problem) -> Tensor:
        if problem.prior.gaps:
            return PORTABLE.dtw(problem)
        self._refuse_if_too_large(problem, "least_cost")
        penalty = problem.prior.warp_penalty
        by_penalty = penalty is not None and penalty.requires_grad and torch.is_grad_enabled()
        if not (problem.wants_gradient or by_penalty):
            return with_skew(problem, operators.path_least(*operators.arguments(problem)))
        path = self.least_path(problem)
        value = with_skew(problem, (problem.energy() * path).sum((1, 2)) + problem.constant_energy())
        if penalty is None:
            return value
        return value + penalty * (2 * path.sum((1, 2)) - path.amax(1).sum(1) - path.amax(2).sum(1))

    def dtw_of_pair(self, x: np.ndarray, y: np.ndarray) -> np.floating | None:
        return short.dtw(x, y)

    def least_path(self, problem: Problem) -> Tensor:
        if problem.prior.gaps:
            return PORTABLE.least_path(problem)
        detached = (t.detach() if isinstance(t, Tensor) else t for t in operators.arguments(problem))
        return operators.path_least_mask(*detached)

    def indexed_sums(self, problem: Problem, wanted: Sequence[int], n_threads: int) -> Tensor:
        if not problem.few_features or problem.prior.gaps:
            return super().indexed_sums(problem, wanted, n_threads)
        found = torch.from_numpy(operators.run(problem, None, launch.sums, list(wanted), n_threads=n_threads))
        return with_skew(problem, found)

    def indexed_least_cost(self, problem: Problem, n_threads: int) -> Tensor:
        if not problem.few_features or problem.prior.gaps:
            return super().indexed_least_cost(problem, n_threads)
        found = torch.from_numpy(operators.run(problem, None, launch.least_cost, False, n_threads=n_threads)[0])
        return with_skew(problem, found)

    def bytes_needed(self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
        count, rows, columns = problem.shape
        cells = count * rows * columns
        gradient = memory_estimate.gradient_expected(problem, fields)
        if question == "least_cost" and gradient:
            return memory_estimate.cost_matrix(problem) + 3 * cells * problem.main.element_size()
        matrices = [t for t in (problem.cost, problem.variance) if t is not None]
        tables = GRIDS[question] + sum(not t.is_contiguous() for t in matrices)
        tables += 2 * len(matrices) * gradient + len(fields) * (1 + 2 * gradient)
        bytes_each = problem.main.element_size()
        if gradient and problem.gamma.requires_grad:
            bytes_each += 8
        mask = cells if problem.prior.band.mask is not None else 0
        swept_back = question in ("coupling", "matches") or gradient
        return int(tables * cells * bytes_each) + mask + (scratch_bytes(problem) if swept_back else 0)


def can_fuse(problem: Problem, beta: float) -> bool:
    """Whether a gradient of the paper's loss in the data, and none in γ, is to be expected.

    E[log Σ] is read off a sum that is weighted by β, so β must be of an ordinary size.
    """
    if (
        problem.gamma.requires_grad
        or not problem.wants_gradient
        or not problem.plain
        or problem.prior.relax is not None
    ):
        return False
    return not problem.uncertain or 1e-6 <= abs(beta) <= 1e6


def _on_grid(ends: np.ndarray, problem: Problem, dtype: np.dtype) -> np.ndarray:
    """(B, N, M) from the probabilities of ends in the last column and the last row by diagonal, (B, 2, N + M − 1)."""
    out = np.zeros(problem.shape, dtype)
    for b, (n, m) in enumerate(problem.lengths.T.tolist()):
        out[b, :n, m - 1] += ends[b, 0, m - 1 : n + m - 1]
        out[b, n - 1, : m - 1] += ends[b, 1, n - 1 : n + m - 2]
    return out


def scratch_bytes(problem: Problem) -> int:
    """Bytes of the backward sweep's tables in all threads; they grow with N·√(N + M), see `backward`."""
    _, rows, columns = problem.shape
    diagonals, shortest = rows + columns - 1, min(rows, columns)
    pack = launch.pack_for(rows, columns)
    segment = launch.segment_for(pack, rows, columns)
    saves = (diagonals - 1) // segment
    numbers = pack * (6 * (segment + 2) * shortest + STATE_ROWS * saves * max(rows, columns))
    return numbers * problem.main.element_size() * min(torch.get_num_threads(), problem.shape[0])


def _use_one_thread_in_forked_child() -> None:
    """torch's OpenMP threads do not survive a fork, and waiting for them would hang."""
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_use_one_thread_in_forked_child)

BACKENDS = {"numba": NumbaBackend()}
