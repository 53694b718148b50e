"""Walking back from the last cell to the first, by given probabilities of where each cell was reached from."""

import torch
from torch import Tensor

CORNER, UP, LEFT = 0, 1, 2


def walk_back(
    transitions: Tensor, lengths: Tensor, k: int, generator: torch.Generator | None = None
) -> list[list[Tensor]]:
    """``k`` paths for each of B pairs, each an int64 tensor (L, 2) from (0, 0) to its last cell.

    ``transitions`` (3, B, N, M) holds the probabilities of CORNER, UP and LEFT; all walks move at once.
    """
    _, count, rows, columns = transitions.shape
    device = transitions.device
    pair = torch.arange(count, device=device).repeat_interleave(k)
    i, j = lengths.repeat_interleave(k, dim=1) - 1
    visited = [torch.stack([i, j], 1)]
    alive = [torch.ones_like(pair, dtype=torch.bool)]
    for _ in range(rows + columns - 2):
        corner, up, left = transitions[:, pair, i, j].double()
        where = generator.device if generator is not None else device
        dice = torch.rand(pair.shape[0], generator=generator, dtype=torch.float64, device=where).to(device)
        # Scaled by the sum, a share of exactly zero is never drawn, whatever rounding did to the others.
        dice = dice * (corner + up + left)
        step = torch.where(dice < corner, CORNER, torch.where(dice < corner + up, UP, LEFT))
        moving = (i > 0) | (j > 0)
        i = i - (moving & (step != LEFT)).long()
        j = j - (moving & (step != UP)).long()
        visited.append(torch.stack([i, j], 1))
        alive.append(moving)
    cells = torch.stack(visited, 1).flip(1).cpu()
    kept = torch.stack(alive, 1).flip(1).cpu()
    walks = [cells[w, kept[w]] for w in range(count * k)]
    return [walks[b * k : (b + 1) * k] for b in range(count)]
