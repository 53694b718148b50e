"""LocalSigmaNet: a network that predicts variances from the shape, the noise and the spread around each step."""

import torch
from torch import Tensor, nn

from udtw.nn.sigma import SigmaRange, initialize

DILATIONS = (1, 2, 4)
KERNEL = 5
"""Three convolutions of 5 steps with these dilations see 29 steps."""
NOISE_REACH, SPREAD_REACH = 2, 4
"""Steps on either side over which the noise and the spread are averaged."""
LEAST = 1e-4
"""Variance, in units of the scale, added to noise and spread before their logarithm."""


class LocalSigmaNet(nn.Module):
    """Predict variances (B, T, outputs·d) of series (B, T, d), or (B, T) if that is one, from 29 steps around each.

    One small network reads each feature separately: its values and the logarithms of the local noise (from second
    differences) and of the local spread, so that bursts, spikes and flat stretches stand out before any training.
    ``σ = low + (high − low)·sigmoid(f)`` with three dilated convolutions f. Before training σ is near 1, or near the
    middle of a range without 1.

    Parameters
    ----------
    dim : int
        Number of features d per step.
    outputs : int
        Number of variances per feature and step; the first of all features come first, then the second.
    hidden : int
        Width of the hidden layers.
    sigma_range : (low, high)
        Range of σ.

    Examples
    --------
    >>> import torch
    >>> from udtw.nn import LocalSigmaNet
    >>> net = LocalSigmaNet(3, outputs=2)
    >>> net(torch.zeros(5, 40, 3)).shape
    torch.Size([5, 40, 6])
    >>> LocalSigmaNet(1)(torch.zeros(3, 40, 1), torch.tensor([40, 30, 20])).shape
    torch.Size([3, 40])
    """

    centre: Tensor
    """(d,): subtracted from the series, which are then divided by ``scale``."""
    scale: Tensor

    def __init__(
        self, dim: int, outputs: int = 1, hidden: int = 16, sigma_range: tuple[float, float] = (0.25, 4.0)
    ) -> None:
        super().__init__()
        self.dim, self.outputs = dim, outputs
        self.range = SigmaRange.of(sigma_range)
        widths = [3] + [hidden] * len(DILATIONS)
        self.layers = nn.ModuleList(
            nn.Conv1d(before, after, KERNEL, padding=dilation * (KERNEL // 2), dilation=dilation)
            for before, after, dilation in zip(widths[:-1], widths[1:], DILATIONS, strict=True)
        )
        self.out = nn.Conv1d(hidden, outputs, 1)
        for layer in (*self.layers, self.out):
            initialize(layer)
        nn.init.normal_(self.out.weight, std=0.1)
        assert self.out.bias is not None, "all layers here have one"
        nn.init.constant_(self.out.bias, self.range.raw(self.range.start))
        self.register_buffer("centre", torch.zeros(dim))
        self.register_buffer("scale", torch.ones(dim))

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return variances of ``x`` (B, T, d). Steps beyond ``lengths`` are ignored and get 1."""
        inside = None if lengths is None else torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        hidden = self._inputs(x, lengths)
        count, dim, _, steps = hidden.shape
        padding = None if inside is None else ~inside.repeat_interleave(dim, 0)[:, None]
        hidden = hidden.flatten(0, 1)
        for layer in self.layers:
            # Padding is zero in every layer, as beyond the ends of a series without padding.
            hidden = hidden if padding is None else hidden.masked_fill(padding, 0.0)
            hidden = layer(hidden).relu()
        raw = self.out(hidden).reshape(count, dim, self.outputs, steps)
        variance = self.range.sigma(raw).square().permute(0, 3, 2, 1).reshape(count, steps, -1)
        if inside is not None:
            variance = torch.where(inside[..., None], variance, 1.0)
        return variance[..., 0] if variance.shape[2] == 1 else variance

    def _inputs(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return values, noise and spread, each of order one: (B, d, 3, T)."""
        x = (x - self.centre) / self.scale
        noise = (local_noise(x, lengths) + LEAST).log() / 3 + 1
        around = windows(x, lengths, SPREAD_REACH)
        spread = (around.var(2, correction=0) + LEAST).log() / 4 + 1
        return torch.stack([x, noise, spread], 2).permute(0, 3, 2, 1)


def windows(x: Tensor, lengths: Tensor | None, reach: int) -> Tensor:
    """Return the steps around each step, (B, T, 2·reach + 1, d), repeating the first and the last beyond the ends.

    >>> import torch
    >>> windows(torch.tensor([[[1.0], [2.0], [3.0]]]), None, 1)[0, 0, :, 0].tolist()
    [1.0, 1.0, 2.0]
    """
    count, steps = x.shape[:2]
    around = torch.arange(steps, device=x.device)[:, None] + torch.arange(-reach, reach + 1, device=x.device)
    last = torch.full((count,), steps - 1, device=x.device) if lengths is None else lengths.to(x.device) - 1
    index = torch.minimum(around.clamp_min(0)[None], last[:, None, None])
    return x[torch.arange(count, device=x.device)[:, None, None], index]


def local_noise(x: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Estimate the variance of white noise around each step, (B, T, d), from second differences."""
    steps = x.shape[1]
    if steps < 3:
        return torch.zeros_like(x)
    bend = nn.functional.pad(x.diff(n=2, dim=1).square() / 6, (0, 0, 1, 1))  # of variance 6 for unit noise
    # The first and the last step have no second difference; they take that of their neighbor.
    at = torch.arange(steps, device=x.device)[None]
    last = torch.full((len(x),), steps, device=x.device) if lengths is None else lengths.to(x.device)
    at = torch.minimum(at.clamp_min(1), (last - 2).clamp_min(1)[:, None])
    bend = bend[torch.arange(len(x), device=x.device)[:, None], at]
    return windows(bend, lengths, NOISE_REACH).mean(2)
