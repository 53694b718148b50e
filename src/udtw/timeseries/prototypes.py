"""Prototypes of classes: initialization, training, and distances to them."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from udtw._engine.metrics import Metric
from udtw._engine.pair_block import Batch
from udtw._engine.series_set import SeriesSet
from udtw._io.device import seeded_generator
from udtw._io.training import Descent, minimize
from udtw.nn.sigma import SigmaRange
from udtw.timeseries.barycenter import barycenters_of
from udtw.timeseries.base import resample
from udtw.timeseries.uncertainty import LearnedPrices
from udtw.timeseries.views import View

PAIR_CELLS = 2**24
"""Cells of the alignments computed at once without gradients."""
Tick = Callable[[int, float], None]
"""``tick(number, loss)``, called after each step of a training."""


@dataclass
class Prototypes:
    """C prototypes with their uncertainty; every tensor is a parameter of the training."""

    values: Tensor
    """(C, L, d)"""
    bounds: SigmaRange
    raw_sigma: Tensor | None = None
    """(C, L): σ of each step is ``bounds.sigma(raw_sigma)``; the series themselves have σ = 1."""
    view: View | None = None
    """View of series and prototypes with variances, if a network predicts them."""
    log_temperature: Tensor = field(default_factory=lambda: torch.zeros(()))
    prices: LearnedPrices | None = None
    """β and ω, if they are learned."""

    def __len__(self) -> int:
        return len(self.values)

    def parameters(self) -> list[Tensor]:
        """Return all tensors that are trained."""
        own = [self.values, self.log_temperature, *([] if self.raw_sigma is None else [self.raw_sigma])]
        return own + [p for module in (self.view, self.prices) if module is not None for p in module.parameters()]

    def variances(self) -> Tensor | None:
        """Return the variances of the prototypes, (C, L), or (C, L, features) of the view; None if Σ = 1."""
        return self._centers().variances

    def _centers(self) -> Batch:
        """Return the prototypes with their variances."""
        if self.view is not None:
            return self.view(Batch(self.values))
        return Batch(self.values, None, None if self.raw_sigma is None else self.bounds.sigma(self.raw_sigma).square())

    def _noisy(self, x: Batch) -> Batch:
        """Return the series with their own variances."""
        if self.view is not None:
            return self.view(x)
        return x if self.raw_sigma is None else x.with_variances(x.values.new_ones(x.values.shape[:2]))

    def distances(self, x: Batch, metric: Metric) -> Tensor:
        """Return differentiable distances of each series to each prototype, (B, C)."""
        noisy, centers = self._noisy(x), self._centers()
        plain = metric.without_bias
        count, classes = len(x), len(self)
        left = torch.arange(count, device=x.values.device).repeat_interleave(classes)
        right = torch.arange(classes, device=x.values.device).repeat(count)
        crossed = (plain or metric).between(noisy[left], centers[right]).reshape(count, classes)
        if plain is None:
            return crossed
        # The self-distances are the same for all pairs of a series, and of a prototype.
        return crossed - 0.5 * (plain.between(noisy, noisy)[:, None] + plain.between(centers, centers)[None, :])

    def own_distances(self, x: Batch, codes: Tensor, metric: Metric) -> Tensor:
        """Return differentiable distances of each series to the prototype of its class, (B,)."""
        return metric.between(self._noisy(x), self._centers()[codes])


def start_prototypes(
    series: SeriesSet,
    codes: np.ndarray,
    *,
    length: int | None,
    sigma: View | str | None,
    sigma_range: Any,
) -> Prototypes:
    """Return the class means of the series resampled to ``length`` (by default their average), with initial σ."""
    steps = length or max(1, round(float(series.lengths.mean())))
    same = np.stack([resample(row, steps) for row in series.rows()])
    means = np.stack([same[codes == c].mean(0) for c in range(codes.max() + 1)])
    bounds = SigmaRange.of(sigma_range)
    values = torch.tensor(means, dtype=torch.float32, device=series.device)
    raw = values.new_full(means.shape[:2], bounds.raw(bounds.start)) if sigma == "free" else None
    view = sigma if isinstance(sigma, View) else None
    return Prototypes(values, bounds, raw, view, values.new_zeros(()))


def frechet_means(
    start: Prototypes, series: SeriesSet, codes: np.ndarray, metric: Metric, max_iter: int
) -> tuple[Tensor, list[float]]:
    """Return the Fréchet means of all classes by `barycenter`, (C, L, d), and the trace of the last class."""
    members = [series[np.flatnonzero(codes == c)].rows() for c in range(len(start))]
    params = {
        "sigma": None,
        "length": start.values.shape[1],
        "max_iter": max_iter,
        "device": series.device,
    }
    means = barycenters_of(members, metric.unnormalized, params)
    return start.values.new_tensor(np.stack([one.mean for one in means])), means[-1].trace


def train_prototypes(
    start: Prototypes, series: SeriesSet, codes: np.ndarray, metric: Metric, objective: str, descent: Descent,
    tick: Tick | None = None,
) -> list[float]:  # fmt: skip
    """Train prototypes, uncertainty and temperature in place; returns the loss of each step.

    "discriminative": cross-entropy of ``softmax_c(−d_c/T)``. "frechet": the mean distance to the prototype of the own
    class in units of its initial value, which is the likelihood when the distance is ``d² + βΩ``.
    """
    x, target = Batch.of(series), torch.as_tensor(codes, device=series.device)
    with torch.no_grad():
        generator = seeded_generator(descent.seed, series.device)
        some = torch.randperm(len(x), generator=generator, device=series.device)[: descent.batch_size]
        first = start.distances(x[some], metric)
        # T starts at the typical difference between prototypes, so that γ, length and scale do not matter to the rate.
        start.log_temperature.fill_(math.log(max(float(first.std(1).mean()), 1e-6)))
        unit = max(float(start.own_distances(x[some], target[some], metric).abs().mean()), 1e-6)

    def loss(index: Tensor) -> Tensor:
        if objective == "frechet":
            return start.own_distances(x[index], target[index], metric).mean() / unit
        live = metric if start.prices is None else start.prices.live()
        logits = -start.distances(x[index], live) / start.log_temperature.exp()
        return nn.functional.cross_entropy(logits, target[index])

    parameters = [p.requires_grad_() for p in start.parameters()]
    pairs = descent.batch_size * (1 if objective == "frechet" else len(start))
    cells = pairs * x.values.shape[1] * start.values.shape[1]
    trace = minimize(parameters, loss, len(x), cells=cells, descent=descent, tick=tick)
    for parameter in parameters:
        parameter.requires_grad_(False)
    return trace


def all_distances(prototypes: Prototypes, series: SeriesSet, metric: Metric) -> np.ndarray:
    """Return the distances of all series to all prototypes, (n, C), in bounded memory, without gradients."""
    x = Batch.of(series)
    cells = len(prototypes) * prototypes.values.shape[1] * series.values.shape[1]
    with torch.no_grad():
        parts = torch.arange(len(x)).split(max(1, PAIR_CELLS // cells))
        return torch.cat([prototypes.distances(x[part], metric) for part in parts]).double().cpu().numpy()


def fit_temperature(distances: np.ndarray, codes: np.ndarray) -> float:
    """Return the T that maximizes the likelihood of the training labels under ``softmax_c(−d_c/T)``."""
    from scipy.optimize import minimize_scalar
    from scipy.special import logsumexp

    own = distances[np.arange(len(codes)), codes]
    scale = max(float((distances - distances.min(1, keepdims=True)).mean()), 1e-12)

    def loss(log_share: float) -> float:
        temperature = scale * math.exp(log_share)
        return float(np.mean(own / temperature + logsumexp(-distances / temperature, axis=1)))

    return scale * math.exp(float(minimize_scalar(loss, bounds=(-6.0, 6.0), method="bounded").x))
