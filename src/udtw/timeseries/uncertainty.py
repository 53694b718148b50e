"""The SigmaNets of the estimators: which kinds there are, and how the classifiers train them on labelled series."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from udtw.errors import OptionError
from udtw.inputs import SeriesSet
from udtw.metrics import Metric
from udtw.nn import SigmaNet
from udtw.pair_block import Batch
from udtw.pairwise import distances
from udtw.training import BatchTask, Descent, Training

KINDS = ("context", "series", "step")
LEAST_PRICE = 1e-3
"""Where the training of β and ω starts if they are given as zero."""
CHECK_EVERY, MOST_JUDGED = 25, 150
"""Steps between two looks at the leave-one-out error, and the series that it is taken over."""
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


class LearnedPrices(nn.Module):
    """β and ω of a metric with the likelihood's weighting, held as logarithms so that training keeps them positive.

    With the paper's weighting, and for metrics without variances, there is nothing to learn.
    """

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self.metric = metric
        self.learns = metric.params.get("weighting") == "likelihood"
        if self.learns:
            for name in ("beta", "warp_penalty"):
                start = max(float(metric.params[name]), LEAST_PRICE)
                self.register_parameter(name, nn.Parameter(torch.tensor(math.log(start))))

    def _values(self) -> dict[str, Tensor]:
        return {name: one.exp() for name, one in self.named_parameters()}

    def live(self) -> Metric:
        """The metric with β and ω as tensors that pass gradients."""
        return self.metric.with_params(**self._values())

    def fitted(self) -> Metric:
        """The metric with β and ω as numbers."""
        return self.metric.with_params(**{name: float(one.detach()) for name, one in self._values().items()})


def all_pairs(batch: Batch, metric: Metric) -> tuple[Tensor, Tensor, Tensor]:
    """Differentiable distances of the pairs i < j of a batch, and their indices i and j."""
    i, j = torch.triu_indices(len(batch), len(batch), 1)
    plain = metric.without_bias
    if plain is None:
        return metric.between(batch[i], batch[j]), i, j
    own = plain.between(batch, batch)
    return plain.between(batch[i], batch[j]) - 0.5 * (own[i] + own[j]), i, j


class NeighbourTask(BatchTask):
    """Steps of neighbourhood components; every `CHECK_EVERY` of them are judged by leaving one series out."""

    def __init__(
        self, modules: dict[str, nn.Module], loss: Callable[[Tensor], Tensor], error: Callable[[], float], count: int,
        cells: int, descent: Descent,
    ) -> None:  # fmt: skip
        parameters = [p for module in modules.values() for p in module.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=descent.learning_rate)
        generator = torch.Generator().manual_seed(descent.seed)
        super().__init__(optimizer, loss, count, descent.batch_size, generator, cells)
        self.modules, self.error, self.done, self.last = modules, error, 0, descent.max_iter

    def step(self, number: int) -> float:
        self.done = number + 1
        return super().step(number)

    def validate(self) -> float:
        """The share of training series whose nearest other one has another class; infinite where it is not asked."""
        return self.error() if self.done % CHECK_EVERY == 0 or self.done == self.last else math.inf


def train_for_neighbours(
    net: SigmaNet, series: SeriesSet, labels: np.ndarray, metric: Metric, descent: Descent
) -> tuple[Metric, list[float]]:
    """Train ``net`` so that the neighbours of a series have its class; returns the metric and the loss of every step.

    ``−log Σ_{j: y_j = y_i} p_ij`` with ``p_ij ∝ exp(−d_ij / T)`` over the other series j of a batch (neighbourhood
    components), T learned, and for the likelihood β and ω. A factor of γ would do nothing that a factor of all
    variances, β and ω cannot do. Kept is the state with the least leave-one-out error, the first of equals.
    """
    x, target = Batch.of(series), torch.as_tensor(labels)
    prices = LearnedPrices(metric)
    scale = nn.Parameter(torch.zeros(()))

    def loss(index: Tensor) -> Tensor:
        batch = x[index]
        batch = batch.with_variances(net(batch.values, batch.lengths))
        count = len(index)
        cost, i, j = all_pairs(batch, prices.live())
        closeness = -cost / scale.exp()
        logits = torch.full((count, count), -torch.inf).index_put((i, j), closeness).index_put((j, i), closeness)
        same = (target[index][:, None] == target[index]) & ~torch.eye(count, dtype=torch.bool)
        # Rows without another series of their class have no loss.
        share = torch.where(same, torch.softmax(logits, 1), 0.0).sum(1)[same.any(1)]
        return -(share + 1e-6).log().mean() if share.numel() else cost.sum() * 0.0

    rng = np.random.default_rng(descent.seed)
    some = rng.permutation(len(series))[: descent.batch_size]
    judged = np.sort(rng.permutation(len(series))[:MOST_JUDGED])

    def error() -> float:
        table = distances(variances_of(net, series[judged]), None, prices.fitted())
        np.fill_diagonal(table, np.inf)
        return float((labels[judged][table.argmin(1)] != labels[judged]).mean())

    nearest = np.sort(distances(variances_of(net, series[some]), None, prices.fitted()), axis=1)[:, 1:6]
    with torch.no_grad():  # the temperature starts at the spread of distances within a neighbourhood
        scale.fill_(math.log(max(float(nearest.std(1).mean()), 1e-6)))
    cells = descent.batch_size**2 // 2 * series.values.shape[1] ** 2
    modules = {"net": net, "prices": prices, "scale": nn.ParameterList([scale])}
    task = NeighbourTask(modules, loss, error, len(series), cells, descent)
    history = Training(task, descent.max_iter, keep_best=True).run()
    return prices.fitted(), history.train
