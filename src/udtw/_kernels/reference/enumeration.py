"""The oracle: every quantity by listing every path. For tiny grids and for tests.

Nothing is shared with the other backends: no recurrence, no diagonal, no sweep. Gradients are torch's own.
"""

from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from udtw._engine.prior import STEPS
from udtw.errors import BackendError

MAX_CELLS = 49
"""A 7 × 7 grid has 8,989 paths."""


@lru_cache(maxsize=64)
def paths(rows: int, columns: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """All monotone paths from (0, 0) to (rows − 1, columns − 1), as tuples of cells."""
    if rows * columns > MAX_CELLS:
        raise BackendError(
            f"backend='enumeration' lists every path and takes grids of at most {MAX_CELLS} cells; got {rows} × "
            f"{columns}. Use backend='auto'."
        )
    if rows == columns == 1:
        return (((0, 0),),)
    return tuple(
        (*prefix, (rows - 1, columns - 1))
        for down, right in STEPS
        if rows > down and columns > right
        for prefix in paths(rows - down, columns - right)
    )


Path = tuple[tuple[int, int], ...]


def _all_paths(starts: Tensor, ends: Tensor) -> list[Path]:
    """Return the paths from every cell of ``starts`` to every cell of ``ends``, (N, M) bool each."""
    found = []
    for i0, j0 in starts.nonzero().tolist():
        for i1, j1 in ends.nonzero().tolist():
            if i0 <= i1 and j0 <= j1:
                inner = paths(i1 - i0 + 1, j1 - j0 + 1)
                found += [tuple((i0 + i, j0 + j) for i, j in path) for path in inner]
    return found


def _warps(path: Path) -> list[int]:
    """Return the numbers of steps (1, 0) and (0, 1)."""
    steps = [(i - i0, j - j0) for (i0, j0), (i, j) in pairwise(path)]
    return [steps.count((1, 0)), steps.count((0, 1))]


def _listed(admissible: Tensor, starts: Tensor, ends: Tensor) -> tuple[list[Path], Tensor, Tensor]:
    """Return the admissible paths of one pair as (paths, N, M) zeros and ones, and their warps (paths, 2)."""
    allowed = admissible.tolist()
    kept = [path for path in _all_paths(starts, ends) if all(allowed[i][j] for i, j in path)]
    rows = torch.tensor([p for p, path in enumerate(kept) for _ in path])
    cells = torch.tensor([cell for path in kept for cell in path])
    table = torch.zeros(len(kept), *admissible.shape)
    table[rows, cells[:, 0], cells[:, 1]] = 1
    return kept, table.to(admissible.device), torch.tensor([_warps(path) for path in kept], device=admissible.device)


def path_distribution(
    cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, starts: Tensor, ends: Tensor
) -> tuple[list[Path], Tensor, Tensor, Tensor]:
    """For one pair (N, M): its paths, their incidence (paths, N, M), warps (paths, 2) and log-weights ``−E(Π)/γ``."""
    kept, table, warps = _listed(admissible, starts, ends)
    table, warps = table.to(cost.dtype), warps.to(cost.dtype)
    return kept, table, warps, -((table * cost).sum((1, 2)) + warps @ penalty) / gamma


def _per_pair(cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, borders: tuple[Tensor, Tensor]):
    clean = torch.where(admissible, cost, 0)
    for b in range(cost.shape[0]):
        yield (
            b,
            *path_distribution(
                clean[b], gamma[b], penalty[:, b], admissible[b], borders[0][b], borders[1][b] & admissible[b]
            ),
        )


def expectations(
    cost: Tensor,
    gamma: Tensor,
    penalty: Tensor,
    admissible: Tensor,
    borders: tuple[Tensor, Tensor],
    fields: list[Tensor],
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """soft_min (B,), E[non-diagonal steps] and E[steps (1, 0)] (2, B), and E (B,) of each field (B, N, M)."""
    soft_min, mean_warps, means = [], [], []
    for b, _, table, warps, log_weight in _per_pair(cost, gamma, penalty, admissible, borders):
        soft_min.append(-gamma[b] * torch.logsumexp(log_weight, 0))
        probability = torch.softmax(log_weight, 0)
        mean_warps.append(torch.stack([probability @ warps.sum(1), probability @ warps[:, 0]]))
        means.append([(probability * (table * torch.where(admissible, f, 0)[b]).sum((1, 2))).sum() for f in fields])
    columns = [torch.stack(column) for column in zip(*means, strict=True)]
    return torch.stack(soft_min), torch.stack(mean_warps, 1), columns


def coupling(
    cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, borders: tuple[Tensor, Tensor]
) -> Tensor:
    """π* (B, N, M)."""
    return torch.stack(
        [
            torch.einsum("p,pnm->nm", torch.softmax(log_weight, 0), table)
            for _, _, table, _, log_weight in _per_pair(cost, gamma, penalty, admissible, borders)
        ]
    )


def transitions(
    cost: Tensor, gamma: Tensor, penalty: Tensor, admissible: Tensor, borders: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """(3, B, N, M): probability that a path came from the corner, from above, from the left.

    And (B, N, M): that it ends in the cell.
    """
    out = torch.zeros(3, *cost.shape, dtype=cost.dtype, device=cost.device)
    ends = torch.zeros_like(out[0])
    for b, kept, table, _, log_weight in _per_pair(cost, gamma, penalty, admissible, borders):
        probability = torch.softmax(log_weight, 0)
        visits = torch.einsum("p,pnm->nm", probability, table)
        for path, p in zip(kept, probability, strict=True):
            out[0, b, *path[0]] += p  # it came from a corner outside of the grid
            ends[b, *path[-1]] += p
            for (i0, j0), (i, j) in pairwise(path):
                out[STEPS.index((i - i0, j - j0)), b, i, j] += p
        out[:, b] = torch.where(visits > 0, out[:, b] / visits, 0)
    return out, ends


def least_cost(
    cost: Tensor, penalty: Tensor, admissible: Tensor, borders: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) least path energies, the cells (2, B) in which they end, and (B, N, M) choices 0 corner, 1 up, 2 left."""
    values, last, choice = [], [], torch.zeros(cost.shape, dtype=torch.uint8, device=cost.device)
    one = torch.ones(cost.shape[0], dtype=cost.dtype, device=cost.device)
    for b, kept, _, _, log_weight in _per_pair(cost, one, penalty, admissible, borders):
        best = int(torch.argmax(log_weight))
        values.append(-log_weight[best])
        last.append(kept[best][-1])
        for (i0, j0), (i, j) in pairwise(kept[best]):
            choice[b, i, j] = STEPS.index((i - i0, j - j0))
    return torch.stack(values), torch.tensor(last, device=cost.device).T, choice
