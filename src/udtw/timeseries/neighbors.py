"""k nearest neighbors: an exact search that skips pairs by lower bounds, a soft vote, and learned uncertainty."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from udtw._engine.metrics import BLOCK_CELLS, Metric
from udtw._engine.pair_block import PairBlock, matched
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet
from udtw._io import joblib_tasks
from udtw._io.device import Device
from udtw._io.memory import refuse_if_too_large
from udtw._io.progress import progress_bar
from udtw._io.training import Descent
from udtw.errors import OptionError
from udtw.nn import SigmaNet, TrainingSettings
from udtw.nn.training import training_settings
from udtw.timeseries.base import (
    OLD_METRIC_OPTIONS,
    MetricEstimator,
    accepts_old_options,
    check_counts,
    checked_labels,
    classifier_metric,
    fit_series,
    new_series,
)
from udtw.timeseries.centroid import NearestCentroidTimeSeriesClassifier
from udtw.timeseries.uncertainty import seeded_view, train_for_neighbors
from udtw.timeseries.views import USUAL_RANGE, ValueView, View

VOTES = ("soft", "uniform")
OBJECTIVES = ("neighbors", "centroid")
FIRST_ROUND = 4
"""Candidates of a query in the first round beyond the k it needs; each round doubles them."""
SEARCH_TABLES = 7
"""Number of (queries, candidates) tables of eight bytes: bounds, their order, exact values, and copies of them."""


@dataclass(frozen=True)
class Neighbors:
    """Result of a search: ``distances`` and ``indices`` (n, k), nearest first, ties by index."""

    distances: np.ndarray
    indices: np.ndarray
    saved: float
    """Share of the distances that were not computed."""

    def first(self, k: int) -> "Neighbors":
        """Return only the k nearest."""
        return Neighbors(self.distances[:, :k], self.indices[:, :k], self.saved)


@accepts_old_options
class KNeighborsTimeSeriesClassifier(ClassifierMixin, MetricEstimator):
    """Classify by the k nearest training series, under any metric of `udtw.pairwise`.

    The search is exact. For "dtw" and "udtw" it computes a distance only where no lower bound excludes it; `search`
    reports the share that was saved.

    Parameters
    ----------
    n_neighbors : int
    metric : str or Metric
        "udtw" is the divergence of the free energy, or with ``weighting="precision"`` the paper's ``d² + βΩ``.
    metric_params : dict, optional
        Parameters of the metric and ``nan_policy``, as keywords of `udtw.pairwise`. By default γ = 0.1 and β = 0.25,
        which suit series of unit variance. For "udtw" with ``weighting="likelihood"`` β and ω (``warp_penalty``) are
        starting values: ``fit`` learns them together with the network. Unless ω is given, leave-one-out chooses where
        it starts. A `Metric` keeps its own parameters.
    sigma : "local", "context", "series", "step", None, a `SigmaNet` or a fitted NearestCentroidTimeSeriesClassifier
        Source of the variances of "udtw": a network trained by ``fit``; none (Σ = 1); a network used as it is; or the
        network of a classifier. "local" compares values and slopes, each with its own variance from a `LocalSigmaNet`.
        It is pretrained on random tasks with sensor faults, and trained further with random faults in half of the
        series, so that faults count little even if they occur only after training. The others compare values and are
        trained from scratch: "context" sees 9 steps, "series" all, "step" one.
    max_iter : int
        Steps of that training.
    training : TrainingSettings or dict, optional
        Has ``batch_size`` (24; a step compares all pairs of a batch, which is reduced for series longer than 150
        steps), ``learning_rate`` (0.015), ``sigma_range`` (0.25 to 4), ``progress`` and ``objective``: "neighbors"
        trains the network so that neighbors in the training set share their class and keeps the state with the
        least leave-one-out error; "centroid" trains it as part of a nearest-centroid classifier (the paper's).
    vote : "soft" or "uniform"
        Weight of a neighbor: ``exp(−d_k / mean_k d)``, or one. Ties go to the class of the nearest neighbor.
    n_jobs : int, optional
        Threads of the search.
    random_state : int, RandomState or None
    device : str, torch.device or None
        Device for distances and training; None is the CPU.

    Attributes
    ----------
    classes_ : (C,)
    metric_ : Metric
        The metric with its learned parameters.
    n_iter_ : int
        Steps of the training; 1 without training.
    sigma_net_ : torch.nn.Module or None
        The network of the variances.
    view_ : torch.nn.Module or None
        Maps series to the features and variances that are compared; None if these are the values themselves.

    Examples
    --------
    >>> from udtw.timeseries import KNeighborsTimeSeriesClassifier
    >>> X, y = [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 3.0, 4.0]], [0, 0, 1, 1]
    >>> model = KNeighborsTimeSeriesClassifier(metric="dtw", metric_params={"band": 0.5}).fit(X, y)
    >>> model.predict([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 2.0, 4.0]]).tolist()
    [0, 1]
    """

    old_options: ClassVar = {
        **OLD_METRIC_OPTIONS,
        "weighting": "metric_params.weighting",
        "normalize": "metric_params.normalize",
        "sigma_iter": "max_iter",
        "sigma_objective": "training.objective",
        "sigma_range": "training.sigma_range",
        "batch_size": "training.batch_size",
        "learning_rate": "training.learning_rate",
        "progress": "training.progress",
    }

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        n_neighbors: int = 1,
        *,
        metric: str | Metric = "udtw",
        metric_params: Mapping[str, Any] | None = None,
        sigma: Any = "local",
        max_iter: int = 400,
        training: TrainingSettings | Mapping[str, Any] | None = None,
        vote: str = "soft",
        n_jobs: int | None = None,
        random_state: Any = None,
        device: Device = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.metric_params = metric_params
        self.sigma = sigma
        self.max_iter = max_iter
        self.training = training
        self.vote = vote
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Store the training series, and learn their variances, depending on ``sigma``."""
        if self.vote not in VOTES:
            raise OptionError(f"vote must be one of {VOTES}; got {self.vote!r}.")
        check_counts(self, ("max_iter",))
        settings = training_settings(
            self.training, type(self).__name__,
            batch_size=24, learning_rate=0.015, sigma_range=USUAL_RANGE, objective="neighbors",
        )  # fmt: skip
        if settings.objective not in OBJECTIVES:
            raise OptionError(f"training.objective must be one of {OBJECTIVES}; got {settings.objective!r}.")
        self.n_iter_ = 1  # as scikit-learn wants it of estimators that may iterate
        self.metric_ = metric = classifier_metric(self.metric, self.metric_params, beta=0.25)
        series = fit_series(self, X)
        labels = checked_labels(series, y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        _check_neighbors(self.n_neighbors, len(series))
        self.view_ = self._fit_view(series, codes, metric, settings)
        self.sigma_net_ = None if self.view_ is None else self.view_.net
        self._train = self._viewed(series)
        self._codes = codes
        return self

    def _fit_view(
        self, series: SeriesSet, codes: np.ndarray, metric: Metric, settings: TrainingSettings
    ) -> View | None:
        if not metric.uncertain or self.sigma is None:
            return None
        if isinstance(self.sigma, NearestCentroidTimeSeriesClassifier):
            if getattr(self.sigma, "view_", None) is None:
                raise OptionError(
                    "sigma is a nearest-centroid classifier without a network; fit it with sigma='local', 'context', "
                    "'series' or 'step' first."
                )
            return self.sigma.view_
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        view = seeded_view(self.sigma, series, settings.sigma_range, seed)
        if isinstance(self.sigma, SigmaNet) or len(self.classes_) < 2 or len(series) < 3:
            return view
        if settings.objective == "centroid":
            if not isinstance(view, ValueView):
                raise OptionError("training.objective='centroid' requires sigma='context', 'series' or 'step'.")
            centroid = NearestCentroidTimeSeriesClassifier(
                metric=metric, objective="discriminative", sigma=view.net, max_iter=self.max_iter,
                training={"learning_rate": settings.learning_rate, "progress": settings.progress},
                random_state=seed, device=self.device,
            )  # fmt: skip
            centroid.fit(series.rows(), codes)
            self.metric_, self.n_iter_ = centroid.metric_, centroid.n_iter_
            return centroid.view_
        descent = Descent(self.max_iter, settings.batch_size, settings.learning_rate, seed)
        choose_penalty = (self.metric_params or {}).get("warp_penalty") is None
        with progress_bar("training the sigma network", self.max_iter, settings.progress) as advance:
            self.metric_, losses = train_for_neighbors(
                view, series, codes, metric, descent, choose_penalty=choose_penalty, tick=lambda *_: advance(1)
            )
        self.n_iter_ = len(losses)
        return view

    def _viewed(self, series: SeriesSet) -> SeriesSet:
        return series if self.view_ is None else self.view_.of(series)

    def search(self, X: Any, n_neighbors: int | None = None) -> Neighbors:
        """Find the nearest training series: ``distances`` and ``indices`` (n, k), and ``saved``, the share skipped."""
        check_is_fitted(self)
        series = self._viewed(new_series(self, X))
        count = self.n_neighbors if n_neighbors is None else n_neighbors
        _check_neighbors(count, len(self._train))
        return nearest(series, self._train, count, self.metric_, self.n_jobs)

    def kneighbors(self, X: Any, n_neighbors: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return (distances, indices) of the nearest training series, (n, k) each, nearest first."""
        neighbors = self.search(X, n_neighbors)
        return neighbors.distances, neighbors.indices

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the share of the votes of each class, (n, C)."""
        return self.votes(self.search(X))

    def class_distances(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return distances to the classes (n, C), and the classes assigned, as numbers (n,).

        The distance to a class is the mean over its nearest series, as many as there are neighbors.
        """
        check_is_fitted(self)
        series = self._viewed(new_series(self, X))
        found = _to_classes(series, self._train, self._codes, self.n_neighbors, self.metric_, self.n_jobs)
        return found, found.argmin(1) if self.n_neighbors == 1 else self.predict_proba(X).argmax(1)

    def votes(self, neighbors: Neighbors) -> np.ndarray:
        """Return the share of the votes of each class, (n, C), from a result of `search`."""
        votes = np.zeros((len(neighbors.indices), len(self.classes_)))
        rows = np.arange(len(votes))[:, None]
        np.add.at(votes, (rows, self._codes[neighbors.indices]), self._weights(neighbors.distances))
        return votes / votes.sum(1, keepdims=True)

    def _weights(self, distances: np.ndarray) -> np.ndarray:
        """Return the weights of neighbors; that of the nearest is slightly larger, so that it decides ties."""
        weights = np.ones(distances.shape)
        if self.vote == "soft":
            # Relative to the nearest, since distances can be negative; in units of the neighborhood's own scale.
            scale = np.abs(distances).mean(1, keepdims=True)
            weights = np.exp(-(distances - distances[:, :1]) / np.where(scale > 0, scale, 1))
        weights[:, 0] *= 1 + 1e-6
        return weights

    def predict(self, X: Any) -> np.ndarray:
        """Return the class with the most votes, (n,)."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(1)]


def _check_neighbors(count: int, available: int) -> None:
    if not 1 <= count <= available:
        raise OptionError(
            f"n_neighbors must lie between 1 and the number of training series, {available}; got {count}.",
            parameter="n_neighbors",
        )


def nearest(x: SeriesSet, train: SeriesSet, k: int, metric: Metric, n_jobs: int | None = None) -> Neighbors:
    """Find the k nearest of ``train`` to each of ``x``; the same as from the full table of distances.

    Uses ``n_jobs`` threads, or the workers of the active joblib backend (see `udtw.pairwise`).
    """
    if metric.lower_bound is None:
        return _best(distances(x, train, metric, n_jobs), k, 0.0)
    if joblib_tasks.chosen():
        return _nearest_by_workers(x, train, k, metric)
    if not metric.uncertain:
        x, train = x.with_variances(None), train.with_variances(None)
    x, train = matched(x, train)
    refuse_if_too_large(
        SEARCH_TABLES * 8 * len(x) * len(train),
        f"Searching {len(train):,} series for the neighbors of {len(x):,}",
        "Search for fewer series at a time, for example search(X[:1000]).",
    )
    bounds = metric.bounds(x, train)
    if bounds is None:
        return _best(distances(x, train, metric, n_jobs), k, 0.0)
    n_threads = joblib_tasks.threads_of(n_jobs)

    def of_pairs(value: Callable[[PairBlock], np.ndarray]) -> PairValues:
        return lambda i, j: value(PairBlock(x, train, i, j, n_threads=n_threads))

    cells = x.values.shape[1] * train.values.shape[1]
    exact = of_pairs(lambda block: metric.values(block)[0])
    tighter = [of_pairs(bound) for bound in bounds.tighter]
    table, computed = _search(bounds.quick, k, tighter, exact, max(1, BLOCK_CELLS // cells))
    return _best(table, k, 1 - computed / table.size)


def _nearest_by_workers(x: SeriesSet, train: SeriesSet, k: int, metric: Metric) -> Neighbors:
    shares = joblib_tasks.shares(len(x))
    tasks = [(x[np.asarray(share)], train, k, metric) for share in shares]
    results = dict(joblib_tasks.spread(nearest, tasks))
    parts = [results[number] for number in range(len(shares))]
    return Neighbors(
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.indices for part in parts]),
        float(np.average([part.saved for part in parts], weights=[len(share) for share in shares])),
    )


def _to_classes(
    x: SeriesSet, train: SeriesSet, codes: np.ndarray, k: int, metric: Metric, n_jobs: int | None = None
) -> np.ndarray:
    """Return the mean distance to the k nearest series of each class, or to all of a smaller class, (n, C)."""
    if joblib_tasks.chosen():  # A task has all classes: else workers would wait for the slowest one at every class.
        tasks = [(x[np.asarray(share)], train, codes, k, metric) for share in joblib_tasks.shares(len(x))]
        results = dict(joblib_tasks.spread(_to_classes, tasks))
        return np.concatenate([results[number] for number in range(len(tasks))])
    members = [np.flatnonzero(codes == code) for code in range(codes.max() + 1)]
    return np.stack([nearest(x, train[own], min(k, len(own)), metric, n_jobs).distances.mean(1) for own in members], 1)


PairValues = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _search(
    quick: np.ndarray, k: int, bounds: list[PairValues], exact: PairValues, chunk: int
) -> tuple[np.ndarray, int]:
    """Return (queries, candidates) exact values where needed and +inf elsewhere, and how many were computed.

    Each query goes through its candidates in the order of the ``quick`` bound, in rounds that double; a round of all
    queries is evaluated together. A candidate whose bound exceeds the k-th best value so far is skipped, as are all
    that follow it in this order.
    """
    queries, candidates = quick.shape
    order = np.argsort(quick, axis=1, kind="stable")
    ranked = np.take_along_axis(quick, order, axis=1)
    table = np.full((queries, candidates), np.inf)
    worst = np.full(queries, np.inf)
    active, start, size, computed = np.arange(queries), 0, k + FIRST_ROUND, 0
    while active.size and start < candidates:
        stop = min(candidates, start + size)
        rows, columns = np.nonzero(ranked[active, start:stop] <= worst[active, None])
        i, j = active[rows], order[active[rows], start + columns]
        for bound in bounds:
            keep = _in_chunks(bound, i, j, chunk) <= worst[i]
            i, j = i[keep], j[keep]
        table[i, j] = _in_chunks(exact, i, j, chunk)
        computed += len(i)
        worst[active] = np.partition(table[active], k - 1, axis=1)[:, k - 1]
        start, size = stop, 2 * size
        if start < candidates:
            active = active[ranked[active, start] <= worst[active]]
    return table, computed


def _in_chunks(values: PairValues, i: np.ndarray, j: np.ndarray, chunk: int) -> np.ndarray:
    parts = [values(i[s : s + chunk], j[s : s + chunk]) for s in range(0, len(i), chunk)]
    return np.concatenate(parts) if parts else np.empty(0)


def _best(table: np.ndarray, k: int, saved: float) -> Neighbors:
    indices = np.argsort(table, axis=1, kind="stable")[:, :k]
    return Neighbors(np.take_along_axis(table, indices, axis=1), indices, saved)
