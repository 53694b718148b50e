"""The oracle: every quantity by listing every path. For tiny grids and for tests.

Nothing is shared with the other backends: no recurrence, no diagonal, no sweep. Gradients are torch's own.
"""

from functools import lru_cache
from itertools import pairwise

import torch
from torch import Tensor

from udtw.errors import BackendError
from udtw.prior import STEPS

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


def _incidence(admissible: Tensor, n: int, m: int) -> tuple[list[tuple[tuple[int, int], ...]], Tensor]:
    """The admissible paths of one pair, and their cells as (paths, N, M) zeros and ones."""
    allowed = admissible.tolist()
    kept = [path for path in paths(n, m) if all(allowed[i][j] for i, j in path)]
    rows = torch.tensor([p for p, path in enumerate(kept) for _ in path])
    cells = torch.tensor([cell for path in kept for cell in path])
    table = torch.zeros(len(kept), *admissible.shape)
    table[rows, cells[:, 0], cells[:, 1]] = 1
    return kept, table.to(admissible.device)


def path_distribution(cost: Tensor, gamma: Tensor, admissible: Tensor, n: int, m: int) -> tuple[list, Tensor, Tensor]:
    """For one pair (N, M): its paths, their incidence (paths, N, M) and log-weights ``−⟨Π, C⟩/γ``."""
    kept, table = _incidence(admissible, n, m)
    table = table.to(cost.dtype)
    return kept, table, -(table * cost).sum((1, 2)) / gamma


def _per_pair(cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor):
    clean = torch.where(admissible, cost, 0)
    for b, (n, m) in enumerate(lengths.T.tolist()):
        yield b, *path_distribution(clean[b], gamma[b], admissible[b], n, m)


def expectations(
    cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor, fields: list[Tensor]
) -> tuple[Tensor, list[Tensor]]:
    """soft_min (B,) and the expectation (B,) of each field (B, N, M)."""
    soft_min, means = [], []
    for b, _, table, log_weight in _per_pair(cost, gamma, admissible, lengths):
        soft_min.append(-gamma[b] * torch.logsumexp(log_weight, 0))
        probability = torch.softmax(log_weight, 0)
        means.append([(probability * (table * torch.where(admissible, f, 0)[b]).sum((1, 2))).sum() for f in fields])
    return torch.stack(soft_min), [torch.stack(column) for column in zip(*means, strict=True)]


def coupling(cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor) -> Tensor:
    """π* (B, N, M)."""
    return torch.stack(
        [
            torch.einsum("p,pnm->nm", torch.softmax(log_weight, 0), table)
            for _, _, table, log_weight in _per_pair(cost, gamma, admissible, lengths)
        ]
    )


def transitions(cost: Tensor, gamma: Tensor, admissible: Tensor, lengths: Tensor) -> Tensor:
    """(3, B, N, M): probability that a path through a cell came from the corner, from above, from the left."""
    out = torch.zeros(3, *cost.shape, dtype=cost.dtype, device=cost.device)
    for b, kept, table, log_weight in _per_pair(cost, gamma, admissible, lengths):
        probability = torch.softmax(log_weight, 0)
        visits = torch.einsum("p,pnm->nm", probability, table)
        for path, p in zip(kept, probability, strict=True):
            for (i0, j0), (i, j) in pairwise(path):
                out[STEPS.index((i - i0, j - j0)), b, i, j] += p
        out[:, b] = torch.where(visits > 0, out[:, b] / visits, 0)
    out[0, :, 0, 0] = 1
    return out


def least_cost(cost: Tensor, admissible: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """(B,) least path costs, and (B, N, M) choices 0 corner, 1 up, 2 left along the least path."""
    values, choice = [], torch.zeros(cost.shape, dtype=torch.uint8, device=cost.device)
    one = torch.ones(cost.shape[0], dtype=cost.dtype, device=cost.device)
    for b, kept, _, log_weight in _per_pair(cost, one, admissible, lengths):
        best = int(torch.argmax(log_weight))
        values.append(-log_weight[best])
        for (i0, j0), (i, j) in pairwise(kept[best]):
            choice[b, i, j] = STEPS.index((i - i0, j - j0))
    return torch.stack(values), choice
