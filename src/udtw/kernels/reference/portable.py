"""Plain torch over anti-diagonals: any device, any dtype, every order of gradient.

The recurrences are those of README.md in the log domain. Matrices are skewed once, so that diagonal k is a column; the
loop over k then works on whole diagonals of the batch. Everything is differentiable by torch itself.
"""

from collections.abc import Callable

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


def _recurse(
    field: Tensor, admissible: Tensor, join: Callable[[int, Tensor], Tensor], outside: float, start: float
) -> list[Tensor]:
    """``V_k = F_k + join(V of the predecessors of k)``: one row (B, N) per diagonal.

    What differs between questions is ``join`` (the soft minimum of the partition function, the minimum of DTW, the mean
    of an expectation), the value ``outside`` of cells that no path may use, and that of the virtual ``start`` cell.
    """
    rows = skew(torch.where(admissible, field, 0)).unbind(2)
    allowed = skew(admissible).unbind(2)
    nowhere = torch.full_like(rows[0], outside)
    previous, found = [nowhere, nowhere], []
    for k, (here, inside) in enumerate(zip(rows, allowed, strict=True)):
        before = _predecessors(previous, outside, start if k == 0 else outside)
        value = torch.where(inside, here + join(k, before), outside)
        found.append(value)
        previous = [previous[1], value]
    return found


def _sweep(cost: Tensor, gamma: Tensor, admissible: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Per diagonal: prefix soft-min over γ, (B, N), and transition probabilities, (3, B, N)."""
    huge = torch.finfo(cost.dtype).max / 16
    transition: list[Tensor] = []

    def soft_min(_: int, before: Tensor) -> Tensor:
        log_weight = -before
        transition.append(torch.softmax(log_weight, 0))
        return -torch.logsumexp(log_weight, 0)

    scaled = torch.where(admissible, cost, 0) / gamma[:, None, None]
    return _recurse(scaled, admissible, soft_min, huge, 0.0), transition


def expectations(
    cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor, fields: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """soft_min (B,) and the expectation (B,) of each field (B, N, M): ``A_k = F_k + Σ_p q_p A_p``."""
    values, transition = _sweep(cost, gamma, admissible)

    def mean(k: int, before: Tensor) -> Tensor:
        return (transition[k] * before).sum(0)

    # Added to the graph, so that even a 1 × 1 expectation has a (zero) gradient.
    soft_min = gamma * _at_end(values, lengths)
    means = [_at_end(_recurse(field, admissible, mean, 0.0, 0.0), lengths) + 0 * soft_min for field in fields]
    return soft_min, means


def coupling(cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor) -> Tensor:
    """π* (B, N, M): ``π_p = Σ_s q_{s→p} π_s`` from the last cell down."""
    values, transition = _sweep(cost, gamma, admissible)
    rows, diagonals = cost.shape[1], len(transition)
    row = torch.arange(rows, device=cost.device)
    zero = 0 * torch.stack([values[-1]] * 3)  # of the graph, so that even a 1 × 1 coupling has a (zero) gradient
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
    choices: list[Tensor] = []

    def least(_: int, before: Tensor) -> Tensor:
        value, choice = before.min(0)
        choices.append(choice)
        return value

    values = _recurse(cost, admissible, least, torch.finfo(cost.dtype).max / 16, 0.0)
    return _at_end(values, lengths), unskew(torch.stack(choices, 2), cost.shape[2]).to(torch.uint8)
