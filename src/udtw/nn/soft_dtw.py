"""SoftDTW: soft-DTW as a module with the constructor of pytorch-softdtw-cuda."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from udtw._engine import inputs
from udtw._engine.align import soft_dtw
from udtw.errors import BandError, GammaError, OptionError, ShapeError


class SoftDTW(nn.Module):
    """Compute soft-DTW of two batches, (B,): ``−γ log Σ_Π exp(−⟨Π, D⟩/γ)``.

    A drop-in replacement for pytorch-softdtw-cuda, and for tslearn's ``SoftDTWLossPyTorch(gamma, normalize,
    dist_func)`` if these are passed by name.

    Parameters
    ----------
    use_cuda : bool
        Ignored; kept for compatibility. The device is that of the tensors.
    gamma : float
        Temperature γ > 0.
    normalize : bool
        Return the divergence ``s(x, y) − ½[s(x, x) + s(y, y)]``, here for different lengths as well.
    bandwidth : float, optional
        Use only cells with ``|i − j| ≤ bandwidth``; None or 0 for all. A larger difference of the lengths leaves no
        path and raises a `BandError` (the original returns infinity).
    dist_func : callable, optional
        Cost (B, N, M) of (B, N, d) and (B, M, d); squared Euclidean by default.

    Examples
    --------
    >>> import torch
    >>> from udtw.nn import SoftDTW
    >>> x, y = torch.zeros(2, 4, 1), torch.ones(2, 6, 1)
    >>> SoftDTW(gamma=0.001)(x, y).round(decimals=1)  # six cells of cost 1
    tensor([6., 6.])
    >>> SoftDTW(gamma=0.1, normalize=True)(x, x)
    tensor([0., 0.])
    """

    def __init__(
        self,
        use_cuda: bool = False,
        gamma: float = 1.0,
        normalize: bool = False,
        bandwidth: float | None = None,
        dist_func: Callable[[Tensor, Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(use_cuda, bool):
            raise OptionError(f"The first argument is use_cuda, True or False; got {use_cuda!r}. Pass gamma by name.")
        if not gamma > 0 or not math.isfinite(gamma):
            raise GammaError(f"gamma must be a positive finite number; got {gamma!r}.")
        if bandwidth is not None and not 0 <= bandwidth < math.inf:
            raise BandError(f"bandwidth must be None or a number of steps, 0 or more; got {bandwidth!r}.")
        self.use_cuda, self.gamma, self.normalize = use_cuda, gamma, normalize
        self.bandwidth, self.dist_func = bandwidth, dist_func

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return soft-DTW (B,) of ``x`` (B, N, d) and ``y`` (B, M, d)."""
        for name, batch in (("x", x), ("y", y)):
            got = inputs.name_container(batch) or (tuple(batch.shape) if isinstance(batch, Tensor) else type(batch))
            if not (isinstance(got, tuple) and len(got) == 3):
                raise ShapeError(
                    f"{name} must be a tensor of shape (B, T, d); got {got}. Use udtw.soft_dtw for different lengths."
                )
        value = self._soft_dtw(x, y)
        return value - 0.5 * (self._soft_dtw(x, x) + self._soft_dtw(y, y)) if self.normalize else value

    def _soft_dtw(self, x: Tensor, y: Tensor) -> Tensor:
        band = self._band(x, y)
        if self.dist_func is None:
            return soft_dtw(x, y, self.gamma, band=band)
        return soft_dtw(None, None, self.gamma, cost=self.dist_func(x, y), band=band)

    def _band(self, x: Tensor, y: Tensor) -> Any:
        """Return a radius for equal lengths, else a mask, since a radius of udtw follows the slanted diagonal."""
        if not self.bandwidth:
            return None
        n, m = x.shape[1], y.shape[1]
        if n == m:
            return math.floor(self.bandwidth)
        if abs(n - m) > self.bandwidth:
            raise BandError(
                f"bandwidth={self.bandwidth} leaves no path between {n} and {m} steps. Use at least {abs(n - m)}, or "
                "udtw.soft_dtw(x, y, band=…), whose band follows the slanted diagonal."
            )
        rows, columns = torch.arange(n, device=x.device)[:, None], torch.arange(m, device=x.device)
        return (rows - columns).abs() <= self.bandwidth

    def extra_repr(self) -> str:
        return f"gamma={self.gamma}, normalize={self.normalize}, bandwidth={self.bandwidth}"
