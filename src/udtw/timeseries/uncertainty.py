"""The SigmaNets of the estimators: which kinds there are, and how the classifiers train them on labelled series."""

import copy
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw.errors import OptionError
from udtw.inputs import SeriesSet
from udtw.metrics import Metric
from udtw.nn import SigmaNet
from udtw.pair_block import Batch
from udtw.pairwise import distances
from udtw.training import Descent, minimise

KINDS = ("context", "series", "step")
CONTEXT = 9
"""Steps that a network of kind "context" sees."""


def sigma_bounds(sigma_range: Any) -> tuple[float, float]:
    """The least and the greatest σ of an estimator's ``sigma_range``."""
    try:
        low, high = (float(limit) for limit in sigma_range)
    except (TypeError, ValueError):
        raise OptionError(f"sigma_range must be two numbers, least and greatest σ; got {sigma_range!r}.") from None
    if not 0 < low < high < math.inf:
        raise OptionError(f"sigma_range must satisfy 0 < low < high; got {sigma_range!r}.")
    return low, high


def starting_sigma(low: float, high: float) -> float:
    """σ = 1 if the range contains it, so that training begins with the sharp soft-DTW; else the middle."""
    return 1.0 if low < 1 < high else 0.5 * (low + high)


def make_sigma(kind: Any, steps: int, dim: int, sigma_range: Any) -> SigmaNet:
    """A SigmaNet for series (steps, dim): "step" sees one step, "context" `CONTEXT` of them, "series" all."""
    if kind not in KINDS:
        raise OptionError(f"sigma must be one of {KINDS} or None; got {kind!r}.")
    low, high = sigma_bounds(sigma_range)
    extent: dict[str, Any] = {"step": {}, "context": {"context": CONTEXT}, "series": {"length": steps}}[kind]
    return SigmaNet(dim, sigma_span=high - low, sigma_min=low, sigma_init=starting_sigma(low, high), **extent)


def seeded_sigma(sigma: Any, series: SeriesSet, sigma_range: Any, seed: int) -> SigmaNet:
    """A network of that kind for these series, its weights drawn by ``seed``; or a float32 copy of a given one."""
    if isinstance(sigma, SigmaNet):
        return copy.deepcopy(sigma).float()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _, steps, dim = series.values.shape
        return make_sigma(sigma, steps, dim, sigma_range)


def variances_of(net: SigmaNet, series: SeriesSet) -> SeriesSet:
    """The same series with the network's variances."""
    batch = Batch.of(series)
    with torch.no_grad():
        variances = net(batch.values, batch.lengths).numpy().astype(series.values.dtype)
    return series.with_variances(variances)


def train_for_neighbours(
    net: SigmaNet, series: SeriesSet, labels: np.ndarray, metric: Metric, descent: Descent
) -> list[float]:
    """Train ``net`` so that the neighbours of a series have its class; returns the loss of every step.

    ``−log Σ_{j: y_j = y_i} p_ij`` with ``p_ij ∝ exp(−(d² + βΩ)_ij / T)`` over the other series j of a batch
    (neighbourhood components), T learned.
    """
    x, target = Batch.of(series), torch.as_tensor(labels)
    scale = torch.zeros((), requires_grad=True)

    def loss(index: Tensor) -> Tensor:
        batch = x[index]
        batch = batch.with_variances(net(batch.values, batch.lengths))
        count = len(index)
        i, j = torch.triu_indices(count, count, 1)
        cost = metric.between(batch[i], batch[j])
        closeness = -cost / scale.exp()
        logits = torch.full((count, count), -torch.inf).index_put((i, j), closeness).index_put((j, i), closeness)
        same = (target[index][:, None] == target[index]) & ~torch.eye(count, dtype=torch.bool)
        # Rows without another series of their class have no loss.
        share = torch.where(same, torch.softmax(logits, 1), 0.0).sum(1)[same.any(1)]
        return -(share + 1e-6).log().mean() if share.numel() else cost.sum() * 0.0

    some = np.random.default_rng(descent.seed).permutation(len(series))[: descent.batch_size]
    nearest = np.sort(distances(variances_of(net, series[some]), None, metric), axis=1)[:, 1:6]
    with torch.no_grad():  # the temperature starts at the spread of distances within a neighbourhood
        scale.fill_(math.log(max(float(nearest.std(1).mean()), 1e-6)))
    cells = descent.batch_size**2 // 2 * series.values.shape[1] ** 2
    return minimise([*net.parameters(), scale], loss, len(series), cells=cells, descent=descent)
