"""Walking back from the last cell to the first, by given choices or probabilities of where each cell was reached from.

On the CPU and without torch: a walk is a long chain of tiny steps, and the cost of its calls would be all of the time.
"""

import numpy as np
import torch
from torch import Tensor

from udtw.prior import LEFT, UP


def walk_choices(choice: Tensor, lengths: Tensor) -> list[Tensor]:
    """One path for each of B pairs, an int64 tensor (L, 2): ``choice`` (B, N, M) holds CORNER, UP or LEFT."""
    columns = choice.shape[2]
    found = []
    for chosen, (n, m) in zip(choice.detach().to("cpu", torch.uint8).numpy(), lengths.T.tolist(), strict=True):
        steps = chosen.tobytes()
        i, j = n - 1, m - 1
        cells = [(i, j)]
        while i or j:
            step = steps[i * columns + j]
            i, j = i - (step != LEFT), j - (step != UP)
            cells.append((i, j))
        found.append(torch.tensor(cells[::-1], dtype=torch.int64))
    return found


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

    ends = lengths.detach().cpu().numpy()
    first = np.repeat(np.arange(count) * rows * columns, k)
    n, m = (np.repeat(side, k) for side in ends)
    at = first + (n - 1) * columns + m - 1
    visited, alive = [at], [np.ones(len(at), bool)]
    for thrown in dice:
        moving = at > first
        if not moving.any():
            break
        drawn = thrown * total[at]
        higher = drawn < not_left[at]
        lefter = (drawn < corner[at]) | ~higher
        at = at - moving * (columns * higher + lefter)
        visited.append(at)
        alive.append(moving)
    i, j = np.divmod(np.stack(visited[::-1], 1) - first[:, None], columns)
    kept = np.stack(alive[::-1], 1)
    walks = [torch.from_numpy(np.stack([i[w, kept[w]], j[w, kept[w]]], 1)) for w in range(count * k)]
    return [walks[b * k : (b + 1) * k] for b in range(count)]
