"""The uncertainty of the estimators: which kinds there are, and how the classifiers learn it from labelled series."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from udtw._engine.metrics import Metric
from udtw._engine.pair_block import Batch
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet
from udtw._io.device import seeded_generator
from udtw._io.training import Descent, Task, Training, cosine
from udtw.errors import OptionError
from udtw.nn import SigmaNet
from udtw.nn.sigma_range import SigmaRange
from udtw.timeseries.corruption import Corruption
from udtw.timeseries.views import SlopeView, ValueView, View

KINDS = ("local", "context", "series", "step")
LEAST_PRICE = 1e-3
"""Where the training of β and ω starts if they are given as zero."""
PENALTIES = (0.02, 0.1, 0.5, 2.0)
"""Warp penalties among which leave-one-out chooses the start of the training."""
CHECK_EVERY = 50
"""Steps between two looks at the leave-one-out error."""
LEAST_JUDGED, MOST_JUDGED, JUDGED_STEPS = 30, 150, 22_500
"""Fewest and most series that leave-one-out is taken over, and between these, their steps in all."""
LEAST_BATCH, BATCH_CELLS = 8, 8_000_000
"""Fewest series per step of the training, and the cells of their pairs above which there are fewer than asked for."""
PATIENCE = 4 * CHECK_EVERY
"""Steps without a better leave-one-out error after which training ends."""
LEAST_SHARE = 1e-3
"""Added to a probability before its logarithm: a series that no other resembles must not outweigh the rest."""
CONTEXT = 9
"""Steps that a network of kind "context" sees."""


def make_sigma(kind: Any, steps: int, dim: int, sigma_range: Any) -> SigmaNet:
    """A SigmaNet for series (steps, dim): "step" sees one step, "context" `CONTEXT` of them, "series" all."""
    extents: dict[str, dict[str, Any]] = {"step": {}, "context": {"context": CONTEXT}, "series": {"length": steps}}
    if kind not in extents:
        raise OptionError(f"sigma must be one of {tuple(extents)} or None; got {kind!r}.")
    bounds = SigmaRange.of(sigma_range)
    span = bounds.high - bounds.low
    return SigmaNet(dim, sigma_span=span, sigma_min=bounds.low, sigma_init=bounds.start, **extents[kind])


def seeded_view(sigma: Any, series: SeriesSet, sigma_range: Any, seed: int) -> View:
    """The view of that kind for these series, its weights drawn by ``seed``; or that of a copy of a given network."""
    if isinstance(sigma, SigmaNet):
        return ValueView(copy.deepcopy(sigma).float()).to(series.device)
    if sigma not in KINDS:
        raise OptionError(f"sigma must be one of {KINDS}, a SigmaNet or None; got {sigma!r}.")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if sigma == "local":
            return SlopeView.of_series(series, sigma_range).to(series.device)
        _, steps, dim = series.values.shape
        return ValueView(make_sigma(sigma, steps, dim, sigma_range)).to(series.device)


class LearnedPrices(nn.Module):
    """β and ω of a metric with the likelihood's weighting, held as logarithms so that training keeps them positive.

    With the paper's weighting, and for metrics without variances, there is nothing to learn.
    """

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self.metric = metric
        if metric.params.get("weighting") == "likelihood":
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


def pair_table(batch: Batch, metric: Metric) -> Tensor:
    """(n, n) differentiable distances of a batch of series, zero of a series to itself."""
    count = len(batch)
    i, j = torch.triu_indices(count, count, 1, device=batch.values.device)
    plain = metric.without_bias
    found = (plain or metric).between(batch[i], batch[j])
    if plain is not None:
        own = plain.between(batch, batch)
        found = found - 0.5 * (own[i] + own[j])
    return found.new_zeros(count, count).index_put((i, j), found).index_put((j, i), found)


def neighbour_loss(table: Tensor, labels: Tensor, possible: Tensor, scale: Tensor) -> Tensor:
    """``−mean_i log Σ_{j: y_j = y_i} p_ij`` with ``p_ij ∝ exp(−d_ij / scale)`` over the ``possible`` (n, n) neighbours.

    Series without a possible neighbour of their class do not count.
    """
    possible = possible & ~torch.eye(len(table), dtype=torch.bool, device=table.device)
    same = (labels[:, None] == labels) & possible
    rows = same.any(1)
    logits = torch.where(possible, -table / scale, -torch.inf)[rows]
    share = torch.where(same[rows], torch.softmax(logits, 1), 0.0).sum(1)
    return -(share + LEAST_SHARE).log().mean() if share.numel() else table.sum() * 0.0


class LeaveOneOut:
    """How well each of some training series is classified by the others; ``corruption`` breaks some of them."""

    def __init__(self, series: SeriesSet, labels: np.ndarray, corruption: Corruption | None, seed: int) -> None:
        rng = np.random.default_rng(seed)
        judged = int(np.clip(JUDGED_STEPS // series.values.shape[1], LEAST_JUDGED, MOST_JUDGED))
        chosen = np.sort(rng.permutation(len(series))[:judged])
        self.series, self.labels = series[chosen], labels[chosen]
        self.same = self.labels[:, None] == self.labels
        self.queries = None
        if corruption is not None:
            broken, _ = corruption.of_some(Batch.of(self.series), seeded_generator(seed + 1, series.device))
            self.queries = self.series.with_tensors(broken.values, None)

    def table(self, view: View, metric: Metric) -> np.ndarray:
        """(n, n) distances, infinite of a series to itself."""
        series = view.of(self.series)
        found = distances(series if self.queries is None else view.of(self.queries), series, metric)
        np.fill_diagonal(found, np.inf)
        return found

    def error(self, table: np.ndarray) -> float:
        """The share of series whose nearest other one has another class."""
        return float((self.labels[table.argmin(1)] != self.labels).mean())

    def loss(self, table: np.ndarray) -> float:
        """``−mean log p`` of the own class, with ``p ∝ exp(−d/T)``: finer than the error, for choosing."""
        closeness = np.exp((table.min(1, keepdims=True) - table) / neighbourhood_scale(table))
        return float(-np.log((closeness * self.same).sum(1) / closeness.sum(1) + LEAST_SHARE).mean())

    def verdict(self, table: np.ndarray) -> float:
        """The error, and where that is the same, the loss: what training minimises."""
        return self.error(table) + 1e-3 * self.loss(table)


def neighbourhood_scale(table: np.ndarray) -> float:
    """The spread of the distances of a series to its five nearest: a temperature that suits any metric."""
    nearest = np.sort(table, axis=1)[:, : min(5, len(table) - 1)]
    return max(float(nearest.std(1).mean()), 1e-6)


class NeighbourTask(Task):
    """Steps of neighbourhood components on class-balanced batches, judged by leaving one series out."""

    schedule = staticmethod(cosine)
    generator: torch.Generator

    def __init__(
        self, modules: dict[str, nn.Module], loss: Callable[[Tensor, torch.Generator], Tensor],
        error: Callable[[], float], labels: Tensor, cells: int, descent: Descent,
    ) -> None:  # fmt: skip
        parameters = [p for module in modules.values() for p in module.parameters()]
        self.modules, self.optimizers = modules, {"all": torch.optim.Adam(parameters, lr=descent.learning_rate)}
        self.generator, self.cells = seeded_generator(descent.seed, labels.device), cells
        self.loss, self.error, self.descent = loss, error, descent
        self.batches = balanced_batches(labels, descent)
        self.done = 0

    def step(self, number: int) -> float:
        self.done = number + 1
        value = self.loss(self.batches[number], self.generator)
        optimizer = self.optimizers["all"]
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return float(value.detach())

    def validate(self) -> float:
        """The leave-one-out error every `CHECK_EVERY` steps and at the end; infinite otherwise."""
        last = self.done == self.descent.max_iter
        return self.error() if self.done % CHECK_EVERY == 0 or last else math.inf


def balanced_batches(labels: Tensor, descent: Descent) -> tuple[Tensor, ...]:
    """For every step, indices of as many series of each of some classes, on the device of ``labels``.

    At least two of a class, since a series needs a partner. All are drawn at once, so that no step waits for a copy.
    """
    rng, codes = np.random.default_rng(descent.seed), labels.cpu().numpy()
    members = [np.flatnonzero(codes == label) for label in np.unique(codes)]
    batches = []
    for _ in range(descent.max_iter):
        chosen = rng.permutation(len(members))[: max(2, descent.batch_size // 2)]
        each = max(2, math.ceil(descent.batch_size / len(chosen)))
        batches.append(np.concatenate([rng.permutation(members[c])[:each] for c in chosen]))
    every = torch.as_tensor(np.concatenate(batches), device=labels.device)
    return every.split([len(batch) for batch in batches])


def train_for_neighbours(
    view: View, series: SeriesSet, labels: np.ndarray, metric: Metric, descent: Descent, *, choose_penalty: bool,
    tick: Callable[[int, float], None] | None = None,
) -> tuple[Metric, list[float]]:  # fmt: skip
    """Train ``view`` so that the neighbours of a series have its class; returns the metric and the loss of every step.

    ``−log Σ_{j: y_j = y_i} p_ij`` with ``p_ij ∝ exp(−d_ij / T)`` over the other series j of a batch (neighbourhood
    components), T learned, and for the likelihood β and ω. A factor of γ would do nothing that a factor of all
    variances, β and ω cannot do. ω starts where leave-one-out is best, if ``choose_penalty``. Training ends when
    leave-one-out stops improving, and its best state is kept.

    A view that reads the local noise sees random faults in some of the series: otherwise it cannot know what to make of
    a fault that comes only after training.
    """
    device = series.device
    x, target = Batch.of(series), torch.as_tensor(labels, device=device)
    corruption = Corruption(series) if isinstance(view, SlopeView) else None
    judge = LeaveOneOut(series, labels, corruption, descent.seed)
    if choose_penalty and metric.params.get("weighting") == "likelihood":
        choices = [metric.with_params(warp_penalty=penalty) for penalty in PENALTIES]
        metric = min(choices, key=lambda one: judge.loss(judge.table(view, one)))
    prices, at_start = LearnedPrices(metric).to(device), judge.table(view, metric)
    scale = nn.Parameter(torch.tensor(math.log(neighbourhood_scale(at_start)), device=device))

    def loss(index: Tensor, generator: torch.Generator) -> Tensor:
        batch, possible = x[index], torch.ones(len(index), dtype=torch.bool, device=device)
        if corruption is not None:
            # A broken series looks for neighbours and is none itself, as when it comes after training.
            batch, hit = corruption.of_some(batch, generator)
            possible = ~hit
        return neighbour_loss(pair_table(view(batch), prices.live()), target[index], possible, scale.exp())

    steps = series.values.shape[1]
    affordable = max(LEAST_BATCH, math.isqrt(2 * BATCH_CELLS) // steps)
    descent = replace(descent, batch_size=min(descent.batch_size, affordable))
    modules = {"view": view, "prices": prices, "scale": nn.ParameterList([scale])}
    start = {name: copy.deepcopy(module.state_dict()) for name, module in modules.items()}
    task = NeighbourTask(
        modules,
        loss,
        lambda: judge.verdict(judge.table(view, prices.fitted())),
        target,
        descent.batch_size**2 // 2 * steps**2,
        descent,
    )
    history = Training(task, descent.max_iter, keep_best=True, patience=PATIENCE).run(tick)
    if min(history.valid, default=math.inf) >= judge.verdict(at_start):
        for name, module in modules.items():
            module.load_state_dict(start[name])
    return prices.fitted(), history.train
