"""The oracle with gaps: every quantity by listing every set of matches. For tiny grids and for tests.

What an alignment costs is read off its matches; nothing is shared with `gaps` but the description of the problem.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from udtw._kernels.reference.gaps import GapModel
from udtw.errors import BackendError

MAX_CELLS = 25
"""A 5 × 5 grid has 4,214 sets of matches."""

Cells = tuple[tuple[int, int], ...]


def follows(cell: tuple[int, int], before: tuple[int, int]) -> bool:
    """Whether a match may come right after another: one step repeats its match, or both series go on."""
    down, right = cell[0] - before[0], cell[1] - before[1]
    return (down, right) in ((1, 0), (0, 1)) or (down > 0 and right > 0)


@lru_cache(maxsize=64)
def sets_of_matches(rows: int, columns: int) -> tuple[Cells, ...]:
    """All sets of matches in a grid, that without any among them, each in the order of its steps."""
    if rows * columns > MAX_CELLS:
        raise BackendError(
            f"backend='enumeration' lists every set of matches and takes grids of at most {MAX_CELLS} cells with gaps; "
            f"got {rows} × {columns}. Use backend='auto'."
        )
    cells = [(i, j) for i in range(rows) for j in range(columns)]

    def starting(cell: tuple[int, int]) -> Iterator[Cells]:
        yield (cell,)
        for after in cells:
            if follows(after, cell):
                yield from ((cell, *rest) for rest in starting(after))

    return ((), *(matches for cell in cells for matches in starting(cell)))


class _Listed(NamedTuple):
    """The alignments of one pair, K of them."""

    matches: list[Cells]
    table: Tensor  # (K, N, M) ones in the matches
    steps: Tensor  # (K, 2) of (1, 0) and of (0, 1)
    energy: Tensor  # (K,)


def _run(steps: int, free: int = 0) -> tuple[int, int]:
    """Return paid steps and paid runs of a run of left-out steps."""
    return max(steps - free, 0), int(steps > free)


def _outer(x_steps: int, y_steps: int, free_x: int, free_y: int) -> list[tuple[int, int]]:
    """Return paid steps and runs at one end, if it is relaxed in x, and if it is relaxed in y."""
    options = ((_run(x_steps, free_x), _run(y_steps)), (_run(x_steps), _run(y_steps, free_y)))
    return [(of_x[0] + of_y[0], of_x[1] + of_y[1]) for of_x, of_y in options]


def _left_out(matches: Cells, n: int, m: int, relax: list[int]) -> list[list[tuple[int, int]]]:
    """Return paid steps and runs between the matches, and the options at both ends."""
    inner = [_run(i - i0 - 1) for (i0, _), (i, _) in pairwise(matches) if i > i0]
    inner += [_run(j - j0 - 1) for (_, j0), (_, j) in pairwise(matches) if j > j0]
    total = (sum(steps for steps, _ in inner), sum(runs for _, runs in inner))
    x_begin, x_end, y_begin, y_end = relax
    if not matches:
        return [[total] * 2, _outer(n, m, x_begin + x_end, y_begin + y_end), [(0, 0)] * 2]
    first, last = matches[0], matches[-1]
    return [[total] * 2, _outer(*first, x_begin, y_begin), _outer(n - 1 - last[0], m - 1 - last[1], x_end, y_end)]


def _list(model: GapModel, b: int) -> _Listed:
    n, m = model.lengths[:, b].tolist()
    allowed, relax = model.admissible[b].tolist(), model.relax[:, b].tolist()
    kept = [one for one in sets_of_matches(n, m) if all(allowed[i][j] for i, j in one)]
    table = model.energy.new_zeros(len(kept), *model.energy.shape[1:])
    for number, matches in enumerate(kept):
        for i, j in matches:
            table[number, i, j] = 1
    moves = [[(i - i0, j - j0) for (i0, j0), (i, j) in pairwise(matches)] for matches in kept]
    steps = table.new_tensor([[one.count((1, 0)), one.count((0, 1))] for one in moves])
    left_out = table.new_tensor([_left_out(matches, n, m, relax) for matches in kept])  # (K, 3, 2 options, 2)
    outer = (left_out @ torch.stack([model.penalty[b], model.opening[b]])).amin(2).sum(1)
    cells = (table * torch.where(model.admissible[b], model.energy[b], 0)).sum((1, 2))
    return _Listed(kept, table, steps, cells + steps @ model.steps[:, b] + outer)


def _every(model: GapModel) -> Iterator[tuple[_Listed, Tensor, Tensor]]:
    """Return the alignments of each pair with their log weights and probabilities."""
    for b in range(model.energy.shape[0]):
        listed = _list(model, b)
        weight = -listed.energy / model.gamma[b]
        yield listed, weight, torch.softmax(weight, 0)


def free_energy(model: GapModel) -> Tensor:
    """(B,): ``−γ log Z``."""
    return -model.gamma * torch.stack([torch.logsumexp(weight, 0) for _, weight, _ in _every(model)])


def expectations(model: GapModel, fields: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Return what `enumeration.expectations` does."""
    steps, means = [], []
    for b, (listed, _, probability) in enumerate(_every(model)):
        steps.append(torch.stack([probability @ listed.steps.sum(1), probability @ listed.steps[:, 0]]))
        visited = torch.einsum("p,pnm->nm", probability, listed.table)
        means.append([(visited * torch.where(model.admissible, field, 0)[b]).sum() for field in fields])
    columns = [torch.stack(column) for column in zip(*means, strict=True)]
    return free_energy(model), torch.stack(steps, 1), columns


def coupling(model: GapModel) -> Tensor:
    """π* (B, N, M)."""
    return torch.stack([torch.einsum("p,pnm->nm", share, listed.table) for listed, _, share in _every(model)])


def mean_energy(model: GapModel) -> Tensor:
    """(B,): the mean energy of an alignment."""
    return torch.stack([(share * listed.energy).sum() for listed, _, share in _every(model)])


def transitions(model: GapModel) -> tuple[Tensor, Tensor]:
    """Return what `gaps.transitions` does."""
    out = torch.zeros(4, *model.energy.shape, dtype=model.energy.dtype, device=model.energy.device)
    ends = torch.zeros_like(out[0])
    for b, (listed, _, probability) in enumerate(_every(model)):
        visits = torch.einsum("p,pnm->nm", probability, listed.table)
        for matches, share in zip(listed.matches, probability, strict=True):
            if matches:
                out[3, b, *matches[0]] += share
                ends[b, *matches[-1]] += share
            for (i0, j0), (i, j) in pairwise(matches):
                way = {(1, 0): 1, (0, 1): 2}.get((i - i0, j - j0), 0)
                out[way, b, i, j] += share
        out[:, b] = torch.where(visits > 0, out[:, b] / visits, 0)
    return out, ends


def least_energy(model: GapModel) -> Tensor:
    """(B,): the least energy of an alignment."""
    return torch.stack([listed.energy.min(0).values for listed, _, _ in _every(model)])


def sample_matches(model: GapModel, k: int, generator: torch.Generator | None) -> list[list[Tensor]]:
    """``k`` sets of matches (L, 2) for each pair, drawn from the list."""
    found = []
    for listed, _, probability in _every(model):
        drawn = torch.multinomial(probability.detach().cpu(), k, replacement=True, generator=generator).tolist()
        found.append([torch.tensor(listed.matches[p], dtype=torch.int64).reshape(-1, 2) for p in drawn])
    return found
