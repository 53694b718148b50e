"""The cost of a match: the base cost D, the variance Σ, and the energy that weights a path, in plain torch."""

import torch
from torch import Tensor
from torch.nn import functional

from udtw.errors import LengthError, OptionError

MAX_DIRECT_DIM = 16
"""Up to this many features D is summed from differences, exact for nearby points; beyond, by a matrix product."""


def squared_distances(x: Tensor, y: Tensor, max_direct_dim: int = MAX_DIRECT_DIM) -> Tensor:
    """``D_mn = ‖x_m − y_n‖²``: (B, N, d), (B, M, d) → (B, N, M), without a (B, N, M, d) temporary.

    The matrix product ``‖x‖² + ‖y‖² − 2xy`` is taken about a common center, which bounds its cancellation error by
    the spread of the points instead of their distance from the origin. Negative rounding is cut off; the gradient is
    that of the uncut value.
    """
    if x.shape[2] <= max_direct_dim:
        total = (x[:, :, None, 0] - y[:, None, :, 0]).square()
        for f in range(1, x.shape[2]):
            total = total + (x[:, :, None, f] - y[:, None, :, f]).square()
        return total
    centre = y.detach().mean(1, keepdim=True)
    x, y = x - centre, y - centre
    norms = x.square().sum(2)[:, :, None] + y.square().sum(2)[:, None, :]
    if not torch.is_grad_enabled():  # without new memory: for all pairs of long sequences these passes take most time
        return norms.baddbmm_(x, y.transpose(1, 2), alpha=-2).clamp_min_(0)
    product = torch.baddbmm(norms, x, y.transpose(1, 2), alpha=-2)
    return product + torch.relu(-product.detach())


def mean_variance(var_x: Tensor, var_y: Tensor) -> Tensor:
    """``Σ_mn = ½[σ²(x_m) + σ²(y_n)]``: (B, N), (B, M) → (B, N, M); with a variance of each feature (B, N, M, d)."""
    return 0.5 * (var_x[:, :, None] + var_y[:, None, :])


def feature_distances(x: Tensor, y: Tensor, var_x: Tensor, var_y: Tensor) -> Tensor:
    """``Σ_l (x_l − y_l)²/Σ_l`` (B, N, M) for variances (B, N, d) and (B, M, d), feature by feature."""
    total = torch.zeros((), dtype=x.dtype, device=x.device)
    for f in range(x.shape[2]):
        variance = mean_variance(var_x[:, :, f], var_y[:, :, f])
        total = total + (x[:, :, None, f] - y[:, None, :, f]).square() / variance
    return total


WEIGHTINGS = ("likelihood", "precision")
"""Energy of a cell: D/Σ + β log Σ, so that uncertainty has a price, or D/Σ as in the paper."""


def check_weighting(weighting: str, lam: float = 0.0, distance: str = "expected") -> None:
    """Raise `OptionError` for an unknown weighting, or with what belongs to the paper's alone."""
    if weighting not in WEIGHTINGS:
        raise OptionError(f"weighting must be one of {WEIGHTINGS}; got {weighting!r}.", parameter="weighting")
    if weighting == "likelihood" and (lam or distance != "expected"):
        raise OptionError(
            "lam and distance='soft_min' belong to weighting='precision', the paper's; the free energy of the "
            f"likelihood, which is the default, is Alignment.free_energy. Got lam={lam!r}, distance={distance!r}."
        )


def log_level(log_x: Tensor, log_y: Tensor, in_x: Tensor, in_y: Tensor) -> Tensor:
    """``log r`` (B,): the mean log variance of the steps of x and that of y, averaged.

    The level to which log Σ is relative: (B, N), (B, M) log variances, and masks of what is not padding. Log variances
    of features, (B, N, d), are summed over the features.
    """

    def mean(log: Tensor, inside: Tensor) -> Tensor:
        log = log if log.ndim == 2 else log.sum(2)
        return torch.where(inside, log, 0).sum(1) / inside.sum(1)

    return 0.5 * (mean(log_x, in_x) + mean(log_y, in_y))


ROUGHNESS_WINDOW = 9
"""Steps over which `roughness` averages."""


@torch.no_grad()
def roughness(series: Tensor) -> Tensor:
    """(T,): an estimate of the variance of white noise on a smooth series (T, d), from the series alone.

    It is ``⅙(x_{t−1} − 2x_t + x_{t+1})²``, averaged over features and `ROUGHNESS_WINDOW` steps; the mean of this is the
    variance of the noise if the series itself is linear. At least three steps are needed.
    """
    bend = series.diff(n=2, dim=0).square().mean(1) / 6
    # One more value at each end, where there is no second difference.
    padded = functional.pad(bend[None], (1 + ROUGHNESS_WINDOW // 2,) * 2, mode="replicate")
    return padded[0].unfold(0, ROUGHNESS_WINDOW, 1).mean(1)


LEAST_ROUGHNESS = 1e-4
"""Share of the variance of a series below which no estimated variance lies."""


def estimate_variances(name: str, series: Tensor, lengths: Tensor) -> Tensor:
    """Return variances (B, T) from the `roughness` of series (B, T, d) with these lengths (B,); 1 in padding.

    A variance must not be zero: each is at least a small share of the variance of its series.
    """
    variances = series.new_ones(series.shape[:2])
    for b, length in enumerate(lengths.tolist()):
        own = series[b, :length].detach()
        if length < 3:
            raise LengthError(f"{name}='estimate' needs at least three steps; sequence {b} has {length}.")
        least = LEAST_ROUGHNESS * float(own.var(0, correction=0).mean()) + torch.finfo(own.dtype).tiny
        variances[b, :length] = roughness(own).clamp_min(least)
    return variances
