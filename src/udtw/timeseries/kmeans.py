"""TimeSeriesKMeans: k-means of series under any metric."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state

from udtw._engine.metrics import Metric
from udtw._engine.series_set import SeriesSet
from udtw._io import joblib_tasks
from udtw._io.device import Device
from udtw.errors import LengthError, OptionError, ShapeError
from udtw.timeseries.barycenter import barycenters_of, mean_metric
from udtw.timeseries.base import (
    OLD_METRIC_OPTIONS,
    MetricEstimator,
    accepts_old_options,
    check_counts,
    fit_series,
    new_series,
    resample,
)
from udtw.timeseries.matched_means import Means, can_match, least_variance, match, table, update

INITS = ("k-means++", "random")
BARYCENTER_DEFAULTS: dict[str, Any] = {"sigma": "free", "length": None, "max_iter": 1, "tol": 1e-4}
SIGMAS = ("free", None)
MOST_OFFSET = 1e3
"""Largest value, in standard deviations of the series, for which float32 resolves their differences."""


@accepts_old_options
class TimeSeriesKMeans(TransformerMixin, ClusterMixin, MetricEstimator):
    """Cluster series about their barycenters (k-means), under any metric of `udtw.pairwise`.

    Series may have different lengths. The means of all clusters are updated together; with "dtw", "soft_dtw" and "udtw"
    each update is the weighted average of the steps matched with each step, which never raises the inertia. With "udtw"
    each mean has a variance per step, learned with it, so that noisy stretches count less.

    Parameters
    ----------
    n_clusters : int
    metric : str or Metric
        "udtw" is the free energy.
    metric_params : dict, optional
        Parameters of the metric and ``nan_policy``, as keywords of `udtw.pairwise`; defaults as in
        `udtw.timeseries.barycenter`. A `Metric` keeps its own parameters.
    init : "k-means++", "random" or an array (k, L), (k, L, d)
        Initial means: series far from each other (the best of a few draws), random series, or the given means.
    n_init : int
        Number of starts; the one with the least inertia is kept.
    max_iter : int
        Most rounds of assigning and averaging.
    barycenter_params : dict, optional
        How means are computed:

        - ``sigma``: uncertainty of "udtw", "free" (a variance per step of each mean, the default) or None (Σ = 1);
        - ``length``: steps of the means, by default the rounded average length;
        - ``max_iter``: most updates per round, by default 1;
        - ``tol``: relative decrease of the inertia below which a start has converged if no label changes, 1e-4.
    n_jobs : int, optional
        Threads; None is 1, -1 all cores.
    random_state : int, RandomState or None
    device : str, torch.device or None
        Device for distances and means; None is the CPU.

    Attributes
    ----------
    cluster_centers_ : (k, L, d)
    cluster_variances_ : (k, L) or None
    labels_ : (n,)
    inertia_ : float
        Sum of the distances to the nearest mean.
    n_iter_ : int
        Rounds of the best start.
    metric_ : Metric
        The metric with its parameters.

    Examples
    --------
    >>> from udtw.data import cylinder_bell_funnel, znormalize
    >>> from udtw.timeseries import TimeSeriesKMeans
    >>> X = znormalize(cylinder_bell_funnel(n_per_class=10, length=64, random_state=0).X)
    >>> model = TimeSeriesKMeans(3, metric="dtw", random_state=0).fit(X)
    >>> model.cluster_centers_.shape, len(set(model.labels_.tolist()))
    ((3, 64, 1), 3)
    """

    old_options: ClassVar = {
        **OLD_METRIC_OPTIONS,
        "sigma": "barycenter_params.sigma",
        "length": "barycenter_params.length",
        "max_iter_barycenter": "barycenter_params.max_iter",
        "tol": "barycenter_params.tol",
    }

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        n_clusters: int = 3,
        *,
        metric: str | Metric = "udtw",
        metric_params: Mapping[str, Any] | None = None,
        init: Any = "k-means++",
        n_init: int = 3,
        max_iter: int = 50,
        barycenter_params: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        device: Device = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.metric_params = metric_params
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.barycenter_params = barycenter_params
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compute the means; ``y`` is ignored."""
        check_counts(self, ("n_clusters", "n_init", "max_iter"))
        sigma = self._averaging["sigma"]
        series = _working(fit_series(self, X))
        if self.n_clusters > len(series):
            raise LengthError(
                f"n_samples={len(series)} should be >= n_clusters={self.n_clusters}: every cluster needs a series."
            )
        self.metric_ = mean_metric(self.metric, self.metric_params, series.values.shape[2], sigma)
        if not self.metric_.elastic and (series.lengths != series.lengths[0]).any():
            raise LengthError(
                f"metric={self.metric_.name!r} compares step by step and requires series of one length; got lengths "
                f"{np.unique(series.lengths)[:5].tolist()}. Resample the series, or use metric='dtw'."
            )
        random = check_random_state(self.random_state)
        starts = 1 if not isinstance(self.init, str) else self.n_init
        best = min((self._one_start(series, random) for _ in range(starts)), key=lambda start: start[0])
        _, self._means, _, self.n_iter_ = best
        costs = self._table(series, self._means)
        self.labels_, self.inertia_ = costs.argmin(1), float(costs.min(1).sum())
        self.cluster_centers_ = self._means.values.astype(np.float64)
        self.cluster_variances_ = self._means.variances
        return self

    def _one_start(self, series: SeriesSet, random: np.random.RandomState) -> tuple[float, Means, np.ndarray, int]:
        means = self._first_means(series, random)
        best: tuple[float, Means, np.ndarray, int] | None = None
        for number in range(1, self.max_iter + 1):
            costs = self._table(series, means)
            means, labels = self._without_empty(series, means, costs)
            inertia = float(costs.min(1).sum())
            stays = best is not None and np.array_equal(labels, best[2])
            small = best is not None and best[0] - inertia <= self._averaging["tol"] * abs(best[0])
            if best is None or inertia < best[0]:
                best = inertia, means, labels, number
            if stays and small:
                break
            means = self._averaged(series, labels, means)
        assert best is not None, "there is at least one round"
        return best

    def _table(self, series: SeriesSet, means: Means) -> np.ndarray:
        return table(series, means, self.metric_, self.n_jobs).astype(np.float64)

    def _without_empty(self, series: SeriesSet, means: Means, costs: np.ndarray) -> tuple[Means, np.ndarray]:
        """Return means and labels; a mean that is nearest to no series becomes the series that fits worst."""
        labels = costs.argmin(1)
        worst = iter(np.argsort(-costs.min(1), kind="stable"))
        values = means.values.copy()
        sizes = np.bincount(labels, minlength=len(means))
        for empty in np.flatnonzero(sizes == 0):
            taken = next(i for i in worst if sizes[labels[i]] > 1)
            sizes[labels[taken]] -= 1
            labels[taken] = empty
            values[empty] = resample(series.rows()[taken], values.shape[1])
        return replace(means, values=values), labels

    def _averaged(self, series: SeriesSet, labels: np.ndarray, means: Means) -> Means:
        """Return the means of the clusters, starting from the current ones."""
        metric, averaging, ones = self.metric_, self._averaging, np.ones(len(series))
        if can_match(metric):
            least = least_variance(series)
            for _ in range(averaging["max_iter"]):
                matched = match(series, labels, ones, means, metric, joblib_tasks.threads_of(self.n_jobs))
                means = update(matched, means, metric, least)
            return means
        groups = [series[np.flatnonzero(labels == c)].rows() for c in range(len(means))]
        params = {
            "sigma": averaging["sigma"], "length": means.values.shape[1], "max_iter": averaging["max_iter"],
            "device": series.device,
        }  # fmt: skip
        averages = barycenters_of(groups, metric, params, inits=list(means.values))
        return replace(means, values=np.stack([one.mean for one in averages]).astype(means.values.dtype))

    @property
    def _averaging(self) -> dict[str, Any]:
        """Return ``barycenter_params`` with their defaults, checked."""
        given = dict(self.barycenter_params or {})
        if unknown := sorted(given.keys() - BARYCENTER_DEFAULTS.keys()):
            raise OptionError(f"barycenter_params has {', '.join(BARYCENTER_DEFAULTS)}; got {', '.join(unknown)}.")
        params = BARYCENTER_DEFAULTS | given
        if params["sigma"] not in SIGMAS:
            raise OptionError(f"barycenter_params: sigma must be one of {SIGMAS}; got {params['sigma']!r}.")
        if not isinstance(params["max_iter"], int | np.integer) or params["max_iter"] < 1:
            raise OptionError(
                f"barycenter_params: max_iter must be a whole number, 1 or more; got {params['max_iter']!r}."
            )
        return params

    def _first_means(self, series: SeriesSet, random: np.random.RandomState) -> Means:
        length = self._averaging["length"] or max(1, round(float(series.lengths.mean())))
        if not isinstance(self.init, str):
            values = np.asarray(self.init, series.values.dtype)
            values = values[:, :, None] if values.ndim == 2 else values
            if values.ndim != 3 or values.shape[0] != self.n_clusters or values.shape[2] != series.values.shape[2]:
                raise ShapeError(
                    f"init must have shape (n_clusters, L, d) = ({self.n_clusters}, L, {series.values.shape[2]}); got "
                    f"{np.shape(self.init)}."
                )
            return self._with_variances(series, Means(values))
        if self.init not in INITS:
            raise OptionError(f"init must be one of {INITS} or an array; got {self.init!r}.")
        same = np.stack([resample(row, length) for row in series.rows()]).astype(series.values.dtype)
        if self.init == "random":
            return self._with_variances(series, Means(same[random.permutation(len(series))[: self.n_clusters]]))
        return self._with_variances(series, self._far_apart(series, same, random))

    def _far_apart(self, series: SeriesSet, same: np.ndarray, random: np.random.RandomState) -> Means:
        """Choose means by greedy k-means++: the best of a few series drawn by their distance from the means so far."""
        draws = 2 + int(np.log(self.n_clusters))
        metric = mean_metric("dtw", self._dtw_params, series.values.shape[2]) if self._uncertain else self.metric_
        chosen = [int(random.randint(len(series)))]
        nearest = table(series, Means(same[chosen]), metric, self.n_jobs)[:, 0]
        while len(chosen) < self.n_clusters:
            share = nearest - nearest.min()  # distances such as soft-DTW can be negative
            share = share / share.sum() if share.sum() > 0 else np.full(len(share), 1 / len(share))
            drawn = np.unique(random.choice(len(series), draws, p=share.astype(np.float64) / share.sum(dtype=float)))
            costs = np.minimum(nearest[:, None], table(series, Means(same[drawn]), metric, self.n_jobs))
            best = int(costs.sum(0).argmin())
            chosen.append(int(drawn[best]))
            nearest = costs[:, best]
        return Means(same[chosen])

    @property
    def _dtw_params(self) -> dict[str, Any]:
        """Return the parameters of the DTW that starts "udtw"."""
        return {"band": (self.metric_params or {}).get("band")}

    @property
    def _uncertain(self) -> bool:
        return self.metric_.name == "udtw" and can_match(self.metric_) and self._averaging["sigma"] == "free"

    def _with_variances(self, series: SeriesSet, means: Means) -> Means:
        """Set initial variances of "udtw": for all steps of a mean the mean squared difference along DTW paths."""
        if not self._uncertain:
            return means
        costs = table(series, means, mean_metric("dtw", self._dtw_params, series.values.shape[2]), self.n_jobs)
        variance = float(costs.min(1).mean()) / means.values.shape[1] / self.metric_.params["beta"]
        variance = max(variance, least_variance(series))
        return replace(means, variances=np.full(means.values.shape[:2], variance))

    def _new(self, X: Any) -> SeriesSet:
        series = new_series(self, X)
        return series.astype(self._means.values.dtype)

    def transform(self, X: Any) -> np.ndarray:
        """Return the distance of each series to each mean, (n, k)."""
        series = self._new(X)
        return self._table(series, self._means)

    def predict(self, X: Any) -> np.ndarray:
        """Return the cluster of the nearest mean, (n,)."""
        return self.transform(X).argmin(1)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the sum of the distances to the nearest mean; ``y`` is ignored."""
        return -float(self.transform(X).min(1).sum())


def _working(series: SeriesSet) -> SeriesSet:
    """Return the series in float32 if that resolves their differences."""
    values = series.values
    coarse = np.abs(values).max() <= MOST_OFFSET * values.std() and values.dtype == np.float64
    return series.astype(np.dtype(np.float32)) if coarse else series
