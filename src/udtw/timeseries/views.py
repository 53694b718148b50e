"""How an estimator sees series: the features that it aligns, and their variances."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn

from udtw.inputs import SeriesSet
from udtw.nn import LocalSigmaNet, SigmaNet
from udtw.nn.local_sigma import windows
from udtw.pair_block import Batch

SLOPE_REACH = 2
"""Steps on either side from which a slope is taken."""
LEAST_SLOPE = 1e-6
"""Standard deviation of slopes below which a series counts as straight."""


class View(nn.Module):
    """Series as an estimator aligns them; ``net`` gives their variances."""

    net: nn.Module

    def forward(self, batch: Batch) -> Batch:
        raise NotImplementedError

    def of(self, series: SeriesSet) -> SeriesSet:
        """The same of a collection, without gradients."""
        with torch.no_grad():
            seen = self(Batch.of(series))
        values, variances = (one.cpu().numpy().astype(series.values.dtype) for one in (seen.values, seen.variances))
        return replace(series, values=values, variances=variances)


class ValueView(View):
    """The values themselves, with the variances of a `SigmaNet`."""

    def __init__(self, net: SigmaNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, batch: Batch) -> Batch:
        return batch.with_variances(self.net(batch.values, batch.lengths))


class SlopeView(View):
    """Values and slopes, (B, T, 2d), each with its variance from a `LocalSigmaNet`.

    Values are in units of their standard deviation in training, slopes in units of their own in each series: a slope
    says where a series rises and falls, not how much (with one unit for all series the accuracy on faulty ones was 5
    points lower). How much values and slopes count is learned (``log_weights``).
    """

    net: LocalSigmaNet

    def __init__(self, series: SeriesSet, sigma_range: tuple[float, float]) -> None:
        super().__init__()
        dim = series.values.shape[2]
        self.net = LocalSigmaNet(dim, 2 * dim, sigma_range=sigma_range)
        self.log_weights = nn.Parameter(torch.zeros(2))
        spread = torch.as_tensor(np.concatenate(series.rows()), dtype=torch.float32).std(0, correction=0)
        self.net.scale.copy_(torch.where(spread > 0, spread, 1.0))

    def forward(self, batch: Batch) -> Batch:
        values = batch.values / self.net.scale
        of_values, of_slopes = self.log_weights.exp()
        seen = torch.cat([of_values * values, of_slopes * slopes(values, batch.lengths)], 2)
        if batch.lengths is not None:
            inside = torch.arange(seen.shape[1], device=seen.device) < batch.lengths[:, None]
            seen = torch.where(inside[..., None], seen, 0.0)
        return Batch(seen, batch.lengths, self.net(batch.values, batch.lengths))


def slopes(values: Tensor, lengths: Tensor | None = None) -> Tensor:
    """(B, T, d): slopes with standard deviation 1 in each series, of the least-squares line through five steps each.

    >>> import torch
    >>> slopes(torch.tensor([0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0])[None, :, None])[0, :, 0].sign().tolist()
    [1.0, 1.0, 1.0, 0.0, -1.0, -1.0, -1.0]
    """
    offsets = torch.arange(-SLOPE_REACH, SLOPE_REACH + 1, dtype=values.dtype, device=values.device)
    # Relative to the step itself, so that rounding leaves no slope where a series stands still.
    around = windows(values, lengths, SLOPE_REACH) - values[:, :, None]
    found = torch.einsum("btwd,w->btd", around, offsets / offsets.square().sum())
    inside = found.new_ones(1, found.shape[1])
    if lengths is not None:
        inside = (torch.arange(found.shape[1], device=found.device) < lengths[:, None]).to(found.dtype)
    inside = (inside / inside.sum(1, keepdim=True))[..., None]
    centred = found - (inside * found).sum(1, keepdim=True)
    return found / (inside * centred.square()).sum(1, keepdim=True).sqrt().clamp_min(LEAST_SLOPE)
