"""Alignments with gaps by the kernels of `gap_sweep`: NumPy arrays for them, and the derivative for autograd.

The gradient of the free energy comes from the kernel; higher ones, and those of other quantities, from the portable
backend, which answers all else too.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from udtw._engine.checks import make_range_error
from udtw._engine.prior import MASK, NONE, Prior, admissible
from udtw._engine.problem import ONE, WARPS, Problem
from udtw._kernels.cpu import launch
from udtw._kernels.cpu.gap_sweep import (
    FREE_ENERGY,
    GRADIENTS,
    LEFT_OUT,
    LEFTS,
    PRICED,
    PROBABILITIES,
    RUNS,
    UPS,
    VALUES,
    gap_sweep,
)
from udtw._kernels.cpu.layout import BY_SOFT_MIN, FACTORS, Gradients
from udtw._kernels.cpu.match_sums import MATCH_COLUMNS
from udtw._kernels.cpu.operators import _pairs, scaled_grads
from udtw._kernels.cpu.pack import Pairs
from udtw._kernels.differentiable import plain
from udtw._kernels.reference.torch_backends import PORTABLE

LEAVES = 12
"""x, y, cost and the variances, γ and β, and the four prices of the prior."""


class Swept(NamedTuple):
    """What a sweep found: (5, B) means (`gap_sweep`), and what else was wanted."""

    means: np.ndarray
    grads: Gradients


def leaves(problem: Problem) -> tuple[Tensor | None, ...]:
    """Return all that a gradient may be wanted in."""
    return *problem.data, problem.gamma, problem.beta, *problem.prior.prices


def gradient_expected(problem: Problem) -> bool:
    """Whether a gradient in anything is to be expected, or a transform of torch is at work."""
    every = leaves(problem)
    return not plain(*every) or (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in every))


def _arrays(problem: Problem) -> tuple[Pairs, np.ndarray]:
    """Return the pairs without a band, which is a mask here, and the prices (4, B)."""
    prior, lengths = problem.prior, problem.lengths
    pairs = _pairs(problem.replace(prior=Prior()))
    if prior.band.kind != NONE:
        same = bool((lengths == lengths[:, :1]).all())
        mask = prior.band.mask
        if prior.band.kind != MASK or mask is None:
            mask = admissible(prior.band, lengths[:, :1] if same else lengths, *problem.shape[1:])
        pairs = pairs._replace(mask=np.require(mask.numpy(), requirements=["C", "W"]))
    prices = [*prior.step_prices(problem.gamma), prior.gap_penalty, prior.gap_opening]
    table = np.stack([price.detach().double().numpy() for price in prices if price is not None])
    limit = launch.UNREACHABLE[pairs.x.dtype] / 4
    bits = np.abs(table).sum(0) * sum(problem.shape[1:]) / (np.log(2) * pairs.gamma)
    if not (bits < limit).all():
        raise launch.ValueOutOfRange
    return pairs, table


def _swept(problem: Problem, wanted: int, kinds: launch.Wanted, tail: float, match: np.ndarray | None) -> Swept:
    pairs, gaps = _arrays(problem)
    (count, rows, columns), dtype = problem.shape, pairs.x.dtype
    back = wanted >= GRADIENTS

    def zeros(shape: tuple[int, ...], use: bool) -> np.ndarray:
        return np.zeros(shape if use else (0,) * len(shape), dtype)

    grid = (count, rows, columns)
    if match is None:
        match = np.zeros((count, rows, MATCH_COLUMNS) if kinds.match else (0, 0, MATCH_COLUMNS))
    grads = Gradients(
        x=zeros(pairs.x.shape, back),
        y=zeros(pairs.y.shape, back),
        cost=zeros(grid, back and pairs.x.shape[2] == 0),
        var_x=zeros(pairs.var_x.shape, back),
        var_y=zeros(pairs.var_y.shape, back),
        variance=zeros(pairs.variance.shape, back),
        gamma=np.zeros(count if kinds.gamma else 0),
        beta=np.zeros(count if wanted == PRICED and pairs.beta.size else 0),
        warp=np.zeros(0),
        coupling=zeros(grid, kinds.coupling),
        match=match,
    )
    found = np.zeros((5, count))
    factors = np.zeros((FACTORS, count), dtype)
    factors[BY_SOFT_MIN] = 1
    unreachable, largest = dtype.type(launch.UNREACHABLE[dtype]), np.finfo(dtype).max

    def call(queue: np.ndarray, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        segment = launch.segment_for(pack, rows, columns)
        return gap_sweep(
            pairs, gaps, queue, end, pack, segment, factors, unreachable, largest, work, limits, grads, found, wanted,
            tail,
        )  # fmt: skip

    call.__qualname__ = "gap_sweep"
    launch._run(pairs, torch.get_num_threads(), call)
    return Swept(found, grads)


def sweep(
    problem: Problem,
    wanted: int,
    kinds: launch.Wanted = launch.NOTHING,
    tail: float = 0.0,
    match: np.ndarray | None = None,
) -> Swept:
    """Run the kernel; raises a named error where it met a value out of range."""
    try:
        return _swept(problem, wanted, kinds, tail, match)
    except launch.ValueOutOfRange:
        problem.check_values()
        raise make_range_error(problem.main.dtype) from None


class _FreeEnergy(torch.autograd.Function):
    """The free energy with its gradient, both from one call of the kernel."""

    @staticmethod
    def forward(ctx, problem, *members):
        by_gamma = problem.gamma.requires_grad
        # The gradient in γ is a small difference of large numbers.
        computed = problem.to(torch.float64) if by_gamma else problem
        priced = any(one is not None and one.requires_grad for one in members[6:])
        ctx.swept = sweep(computed, PRICED if priced else GRADIENTS, launch.Wanted(gamma=by_gamma))
        ctx.problem = problem
        ctx.save_for_backward(*members)
        return torch.from_numpy(ctx.swept.means[FREE_ENERGY]).to(problem.main.dtype)

    @staticmethod
    def backward(ctx, by_value):
        needs = ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            return None, *_higher(ctx.problem, ctx.saved_tensors, needs, by_value)
        means, grads = ctx.swept
        amount = by_value.detach().numpy()
        found = scaled_grads(grads, amount, ctx.problem.data, needs[:8])
        ups, lefts = means[UPS], means[LEFTS]
        for price, need in zip((ups + lefts, ups - lefts, means[LEFT_OUT], means[RUNS]), needs[8:], strict=True):
            found.append(torch.from_numpy(price * amount).to(by_value.dtype) if need else None)
        return None, *(None if one is None else one.to(by_value.dtype) for one in found)


def _higher(problem: Problem, members: Sequence[Tensor | None], needs: Sequence[bool], by_value: Tensor) -> list:
    """Return the gradients with a graph of their own, by the portable backend."""
    x, y, cost, var_x, var_y, variance, gamma, beta, *prices = members
    warp, skew, penalty, opening = prices
    prior = Prior(problem.prior.band, warp, problem.prior.relax, skew, penalty, opening)
    anew = problem.replace(
        x=x, y=y, cost=cost, var_x=var_x, var_y=var_y, variance=variance, gamma=gamma, beta=beta, prior=prior
    )
    used = [member for member, need in zip(members, needs, strict=True) if need and member is not None]
    value = PORTABLE.sums_and_expectations(anew, [], [])[0]
    found = iter(torch.autograd.grad(value, used, by_value, create_graph=True, allow_unused=True))
    return [next(found) if need else None for need in needs]


def free_energy(problem: Problem) -> Tensor:
    """(B,): the free energy, differentiable in everything."""
    members = leaves(problem)
    if not plain(*members):
        return PORTABLE.free_energy(problem)
    if gradient_expected(problem):
        return _FreeEnergy.apply(problem, *members)
    return torch.from_numpy(sweep(problem, VALUES).means[FREE_ENERGY]).to(problem.main.dtype)


def _visited(visited: Tensor, field: Tensor) -> Tensor:
    """Return ``visited·field``, zero where nothing is visited, whatever the field holds there."""
    return torch.where(visited > 0, visited * field, 0)


def _total(cells: Tensor) -> Tensor:
    """(B,): the sum of (B, N, M), one cell after the other, so that the zeros of padding change no bit."""
    return cells.double().cumsum(2)[:, :, -1].cumsum(1)[:, -1]


def sums(problem: Problem, wanted: Sequence[int]) -> Tensor:
    """Return `Backend.sums`."""
    if not wanted:
        return free_energy(problem)[:, None]
    if gradient_expected(problem):
        return PORTABLE.sums(problem, wanted)
    means, grads = sweep(problem, PROBABILITIES, launch.Wanted(coupling=True))
    visited = torch.from_numpy(grads.coupling)
    columns = [torch.from_numpy(means[FREE_ENERGY])]
    for which in wanted:
        if which == WARPS:
            columns.append(torch.from_numpy(means[UPS] + means[LEFTS]))
        else:
            columns.append(_total(visited if which == ONE else _visited(visited, problem.field(which))))
    return torch.stack(columns, 1).to(problem.main.dtype)


def expectations(problem: Problem, fields: Sequence[Tensor]) -> Tensor:
    """Return `Backend.expectations`."""
    if gradient_expected(problem) or any(field.requires_grad for field in fields):
        return PORTABLE.expectations(problem, fields)
    problem.check_values(fields)
    visited = coupling(problem)
    return torch.stack([_total(_visited(visited, field)) for field in fields], 1).to(problem.main.dtype)


def energies(problem: Problem) -> tuple[Tensor, Tensor]:
    """Return `Backend.energies`."""
    if gradient_expected(problem):
        return PORTABLE.energies(problem)
    means, grads = sweep(problem, PROBABILITIES, launch.Wanted(coupling=True))
    cells = _total(_visited(torch.from_numpy(grads.coupling), problem.energy()))
    stay_y, stay_x = problem.prior.step_prices(problem.gamma)
    penalty, opening = problem.prior.gap_penalty, problem.prior.gap_opening
    assert penalty is not None, "the prior has gaps"
    assert opening is not None, "it comes with the penalty"
    free, ups, lefts, left_out, runs = torch.from_numpy(means)
    priced = ups * stay_y + lefts * stay_x + left_out * penalty + runs * opening
    return free, cells + priced + problem.constant_energy()


def coupling(problem: Problem) -> Tensor:
    """(B, N, M): π*."""
    if gradient_expected(problem):
        return PORTABLE.coupling(problem)
    return torch.from_numpy(sweep(problem, PROBABILITIES, launch.Wanted(coupling=True)).grads.coupling)


def match_sums(problem: Problem, tail: float) -> np.ndarray:
    """(B, N, MATCH_COLUMNS): see `match_sums.collect_matches`."""
    totals = sweep(problem, PROBABILITIES, launch.Wanted(match=True)).grads.match
    return sweep(problem, PROBABILITIES, launch.Wanted(match=True), tail, totals).grads.match
