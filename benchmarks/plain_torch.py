"""Uncertainty-DTW as plain torch code would do it: a loop over anti-diagonals and autograd for the gradient.

`udtw` computes what `udtw.align` computes with the paper's weighting, exactly, so it serves as a second opinion on
values and gradients too. Each step of the loop handles one anti-diagonal of the whole batch. The diagonals are gathered
once into a skewed layout whose position is the row i, so that the predecessors of all cells are three slices of the two
previous diagonals.

It is the fastest of the plain variants that were tried: slicing each diagonal to its true cells costs more in autograd
than it saves, and separate tensors for the three running sums need more calls.

`free_energy` is the loss of the likelihood, and only checks results.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

FAR = 1e10  # instead of infinity, whose differences would be NaN


@dataclass(frozen=True)
class Sums:
    """All (B,)."""

    soft_min: Tensor
    distance: Tensor
    regularizer: Tensor

    @property
    def loss(self) -> Tensor:
        return self.distance + self.regularizer


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Return squared distances (B, N, M): directly for few features, by a matrix product for many."""
    if x.shape[2] <= 4:
        return (x[:, :, None] - y[:, None]).square().sum(-1)
    norms = x.square().sum(2)[:, :, None] + y.square().sum(2)[:, None, :]
    return torch.baddbmm(norms, x, y.transpose(1, 2), alpha=-2)


def _diagonals(fields: Tensor) -> tuple[Tensor, ...]:
    """(F, B, N, M) -> N + M − 1 tensors (F, B, N). Positions beside the grid repeat an entry that no path uses."""
    rows, columns = fields.shape[2:]
    row = torch.arange(rows)[:, None]
    column = (torch.arange(rows + columns - 1) - row).clamp(0, columns - 1)
    return fields.gather(3, column.expand(*fields.shape[:2], -1, -1)).permute(3, 0, 1, 2).unbind(0)


def udtw(x: Tensor, y: Tensor, var_x: Tensor, var_y: Tensor, gamma: float = 1.0) -> Sums:
    """Return soft-min, E[C] and E[log Σ] of every pair of the batch; x, y: (B, N, d), var_x, var_y: (B, N)."""
    count, rows, _ = x.shape
    variance = 0.5 * (var_x[:, :, None] + var_y[:, None, :])
    cost = squared_distances(x, y) / variance
    # A diagonal's state is (α, E[C], E[log Σ]) of its cells, (3, B, 1 + N). The position in front is row −1, out of
    # reach except for the origin, which lies two diagonals before the first cell.
    outside = x.new_tensor([FAR, 0, 0])[:, None, None].expand(3, count, 1)
    last = outside.expand(3, count, rows + 1)
    before = last.clone()
    before[0, :, 0] = 0
    for fields in _diagonals(torch.stack([cost, cost, variance.log()])):
        sources = torch.stack([before[..., :-1], last[..., :-1], last[..., 1:]])
        scores = sources[:, 0] / -gamma
        soft_min = -gamma * scores.logsumexp(0)
        means = (scores.softmax(0)[:, None] * sources[:, 1:]).sum(0)
        state = torch.cat([soft_min[None], means]) + fields
        before, last = last, torch.cat([outside, state], -1)
    return Sums(*last[:, :, -1].unbind(0))


def free_energy(
    x: Tensor,
    y: Tensor,
    var_x: Tensor,
    var_y: Tensor,
    gamma: float = 1.0,
    beta: float = 1.0,
    warp_penalty: float = 0.0,
    relax: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Tensor:
    """Return ``−γ log Z`` (B,) of the energy ``D/Σ + β log(Σ/r)`` and ``warp_penalty`` per non-diagonal step."""
    count, rows, _ = x.shape
    columns = y.shape[1]
    variance = 0.5 * (var_x[:, :, None] + var_y[:, None, :])
    level = 0.5 * (var_x.log().mean(1) + var_y.log().mean(1))
    energy = squared_distances(x, y) / variance + beta * (variance.log() - level[:, None, None])
    row = torch.arange(rows)
    outside = x.new_full((count, 1), FAR)
    before = last = outside.expand(count, rows + 1)
    ends = []
    for k, cells in enumerate(_diagonals(energy[None])):
        column = k - row
        inside = (column >= 0) & (column < columns)
        start = inside & (((row == 0) & (column <= relax[2])) | ((column == 0) & (row <= relax[0])))
        last_row = (row == rows - 1) & (column >= columns - 1 - relax[3])
        last_column = (column == columns - 1) & (row >= rows - 1 - relax[1])
        begin = torch.where(start, 0.0, FAR).to(x).expand(count, rows)
        sources = torch.stack([begin, before[:, :-1], last[:, :-1] + warp_penalty, last[:, 1:] + warp_penalty])
        state = torch.where(inside, cells[0] - gamma * (sources / -gamma).logsumexp(0), FAR)
        ends.append(state[:, inside & (last_row | last_column)])
        before, last = last, torch.cat([outside, state], -1)
    # Together with the level r of each cell, a common factor of all variances has the price of N + M steps.
    return -gamma * (torch.cat(ends, 1) / -gamma).logsumexp(1) + beta * level * (rows + columns) / 2
