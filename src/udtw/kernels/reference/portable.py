"""Plain torch over anti-diagonals: any device, any dtype, every order of gradient.

The recurrences are those of README.md in the log domain. Matrices are skewed once, so that diagonal k is a column; the
loop over k then works on whole diagonals of the batch. Everything is differentiable by torch itself.
"""

import torch
from torch import Tensor
from torch.nn import functional


def skew(matrix: Tensor) -> Tensor:
    """(B, N, M) → (B, N, N + M − 1) with ``out[b, i, i + j] = matrix[b, i, j]`` and zeros elsewhere."""
    count, rows, columns = matrix.shape
    padded = functional.pad(matrix, (0, rows)).reshape(count, rows * (rows + columns))
    return padded[:, : rows * (rows + columns - 1)].reshape(count, rows, rows + columns - 1)


def unskew(skewed: Tensor, columns: int) -> Tensor:
    """Inverse of `skew`."""
    count, rows, diagonals = skewed.shape
    padded = functional.pad(skewed.reshape(count, rows * diagonals), (0, rows))
    return padded.reshape(count, rows, diagonals + 1)[:, :, :columns]


def _below(row: Tensor, first: float) -> Tensor:
    """Shift (B, N) one row down: what row i − 1 holds, at i; ``first`` enters at the top."""
    return functional.pad(row[:, :-1], (1, 0), value=first)


def _above(row: Tensor) -> Tensor:
    """Shift (B, N) one row up: what row i + 1 holds, at i; zero enters at the bottom."""
    return functional.pad(row[:, 1:], (0, 1))


def _at_end(rows: list[Tensor], lengths: Tensor) -> Tensor:
    """The value of each pair's last cell, from its row on every diagonal."""
    table = torch.stack(rows, 2)
    pair = torch.arange(table.shape[0], device=table.device)
    return table[pair, lengths[0] - 1, lengths.sum(0) - 2]


def _predecessors(previous: list[Tensor], outside: float, start: float) -> Tensor:
    """(3, B, N) values at the corner, up and left predecessors, given the rows of the last two diagonals."""
    before, last = previous
    return torch.stack([_below(before, start), _below(last, outside), last])


def _sweep(cost: Tensor, gamma: Tensor, admissible: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Per diagonal: prefix soft-min over γ, (B, N), and transition probabilities, (3, B, N)."""
    huge = torch.finfo(cost.dtype).max / 16
    scaled = skew(torch.where(admissible, cost, 0) / gamma[:, None, None]).unbind(2)
    allowed = skew(admissible).unbind(2)
    nowhere = torch.full_like(scaled[0], huge)
    previous = [nowhere, nowhere]
    values, transition = [], []
    for k, (here, inside) in enumerate(zip(scaled, allowed, strict=True)):
        before = -_predecessors(previous, huge, 0.0 if k == 0 else huge)
        value = torch.where(inside, here - torch.logsumexp(before, 0), huge)
        values.append(value)
        transition.append(torch.softmax(before, 0))
        previous = [previous[1], value]
    return values, transition


def expectations(
    cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor, fields: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """soft_min (B,) and the expectation (B,) of each field (B, N, M): ``A_k = F_k + Σ_p q_p A_p``."""
    values, transition = _sweep(cost, gamma, admissible)
    means = []
    for field in fields:
        previous = [0 * values[-1]] * 2  # of the graph, so that even a 1 × 1 expectation has a (zero) gradient
        rows = []
        for here, probability in zip(skew(torch.where(admissible, field, 0)).unbind(2), transition, strict=True):
            row = here + (probability * _predecessors(previous, 0.0, 0.0)).sum(0)
            rows.append(row)
            previous = [previous[1], row]
        means.append(_at_end(rows, lengths))
    return gamma * _at_end(values, lengths), means


def coupling(cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor) -> Tensor:
    """π* (B, N, M): ``π_p = Σ_s q_{s→p} π_s`` from the last cell down."""
    values, transition = _sweep(cost, gamma, admissible)
    rows, diagonals = cost.shape[1], len(transition)
    row = torch.arange(rows, device=cost.device)
    zero = 0 * torch.stack([values[-1]] * 3)  # as in `expectations`
    after, beyond = (zero, zero[0]), (zero, zero[0])
    out: list[Tensor] = []
    for k in range(diagonals - 1, -1, -1):
        corner = _above(beyond[0][0] * beyond[1])
        up, left = _above(after[0][1] * after[1]), after[0][2] * after[1]
        ends = (row == lengths[0, :, None] - 1) & (lengths.sum(0) - 2 == k)[:, None]
        here = corner + up + left + ends.to(cost.dtype)
        out.append(here)
        beyond, after = after, (transition[k], here)
    return torch.where(admissible, unskew(torch.stack(out[::-1], 2), cost.shape[2]), 0)


def transitions(cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor) -> Tensor:
    """(3, B, N, M): probability that a path through a cell came from the corner, from above, from the left."""
    _, transition = _sweep(cost, gamma, admissible)
    return torch.stack([unskew(row, cost.shape[2]) for row in torch.stack(transition, 3)])


def least_cost(cost: Tensor, admissible: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) least path costs, and (B, N, M) choices 0 corner, 1 up, 2 left."""
    huge = torch.finfo(cost.dtype).max / 16
    base = skew(torch.where(admissible, cost, 0)).unbind(2)
    allowed = skew(admissible).unbind(2)
    nowhere = torch.full_like(base[0], huge)
    previous = [nowhere, nowhere]
    values, choices = [], []
    for k, (here, inside) in enumerate(zip(base, allowed, strict=True)):
        least, choice = _predecessors(previous, huge, 0.0 if k == 0 else huge).min(0)
        value = torch.where(inside, here + least, huge)
        values.append(value)
        choices.append(choice)
        previous = [previous[1], value]
    return _at_end(values, lengths), unskew(torch.stack(choices, 2), cost.shape[2]).to(torch.uint8)
