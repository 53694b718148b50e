"""Uncertainty-DTW in plain torch with full tables and a hand-written backward pass.

This is the textbook way: a table with one more row and column than the cost, filled one anti-diagonal of the whole
batch at a time by indexing ``table[:, i, j]``, and the adjoint recurrences over the same diagonals in reverse. The cost
C, log Σ and their chain rule are ordinary torch operations around it. It computes what `udtw.align` computes.
"""

from functools import lru_cache

import torch
from torch import Tensor

from benchmarks.plain_torch import FAR, Sums, squared_distances


@lru_cache
def _diagonals(rows: int, columns: int) -> list[tuple[Tensor, Tensor]]:
    """Return indices (i, j) from 1 of the cells on each anti-diagonal of the (N + 1, M + 1) tables."""
    found = []
    for k in range(2, rows + columns + 1):
        i = torch.arange(max(1, k - columns), min(rows, k - 1) + 1)
        found.append((i, k - i))
    return found


def _predecessors(table: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Return the table's values (3, B, cells) at the corner, above and to the left."""
    return torch.stack([table[:, i - 1, j - 1], table[:, i - 1, j], table[:, i, j - 1]])


class _PathSums(torch.autograd.Function):
    """Soft-min R, E[C] and E[log Σ] from C and log Σ (B, N, M)."""

    @staticmethod
    def forward(ctx, cost: Tensor, log_variance: Tensor, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
        count, rows, columns = cost.shape
        soft_min = cost.new_full((count, rows + 1, columns + 1), FAR)
        soft_min[:, 0, 0] = 0
        mean_cost, mean_log = torch.zeros_like(soft_min), torch.zeros_like(soft_min)
        for i, j in _diagonals(rows, columns):
            scores = _predecessors(soft_min, i, j) / -gamma
            weights = scores.softmax(0)
            local = cost[:, i - 1, j - 1]
            soft_min[:, i, j] = local - gamma * scores.logsumexp(0)
            mean_cost[:, i, j] = local + (weights * _predecessors(mean_cost, i, j)).sum(0)
            mean_log[:, i, j] = log_variance[:, i - 1, j - 1] + (weights * _predecessors(mean_log, i, j)).sum(0)
        ctx.save_for_backward(cost, log_variance, soft_min, mean_cost, mean_log)
        ctx.gamma = gamma
        return soft_min[:, -1, -1].clone(), mean_cost[:, -1, -1].clone(), mean_log[:, -1, -1].clone()

    @staticmethod
    def backward(ctx, by_soft_min: Tensor, by_cost: Tensor, by_log: Tensor) -> tuple[Tensor, Tensor, None]:
        """Compute adjoints r, a, l of the tables R, A = E[C] and L = E[log Σ], each cell p from its successors s.

        With ``w = exp((R_s − C_s − R_p)/γ)``, the share of p in s, ``a_p = Σ_s w a_s``, ``l_p = Σ_s w l_s`` and
        ``r_p = Σ_s w (r_s − (a_s (A_p − A_s + C_s) + l_s (L_p − L_s + log Σ_s))/γ)``. Then ∂/∂C = r + a, ∂/∂ log Σ = l.
        """
        cost, log_variance, soft_min, mean_cost, mean_log = ctx.saved_tensors
        gamma, (count, rows, columns) = ctx.gamma, cost.shape
        # One more row and column at the far end: cells there have no predecessor, since their R − C is −FAR.
        before_soft_min = cost.new_full((count, rows + 2, columns + 2), -FAR)  # R − C
        before_cost, before_log = (
            torch.zeros_like(before_soft_min),
            torch.zeros_like(before_soft_min),
        )  # A − C, L − log Σ
        inner = (slice(None), slice(1, rows + 1), slice(1, columns + 1))
        before_soft_min[inner] = soft_min[:, 1:, 1:] - cost
        before_cost[inner] = mean_cost[:, 1:, 1:] - cost
        before_log[inner] = mean_log[:, 1:, 1:] - log_variance
        adjoint, share_cost, share_log = (torch.zeros_like(before_soft_min) for _ in range(3))
        last = (slice(None), rows, columns)
        adjoint[last], share_cost[last], share_log[last] = by_soft_min, by_cost, by_log
        for i, j in reversed(_diagonals(rows, columns)[:-1]):

            def successors(table: Tensor, i: Tensor = i, j: Tensor = j) -> Tensor:
                return torch.stack([table[:, i + 1, j + 1], table[:, i + 1, j], table[:, i, j + 1]])

            weights = ((successors(before_soft_min) - soft_min[:, i, j]) / gamma).exp()
            of_cost, of_log = successors(share_cost), successors(share_log)
            ahead = of_cost * (mean_cost[:, i, j] - successors(before_cost))
            ahead = ahead + of_log * (mean_log[:, i, j] - successors(before_log))
            adjoint[:, i, j] = (weights * (successors(adjoint) - ahead / gamma)).sum(0)
            share_cost[:, i, j] = (weights * of_cost).sum(0)
            share_log[:, i, j] = (weights * of_log).sum(0)
        return (adjoint + share_cost)[inner], share_log[inner], None


def udtw(x: Tensor, y: Tensor, var_x: Tensor, var_y: Tensor, gamma: float = 1.0) -> Sums:
    """Return soft-min, E[C] and E[log Σ] of every pair of the batch; x, y: (B, N, d), var_x, var_y: (B, N)."""
    variance = 0.5 * (var_x[:, :, None] + var_y[:, None, :])
    return Sums(*_PathSums.apply(squared_distances(x, y) / variance, variance.log(), gamma))
