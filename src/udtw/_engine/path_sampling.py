"""Walking back from the last cell to the first, by given choices or probabilities of where each cell was reached from.

On the CPU and without torch: a walk is a long chain of tiny steps, and the cost of its calls would be all of the time.

With gaps a path is a set of matches, which is written with its unmatched steps.
"""

import numpy as np
import torch
from torch import Tensor

from udtw._engine.prior import CORNER, LEFT, UP, Prior, gap_energy, outer_energy


def walk_choices(choice: Tensor, last: Tensor) -> list[Tensor]:
    """One path for each of B pairs, an int64 tensor (L, 2): ``choice`` (B, N, M) holds CORNER, UP or LEFT.

    It goes back from the cells ``last`` (2, B) to a cell of the first row or column that was reached from the corner.
    """
    columns = choice.shape[2]
    paths = []
    for chosen, cell in zip(choice.detach().to("cpu", torch.uint8).numpy(), last.T.tolist(), strict=True):
        steps = chosen.tobytes()
        i, j = cell
        cells = [(i, j)]
        while (step := steps[i * columns + j]) != CORNER or (i and j):
            i, j = i - (step != LEFT), j - (step != UP)
            cells.append((i, j))
        paths.append(torch.tensor(cells[::-1], dtype=torch.int64))
    return paths


def walk_back(
    transitions: Tensor, ends: Tensor, k: int, generator: torch.Generator | None = None
) -> list[list[Tensor]]:
    """``k`` paths for each of B pairs, each an int64 tensor (L, 2) from its first to its last cell.

    ``transitions`` (3, B, N, M) holds the probabilities of CORNER, UP and LEFT, ``ends`` (B, N, M) those of the last
    cell; all walks move at once.
    """
    _, count, rows, columns = transitions.shape
    shares = transitions.detach().cpu().numpy().reshape(3, -1)
    device = generator.device if generator is not None else torch.device("cpu")
    size = (rows + columns, count * k)
    dice = torch.rand(size, generator=generator, dtype=torch.float64, device=device).cpu().numpy()

    first = np.repeat(np.arange(count) * rows * columns, k)
    at = first + _drawn(ends.detach().cpu().numpy().reshape(count, -1), dice[0].reshape(count, k)).ravel()
    visited, alive = [at], [np.ones(len(at), bool)]
    moving = np.ones(len(at), bool)
    for thrown in dice[1:]:
        corner, up, left = shares[:, at].astype(np.float64)  # of these cells alone: a grid of them is large
        # Scaled by the sum, a share of exactly zero is never drawn, whatever rounding did to the others.
        drawn = thrown * (corner + up + left)
        higher = drawn < corner + up
        diagonal = drawn < corner
        lefter = diagonal | ~higher
        i, j = np.divmod(at - first, columns)
        moving = moving & ~(diagonal & ((i == 0) | (j == 0)))  # from a corner outside of the grid: the path starts here
        if not moving.any():
            break
        at = at - moving * (columns * higher + lefter)
        visited.append(at)
        alive.append(moving)
    i, j = np.divmod(np.stack(visited[::-1], 1) - first[:, None], columns)
    kept = np.stack(alive[::-1], 1)
    walks = [torch.from_numpy(np.stack([i[w, kept[w]], j[w, kept[w]]], 1)) for w in range(count * k)]
    return [walks[b * k : (b + 1) * k] for b in range(count)]


def _drawn(probabilities: np.ndarray, dice: np.ndarray) -> np.ndarray:
    """(B, k) positions drawn from each row of ``probabilities`` (B, cells) by ``dice`` in [0, 1)."""
    paths = []
    for row, thrown in zip(probabilities, dice, strict=True):
        reached = row.cumsum(dtype=np.float64)
        paths.append(np.searchsorted(reached, thrown * reached[-1], "right"))
    return np.stack(paths)


def with_unmatched(matches: Tensor, rows: int, columns: int) -> Tensor:
    """(L, 2): matches [i, j] with the unmatched steps between them, [i, −1] of x before [−1, j] of y."""
    path: list[tuple[int, int]] = []
    i = j = -1
    for row, column in [*matches.tolist(), (rows, columns)]:
        path += [(skipped, -1) for skipped in range(i + 1, row)]
        path += [(-1, skipped) for skipped in range(j + 1, column)]
        path.append((row, column))
        i, j = row, column
    return torch.tensor(path[:-1], dtype=torch.int64).reshape(-1, 2)


def matches_of(path: Tensor, rows: int, columns: int) -> Tensor | None:
    """(L, 2): the matches of a path with gaps, which lists these alone or all steps; None if it is no such path."""
    matches = path[(path >= 0).all(1)]
    moves = matches.diff(dim=0)
    repeats = (moves >= 0).all(1) & (moves.sum(1) == 1)
    complete = with_unmatched(matches, rows, columns)
    inside = bool((matches < torch.tensor([rows, columns])).all())
    if not inside or not bool((repeats | (moves > 0).all(1)).all()):
        return None
    return matches if len(path) == len(matches) or torch.equal(path, complete) else None


def unmatched_energy(prior: Prior, b: int, matches: Tensor, lengths: Tensor) -> Tensor:
    """Return the energy of the steps of pair b, of ``lengths`` (2,), that are not among its ``matches``."""
    penalty, opening = prior.gap_penalty, prior.gap_opening
    assert penalty is not None, "the prior has gaps"
    assert opening is not None, "it comes with the penalty"
    relax = lengths.new_zeros((4, 1)) if prior.relax is None else prior.relax[:, b : b + 1]

    def outer(left_out: Tensor, free: Tensor) -> Tensor:
        return outer_energy((left_out[:1], left_out[1:]), free, penalty[b : b + 1], opening[b : b + 1]).sum()

    if not len(matches):
        return outer(lengths, relax[[0, 2]] + relax[[1, 3]])
    inner = (matches.diff(dim=0) - 1).clamp_min(0)
    between = gap_energy(inner, torch.zeros_like(inner), penalty[b], opening[b]).sum()
    return between + outer(matches[0], relax[[0, 2]]) + outer(lengths - 1 - matches[-1], relax[[1, 3]])
