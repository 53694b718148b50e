"""The SigmaNets of the classifiers: which kind, and the loops that train them on labelled series."""

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw.inputs import SeriesSet
from udtw.metrics import Metric
from udtw.nn import SigmaNet
from udtw.pair_block import Batch
from udtw.pairwise import distances
from udtw.timeseries.sigma_kinds import make_sigma
from udtw.timeseries.training import threads_for


def seeded_sigma(sigma: Any, series: SeriesSet, sigma_range: Any, seed: int) -> SigmaNet:
    """A network of that kind for these series, its weights drawn by ``seed``; or a copy of a given one, in float32."""
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
    net: SigmaNet,
    series: SeriesSet,
    labels: np.ndarray,
    metric: Metric,
    *,
    max_iter: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """Train ``net`` so that the neighbours of a series are of its class; returns the loss of every step.

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
        # A row without another of its class teaches nothing.
        share = torch.where(same, torch.softmax(logits, 1), 0.0).sum(1)[same.any(1)]
        return -(share + 1e-6).log().mean() if share.numel() else cost.sum() * 0.0

    some = np.random.default_rng(seed).permutation(len(series))[:batch_size]
    nearest = np.sort(distances(variances_of(net, series[some]), None, metric), axis=1)[:, 1:6]
    with torch.no_grad():  # the temperature starts at the spread of a series' own neighbourhood
        scale.fill_(math.log(max(float(nearest.std(1).mean()), 1e-6)))
    return minimise(
        [*net.parameters(), scale], loss, len(series), cells=batch_size**2 // 2 * series.values.shape[1] ** 2,
        max_iter=max_iter, batch_size=batch_size, learning_rate=learning_rate, seed=seed,
    )  # fmt: skip


def minimise(
    parameters: Sequence[Tensor],
    loss: Callable[[Tensor], Tensor],
    count: int,
    *,
    cells: int,
    max_iter: int,
    batch_size: int,
    learning_rate: float,
    seed: int,
) -> list[float]:
    """``max_iter`` steps of Adam on shuffled batches of indices below ``count``; the rate falls as a cosine to zero.

    ``cells``: how many a step aligns, which decides whether threads pay.
    """
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(1, max_iter))
    trace: list[float] = []
    waiting: list[Tensor] = []
    with threads_for(cells):
        for _ in range(max_iter):
            if not waiting:
                waiting = list(torch.randperm(count, generator=generator).split(batch_size))
                if len(waiting) > 1 and len(waiting[-1]) < batch_size // 2:
                    waiting[-2:] = [torch.cat(waiting[-2:])]
            value = loss(waiting.pop())
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            trace.append(float(value.detach()))
    return trace
