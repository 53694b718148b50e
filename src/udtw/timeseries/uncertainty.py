"""Networks for the variances of estimators, and their training on labeled series."""

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
from udtw._io.training import Descent, Task, Training, cosine, torch_threads
from udtw.data.faults import RandomFaults
from udtw.errors import OptionError
from udtw.nn import SigmaNet
from udtw.nn.sigma import SigmaRange
from udtw.timeseries.views import SlopeView, ValueView, View, is_standardized

KINDS = ("local", "context", "series", "step")
LEAST_PRICE = 1e-3
"""Initial value of β and ω in training if they are given as zero."""
PENALTIES = (0.02, 0.1, 0.5, 2.0)
"""Warp penalties among which leave-one-out chooses the start of the training."""
CHECK_EVERY = 50
"""Steps between two evaluations of the leave-one-out error."""
LEAST_JUDGED, MOST_JUDGED, JUDGED_STEPS = 30, 150, 22_500
"""Fewest and most series for leave-one-out, and the total number of steps that decides between them."""
LEAST_BATCH, BATCH_CELLS = 8, 8_000_000
"""Smallest batch, and the cells of the pairs of a batch above which it is reduced."""
PATIENCE = 4 * CHECK_EVERY
"""Steps without a better leave-one-out error after which training ends."""
LEAST_SHARE = 1e-3
"""Added to a probability before its logarithm, so that a series unlike all others does not outweigh the rest."""
CONTEXT = 9
"""Steps seen by a network of kind "context"."""


def make_sigma(kind: Any, steps: int, dim: int, sigma_range: Any) -> SigmaNet:
    """Build a SigmaNet for series (steps, dim): "step" sees one step, "context" `CONTEXT` of them, "series" all."""
    extents: dict[str, dict[str, Any]] = {"step": {}, "context": {"context": CONTEXT}, "series": {"length": steps}}
    if kind not in extents:
        raise OptionError(f"sigma must be one of {tuple(extents)} or None; got {kind!r}.")
    start = SigmaRange.of(sigma_range).start
    return SigmaNet(dim, sigma_range=sigma_range, sigma_init=start, **extents[kind])


def seeded_view(sigma: Any, series: SeriesSet, sigma_range: Any, seed: int) -> View:
    """Build the view of that kind, with weights drawn by ``seed``, or the view of a copy of a network."""
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
    """Parameters β and ω of a metric with the likelihood's weighting, as logarithms so that they stay positive.

    Empty for the paper's weighting and for metrics without variances.
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
        """Return the metric with β and ω as tensors that propagate gradients."""
        return self.metric.with_params(**self._values())

    def fitted(self) -> Metric:
        """Return the metric with β and ω as numbers."""
        return self.metric.with_params(**{name: float(one.detach()) for name, one in self._values().items()})


def pair_table(batch: Batch, metric: Metric) -> Tensor:
    """Return differentiable distances between all series of a batch, (n, n), with a zero diagonal."""
    count = len(batch)
    i, j = torch.triu_indices(count, count, 1, device=batch.values.device)
    plain = metric.without_bias
    upper = (plain or metric).between(batch[i], batch[j])
    if plain is not None:
        own = plain.between(batch, batch)
        upper = upper - 0.5 * (own[i] + own[j])
    return upper.new_zeros(count, count).index_put((i, j), upper).index_put((j, i), upper)


def neighbor_loss(table: Tensor, labels: Tensor, possible: Tensor, scale: Tensor) -> Tensor:
    """Return ``−mean_i log Σ_{j: y_j = y_i} p_ij``, ``p_ij ∝ exp(−d_ij / scale)``, over ``possible`` neighbors (n, n).

    Series without a possible neighbor of their class are skipped.
    """
    possible = possible & ~torch.eye(len(table), dtype=torch.bool, device=table.device)
    same = (labels[:, None] == labels) & possible
    rows = same.any(1)
    logits = torch.where(possible, -table / scale, -torch.inf)[rows]
    share = torch.where(same[rows], torch.softmax(logits, 1), 0.0).sum(1)
    return -(share + LEAST_SHARE).log().mean() if share.numel() else table.sum() * 0.0


class LeaveOneOut:
    """Leave-one-out classification of some training series by the others; ``faults`` puts faults into some of them."""

    def __init__(self, series: SeriesSet, labels: np.ndarray, faults: RandomFaults | None, seed: int) -> None:
        rng = np.random.default_rng(seed)
        judged = int(np.clip(JUDGED_STEPS // series.values.shape[1], LEAST_JUDGED, MOST_JUDGED))
        chosen = np.sort(rng.permutation(len(series))[:judged])
        self.series, self.labels = series[chosen], labels[chosen]
        self.same = self.labels[:, None] == self.labels
        self.queries = None
        if faults is not None:
            broken, _ = faults.add_to_some(Batch.of(self.series), seeded_generator(seed + 1, series.device))
            self.queries = self.series.with_tensors(broken.values, None)

    def table(self, view: View, metric: Metric) -> np.ndarray:
        """Return the distances (n, n), with an infinite diagonal."""
        series = view.of(self.series)
        table = distances(series if self.queries is None else view.of(self.queries), series, metric)
        np.fill_diagonal(table, np.inf)
        return table

    def error(self, table: np.ndarray) -> float:
        """Return the share of series whose nearest neighbor has another class."""
        return float((self.labels[table.argmin(1)] != self.labels).mean())

    def loss(self, table: np.ndarray) -> float:
        """Return the mean negative log-probability of the true class, with ``p ∝ exp(−d/T)``, for model selection."""
        closeness = np.exp((table.min(1, keepdims=True) - table) / neighborhood_scale(table))
        return float(-np.log((closeness * self.same).sum(1) / closeness.sum(1) + LEAST_SHARE).mean())

    def verdict(self, table: np.ndarray) -> float:
        """Return the error plus a small share of the loss, which decides between equal errors."""
        return self.error(table) + 1e-3 * self.loss(table)


def neighborhood_scale(table: np.ndarray) -> float:
    """Return the spread of the distances of a series to its five nearest: a temperature that suits any metric."""
    nearest = np.sort(table, axis=1)[:, : min(5, len(table) - 1)]
    return max(float(nearest.std(1).mean()), 1e-6)


class NeighborTask(Task):
    """Neighborhood components on class-balanced batches, validated by leave-one-out."""

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
        """Make one step of Adam and return its loss."""
        self.done = number + 1
        value = self.loss(self.batches[number], self.generator)
        optimizer = self.optimizers["all"]
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return float(value.detach())

    def validate(self) -> float:
        """Return the leave-one-out error every `CHECK_EVERY` steps and at the end, infinity otherwise."""
        last = self.done == self.descent.max_iter
        return self.error() if self.done % CHECK_EVERY == 0 or last else math.inf


def balanced_batches(labels: Tensor, descent: Descent) -> tuple[Tensor, ...]:
    """Draw class-balanced batches of series indices, one per step, on the device of ``labels``.

    Each has at least two series of a class, since a series needs a partner. All are drawn at once, so that no step
    waits for a copy.
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


@torch_threads(1)
def train_for_neighbors(
    view: View, series: SeriesSet, labels: np.ndarray, metric: Metric, descent: Descent, *, choose_penalty: bool,
    tick: Callable[[int, float], None] | None = None,
) -> tuple[Metric, list[float]]:  # fmt: skip
    """Train ``view`` so that the neighbors of a series have its class; returns the metric and the loss of each step.

    Minimizes ``−log Σ_{j: y_j = y_i} p_ij`` with ``p_ij ∝ exp(−d_ij / T)`` over the other series j of a batch
    (neighborhood components). T is learned, and for the likelihood β and ω too; γ is not, since scaling it is the same
    as scaling all variances, β and ω. With ``choose_penalty`` ω starts where leave-one-out is best. Training ends when
    leave-one-out stops improving, and the best state is kept.

    A `SlopeView` is trained with random faults in some of the series, because faults may occur only after training.

    Runs on one torch thread: the result is then the same for every number of threads, and steps are so short that more
    threads would mostly wait for each other.
    """
    device = series.device
    x, target = Batch.of(series), torch.as_tensor(labels, device=device)
    faults = RandomFaults(series, is_standardized(series)) if isinstance(view, SlopeView) else None
    judge = LeaveOneOut(series, labels, faults, descent.seed)
    if choose_penalty and metric.params.get("weighting") == "likelihood":
        choices = [metric.with_params(warp_penalty=penalty) for penalty in PENALTIES]
        metric = min(choices, key=lambda one: judge.loss(judge.table(view, one)))
    prices, initial = LearnedPrices(metric).to(device), judge.table(view, metric)
    scale = nn.Parameter(torch.tensor(math.log(neighborhood_scale(initial)), device=device))

    def loss(index: Tensor, generator: torch.Generator) -> Tensor:
        batch, possible = x[index], torch.ones(len(index), dtype=torch.bool, device=device)
        if faults is not None:
            # A faulty series looks for neighbors but is not one itself, like a query after training.
            batch, hit = faults.add_to_some(batch, generator)
            possible = ~hit
        return neighbor_loss(pair_table(view(batch), prices.live()), target[index], possible, scale.exp())

    steps = series.values.shape[1]
    affordable = max(LEAST_BATCH, math.isqrt(2 * BATCH_CELLS) // steps)
    descent = replace(descent, batch_size=min(descent.batch_size, affordable))
    modules = {"view": view, "prices": prices, "scale": nn.ParameterList([scale])}
    start = {name: copy.deepcopy(module.state_dict()) for name, module in modules.items()}
    task = NeighborTask(
        modules,
        loss,
        lambda: judge.verdict(judge.table(view, prices.fitted())),
        target,
        descent.batch_size**2 // 2 * steps**2,
        descent,
    )
    history = Training(task, descent.max_iter, keep_best=True, patience=PATIENCE).run(tick)
    if min(history.valid, default=math.inf) >= judge.verdict(initial):
        for name, module in modules.items():
            module.load_state_dict(start[name])
    return prices.fitted(), history.train
