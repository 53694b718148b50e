"""Series with random faults, on which a classifier learns what not to trust."""

from dataclasses import replace

import numpy as np

from udtw.series_set import SeriesSet
from udtw.timeseries.views import is_standardised

SHARE = 0.5
"""Share of the series that get a fault in training."""


class Corruption:
    """Adds a random fault to series: noise, a stuck value, spikes, an offset or a drift of gain.

    Series that were standardised one by one are standardised again afterwards, since a faulty series would have been.

    >>> import numpy as np
    >>> from udtw.series_set import load_series
    >>> series = load_series("X", np.zeros((4, 30)) + np.sin(np.arange(30)))
    >>> broken, hit = Corruption(series).of_some(series, np.random.default_rng(3))
    >>> len(broken), bool((broken.values[hit] != series.values[hit]).any())
    (4, True)
    """

    def __init__(self, series: SeriesSet) -> None:
        self.scale = np.maximum(np.concatenate(series.rows()).std(0), 1e-12)
        self.standardised = is_standardised(series)

    def of_some(
        self, series: SeriesSet, rng: np.random.Generator, share: float = SHARE
    ) -> tuple[SeriesSet, np.ndarray]:
        """The series, a share of them with a fault, and which these are, (n,) booleans."""
        values = series.values.copy()
        hit = rng.random(len(series)) < share
        for i in np.flatnonzero(hit):
            part = values[i, : series.lengths[i]]
            _break(part, self.scale, rng)
            if self.standardised:
                part[:] = (part - part.mean(0)) / np.maximum(part.std(0), 1e-6)
        return replace(series, values=values), hit


def _break(row: np.ndarray, scale: np.ndarray, rng: np.random.Generator) -> None:
    """Put a fault into ``row`` (T, d), in all features or in one."""
    steps, dim = row.shape
    hit = np.ones(dim, bool) if rng.random() < 0.5 else np.arange(dim) == rng.integers(dim)
    width = min(steps, int(steps * rng.uniform(0.05, 0.4)) + 1)
    begin = int(rng.integers(0, steps - width + 1))
    stretch = row[begin : begin + width]
    strength = np.exp(rng.uniform(np.log(0.5), np.log(4.0))) * scale
    kind = rng.integers(5)
    if kind == 0:
        stretch += np.where(hit, strength * rng.standard_normal(stretch.shape), 0)
    elif kind == 1:
        stuck = (stretch[0].copy(), np.zeros(dim), row.mean(0) + scale * rng.standard_normal(dim))[rng.integers(3)]
        stretch[:, hit] = stuck[hit]
    elif kind == 2:
        places = rng.choice(steps, max(1, int(steps * rng.uniform(0.01, 0.1))), replace=False)
        row[places] += np.where(hit, 2 * strength * rng.standard_normal((len(places), dim)), 0)
    elif kind == 3:
        stretch += np.where(hit, strength * rng.standard_normal(dim), 0)
    else:
        drift = rng.uniform(-1.5, 1.5) * np.linspace(-0.5, 0.5, steps)
        row[:, hit] *= np.exp(drift)[:, None]
