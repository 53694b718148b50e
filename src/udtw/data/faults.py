"""Sensor faults, put into series that have none: one fault in each, or random faults for training.

"bursts" are noise in a stretch of steps, "spikes" noise at single steps, "dropouts" values that are stuck in a stretch,
"offsets" constants added in a stretch, and "drift" a gain that changes over the whole series. `add_faults` draws a
fault of a stated kind and strength with NumPy, for experiments. `RandomFaults` draws kind and strength with torch on
the device of the series, for training; its faults vary more in strength, length and form.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine.pair_block import Batch
from udtw._engine.series_set import SeriesSet
from udtw.errors import OptionError, ShapeError

FAULTS: dict[str, tuple[float, float, float]] = {
    "bursts": (1.0, 2.0, 3.0),
    "spikes": (2.0, 4.0, 6.0),
    "dropouts": (0.1, 0.2, 0.3),
    "drift": (0.5, 1.0, 1.5),
}
"""Kind of fault to its weak, medium and strong form: the standard deviation of noise over a fifth of the steps, the
height of spikes at one step in twenty, the share of steps that are stuck at zero, and the logarithm of the gain at the
last step relative to the first. Heights are in standard deviations of the series."""
STRENGTHS = ("weak", "medium", "strong")
BURST_SHARE, SPIKE_SHARE = 0.2, 0.05


def add_faults(
    X: np.ndarray, kind: str = "mixed", strength: str = "medium", random_state: int | np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Add one fault to each series of a copy of ``X`` (n, T); also return the steps at fault, (n, T) booleans.

    Parameters
    ----------
    X : (n, T)
        Without missing values.
    kind : str
        "bursts" of noise, "spikes", "dropouts" (stuck at zero) or "drift" of the gain; "mixed" draws one of them for
        each series.
    strength : "weak", "medium" or "strong"
        See `FAULTS`.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.data import add_faults
    >>> faulty, where = add_faults(np.sin(np.ones((3, 1)) * np.arange(40) / 4), "bursts", random_state=0)
    >>> faulty.shape, where.sum(1).tolist()
    ((3, 40), [8, 8, 8])
    """
    if kind not in (*FAULTS, "mixed"):
        raise OptionError(f"kind must be one of {(*FAULTS, 'mixed')}; got {kind!r}.")
    if strength not in STRENGTHS:
        raise OptionError(f"strength must be one of {STRENGTHS}; got {strength!r}.")
    if np.ndim(X) != 2:
        raise ShapeError(f"X must have shape (n, T); got {np.shape(X)}.")
    rng = np.random.default_rng(random_state)
    faulty = np.array(X)
    where = np.zeros(faulty.shape, bool)
    for row, hit in zip(faulty, where, strict=True):
        chosen = kind if kind != "mixed" else list(FAULTS)[rng.integers(len(FAULTS))]
        _add(row, hit, chosen, FAULTS[chosen][STRENGTHS.index(strength)], rng)
    return faulty, where


def _add(row: np.ndarray, hit: np.ndarray, kind: str, size: float, rng: np.random.Generator) -> None:
    steps, height = len(row), row.std()
    if kind == "drift":
        hit[:] = True
        row *= np.exp(size * rng.choice([-1, 1]) * np.linspace(-0.5, 0.5, steps))
        return
    if kind == "spikes":
        hit[rng.choice(steps, max(1, round(SPIKE_SHARE * steps)), replace=False)] = True
        row[hit] += size * height * rng.choice([-1, 1], int(hit.sum()))
        return
    width = min(steps, max(3, round((BURST_SHARE if kind == "bursts" else size) * steps)))
    begin = int(rng.integers(0, steps - width + 1))
    hit[begin : begin + width] = True
    row[hit] = row[hit] + size * height * rng.standard_normal(width) if kind == "bursts" else 0.0


TRAINING_SHARE = 0.5
"""Share of the series that get a fault in training."""
BURSTS, DROPOUTS, SPIKES, OFFSETS, DRIFT = range(5)
"""Kinds of random faults, all equally likely."""


class RandomFaults:
    """Add random faults of all kinds to series like ``series``, on their device.

    ``standardized`` series, of mean 0 and variance 1 each, are standardized again afterwards, since faulty recordings
    would have been. The generator of the random numbers must be on the device of the series.
    """

    def __init__(self, series: SeriesSet, standardized: bool) -> None:
        scale = np.maximum(np.concatenate(series.rows()).std(0), 1e-12)
        self.scale = torch.as_tensor(scale, dtype=torch.float32, device=series.device)
        self.standardized = standardized

    def add_to_some(
        self, batch: Batch, generator: torch.Generator, share: float = TRAINING_SHARE
    ) -> tuple[Batch, Tensor]:
        """Return the series, a share of them with a fault, and which these are, (B,) booleans."""
        values = batch.values
        count, steps, _ = values.shape
        step = torch.arange(steps, device=values.device)[None, :, None]
        if batch.lengths is None:
            length = torch.full((count, 1, 1), steps, device=values.device)
        else:
            length = batch.lengths[:, None, None]
        hit = torch.rand(count, generator=generator, device=values.device) < share
        faulty = self._with_faults(values, step, length, generator)
        if self.standardized:
            inside = step < length
            faulty = torch.where(inside, faulty - _mean(faulty, inside, length), 0)
            faulty = faulty / _mean(faulty.square(), inside, length).sqrt().clamp_min(1e-6)
        return Batch(torch.where(hit[:, None, None], faulty, values), batch.lengths, batch.variances), hit

    def _with_faults(self, values: Tensor, step: Tensor, length: Tensor, generator: torch.Generator) -> Tensor:
        """Add a fault to every series (B, T, d), in all features or in one; padding remains."""
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
        held = torch.where(which == 0, first, torch.where(which == 1, 0, other))

        scores = torch.where(step < length, uniform(0, 1, steps), torch.inf)
        spikes = (length * uniform(0.01, 0.1)).long().clamp_min(1)
        spiked = scores <= scores.sort(1).values.gather(1, spikes - 1)

        gain = (uniform(-1.5, 1.5) * (step / (length - 1).clamp_min(1) - 0.5)).exp()

        kind = one_of(5)
        added = torch.where(kind == BURSTS, each_step, torch.where(kind == SPIKES, 2 * each_step, strength * one_value))
        changed = torch.where(kind == DROPOUTS, held, torch.where(kind == DRIFT, values * gain, values + added))
        where = torch.where(kind == SPIKES, spiked, torch.where(kind == DRIFT, step < length, stretch))
        return torch.where(where & features, changed, values)


def _mean(values: Tensor, inside: Tensor, length: Tensor) -> Tensor:
    """Return the means over the steps ``inside``, (B, 1, d)."""
    return torch.where(inside, values, 0).sum(1, keepdim=True) / length
