"""k nearest neighbours, exact, with a soft vote and learned uncertainty."""

from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from udtw.errors import OptionError
from udtw.inputs import SeriesSet
from udtw.metrics import Metric
from udtw.nn import SigmaNet
from udtw.timeseries.centroid import NearestCentroidTimeSeriesClassifier
from udtw.timeseries.classifier import MetricClassifier, checked_labels, fit_series, new_series
from udtw.timeseries.search import Neighbours, nearest
from udtw.timeseries.uncertainty import seeded_sigma, train_for_neighbours, variances_of
from udtw.training import Descent

VOTES = ("soft", "uniform")
OBJECTIVES = ("neighbors", "centroid")


class KNeighborsTimeSeriesClassifier(MetricClassifier):
    """The classes of the k nearest training series, by any metric of `udtw.pairwise`.

    The search is exact and computes a distance only where no lower bound excludes it ("dtw" and "udtw"); `search` says
    which share that saved.

    Parameters
    ----------
    n_neighbors : int
    metric : str or Metric
        A name of `udtw.metrics.METRICS`, or a `Metric` with its parameters set.
        "udtw" is the divergence of the free energy, or with ``weighting="precision"`` the paper's ``d² + βΩ``.
    gamma, beta, band, warp_penalty, weighting, normalize : as in `udtw.align`
        The defaults suit z-normalised series. With the likelihood's weighting β and ω are starting values: ``fit``
        learns them together with the network.
    vote : "soft" or "uniform"
        Weight of a neighbour: ``exp(−d_k / mean_k d)``, or one. Ties go to the nearest neighbour's class.
    sigma : "context", "series", "step", None, a `SigmaNet` or a fitted NearestCentroidTimeSeriesClassifier
        Where the variances of "udtw" come from: a network of that kind (see `udtw.timeseries.uncertainty`) trained by
        ``fit``; none (Σ = 1); a network as it is; or that of a classifier.
    sigma_objective : "neighbors" or "centroid"
        What ``fit`` trains the network for: that neighbours in the training set share their class (ours; the state with
        the least leave-one-out error is kept), or as part of a nearest-centroid classifier (the paper's).
    sigma_range : (low, high)
        Range of σ.
    sigma_iter, batch_size, learning_rate
        Of that training: steps of Adam, series per step (a step compares all pairs of them), and rate.
    nan_policy : "raise" or "omit"
        What to do about steps with NaN: a named error, or leave them out.
    n_jobs : int, optional
        Threads of the search.
    random_state : int, RandomState or None

    Attributes
    ----------
    classes_ : (C,); sigma_net_ : the network, if there is one; metric_ : the metric with what was learned.

    Examples
    --------
    >>> from udtw.timeseries import KNeighborsTimeSeriesClassifier
    >>> X, y = [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 3.0, 4.0]], [0, 0, 1, 1]
    >>> model = KNeighborsTimeSeriesClassifier(metric="dtw").fit(X, y)
    >>> model.predict([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 2.0, 4.0]]).tolist()
    [0, 1]
    """

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        n_neighbors: int = 1,
        *,
        metric: str | Metric = "udtw",
        gamma: float = 0.1,
        beta: float = 0.1,
        band: Any = None,
        warp_penalty: float = 0.0,
        weighting: str = "likelihood",
        normalize: str | None = None,
        vote: str = "soft",
        sigma: Any = "context",
        sigma_objective: str = "neighbors",
        sigma_range: tuple[float, float] = (0.25, 4.0),
        sigma_iter: int = 150,
        batch_size: int = 24,
        learning_rate: float = 0.01,
        nan_policy: str = "raise",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.gamma = gamma
        self.beta = beta
        self.band = band
        self.warp_penalty = warp_penalty
        self.weighting = weighting
        self.normalize = normalize
        self.vote = vote
        self.sigma = sigma
        self.sigma_objective = sigma_objective
        self.sigma_range = sigma_range
        self.sigma_iter = sigma_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.nan_policy = nan_policy
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Keep the training series, and learn their uncertainty if asked to."""
        if self.vote not in VOTES:
            raise OptionError(f"vote must be one of {VOTES}; got {self.vote!r}.")
        if self.sigma_objective not in OBJECTIVES:
            raise OptionError(f"sigma_objective must be one of {OBJECTIVES}; got {self.sigma_objective!r}.")
        self.metric_ = metric = self._metric()
        series = fit_series(self, X, self.nan_policy)
        labels = checked_labels(series, y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        _check_neighbors(self.n_neighbors, len(series))
        self.sigma_net_ = self._fit_sigma(series, codes, metric)
        self._train = self._with_variances(series)
        self._codes = codes
        return self

    def _fit_sigma(self, series: SeriesSet, codes: np.ndarray, metric: Metric) -> SigmaNet | None:
        if not metric.uncertain or self.sigma is None:
            return None
        if isinstance(self.sigma, NearestCentroidTimeSeriesClassifier):
            if getattr(self.sigma, "sigma_net_", None) is None:
                raise OptionError(
                    "sigma is a nearest-centroid classifier without a SigmaNet; fit it with sigma='context', "
                    "'series' or 'step' first."
                )
            return self.sigma.sigma_net_
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        net = seeded_sigma(self.sigma, series, self.sigma_range, seed)
        if isinstance(self.sigma, SigmaNet) or len(self.classes_) < 2 or len(series) < 3:
            return net
        if self.sigma_objective == "centroid":
            centroid = NearestCentroidTimeSeriesClassifier(
                metric=metric, objective="discriminative", sigma=net, max_iter=self.sigma_iter,
                learning_rate=self.learning_rate, random_state=seed,
            )  # fmt: skip
            centroid.fit(series.rows(), codes)
            self.metric_ = centroid.metric_
            return centroid.sigma_net_
        descent = Descent(self.sigma_iter, self.batch_size, self.learning_rate, seed)
        self.metric_, _ = train_for_neighbours(net, series, codes, metric, descent)
        return net

    def _with_variances(self, series: SeriesSet) -> SeriesSet:
        return series if self.sigma_net_ is None else variances_of(self.sigma_net_, series)

    def search(self, X: Any, n_neighbors: int | None = None) -> Neighbours:
        """The nearest training series: ``distances`` and ``indices`` (n, k), and ``saved``, the share not computed."""
        check_is_fitted(self)
        metric = self.metric_
        series = self._with_variances(new_series(self, X, self.nan_policy, elastic=metric.elastic))
        count = self.n_neighbors if n_neighbors is None else n_neighbors
        _check_neighbors(count, len(self._train))
        return nearest(series, self._train, count, metric, self.n_jobs)

    def kneighbors(self, X: Any, n_neighbors: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """(distances, indices) of the nearest training series, (n, k) each, nearest first."""
        found = self.search(X, n_neighbors)
        return found.distances, found.indices

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, classes): the share of the votes."""
        return self.votes(self.search(X))

    def votes(self, found: Neighbours) -> np.ndarray:
        """(n, classes): the share of the votes of neighbours found by `search`."""
        votes = np.zeros((len(found.indices), len(self.classes_)))
        rows = np.arange(len(votes))[:, None]
        np.add.at(votes, (rows, self._codes[found.indices]), self._weights(found.distances))
        return votes / votes.sum(1, keepdims=True)

    def _weights(self, distances: np.ndarray) -> np.ndarray:
        """Larger for nearer neighbours; slightly larger again for the nearest, so that it decides ties."""
        weights = np.ones(distances.shape)
        if self.vote == "soft":
            # Relative to the nearest, since distances can be negative; in units of the neighbourhood's own scale.
            scale = np.abs(distances).mean(1, keepdims=True)
            weights = np.exp(-(distances - distances[:, :1]) / np.where(scale > 0, scale, 1))
        weights[:, 0] *= 1 + 1e-6
        return weights

    def predict(self, X: Any) -> np.ndarray:
        """(n,): the class with the most votes."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(1)]


def _check_neighbors(count: int, available: int) -> None:
    if not 1 <= count <= available:
        raise OptionError(
            f"n_neighbors must lie between 1 and the number of training series, {available}; got {count}."
        )
