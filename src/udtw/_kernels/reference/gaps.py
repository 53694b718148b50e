"""Alignments with gaps in plain torch over anti-diagonals: the three states of README.md in the log domain.

A cell (i, j) of a table says where an alignment stands after step i of x and step j of y: M, both are matched with each
other; X, step i was left out; Y, step j was left out. Left-out steps of x come before those of y, so that every set of
matches is exactly one alignment. What is left out before the first match and after the last one is priced by
`prior.outer_energy`; X and Y hold what lies between two matches.

Couplings and expectations are derivatives of the free energy, taken by torch.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from udtw._engine.prior import outer_energy
from udtw._kernels.reference.portable import _below, skew, unskew


class GapModel(NamedTuple):
    """What the alignments of B pairs cost."""

    energy: Tensor  # (B, N, M): of a match
    gamma: Tensor  # (B,)
    steps: Tensor  # (2, B): of a step (1, 0) and of a step (0, 1) from match to match
    penalty: Tensor  # (B,): δ
    opening: Tensor  # (B,): κ
    admissible: Tensor  # (B, N, M): cells that may be matched
    lengths: Tensor  # (2, B)
    relax: Tensor  # (4, B)


def border_energies(model: GapModel) -> tuple[Tensor, Tensor, Tensor]:
    """(B, N, M) energies of what is left out before a first and after a last match, and (B,) of leaving out all."""
    rows, columns = model.energy.shape[1:]
    i = torch.arange(rows, device=model.energy.device)[None, :, None]
    j = torch.arange(columns, device=model.energy.device)[None, None, :]
    n, m = model.lengths[:, :, None, None]
    prices = model.penalty, model.opening
    begin = outer_energy((i, j), model.relax[[0, 2]], *prices)
    end = outer_energy(((n - 1 - i).clamp_min(0), (m - 1 - j).clamp_min(0)), model.relax[[1, 3]], *prices)
    every = model.lengths[0], model.lengths[1]
    return begin, end, outer_energy(every, model.relax[[0, 2]] + model.relax[[1, 3]], *prices)


class _Tables(NamedTuple):
    """Logarithms of weights: of the prefixes that end in each state, and of what comes before and after a match."""

    match: Tensor  # (B, N, M), like the next four
    left_x: Tensor
    left_y: Tensor
    begin: Tensor
    end: Tensor
    empty: Tensor  # (B,)


def _sum(weights: Tensor) -> Tensor:
    # The derivative of torch.logsumexp is exp(w − sum), which adds up to one only up to the rounding of w, which is an
    # energy over γ. A derivative in γ multiplies what is missing by such energies once more.
    largest = weights.amax(0).detach()
    return largest + (weights - largest).exp().sum(0).log()


def _largest(weights: Tensor) -> Tensor:
    return weights.max(0).values  # the gradient of amax would be shared among equals


def _sweep(model: GapModel, join: Callable[[Tensor], Tensor] = _sum) -> _Tables:
    gamma, nowhere = model.gamma, -torch.finfo(model.energy.dtype).max / 16
    begin, end, empty = (-one / gamma.reshape(-1, *[1] * (one.ndim - 1)) for one in border_energies(model))
    up, left = (step[:, None] for step in model.steps / gamma)
    penalty, opening = (model.penalty / gamma)[:, None], (model.opening / gamma)[:, None]
    costs = skew(torch.where(model.admissible, model.energy, 0) / gamma[:, None, None]).unbind(2)
    allowed, first = skew(model.admissible).unbind(2), skew(begin).unbind(2)
    match = left_x = left_y = any_state = before = torch.full_like(costs[0], nowhere)
    found: list[list[Tensor]] = [[], [], []]
    for cost, inside, start in zip(costs, allowed, first, strict=True):
        above = _below(match, nowhere)
        reached = join(torch.stack([start, _below(before, nowhere), above - up, match - left]))
        of_x = join(torch.stack([_below(left_x, nowhere), above - opening])) - penalty
        of_y = join(torch.stack([left_y, match - opening, left_x - opening])) - penalty
        before = any_state
        match, left_x, left_y = torch.where(inside, reached - cost, nowhere), of_x, of_y
        any_state = join(torch.stack([match, left_x, left_y]))
        for rows, row in zip(found, (match, left_x, left_y), strict=True):
            rows.append(row)
    columns = model.energy.shape[2]
    matches, of_x, of_y = (unskew(torch.stack(rows, 2), columns) for rows in found)
    return _Tables(matches, of_x, of_y, begin, end, empty)


def _complete(tables: _Tables) -> Tensor:
    """(1 + N·M, B): log weights of the empty alignment, and of all whose last match is each cell."""
    return torch.cat([tables.empty[:, None], (tables.match + tables.end).flatten(1)], 1).T


def free_energy(model: GapModel) -> Tensor:
    """(B,): ``−γ log Z``."""
    return -model.gamma * _sum(_complete(_sweep(model)))


def _gradients(model: GapModel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the derivatives of the free energy in the energies of the cells, steps, δ and κ; differentiable."""

    def total(energy: Tensor, steps: Tensor, penalty: Tensor, opening: Tensor) -> Tensor:
        priced = model._replace(energy=energy, steps=steps, penalty=penalty, opening=opening)
        return free_energy(priced).sum()

    return torch.func.grad(total, (0, 1, 2, 3))(model.energy, model.steps, model.penalty, model.opening)


def coupling(model: GapModel) -> Tensor:
    """π* (B, N, M)."""
    return torch.where(model.admissible, _gradients(model)[0], 0)


def expectations(model: GapModel, fields: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return what `portable.expectations` does."""
    visited, steps, *_ = _gradients(model)
    means = [(torch.where(model.admissible, visited * field, 0)).sum((1, 2)) for field in fields]
    return free_energy(model), torch.stack([steps.sum(0), steps[0]]), means


def mean_energy(model: GapModel) -> Tensor:
    """(B,): the mean energy of an alignment."""
    visited, steps, left_out, runs = _gradients(model)
    cells = torch.where(model.admissible, visited * model.energy, 0).sum((1, 2))
    return cells + (steps * model.steps).sum(0) + left_out * model.penalty + runs * model.opening


def _shifted(table: Tensor, rows: int, columns: int) -> Tensor:
    """(B, N, M): what lies so many rows above and columns to the left; minus infinity outside of the grid."""
    moved = torch.full_like(table, -torch.inf)
    moved[:, rows:, columns:] = table[:, : table.shape[1] - rows, : table.shape[2] - columns]
    return moved


def transitions(model: GapModel) -> tuple[Tensor, Tensor]:
    """(4, B, N, M): probability that the match before lies beyond the corner, above, to the left, or nowhere.

    And (B, N, M): that a match is the last one.
    """
    tables = _sweep(model)
    any_state = torch.logsumexp(torch.stack(tables[:3]), 0)
    up, left = (model.steps / model.gamma)[:, :, None, None]
    ways = [_shifted(any_state, 1, 1), _shifted(tables.match, 1, 0) - up, _shifted(tables.match, 0, 1) - left]
    complete = torch.softmax(_complete(tables), 0)[1:].T.reshape(tables.match.shape)
    return torch.softmax(torch.stack([*ways, tables.begin]), 0), complete


def least_energy(model: GapModel) -> Tensor:
    """(B,): the least energy of an alignment; its derivative in the energies of the cells is one in its matches."""
    return -_largest(_complete(_sweep(model._replace(gamma=torch.ones_like(model.gamma)), _largest)))


MATCH, LEFT_X, LEFT_Y, DONE = range(4)
"""Where a walk stands."""


def sample_matches(model: GapModel, k: int, generator: torch.Generator | None) -> list[list[Tensor]]:
    """``k`` sets of matches (L, 2) for each pair, drawn by walking back from the last match; all walks move at once."""
    tables = _sweep(model)
    count, rows, columns = model.energy.shape
    device = generator.device if generator is not None else torch.device("cpu")

    def padded(table: Tensor) -> np.ndarray:
        """Return a table with a row above and a column to the left."""
        out = np.full((count, rows + 1, columns + 1), -np.inf)
        out[:, 1:, 1:] = table.detach().double().cpu().numpy()
        return out

    match, left_x, left_y, begin = (padded(table) for table in (*tables[:3], tables.begin))
    prices = torch.stack([*model.steps, model.opening]) / model.gamma
    up, left, opening = prices.detach().double().cpu().numpy().repeat(k, 1)

    def draw(weights: list[np.ndarray]) -> np.ndarray:
        """Draw one of the options by their log weights; those of equal walks lie in a column."""
        table = np.stack(weights)
        reached = np.exp(table - table.max(0)).cumsum(0)
        dice = torch.rand(table.shape[1], generator=generator, dtype=torch.float64, device=device).cpu().numpy()
        return (reached <= dice * reached[-1]).sum(0)

    pair = np.arange(count).repeat(k)
    last = draw(list(_complete(tables).detach().double().cpu().numpy().repeat(k, 1)))
    i, j = (last - 1) // columns + 1, (last - 1) % columns + 1
    state = np.where(last == 0, DONE, MATCH)
    found: list[list[tuple[int, int]]] = [[] for _ in pair]
    while (state != DONE).any():
        here = np.flatnonzero(state == MATCH)
        for walk in here:
            found[walk].append((i[walk] - 1, j[walk] - 1))
        for kind in (MATCH, LEFT_X, LEFT_Y):
            walks = np.flatnonzero(state == kind) if kind != MATCH else here
            if not walks.size:
                continue
            p, a, b = pair[walks], i[walks], j[walks]
            corner, above, beside = (p, a - 1, b - 1), (p, a - 1, b), (p, a, b - 1)
            if kind == MATCH:
                ways = [match[corner], left_x[corner], left_y[corner], begin[p, a, b]]
                chosen = draw([*ways, match[above] - up[walks], match[beside] - left[walks]])
                state[walks] = np.array([MATCH, LEFT_X, LEFT_Y, DONE, MATCH, MATCH])[chosen]
                i[walks], j[walks] = a - (chosen != 5), b - (chosen != 4)
            elif kind == LEFT_X:
                chosen = draw([left_x[above], match[above] - opening[walks]])
                state[walks] = np.array([LEFT_X, MATCH])[chosen]
                i[walks] = a - 1
            else:
                price = opening[walks]
                chosen = draw([left_y[beside], match[beside] - price, left_x[beside] - price])
                state[walks] = np.array([LEFT_Y, MATCH, LEFT_X])[chosen]
                j[walks] = b - 1
    sets = [torch.tensor(matches[::-1], dtype=torch.int64).reshape(-1, 2) for matches in found]
    return [sets[b * k : (b + 1) * k] for b in range(count)]
