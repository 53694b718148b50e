"""Means of groups of series by majorize-minimize: each step of a mean is the average of the steps matched with it.

The free energy is concave in the energies of the cells, so it lies below its tangent, ``E_π[energy]`` with the
posterior π of the current means. The minimum of that tangent over means and variances has a closed form, and never
raises the free energy. With DTW in place of the free energy this is DTW barycenter averaging (DBA).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine.align import align
from udtw._engine.metrics import Metric
from udtw._engine.pair_block import Batch, least_cells
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet

CHUNK_CELLS = 2**23
"""Cells of the couplings held in memory at once."""
PRIOR_SERIES = 2.0
"""Weight of the prior of the variances, in series."""
LEAST_VARIANCE = 1e-4
"""Least variance of a mean, as a share of the variance of the series."""


@dataclass(frozen=True)
class Means:
    """C means of one length: ``values`` (C, L, d), and ``variances`` (C, L) of a match with each step, or None."""

    values: np.ndarray
    variances: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.values)


def can_match(metric: Metric) -> bool:
    """Return whether means under this metric are averages of the matched steps."""
    return metric.name in ("dtw", "soft_dtw") or (
        metric.name == "udtw" and metric.params["weighting"] == "likelihood" and not metric.params["debias"]
    )


def table(series: SeriesSet, means: Means, metric: Metric, n_jobs: int | None = None) -> np.ndarray:
    """Return the distances of all series to all means, (n, C)."""
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
    """Split Σ_n into ½[σ²_x + σ²_μ(n)]; returns σ²_x, σ²_μ (L,) and the warp penalty that keeps the energy the same.

    The level of `udtw._engine.likelihood.log_level` depends on the split; the penalty compensates for that.
    """
    of_series = float(variance.min())
    of_mean = 2 * variance - of_series
    level = 0.5 * (np.log(of_series) + np.log(of_mean).mean())
    penalty = metric.params["warp_penalty"] + 0.5 * metric.params["beta"] * (level - np.log(variance).mean())
    return of_series, of_mean, float(penalty)


@dataclass(frozen=True)
class Matched:
    """Weighted counts, sums (C, L, d) and sums of squares of the steps matched with each step of C means."""

    energy: np.ndarray
    """(n,): distance of each series to its mean."""
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
    """Match each series i with the mean ``owner[i]``."""
    centers, length, dim = means.values.shape
    sums = torch.zeros(centers, length, dim + 2, dtype=torch.float64, device=series.device)
    warps, energy = np.zeros(centers), np.empty(len(series))
    size = max(1, CHUNK_CELLS // (series.values.shape[1] * length))
    with torch.no_grad(), _threads(n_jobs):
        for begin in range(0, len(series), size):
            part = np.arange(begin, min(begin + size, len(series)))
            x, mine = Batch.of(series[part], _dtype(series)), owner[part]
            square = x.values.square().sum(2, keepdim=True)
            features = torch.cat([torch.ones_like(square), x.values, square], 2)
            values, matched = _matched(x, features, means, mine, metric)
            energy[part] = values.cpu()
            share, place = (torch.as_tensor(one, device=series.device) for one in (weight[part], mine))
            sums.index_add_(0, place, share[:, None, None] * matched)
            cells = matched[:, :, 0].sum(1).cpu().numpy()
            np.add.at(warps, mine, weight[part] * (2 * cells - series.lengths[part] - length))
    whole = np.bincount(owner, weight, centers)
    total = sums.cpu().numpy()
    return Matched(energy, total[:, :, 0], total[:, :, 1:-1], total[:, :, -1], warps, whole)


def _matched(x: Batch, features: Tensor, means: Means, owner: np.ndarray, metric: Metric) -> tuple[Tensor, Tensor]:
    """Return distances (B,) of series to their means, and sums of the features matched with each step of the mean.

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
        values, (pair, row, column) = least_cells(x, y, **options)
        sums = features.new_zeros((y.shape[0] * y.shape[1], features.shape[2]), dtype=torch.float64)
        sums.index_add_(0, pair * y.shape[1] + column, features[pair, row].double())
        return values, sums.reshape(*y.shape[:2], -1)
    alignment = align(x.values, y, lengths_x=x.lengths, **options)
    return alignment.free_energy, torch.bmm(alignment.coupling.transpose(1, 2), features).double()


def update(matched: Matched, means: Means, metric: Metric, least: float) -> Means:
    """Return the means and variances that minimize the tangent of the free energy at the current ones.

    A mean without series is kept. No variance is below ``least``. The variances of the steps of a mean have an
    inverse-gamma prior with its mode at their harmonic mean.
    """
    used = matched.weight > 0
    count = np.where(used[:, None], matched.count, 1.0)
    total = np.where(used[:, None, None], matched.total, means.values)
    values = total / count[:, :, None]
    if means.variances is None:
        return Means(values.astype(means.values.dtype))
    rest = matched.square - 2 * (values * matched.total).sum(2) + matched.count * np.square(values).sum(2)
    rest = np.maximum(rest, 0)  # rounding
    price = metric.params["beta"]
    # log Σ counts relative to its mean, which returns a share of the price of warps.
    counted = matched.count - matched.warps[:, None] / (2 * count.shape[1])
    level = 1 / (1 / means.variances).mean(1, keepdims=True)
    fresh = (rest + PRIOR_SERIES * level) / (price * np.maximum(counted, 0) + PRIOR_SERIES)
    variances = np.where(used[:, None], np.maximum(fresh, least), means.variances)
    return replace(means, values=values.astype(means.values.dtype), variances=variances)


def prior_energy(means: Means) -> float:
    """Return the energy of the prior of the variances: zero if all variances of a mean are equal."""
    if means.variances is None:
        return 0.0
    ratio = 1 / (1 / means.variances).mean(1, keepdims=True) / means.variances
    return PRIOR_SERIES * float((ratio - np.log(ratio) - 1).sum())


def least_variance(series: SeriesSet) -> float:
    """Return a small share of the variance of the series, summed over features."""
    steps = np.concatenate(series.rows())
    return LEAST_VARIANCE * float(steps.var(0).sum()) + 1e-12


def _dtype(series: SeriesSet) -> torch.dtype:
    return torch.float32 if series.values.dtype == np.float32 else torch.float64


@contextmanager
def _threads(n_jobs: int | None) -> Iterator[None]:
    """Let kernels use that many threads; None keeps the setting of torch."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_jobs or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
