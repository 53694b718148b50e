"""From sequences and variances to the base cost D and the match variance Σ, in plain torch."""

import torch
from torch import Tensor

MAX_DIRECT_DIM = 16
"""Up to this many features D is summed from differences, exact for nearby points; beyond, by a matrix product."""


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """``D_mn = ‖x_m − y_n‖²``: (B, N, d), (B, M, d) → (B, N, M), without a (B, N, M, d) temporary.

    The matrix product ``‖x‖² + ‖y‖² − 2xy`` is taken about a common centre, which bounds its cancellation error by
    the spread of the points instead of their distance from the origin. Negative rounding is cut off; the gradient is
    that of the uncut value.
    """
    if x.shape[2] <= MAX_DIRECT_DIM:
        total = (x[:, :, None, 0] - y[:, None, :, 0]).square()
        for f in range(1, x.shape[2]):
            total = total + (x[:, :, None, f] - y[:, None, :, f]).square()
        return total
    centre = y.detach().mean(1, keepdim=True)
    x, y = x - centre, y - centre
    norms = x.square().sum(2)[:, :, None] + y.square().sum(2)[:, None, :]
    product = torch.baddbmm(norms, x, y.transpose(1, 2), alpha=-2)
    return product + torch.relu(-product.detach())


def mean_variance(var_x: Tensor, var_y: Tensor) -> Tensor:
    """``Σ_mn = ½[σ²(x_m) + σ²(y_n)]``: (B, N), (B, M) → (B, N, M)."""
    return 0.5 * (var_x[:, :, None] + var_y[:, None, :])
