"""k-means of series under any metric: assign every series to its nearest mean, average, repeat."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from udtw._engine.metrics import Metric
from udtw._engine.series_set import SeriesSet
from udtw._io import joblib_tasks
from udtw._io.device import Device
from udtw.errors import LengthError, OptionError, ShapeError
from udtw.timeseries.barycenter import barycenters_of, mean_metric
from udtw.timeseries.classifier import fit_series, new_series
from udtw.timeseries.matched_means import Means, can_match, least_variance, match, table, update
from udtw.timeseries.resample import resample

INITS = ("k-means++", "random")
SIGMAS = ("free", None)
MOST_OFFSET = 1e3
"""Largest value, in standard deviations of the series, up to which float32 resolves their differences."""


class TimeSeriesKMeans(TransformerMixin, ClusterMixin, BaseEstimator):
    """k-means of time series: clusters about their barycenters, under any metric of `udtw._engine.metrics`.

    Series may have different lengths. The means of all clusters are updated together; with "dtw", "soft_dtw" and "udtw"
    each update is the weighted average of what is matched with every step, which never raises the inertia. With "udtw"
    each mean has a variance per step, learned with it, so that noisy stretches count less.

    Parameters
    ----------
    n_clusters : int
    metric : str or Metric
        A metric name, or a `Metric` with its parameters set. "udtw" is the free energy.
    gamma, beta, band, warp_penalty : as in `udtw.timeseries.barycenter`
        None is the default of the metric there.
    sigma : "free" or None
        Uncertainty of "udtw": a variance per step of each mean, or none (Σ = 1).
    init : "k-means++", "random" or an array (k, L), (k, L, d)
        Series as first means, far from each other (best of a few draws) or any; or the means themselves.
    n_init : int
        Starts; that with the least inertia is kept.
    max_iter : int
        Rounds of assigning and averaging, at most.
    max_iter_barycenter : int
        Updates of the means in each round, at most.
    tol : float
        A start has converged when no label changes and the inertia falls by less than this share.
    length : int, optional
        Steps of the means; by default the rounded average length.
    nan_policy : "raise" or "omit"
        What to do about steps with NaN: a named error, or leave them out.
    n_jobs : int, optional
        Threads; None is 1, -1 all cores.
    random_state : int, RandomState or None
    device : str, torch.device or None
        Where distances and means are computed; None is the CPU (`udtw._io.device`).

    Attributes
    ----------
    cluster_centers_ : (k, L, d); cluster_variances_ : (k, L) or None; labels_ : (n,); inertia_ : float, the sum of the
    distances to the nearest mean; n_iter_ : rounds of the best start; metric_ : the metric with its parameters.

    Examples
    --------
    >>> from udtw.data import cylinder_bell_funnel, znormalize
    >>> from udtw.timeseries import TimeSeriesKMeans
    >>> X = znormalize(cylinder_bell_funnel(n_per_class=10, length=64, random_state=0).X)
    >>> model = TimeSeriesKMeans(3, metric="dtw", random_state=0).fit(X)
    >>> model.cluster_centers_.shape, len(set(model.labels_.tolist()))
    ((3, 64, 1), 3)
    """

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        n_clusters: int = 3,
        *,
        metric: str | Metric = "udtw",
        gamma: float | None = None,
        beta: float | None = None,
        band: Any = None,
        warp_penalty: float | None = None,
        sigma: str | None = "free",
        init: Any = "k-means++",
        n_init: int = 3,
        max_iter: int = 50,
        max_iter_barycenter: int = 1,
        tol: float = 1e-4,
        length: int | None = None,
        nan_policy: str = "raise",
        n_jobs: int | None = None,
        random_state: Any = None,
        device: Device = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.gamma = gamma
        self.beta = beta
        self.band = band
        self.warp_penalty = warp_penalty
        self.sigma = sigma
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.max_iter_barycenter = max_iter_barycenter
        self.tol = tol
        self.length = length
        self.nan_policy = nan_policy
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.nan_policy == "omit"
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the means; ``y`` is ignored."""
        check_counts(self, ("n_clusters", "n_init", "max_iter", "max_iter_barycenter"))
        if self.sigma not in SIGMAS:
            raise OptionError(f"sigma must be one of {SIGMAS}; got {self.sigma!r}.")
        series = _working(fit_series(self, X, self.nan_policy))
        if self.n_clusters > len(series):
            raise LengthError(
                f"n_samples={len(series)} should be >= n_clusters={self.n_clusters}: every cluster needs a series."
            )
        given = {"gamma": self.gamma, "beta": self.beta, "band": self.band, "warp_penalty": self.warp_penalty}
        self.metric_ = mean_metric(self.metric, given, series.values.shape[2], self.sigma)
        if not self.metric_.elastic and (series.lengths != series.lengths[0]).any():
            raise LengthError(
                f"metric={self.metric_.name!r} compares step by step and needs series of one length; got lengths "
                f"{np.unique(series.lengths)[:5].tolist()}. Resample the series, or use metric='dtw'."
            )
        random = check_random_state(self.random_state)
        starts = 1 if not isinstance(self.init, str) else self.n_init
        best = min((self._one_start(series, random) for _ in range(starts)), key=lambda found: found[0])
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
            small = best is not None and best[0] - inertia <= self.tol * abs(best[0])
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
        """The labels of the nearest means; a mean that no series is nearest to becomes the worst-fitting series."""
        labels = costs.argmin(1)
        worst = iter(np.argsort(-costs.min(1), kind="stable"))
        values = means.values.copy()
        sizes = np.bincount(labels, minlength=len(means))
        for empty in np.flatnonzero(sizes == 0):
            taken = next(i for i in worst if sizes[labels[i]] > 1)
            sizes[labels[taken]] -= 1
            labels[taken] = empty
            sizes[empty] = 1
            values[empty] = resample(series.rows()[taken], values.shape[1])
        return replace(means, values=values), labels

    def _averaged(self, series: SeriesSet, labels: np.ndarray, means: Means) -> Means:
        """The means of the clusters, from the present ones."""
        metric, ones = self.metric_, np.ones(len(series))
        if can_match(metric):
            least = least_variance(series)
            for _ in range(self.max_iter_barycenter):
                matched = match(series, labels, ones, means, metric, joblib_tasks.threads_of(self.n_jobs))
                means = update(matched, means, metric, least)
            return means
        groups = [series[np.flatnonzero(labels == c)].rows() for c in range(len(means))]
        params = {
            "sigma": self.sigma, "length": means.values.shape[1], "max_iter": self.max_iter_barycenter,
            "device": series.device,
        }  # fmt: skip
        found = barycenters_of(groups, metric, params, inits=list(means.values))
        return replace(means, values=np.stack([one.mean for one in found]).astype(means.values.dtype))

    def _first_means(self, series: SeriesSet, random: np.random.RandomState) -> Means:
        length = self.length or max(1, round(float(series.lengths.mean())))
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
        """Greedy k-means++: of a few series drawn by their distance from the means so far, that which helps most."""
        draws = 2 + int(np.log(self.n_clusters))
        metric = mean_metric("dtw", {"band": self.band}, series.values.shape[2]) if self._uncertain else self.metric_
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
    def _uncertain(self) -> bool:
        return self.metric_.name == "udtw" and can_match(self.metric_) and self.sigma == "free"

    def _with_variances(self, series: SeriesSet, means: Means) -> Means:
        """Means of "udtw" start with one variance for all steps: the mean squared difference along DTW paths."""
        if not self._uncertain:
            return means
        costs = table(series, means, mean_metric("dtw", {"band": self.band}, series.values.shape[2]), self.n_jobs)
        variance = float(costs.min(1).mean()) / means.values.shape[1] / self.metric_.params["beta"]
        variance = max(variance, least_variance(series))
        return replace(means, variances=np.full(means.values.shape[:2], variance))

    def _new(self, X: Any) -> SeriesSet:
        check_is_fitted(self)
        series = new_series(self, X, self.nan_policy, elastic=self.metric_.elastic)
        return series.astype(self._means.values.dtype)

    def transform(self, X: Any) -> np.ndarray:
        """(n, k): the distance of each series to each mean."""
        series = self._new(X)
        return self._table(series, self._means)

    def predict(self, X: Any) -> np.ndarray:
        """(n,): the cluster of the nearest mean."""
        return self.transform(X).argmin(1)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of the distances to the nearest mean; ``y`` is ignored."""
        return -float(self.transform(X).min(1).sum())


def _working(series: SeriesSet) -> SeriesSet:
    """The series in float32 if that resolves their differences."""
    values = series.values
    coarse = np.abs(values).max() <= MOST_OFFSET * values.std() and values.dtype == np.float64
    return series.astype(np.dtype(np.float32)) if coarse else series


def check_counts(estimator: Any, names: Sequence[str]) -> None:
    """Raise `OptionError` unless these parameters are positive whole numbers."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, int | np.integer) or value < 1:
            raise OptionError(f"{name} must be a whole number, 1 or more; got {value!r}.")
