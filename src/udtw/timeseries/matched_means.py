"""Means of groups of series by majorise-minimise: each step of a mean is averaged over what is matched with it.

The free energy is concave in the energies of the cells, so it lies below its tangent, ``E_π[energy]`` with the
posterior π of the present means. The minimum of that tangent over means and variances has a closed form, and never
raises the free energy. With DTW in place of the free energy this is DTW barycenter averaging (DBA).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine.align import _paths, align
from udtw._engine.metrics import Metric
from udtw._engine.pair_block import Batch
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet

CHUNK_CELLS = 2**23
"""Cells of the couplings that are held at once."""
PRIOR_SERIES = 2.0
"""The weight of the prior of the variances, in series."""
LEAST_VARIANCE = 1e-4
"""Share of the variance of the series below which no variance of a mean lies."""


@dataclass(frozen=True)
class Means:
    """C means of one length: ``values`` (C, L, d), and ``variances`` (C, L) of a match with each step, or None."""

    values: np.ndarray
    variances: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)


def can_match(metric: Metric) -> bool:
    """Whether means under this metric are averages of what is matched."""
    return metric.name in ("dtw", "soft_dtw") or (
        metric.name == "udtw" and metric.params["weighting"] == "likelihood" and not metric.params["debias"]
    )


def table(series: SeriesSet, means: Means, metric: Metric, n_jobs: int | None = None) -> np.ndarray:
    """(n, C) distances of all series to all means."""
    full = np.full(len(means), means.values.shape[1])
    if means.variances is None:
        return distances(series, replace(series, values=means.values, lengths=full, variances=None), metric, n_jobs)
    columns = []
    for c in range(len(means)):
        of_series, of_mean, penalty = _split(means.variances[c], metric)
        noisy = series.with_variances(np.full(series.values.shape[:2], of_series, series.values.dtype))
        of_mean = of_mean[None].astype(series.values.dtype)
        one = replace(series, values=means.values[c : c + 1], lengths=full[:1], variances=of_mean)
        columns.append(distances(noisy, one, metric.with_params(warp_penalty=penalty), n_jobs))
    return np.hstack(columns)


def _split(variance: np.ndarray, metric: Metric) -> tuple[float, np.ndarray, float]:
    """Σ_n as ½[σ²_x + σ²_μ(n)] of the engine, and the warp penalty for which log Σ counts relative to its mean.

    The level of `udtw._engine.likelihood.log_level` depends on how Σ is split, the penalty makes up for it.
    """
    of_series = float(variance.min())
    of_mean = 2 * variance - of_series
    level = 0.5 * (np.log(of_series) + np.log(of_mean).mean())
    penalty = metric.params["warp_penalty"] + 0.5 * metric.params["beta"] * (level - np.log(variance).mean())
    return of_series, of_mean, float(penalty)


@dataclass(frozen=True)
class Matched:
    """What is matched with each step of C means, weighted: counts (C, L), sums (C, L, d) and sums of squares (C, L)."""

    energy: np.ndarray
    """(n,): the distance of each series to its mean."""
    count: np.ndarray
    total: np.ndarray
    square: np.ndarray
    warps: np.ndarray
    """(C,): weighted sum of the expected numbers of non-diagonal steps."""
    weight: np.ndarray
    """(C,): sum of the weights of the series."""


def match(
    series: SeriesSet, owner: np.ndarray, weight: np.ndarray, means: Means, metric: Metric, n_jobs: int | None = None
) -> Matched:
    """Match every series i with the mean ``owner[i]``."""
    centres, length, dim = means.values.shape
    sums = torch.zeros(centres, length, dim + 2, dtype=torch.float64, device=series.device)
    warps, energy = np.zeros(centres), np.empty(len(series))
    size = max(1, CHUNK_CELLS // (series.values.shape[1] * length))
    with torch.no_grad(), _threads(n_jobs):
        for begin in range(0, len(series), size):
            part = np.arange(begin, min(begin + size, len(series)))
            x, mine = Batch.of(series[part], _dtype(series)), owner[part]
            square = x.values.square().sum(2, keepdim=True)
            features = torch.cat([torch.ones_like(square), x.values, square], 2)
            found, matched = _matched(x, features, means, mine, metric)
            energy[part] = found.cpu()
            share, place = (torch.as_tensor(one, device=series.device) for one in (weight[part], mine))
            sums.index_add_(0, place, share[:, None, None] * matched)
            cells = matched[:, :, 0].sum(1).cpu().numpy()
            np.add.at(warps, mine, weight[part] * (2 * cells - series.lengths[part] - length))
    whole = np.bincount(owner, weight, centres)
    total = sums.cpu().numpy()
    return Matched(energy, total[:, :, 0], total[:, :, 1:-1], total[:, :, -1], warps, whole)


def _matched(x: Batch, features: Tensor, means: Means, owner: np.ndarray, metric: Metric) -> tuple[Tensor, Tensor]:
    """Distances (B,) of series to the mean ``owner`` of each, and sums of the features matched with each of its steps.

    Features are (B, N, f), sums (B, L, f) in float64.
    """
    options: dict[str, Any] = {
        name: metric.params[name] for name in ("gamma", "band", "warp_penalty", "relax") if name in metric.params
    }
    y = torch.as_tensor(means.values[owner], dtype=x.values.dtype, device=x.values.device)
    if means.variances is not None:
        split = zip(*(_split(one, metric) for one in means.variances), strict=True)
        of_series, of_mean, penalty = (
            torch.as_tensor(np.stack(part)[owner], dtype=y.dtype, device=y.device) for part in split
        )
        options |= {"var_x": of_series[:, None].expand(x.values.shape[:2]), "var_y": of_mean}
        options |= {"warp_penalty": penalty, "beta": metric.params["beta"]}
    if metric.name == "dtw":
        paths = _paths(x.values, y, lengths=(x.lengths, None), **options)
        values, (pair, row, column) = paths._backend.least_cells(paths._for_kernels)
        sums = features.new_zeros((y.shape[0] * y.shape[1], features.shape[2]), dtype=torch.float64)
        sums.index_add_(0, pair * y.shape[1] + column, features[pair, row].double())
        return values, sums.reshape(*y.shape[:2], -1)
    found = align(x.values, y, lengths_x=x.lengths, **options)
    return found.free_energy, torch.bmm(found.coupling.transpose(1, 2), features).double()


def update(found: Matched, means: Means, metric: Metric, least: float) -> Means:
    """The means and variances that minimise the tangent of the free energy, from what is matched with the present ones.

    A mean without series stays as it is. No variance is below ``least``. The variances of the steps of a mean have an
    inverse-gamma prior about their harmonic mean, which is where it is most likely.
    """
    used = found.weight > 0
    count = np.where(used[:, None], found.count, 1.0)
    total = np.where(used[:, None, None], found.total, means.values)
    values = total / count[:, :, None]
    if means.variances is None:
        return Means(values.astype(means.values.dtype))
    rest = found.square - 2 * (values * found.total).sum(2) + found.count * np.square(values).sum(2)
    rest = np.maximum(rest, 0)  # rounding
    price = metric.params["beta"]
    # log Σ counts relative to its mean, which gives back a share of what the warps cost.
    counted = found.count - found.warps[:, None] / (2 * count.shape[1])
    level = 1 / (1 / means.variances).mean(1, keepdims=True)
    fresh = (rest + PRIOR_SERIES * level) / (price * np.maximum(counted, 0) + PRIOR_SERIES)
    variances = np.where(used[:, None], np.maximum(fresh, least), means.variances)
    return replace(means, values=values.astype(means.values.dtype), variances=variances)


def prior_energy(means: Means) -> float:
    """What the prior adds to the weighted sum of free energies: zero if all variances of a mean are equal."""
    if means.variances is None:
        return 0.0
    ratio = 1 / (1 / means.variances).mean(1, keepdims=True) / means.variances
    return PRIOR_SERIES * float((ratio - np.log(ratio) - 1).sum())


def least_variance(series: SeriesSet) -> float:
    """A small share of the variance of the series, summed over features."""
    steps = np.concatenate(series.rows())
    return LEAST_VARIANCE * float(steps.var(0).sum()) + 1e-12


def _dtype(series: SeriesSet) -> torch.dtype:
    return torch.float32 if series.values.dtype == np.float32 else torch.float64


@contextmanager
def _threads(n_jobs: int | None) -> Iterator[None]:
    """Let kernels use that many threads; None is the present setting of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_jobs or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
