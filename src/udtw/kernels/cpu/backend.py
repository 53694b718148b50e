"""The ``numba`` backend: exact sweeps on SIMD vectors, for float32 and float64 on the CPU."""

import os
from collections.abc import Sequence

import torch
from torch import Tensor

import udtw.kernels.cpu.vmap  # noqa: F401 (registers the rules of the operators)
from udtw.inputs import FLOATS
from udtw.kernels import memory_estimate
from udtw.kernels.base import Backend
from udtw.kernels.cpu import autograd, launch, operators
from udtw.kernels.cpu.rows import STATE_ROWS
from udtw.problem import Problem

GRIDS = {"expectations": 0.0, "coupling": 1.0, "transitions": 3.0, "choices": 2.0, "least_cost": 0.0}
"""Grids of the cost's type that the kernels make. "choices" are single bytes, in seven copies while walking a path."""


class NumbaBackend(Backend):
    """Calls the torch operators of `autograd`, which run the kernels; see README.md beside this folder."""

    name = "numba"

    def misfit(self, main: Tensor) -> str | None:
        if main.device.type != "cpu":
            return f"it runs on the CPU, and the data is on {main.device}"
        return None if main.dtype in FLOATS else f"it computes in float32 and float64, and the data is {main.dtype}"

    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", len(wanted))
        return autograd.sums(*operators.arguments(problem), list(wanted))

    def loss_terms(self, problem: Problem, beta: float) -> tuple[Tensor, Tensor, Tensor] | None:
        if not can_fuse(problem, beta):
            return None
        self._refuse_if_too_large(problem, "expectations")
        found = autograd.loss_terms(*operators.arguments(problem), beta if problem.uncertain else 0.0)
        return found[0], found[1], found[2]

    def expectations(self, problem: Problem, fields: Sequence[Tensor]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", fields=fields)
        return autograd.expectations(torch.stack(list(fields)), *operators.cost_arguments(problem))

    def coupling(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "coupling")
        return autograd.coupling(*operators.cost_arguments(problem))

    @torch.no_grad()
    def transitions(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "transitions")
        return torch.from_numpy(operators.run(problem, None, launch.transitions))

    @torch.no_grad()
    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor]:
        self._refuse_if_too_large(problem, "choices" if with_choice else "least_cost")
        values, choice = operators.run(problem, None, launch.least_cost, with_choice)
        return torch.from_numpy(values), torch.from_numpy(choice)

    def dtw(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "least_cost")
        if not problem.wants_gradient:
            return operators.path_least(*operators.arguments(problem))
        cost = problem.weighted_cost()
        least = operators.cost_arguments(problem.replace(cost=cost.detach()))
        return (cost * operators.path_least_mask(*least)).sum((1, 2))

    def indexed_sums(self, problem: Problem, wanted: Sequence[int], n_threads: int) -> Tensor:
        if not problem.few_features:
            return super().indexed_sums(problem, wanted, n_threads)
        return torch.from_numpy(operators.run(problem, None, launch.sums, list(wanted), n_threads=n_threads))

    def indexed_least_cost(self, problem: Problem, n_threads: int) -> Tensor:
        if not problem.few_features:
            return super().indexed_least_cost(problem, n_threads)
        return torch.from_numpy(operators.run(problem, None, launch.least_cost, False, n_threads=n_threads)[0])

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
        mask = cells if problem.band.mask is not None else 0
        swept_back = question == "coupling" or gradient
        return int(tables * cells * bytes_each) + mask + (scratch_bytes(problem) if swept_back else 0)


def can_fuse(problem: Problem, beta: float) -> bool:
    """Whether a gradient in the sequences, the cost or the variances, and none in γ, is to be expected.

    E[log Σ] is read off a sum that is weighted by β, so β must be of an ordinary size.
    """
    if problem.gamma.requires_grad or not problem.wants_gradient:
        return False
    return not problem.uncertain or 1e-6 <= abs(beta) <= 1e6


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
