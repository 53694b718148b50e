"""Series with random faults, on which a classifier learns what not to trust."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine.pair_block import Batch
from udtw._engine.series_set import SeriesSet
from udtw.timeseries.views import is_standardised

SHARE = 0.5
"""Share of the series that get a fault in training."""
NOISE, STUCK, SPIKES, OFFSET, DRIFT = range(5)
"""Kinds of faults, all as likely: noise, a stuck value or an offset in a stretch, spikes, a drift of the gain."""


class Corruption:
    """Adds a random fault to series: noise, a stuck value, spikes, an offset or a drift of gain.

    Series that were standardised one by one are standardised again afterwards, since a faulty series would have been.
    Everything is computed on the device of the series, where the generator of the random numbers must be too.

    >>> import numpy as np, torch
    >>> from udtw._engine.series_set import load_series
    >>> series = load_series("X", np.zeros((4, 30)) + np.sin(np.arange(30)))
    >>> whole = Batch.of(series)
    >>> broken, hit = Corruption(series).of_some(whole, torch.Generator().manual_seed(0))
    >>> len(broken), bool((broken.values[hit] != whole.values[hit]).any())
    (4, True)
    """

    def __init__(self, series: SeriesSet) -> None:
        scale = np.maximum(np.concatenate(series.rows()).std(0), 1e-12)
        self.scale = torch.as_tensor(scale, dtype=torch.float32, device=series.device)
        self.standardised = is_standardised(series)

    def of_some(self, batch: Batch, generator: torch.Generator, share: float = SHARE) -> tuple[Batch, Tensor]:
        """The series, a share of them with a fault, and which these are, (B,) booleans."""
        values = batch.values
        count, steps, _ = values.shape
        step = torch.arange(steps, device=values.device)[None, :, None]
        if batch.lengths is None:
            length = torch.full((count, 1, 1), steps, device=values.device)
        else:
            length = batch.lengths[:, None, None]
        hit = torch.rand(count, generator=generator, device=values.device) < share
        broken = self._broken(values, step, length, generator)
        if self.standardised:
            inside = step < length
            broken = torch.where(inside, broken - _mean(broken, inside, length), 0)
            broken = broken / _mean(broken.square(), inside, length).sqrt().clamp_min(1e-6)
        return Batch(torch.where(hit[:, None, None], broken, values), batch.lengths, batch.variances), hit

    def _broken(self, values: Tensor, step: Tensor, length: Tensor, generator: torch.Generator) -> Tensor:
        """Every series (B, T, d) with a fault in all features or in one; padding remains."""
        count, steps, dim = values.shape
        own: dict[str, Any] = {"generator": generator, "device": values.device}

        def uniform(low: float, high: float, width: int = 1) -> Tensor:
            return low + (high - low) * torch.rand((count, width, 1), **own)

        def one_of(number: int) -> Tensor:
            return torch.randint(number, (count, 1, 1), **own)

        features = (uniform(0, 1) < 0.5) | (torch.arange(dim, device=values.device) == one_of(dim))
        width = torch.minimum((length * uniform(0.05, 0.4)).long() + 1, length)
        begin = (uniform(0, 1) * (length - width + 1)).long()
        stretch = (step >= begin) & (step < begin + width)
        strength = uniform(math.log(0.5), math.log(4.0)).exp() * self.scale
        each_step = strength * torch.randn(values.shape, **own)
        one_value = torch.randn((count, 1, dim), **own)

        first = values.gather(1, begin.expand(-1, -1, dim))
        other = _mean(values, step < length, length) + self.scale * one_value
        which = one_of(3)
        stuck = torch.where(which == 0, first, torch.where(which == 1, 0, other))

        scores = torch.where(step < length, uniform(0, 1, steps), torch.inf)
        spikes = (length * uniform(0.01, 0.1)).long().clamp_min(1)
        spiked = scores <= scores.sort(1).values.gather(1, spikes - 1)

        gain = (uniform(-1.5, 1.5) * (step / (length - 1).clamp_min(1) - 0.5)).exp()

        kind = one_of(5)
        added = torch.where(kind == NOISE, each_step, torch.where(kind == SPIKES, 2 * each_step, strength * one_value))
        changed = torch.where(kind == STUCK, stuck, torch.where(kind == DRIFT, values * gain, values + added))
        where = torch.where(kind == SPIKES, spiked, torch.where(kind == DRIFT, step < length, stretch))
        return torch.where(where & features, changed, values)


def _mean(values: Tensor, inside: Tensor, length: Tensor) -> Tensor:
    """(B, 1, d): means over the steps ``inside``."""
    return torch.where(inside, values, 0).sum(1, keepdim=True) / length
