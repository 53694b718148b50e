"""TimeSeriesKMedoids: clusters of series about series of the set, from a table of all distances."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from udtw._engine.metrics import Metric
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet
from udtw._io.device import Device
from udtw.errors import LengthError, ShapeError
from udtw.timeseries.base import (
    OLD_METRIC_OPTIONS,
    MetricEstimator,
    accepts_old_options,
    check_counts,
    fit_series,
    make_metric,
    new_series,
)

PRECOMPUTED = "precomputed"


@accepts_old_options
class TimeSeriesKMedoids(TransformerMixin, ClusterMixin, MetricEstimator):
    """Cluster series about series of the set itself (PAM, with the swaps of FastPAM).

    All distances are computed once by `udtw.pairwise`, after which starts cost little. Any metric is suitable, since
    nothing is averaged.

    Parameters
    ----------
    n_clusters : int
    metric : str, Metric or "precomputed"
        "udtw" is the divergence of the free energy with Σ = 1. With "precomputed" ``X`` is a table of distances: (n, n)
        in ``fit``, (n, fitted series) in ``predict``; for series with variances pass
        ``udtw.pairwise(X, var_x=…)``.
    metric_params : dict, optional
        Parameters of the metric and ``nan_policy``, as keywords of `udtw.pairwise`. A `Metric` keeps its own
        parameters.
    n_init : int
        Number of starts, by k-means++ on the table; the one with the least inertia is kept.
    max_iter : int
        Most swaps of a medoid with another series in each start.
    n_jobs, random_state, device : as in `TimeSeriesKMeans`

    Attributes
    ----------
    medoid_indices_ : (k,)
    cluster_centers_ : list of (T_i, d), or None
        The medoids; None for "precomputed".
    labels_ : (n,)
    inertia_ : float
        Sum of the distances to the nearest medoid.
    n_iter_ : int
        Swaps of the best start.

    Examples
    --------
    >>> from udtw.timeseries import TimeSeriesKMedoids
    >>> X = [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [5.0, 6.0], [5.0, 5.0, 6.0], [6.0, 6.0]]
    >>> model = TimeSeriesKMedoids(2, metric="dtw", random_state=0).fit(X)
    >>> sorted(model.medoid_indices_.tolist()), model.inertia_
    ([1, 2], 2.0)
    """

    old_options: ClassVar = OLD_METRIC_OPTIONS

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        metric: str | Metric = "udtw",
        metric_params: Mapping[str, Any] | None = None,
        n_init: int = 10,
        max_iter: int = 300,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: Device = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.metric_params = metric_params
        self.n_init = n_init
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.metric == PRECOMPUTED
        tags.input_tags.three_d_array = self.metric != PRECOMPUTED
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the medoids; ``y`` is ignored."""
        check_counts(self, ("n_clusters", "n_init", "max_iter"))
        if self.metric == PRECOMPUTED:
            costs = validate_data(self, X, dtype=np.float64)
            if costs.shape[0] != costs.shape[1]:
                raise ShapeError(f"A precomputed table of distances must be square; got shape {costs.shape}.")
        else:
            self.metric_ = make_metric(self.metric, self.metric_params, debias=True)
            series = fit_series(self, X)
            costs = distances(series, None, self.metric_, self.n_jobs).astype(np.float64)
        if self.n_clusters > len(costs):
            raise LengthError(
                f"n_samples={len(costs)} should be >= n_clusters={self.n_clusters}: every cluster needs a series."
            )
        random = check_random_state(self.random_state)
        starts = (swapped(costs, spread_out(costs, self.n_clusters, random), self.max_iter) for _ in range(self.n_init))
        medoids, self.n_iter_ = min(starts, key=lambda start: costs[:, start[0]].min(1).sum())
        near = costs[:, medoids]
        self.medoid_indices_, self.labels_, self.inertia_ = medoids, near.argmin(1), float(near.min(1).sum())
        self._medoids: SeriesSet | None = None if self.metric == PRECOMPUTED else series[medoids]
        self.cluster_centers_ = None if self._medoids is None else self._medoids.rows()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the distance of each series to each medoid, (n, k)."""
        check_is_fitted(self)
        if self._medoids is None:
            return validate_data(self, X, dtype=np.float64, reset=False)[:, self.medoid_indices_]
        series = new_series(self, X)
        return distances(series, self._medoids, self.metric_, self.n_jobs).astype(np.float64)

    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster of the nearest medoid, (n,)."""
        return self.transform(X).argmin(1)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the sum of the distances to the nearest medoid; ``y`` is ignored."""
        return -float(self.transform(X).min(1).sum())


def spread_out(costs: np.ndarray, count: int, random: np.random.RandomState) -> np.ndarray:
    """Draw ``count`` different indices, each with a probability proportional to the distance from those before."""
    chosen = [int(random.randint(len(costs)))]
    nearest = costs[:, chosen[0]]
    while len(chosen) < count:
        share = nearest - nearest.min()
        share[chosen] = 0
        if not share.sum() > 0:
            share = np.ones(len(costs))
            share[chosen] = 0
        chosen.append(int(random.choice(len(costs), p=share / share.sum())))
        nearest = np.minimum(nearest, costs[:, chosen[-1]])
    return np.array(chosen)


def swapped(costs: np.ndarray, medoids: np.ndarray, max_iter: int) -> tuple[np.ndarray, int]:
    """Swap medoids while that lowers the inertia, the best swap first; returns the medoids and the number of swaps.

    The change of the inertia by each swap follows from the two nearest medoids of each series in O(n²) (FastPAM1).
    """
    medoids, every = medoids.copy(), np.arange(len(costs))
    for number in range(max_iter):
        near = costs[:, medoids]
        order = np.argsort(near, axis=1, kind="stable")
        owner, first = order[:, 0], near[every, order[:, 0]]
        second = near[every, order[:, 1]] if len(medoids) > 1 else np.full(len(costs), np.inf)
        closer = np.minimum(costs - first[:, None], 0)  # gain of a candidate that is nearer than all medoids
        # Series of a removed medoid go to the candidate or to their second medoid.
        change = np.zeros((len(medoids), len(costs)))
        lost = np.minimum(costs, second[:, None]) - first[:, None] - closer
        np.add.at(change, owner, lost)
        change += closer.sum(0)
        change[:, medoids] = 0
        out, candidate = np.unravel_index(change.argmin(), change.shape)
        if change[out, candidate] >= -1e-9 * max(float(np.abs(first).sum()), 1e-300):
            return medoids, number
        medoids[out] = candidate
    return medoids, max_iter
