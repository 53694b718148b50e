"""Plain torch over anti-diagonals: any device, any dtype, every order of gradient.

The recurrences are those of README.md in the log domain. Matrices are skewed once, so that diagonal k is a column; the
loop over k then works on whole diagonals of the batch. Everything is differentiable by torch itself.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from udtw._engine.prior import LEFT, UP


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


Borders = tuple[Tensor, Tensor]
"""(B, N, M) bool each: cells in which a path may start, and in which it may end."""


def _predecessors(previous: list[Tensor], outside: float) -> Tensor:
    """(3, B, N) values at the corner, up and left predecessors, given the rows of the last two diagonals."""
    before, last = previous
    return torch.stack([_below(before, outside), _below(last, outside), last])


def _recurse(
    field: Tensor, admissible: Tensor, starts: Tensor, join: Callable[[int, Tensor], Tensor], outside: float
) -> list[Tensor]:
    """``V_k = F_k + join(V of the predecessors of k)``: one row (B, N) per diagonal.

    What differs between questions is ``join`` (the soft minimum of the partition function, the minimum of DTW, the mean
    of an expectation) and the value ``outside`` of cells that no path may use. Where a path may start, the corner
    predecessor, which is outside of the grid, has the value zero.
    """
    rows = skew(torch.where(admissible, field, 0)).unbind(2)
    allowed, first = skew(admissible).unbind(2), skew(starts).unbind(2)
    nowhere = torch.full_like(rows[0], outside)
    previous, found = [nowhere, nowhere], []
    for k, (here, inside) in enumerate(zip(rows, allowed, strict=True)):
        corner, up, left = _predecessors(previous, outside)
        before = torch.stack([torch.where(first[k], 0, corner), up, left])
        value = torch.where(inside, here + join(k, before), outside)
        found.append(value)
        previous = [previous[1], value]
    return found


def _steps(penalty: Tensor) -> Tensor:
    """(3, B, 1): what arriving from the corner, from above and from the left costs; the last two are ``penalty``."""
    return torch.cat([torch.zeros_like(penalty[:1]), penalty])[:, :, None]


def _sweep(
    cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, starts: Tensor
) -> tuple[list[Tensor], list[Tensor]]:
    """Per diagonal: prefix soft-min over γ, (B, N), and transition probabilities, (3, B, N)."""
    huge = torch.finfo(cost.dtype).max / 16
    steps = _steps(penalty / gamma)
    transition: list[Tensor] = []

    def soft_min(_: int, before: Tensor) -> Tensor:
        log_weight = -before - steps
        transition.append(torch.softmax(log_weight, 0))
        return -torch.logsumexp(log_weight, 0)

    scaled = torch.where(admissible, cost, 0) / gamma[:, None, None]
    return _recurse(scaled, admissible, starts, soft_min, huge), transition


def _grid(rows: list[Tensor], columns: int) -> Tensor:
    """(B, N, M) from one row (B, N) per diagonal."""
    return unskew(torch.stack(rows, 2), columns)


def _ends(values: list[Tensor], admissible: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """``log Z`` (B,), and the probability (B, N, M) that a path ends in a cell."""
    allowed = ends & admissible
    log_z = torch.where(allowed, -_grid(values, admissible.shape[2]), -torch.inf).flatten(1)
    return torch.logsumexp(log_z, 1), torch.softmax(log_z, 1).reshape(allowed.shape)


def expectations(
    cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, borders: Borders, fields: list[Tensor]
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """soft_min (B,), E[non-diagonal steps] and E[steps (1, 0)] (2, B), and E (B,) of each field (B, N, M).

    ``A_k = F_k + Σ_p q_p A_p``.
    """
    starts, ends = borders
    values, transition = _sweep(cost, gamma, penalty, admissible, starts)
    log_z, share = _ends(values, admissible, ends)
    soft_min = -gamma * log_z

    def expected(field: Tensor, counted: slice | None = None) -> Tensor:
        """E of the field along the path, plus one for every step that is ``counted`` among the transitions."""

        def mean(k: int, before: Tensor) -> Tensor:
            value = (transition[k] * before).sum(0)
            return value if counted is None else value + transition[k][counted].sum(0)

        # Added to the graph, so that even a 1 × 1 expectation has a (zero) gradient.
        table = _grid(_recurse(field, admissible, starts, mean, 0.0), cost.shape[2])
        return (share * table).sum((1, 2)) + 0 * soft_min

    none = torch.zeros_like(cost)
    steps = torch.stack([expected(none, slice(UP, None)), expected(none, slice(UP, LEFT))])
    return soft_min, steps, [expected(field) for field in fields]


def coupling(cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, borders: Borders) -> Tensor:
    """π* (B, N, M): ``π_p = Σ_s q_{s→p} π_s`` from the ends down."""
    starts, ends = borders
    values, transition = _sweep(cost, gamma, penalty, admissible, starts)
    share = skew(_ends(values, admissible, ends)[1]).unbind(2)
    zero = 0 * torch.stack([values[-1]] * 3)  # of the graph, so that even a 1 × 1 coupling has a (zero) gradient
    after, beyond = (zero, zero[0]), (zero, zero[0])
    out: list[Tensor] = []
    for k in range(len(transition) - 1, -1, -1):
        corner = _above(beyond[0][0] * beyond[1])
        up, left = _above(after[0][1] * after[1]), after[0][2] * after[1]
        here = corner + up + left + share[k]
        out.append(here)
        beyond, after = after, (transition[k], here)
    return torch.where(admissible, _grid(out[::-1], cost.shape[2]), 0)


def transitions(
    cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, borders: Borders
) -> tuple[Tensor, Tensor]:
    """(3, B, N, M): probability that a path came from the corner, from above, from the left.

    And (B, N, M): that it ends in the cell.
    """
    starts, ends = borders
    values, transition = _sweep(cost, gamma, penalty, admissible, starts)
    found = torch.stack([unskew(row, cost.shape[2]) for row in torch.stack(transition, 3)])
    return found, _ends(values, admissible, ends)[1]


def least_cost(cost: Tensor, penalty: Tensor, admissible: Tensor, borders: Borders) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) least path energies, the cells (2, B) in which they end, and (B, N, M) choices 0 corner, 1 up, 2 left."""
    starts, ends = borders
    steps, choices, huge = _steps(penalty), [], torch.finfo(cost.dtype).max / 16

    def least(_: int, before: Tensor) -> Tensor:
        value, choice = (before + steps).min(0)
        choices.append(choice)
        return value

    values = _grid(_recurse(cost, admissible, starts, least, huge), cost.shape[2])
    best, last = torch.where(ends & admissible, values, huge).flatten(1).min(1)
    cells = torch.stack([last // cost.shape[2], last % cost.shape[2]])
    return best, cells, _grid(choices, cost.shape[2]).to(torch.uint8)
