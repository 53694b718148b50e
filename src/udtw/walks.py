"""Walking back from the last cell to the first, by given choices or probabilities of where each cell was reached from.

A walk is at one flat cell number at a time, on the CPU: a step of all walks is a handful of NumPy calls, where torch's
own cost of a call would be most of the time.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

CORNER, UP, LEFT = 0, 1, 2

Decide = Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From the number of the step and the cells (W,): whether each walk goes up a row, and whether it goes left."""


def walk_choices(choice: Tensor, lengths: Tensor) -> list[Tensor]:
    """One path for each of B pairs, an int64 tensor (L, 2): ``choice`` (B, N, M) holds CORNER, UP or LEFT."""
    chosen = choice.detach().cpu().numpy().reshape(-1)

    def decide(_: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        step = chosen[at]
        return step != LEFT, step != UP

    return _walk(decide, lengths, 1, choice.shape[1], choice.shape[2])


def walk_back(
    transitions: Tensor, lengths: Tensor, k: int, generator: torch.Generator | None = None
) -> list[list[Tensor]]:
    """``k`` paths for each of B pairs, each an int64 tensor (L, 2) from (0, 0) to its last cell.

    ``transitions`` (3, B, N, M) holds the probabilities of CORNER, UP and LEFT; all walks move at once.
    """
    _, count, rows, columns = transitions.shape
    corner, up, left = transitions.detach().cpu().double().numpy().reshape(3, -1)
    not_left = corner + up
    # Scaled by the sum, a share of exactly zero is never drawn, whatever rounding did to the others.
    total = not_left + left
    device = generator.device if generator is not None else torch.device("cpu")
    size = (max(rows + columns - 2, 0), count * k)
    dice = torch.rand(size, generator=generator, dtype=torch.float64, device=device).cpu().numpy()

    def decide(number: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        drawn = dice[number] * total[at]
        higher = drawn < not_left[at]
        return higher, (drawn < corner[at]) | ~higher

    walks = _walk(decide, lengths, k, rows, columns)
    return [walks[b * k : (b + 1) * k] for b in range(count)]


def _walk(decide: Decide, lengths: Tensor, k: int, rows: int, columns: int) -> list[Tensor]:
    """``k`` walks for each pair, from its last cell to its first, then turned round."""
    ends = lengths.detach().cpu().numpy()
    first = np.repeat(np.arange(ends.shape[1]) * rows * columns, k)
    n, m = (np.repeat(side, k) for side in ends)
    at = first + (n - 1) * columns + m - 1
    visited, alive = [at], [np.ones(len(at), bool)]
    for number in range(max(rows + columns - 2, 0)):
        moving = at > first
        if not moving.any():
            break
        higher, lefter = decide(number, at)
        at = at - moving * (columns * higher + lefter)
        visited.append(at)
        alive.append(moving)
    i, j = np.divmod(np.stack(visited[::-1], 1) - first[:, None], columns)
    kept = np.stack(alive[::-1], 1)
    return [torch.from_numpy(np.stack([i[w, kept[w]], j[w, kept[w]]], 1)) for w in range(len(first))]
