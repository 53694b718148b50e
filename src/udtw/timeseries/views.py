"""Views of series: the features that an estimator aligns, and their variances."""

from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from udtw._engine.pair_block import Batch
from udtw._engine.series_set import SeriesSet
from udtw._io.training import torch_threads
from udtw.nn import LocalSigmaNet, SigmaNet
from udtw.nn.local_sigma import windows
from udtw.nn.sigma import SigmaRange

SLOPE_REACH = 2
"""Steps on either side from which a slope is computed."""
START_FILE = Path(__file__).with_name("slope_view.safetensors")
"""Initial weights of a `SlopeView`, made by `experiments.pretraining`."""
USUAL_RANGE = (0.25, 4.0)
"""Range of σ that these weights were trained for."""
LEAST_SLOPE, LEAST_SPREAD = 1e-6, 0.2
"""Least standard deviations by which slopes, and values in units of the training series, are divided."""
STANDARDIZED = 0.05
"""Largest mean, and largest difference of the standard deviation from 1, of series that count as standardized."""


class View(nn.Module):
    """Module from series to what an estimator aligns; ``net`` predicts the variances."""

    net: nn.Module

    def of(self, series: SeriesSet) -> SeriesSet:
        """Return the view of a collection, without gradients; the same bits for every number of torch's threads."""
        with torch.no_grad(), torch_threads(1):
            seen = self(Batch.of(series))
        return series.with_tensors(seen.values, seen.variances)


class ValueView(View):
    """Values with the variances of a `SigmaNet`."""

    def __init__(self, net: SigmaNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, batch: Batch) -> Batch:
        """Return the batch with its variances."""
        return batch.with_variances(self.net(batch.values, batch.lengths))


class SlopeView(View):
    """Values and slopes, (B, T, 2d), each with its variance from a `LocalSigmaNet`.

    Values are in units of their standard deviation in training, slopes in units of their own in each series: a slope
    then tells where a series rises and falls, not how much (with one unit for all series the accuracy on faulty ones
    was 5 points lower). The weights of values and slopes are learned (``log_weights``).

    A fault changes the mean and the standard deviation of a whole series, and so every step of a series that was
    standardized by them. The network therefore also predicts the weight of each step in these moments: slopes, and
    values if the training series were standardized one by one, are standardized again with these weights.
    """

    net: LocalSigmaNet

    def __init__(self, net: LocalSigmaNet, log_weights: Tensor, standardized: bool) -> None:
        super().__init__()
        self.net, self.log_weights = net, nn.Parameter(log_weights)
        self.standardized = standardized

    @classmethod
    def of_series(cls, series: SeriesSet, sigma_range: tuple[float, float], pretrained: bool = True) -> "SlopeView":
        """Build a view of these series to train; ``pretrained`` weights were trained on random tasks with faults."""
        net = LocalSigmaNet(series.values.shape[2], 3, sigma_range=sigma_range)
        view = cls(net, torch.zeros(2), is_standardized(series))
        if pretrained:
            view.load_state_dict(dict(view.named_buffers()) | load_file(START_FILE))
            # The weights were trained for the usual range; in another one σ = 1 must stay σ = 1.
            usual = SigmaRange.of(USUAL_RANGE)
            assert net.out.bias is not None, "all layers have one"
            with torch.no_grad():
                net.out.bias += net.range.raw(net.range.start) - usual.raw(usual.start)
        every = np.concatenate(series.rows())
        spread = every.std(0)
        net.centre.copy_(torch.from_numpy(every.mean(0)))
        net.scale.copy_(torch.from_numpy(np.where(spread > 0, spread, 1.0)))
        return view

    def forward(self, batch: Batch) -> Batch:
        """Return weighted values and slopes (B, T, 2d) with their variances."""
        values, lengths = (batch.values - self.net.centre) / self.net.scale, batch.lengths
        count, steps, dim = values.shape
        inside = torch.ones(count, steps, 1, dtype=torch.bool, device=values.device)
        if lengths is not None:
            inside = (torch.arange(steps, device=values.device) < lengths[:, None])[..., None]
        variances = self.net(batch.values, lengths)
        trust = torch.where(inside, 1 / variances[..., 2 * dim :], 0.0)
        trust = trust / trust.sum(1, keepdim=True)
        if self.standardized:
            mean, spread = weighted_moments(values, trust, LEAST_SPREAD)
            values = (values - mean) / spread
        rise = slopes(values, lengths)
        rise = rise / weighted_moments(rise, trust, LEAST_SLOPE)[1]
        of_values, of_slopes = self.log_weights.exp()
        seen = torch.where(inside, torch.cat([of_values * values, of_slopes * rise], 2), 0.0)
        return Batch(seen, lengths, variances[..., : 2 * dim])


def is_standardized(series: SeriesSet) -> bool:
    """Return whether every series has nearly mean 0 and standard deviation 1."""
    rows = series.rows()
    means, spreads = (np.stack([of(row, axis=0) for row in rows]) for of in (np.mean, np.std))
    return bool((abs(means) < STANDARDIZED).all() and (abs(spreads - 1) < STANDARDIZED).all())


def weighted_moments(values: Tensor, weights: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (at least ``least``) of (B, T, d), (B, 1, d); weights sum to 1 over T."""
    mean = (weights * values).sum(1, keepdim=True)
    variance = (weights * (values - mean).square()).sum(1, keepdim=True)
    return mean, variance.clamp_min(least**2).sqrt()  # in this order, since the root has no slope at zero


def slopes(values: Tensor, lengths: Tensor | None = None) -> Tensor:
    """Return slopes of the least-squares lines through five steps each, (B, T, d).

    >>> import torch
    >>> slopes(torch.tensor([0.0, 1.0, 2.0, 3.0, 2.0, 1.0, 0.0])[None, :, None])[0, :, 0].sign().tolist()
    [1.0, 1.0, 1.0, 0.0, -1.0, -1.0, -1.0]
    """
    offsets = torch.arange(-SLOPE_REACH, SLOPE_REACH + 1, dtype=values.dtype, device=values.device)
    # Relative to the step itself, so that rounding leaves no slope where a series stands still.
    around = windows(values, lengths, SLOPE_REACH) - values[:, :, None]
    return torch.einsum("btwd,w->btd", around, offsets / offsets.square().sum())
