"""Matches without an order: every step has a partner anywhere, for sets and grids of tokens.

``F = ½[Σ_m −γ log Σ_n exp(−E_mn/γ) + Σ_n −γ log Σ_m exp(−E_mn/γ)]``: each step of x chooses its partner by itself,
and so does each step of y; π* is the mean of both choices. E is the energy of a cell as everywhere, plus on a grid the
price of its displacement. Plain torch, on any device.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from udtw._engine import likelihood
from udtw._engine.checks import FLOATS, can_read, check_lengths, make_masks, make_range_error
from udtw._engine.problem import ONE, WARPS, Problem
from udtw._kernels import memory_estimate
from udtw._kernels.base import Backend
from udtw._kernels.differentiable import plain
from udtw._kernels.reference.torch_backends import match_sums
from udtw.errors import OptionError

CHUNK_CELLS, KERNEL_CELLS = 2**18, 2**22
"""Cells of the pairs that are swept at a time, so that all of their tables stay in the cache; by the compiled kernel,
which goes through them pair by pair, more: its threads and those of the products wait for each other less often."""
GRIDS = 6.0
"""Tables of all cells at the peak where the coupling or an expectation is wanted, twice with a gradient."""


def _grid_of(problem: Problem) -> Tensor | None:
    """(B, N, M) bool: what is not padding; None if nothing is."""
    lengths, (_, rows, columns) = problem.lengths, problem.shape
    if can_read(lengths) and bool((lengths[0] == rows).all() and (lengths[1] == columns).all()):
        return None
    return make_masks(lengths, rows, columns, True)[2]


def _energy(problem: Problem) -> Tensor:
    """(B, N, M): what each match costs, without the level of log Σ, which is the same for all choices."""
    energy, log = problem.weighted_cost(), problem.log_variance()
    if problem.beta is not None and log is not None:
        energy = energy + problem.beta[:, None, None] * log
    displacement = problem.prior.displacement
    return energy if displacement is None else energy + displacement


def _scores(problem: Problem, grid: Tensor | None) -> Tensor:
    scores = -_energy(problem) / problem.gamma[:, None, None]
    return scores if grid is None else torch.where(grid, scores, -torch.finfo(scores.dtype).max / 4)


def _kept(values: Tensor, grid: Tensor | None) -> Tensor:
    """Zero in padding; ``values`` (B, N, M), or with one row or one column for all of them."""
    if grid is None:
        return values
    for axis in (1, 2):
        if values.shape[axis] == 1:
            grid = grid.any(axis, keepdim=True)
    return torch.where(grid, values, 0)


def _choices(problem: Problem) -> tuple[Tensor, Tensor]:
    """(B, N, M) each: the probabilities with which steps of x, and steps of y, choose a partner."""
    grid = _grid_of(problem)
    scores = _scores(problem, grid)
    return _kept(torch.softmax(scores, 2), grid), _kept(torch.softmax(scores, 1), grid)


def _coupling(problem: Problem) -> Tensor:
    of_x, of_y = _choices(problem)
    return 0.5 * (of_x + of_y)


def _free_energy(problem: Problem) -> Tensor:
    """(B,): the free energy, by operations of torch that can be differentiated again."""
    grid = _grid_of(problem)
    scores = _scores(problem, grid)
    of_x = _kept(torch.logsumexp(scores, 2, keepdim=True), grid)
    of_y = _kept(torch.logsumexp(scores, 1, keepdim=True), grid)
    return -0.5 * problem.gamma * (of_x.sum((1, 2)) + of_y.sum((1, 2)))


@cache
def choices_kernel() -> ModuleType | None:
    """Load the compiled kernel; None where Numba does not work, and operations of torch take its place."""
    try:
        return import_module("udtw._kernels.cpu.choices")
    except Exception:  # a broken LLVM or an incompatible NumPy raises any exception
        return None


MEMBERS = ("x", "y", "cost", "var_x", "var_y", "variance", "gamma", "beta")
"""What a gradient may be wanted in, beside the displacement."""


def _members(problem: Problem) -> tuple[Tensor | None, ...]:
    return *problem.data, problem.gamma, problem.beta, problem.prior.displacement


def _with_members(problem: Problem, members: Sequence[Tensor | None]) -> Problem:
    *named, displacement = members
    prior = replace(problem.prior, displacement=displacement)
    return problem.replace(prior=prior, **dict(zip(MEMBERS, named, strict=True)))


class _Swept(torch.autograd.Function):
    """The free energy with its gradient, chunk by chunk: nothing of the size of all cells is kept."""

    @staticmethod
    def forward(ctx, problem, *members):
        needs = ctx.needs_input_grad[1:]
        values, ctx.grads = _sweep(_with_members(problem, members), needs)
        ctx.problem = problem
        ctx.save_for_backward(*members)
        return values

    @staticmethod
    def backward(ctx, by_value):
        needs = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            members = ctx.saved_tensors
            used = [member for member, need in zip(members, needs, strict=True) if need]
            value = _free_energy(_with_members(ctx.problem, members))
            found = iter(torch.autograd.grad(value, used, by_value, create_graph=True))
            return None, *(next(found) if need else None for need in needs)
        kept, ctx.grads = ctx.grads, None  # what nobody else holds is not copied when it is accumulated
        if kept is None:  # the second time
            kept = _sweep(_with_members(ctx.problem, ctx.saved_tensors), needs)[1]
        *grads, by_place = kept
        if ctx.saved_tensors[-1] is None and bool((by_value == 1).all()):  # of a sum: nothing to be scaled
            return None, *grads, None
        scaled = [None if g is None else g * by_value.reshape(-1, *[1] * (g.ndim - 1)) for g in grads]
        if by_place is not None:
            by_place = by_place * by_value[:, None, None]
            if ctx.saved_tensors[-1].shape[0] == 1:
                by_place = by_place.sum(0, keepdim=True)
        return None, *scaled, by_place


def _sweep(problem: Problem, needs: Sequence[bool]) -> tuple[Tensor, list[Tensor | None]]:
    """Return the free energies (B,), and the gradients in what is needed of `MEMBERS` and in the displacement."""
    count, rows, columns = problem.shape
    chosen_by = _kernel_for(problem)
    grid, values = None if chosen_by else _grid_of(problem), torch.empty_like(problem.gamma)
    members = _members(problem)
    grads: list[Tensor | None] = [
        torch.empty_like(member, memory_format=torch.contiguous_format) if need and member is not None else None
        for member, need in zip(members, needs, strict=True)
    ]
    if needs[-1]:
        grads[-1] = problem.main.new_empty(problem.shape)
    at_once = (KERNEL_CELLS if chosen_by else CHUNK_CELLS) // (rows * columns)
    for part in torch.arange(count).split(max(1, at_once)):
        chosen = slice(int(part[0]), int(part[-1]) + 1)

        def of_part(member: Tensor | None, chosen: slice = chosen) -> Tensor | None:
            return member if member is None or member.shape[0] != count else member[chosen]

        small = _with_members(problem, [of_part(member) for member in members]).replace(
            lengths=problem.lengths[:, chosen]
        )
        into = [None if grad is None else grad[chosen] for grad in grads]
        if chosen_by is not None:
            values[chosen] = _choose(small, into, chosen_by)
        else:
            values[chosen] = _sweep_part(small, None if grid is None else grid[chosen], into)
    return values, grads


def _kernel_for(problem: Problem) -> ModuleType | None:
    """Return the compiled kernel, for a problem on the CPU that it knows; None if it cannot be had."""
    if problem.variance is not None or problem.main.device.type != "cpu" or problem.main.dtype not in FLOATS:
        return None
    return choices_kernel()


def _choose(problem: Problem, into: Sequence[Tensor | None], kernel: ModuleType) -> Tensor:
    """Do as `_sweep_part`, by the compiled kernel and matrix products."""
    x, y, cost, var_x, var_y, _ = problem.data
    count, rows, columns = problem.shape
    main = problem.main
    by_x, by_y, by_cost, by_var_x, by_var_y, _, by_gamma, by_beta, by_place = into
    needs = [one is not None for one in into]
    product = x is not None and y is not None and x.shape[2] > likelihood.MAX_DIRECT_DIM
    cells = main.new_empty(problem.shape) if cost is None else cost.clone(memory_format=torch.contiguous_format)
    none = main.new_empty((0, 0))
    norms = none, none
    if x is not None and y is not None:  # their differences are what counts
        center = y.mean(1, keepdim=True)
        x, y = x - center, y - center
        if product:
            torch.bmm(x, y.mT, out=cells)
            norms = tuple(torch.linalg.vector_norm(one, dim=2).square_() for one in (x, y))
        else:
            cells.copy_(problem.base_cost())
    halves = (none, none) if var_x is None or var_y is None else (0.5 * var_x, 0.5 * var_y)
    values = torch.empty_like(problem.gamma)
    sums = tuple(main.new_empty((count, size) if any(needs) else (0, 0)) for size in (rows, columns))
    sigmas = tuple(main.new_empty((count, size) if any(needs) else (0, 0)) for size in (rows, columns))
    prices = values.new_empty((2, count) if any(needs[6:8]) else (0, 0), dtype=torch.float64)
    priced = problem.beta is not None and var_x is not None
    kernel.choose_all(
        cells, product, norms, halves, problem.beta if priced else None, problem.gamma, problem.prior.displacement,
        problem.lengths, values, sums, sigmas, prices, by_place,
    )  # fmt: skip
    if by_gamma is not None:
        by_gamma.copy_((values - prices[0]) / problem.gamma)
    if by_beta is not None:
        by_beta.copy_(prices[1] if priced else 0 * values)
    for side, found in zip((by_var_x, by_var_y), sigmas, strict=True):
        if side is not None:
            side.copy_(found)
    if by_cost is not None:
        torch.mul(cells, -0.5, out=by_cost)
    if x is not None and y is not None:  # `cells` are the weights of the differences, with a minus
        for side, own, weights, other, total in ((by_x, x, cells, y, sums[0]), (by_y, y, cells.mT, x, sums[1])):
            if side is not None:
                torch.bmm(weights, other, out=side).addcmul_(own, total[:, :, None])
    return values


def _sweep_part(problem: Problem, grid: Tensor | None, into: Sequence[Tensor | None]) -> Tensor:
    """Return the free energies of a chunk, and write its gradients ``into`` what is not None."""
    x, y, _, var_x, var_y, variance = problem.data
    if x is not None and y is not None:  # their differences are what counts
        center = y.mean(1, keepdim=True)
        x, y = x - center, y - center
    distances = _distances(problem, x, y)
    if var_x is not None and var_y is not None:
        variance = (0.5 * var_x)[:, :, None] + (0.5 * var_y)[:, None, :]
    gamma, beta = problem.gamma[:, None, None], None if problem.beta is None else problem.beta[:, None, None]
    cells = distances if variance is None else distances / variance
    log = None if beta is None or variance is None else variance.log()
    energy = cells if log is None or beta is None else torch.addcmul(cells, beta, log)
    if problem.prior.displacement is not None:
        energy = energy + problem.prior.displacement
    scores = energy * (-1 / gamma)
    if grid is not None:
        scores.masked_fill_(~grid, -torch.finfo(scores.dtype).max / 4)
    total, visited = torch.zeros_like(problem.gamma), None
    for axis in (2, 1):
        shares = torch.softmax(scores, axis)
        logarithm = scores.amax(axis, keepdim=True) - shares.amax(axis, keepdim=True).log_()
        total += _kept(logarithm, grid).sum((1, 2))
        visited = shares if visited is None else visited.add_(shares)
    values = -0.5 * problem.gamma * total
    by_x, by_y, by_cost, by_var_x, by_var_y, by_variance, by_gamma, by_beta, by_place = into
    if visited is None or all(one is None for one in into):
        return values
    if grid is not None:
        visited.masked_fill_(~grid, 0)
    # `visited` is twice the coupling from here on.
    if by_place is not None:
        torch.mul(visited, 0.5, out=by_place)
    if by_gamma is not None:
        by_gamma.copy_((values - 0.5 * _kept(visited * energy, grid).sum((1, 2))) / problem.gamma)
    if by_beta is not None:
        by_beta.copy_(0 * values if log is None else 0.5 * _kept(visited * log, grid).sum((1, 2)))
    by_base = visited if variance is None else visited.div_(variance)
    if by_var_x is not None or by_var_y is not None or by_variance is not None:
        by_sigma = cells.neg_() if beta is None else torch.sub(beta, cells, out=cells)
        by_sigma = by_sigma.mul_(by_base)
        if grid is not None:
            by_sigma.masked_fill_(~grid, 0)
        if by_variance is not None:
            torch.mul(by_sigma, 0.5, out=by_variance)
        for side, axis in ((by_var_x, 2), (by_var_y, 1)):
            if side is not None:
                torch.sum(by_sigma, axis, out=side).mul_(0.25)
    if by_cost is not None:
        torch.mul(by_base, 0.5, out=by_cost)
    if by_x is not None and x is not None and y is not None:
        torch.baddbmm(x * by_base.sum(2)[:, :, None], by_base, y, alpha=-1, out=by_x)
    if by_y is not None and x is not None and y is not None:
        torch.baddbmm(y * by_base.sum(1)[:, :, None], by_base.mT, x, alpha=-1, out=by_y)
    return values


def _distances(problem: Problem, x: Tensor | None, y: Tensor | None) -> Tensor:
    """``D`` (B, N, M) of centered sequences, or as given."""
    if x is None or y is None or x.shape[2] <= likelihood.MAX_DIRECT_DIM:
        return problem.base_cost()
    distances = x.square().sum(2)[:, :, None] + y.square().sum(2)[:, None, :]
    return distances.baddbmm_(x, y.mT, alpha=-2).clamp_(min=0)


class UnorderedBackend(Backend):
    """Answers for sets and grids; there are no paths to ask about."""

    name = "unordered"

    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        columns = [self.free_energy(problem)]
        if not wanted:
            return columns[0][:, None]
        self._refuse_if_too_large(problem, "expectations", len(wanted))
        visited, grid = _coupling(problem), _grid_of(problem)
        for which in wanted:
            if which == WARPS:
                columns.append(torch.zeros_like(columns[0]))
            elif which == ONE:
                columns.append(visited.sum((1, 2)))
            else:
                columns.append(_kept(visited * problem.field(which), grid).sum((1, 2)))
        return torch.stack(columns, 1)

    def free_energy(self, problem: Problem) -> Tensor:
        self._check(problem)
        members = _members(problem)
        if problem.by_feature or not plain(*members) or problem.main.device.type == "meta":
            value = _free_energy(problem)
        else:
            value = _Swept.apply(problem, *members)
        if can_read(value) and not bool(torch.isfinite(value.detach().sum())):
            problem.check_values()
            raise make_range_error(problem.main.dtype)
        return value

    def energies(self, problem: Problem) -> tuple[Tensor, Tensor]:
        visited = _kept(_coupling(problem) * _energy(problem), _grid_of(problem))
        return self.free_energy(problem), visited.sum((1, 2))

    def expectations(self, problem: Problem, fields: Sequence[Tensor]) -> Tensor:
        self._check(problem)
        self._refuse_if_too_large(problem, "expectations", fields=fields)
        problem.check_values(fields)
        visited, grid = _coupling(problem), _grid_of(problem)
        return torch.stack([_kept(visited * field, grid).sum((1, 2)) for field in fields], 1)

    def coupling(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "coupling")
        self._check(problem)
        problem.check_values()
        return _coupling(problem)

    def transitions(self, problem: Problem) -> tuple[Tensor, Tensor]:
        raise _no_paths(problem.prior.order)

    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        raise _no_paths(problem.prior.order)

    def dtw(self, problem: Problem) -> Tensor:
        self._check(problem)
        problem.check_values()
        grid = _grid_of(problem)
        energy = -_scores(problem.replace(gamma=torch.ones_like(problem.gamma)), grid)
        best = [_kept(energy.min(axis, keepdim=True).values, grid).sum((1, 2)) for axis in (2, 1)]
        return 0.5 * (best[0] + best[1])

    @torch.no_grad()
    def match_sums(self, problem: Problem, tail: float) -> Tensor:
        self._check(problem)
        self._refuse_if_too_large(problem, "matches")
        problem.check_values()
        chosen = _choices(problem)[0]
        return match_sums(chosen, chosen.new_zeros((3, 1, 1, 1)), tail)

    def bytes_needed(self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
        count, rows, columns = problem.shape
        gradient = memory_estimate.gradient_expected(problem, fields)
        tables = GRIDS * (1 + gradient) + (built_in + len(fields)) * (1 + gradient)
        return int(tables * count * rows * columns * problem.main.element_size())

    @staticmethod
    def _check(problem: Problem) -> None:
        """Check what leaves no trace in the result."""
        if can_read(problem.main, problem.lengths):
            check_lengths(problem.lengths, *problem.shape[1:])
        variances: list[Any] = [problem.var_x, problem.var_y, problem.variance]
        if can_read(*variances) and any(one is not None and bool((one.detach() <= 0).any()) for one in variances):
            problem.check_values()


def _no_paths(order: str) -> OptionError:
    """Return the error for a question about paths where there are none."""
    return OptionError(
        f"order={order!r} has no paths: steps choose their partners one by one. Use coupling or matches()."
    )


UNORDERED = UnorderedBackend()
