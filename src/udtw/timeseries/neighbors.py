"""k nearest neighbours, exact, with a soft vote and learned uncertainty."""

from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from udtw._engine.metrics import Metric
from udtw._engine.series_set import SeriesSet
from udtw._io.device import Device
from udtw._io.progress import progress_bar
from udtw._io.training import Descent
from udtw.errors import OptionError
from udtw.nn import SigmaNet
from udtw.timeseries.centroid import NearestCentroidTimeSeriesClassifier
from udtw.timeseries.classifier import MetricClassifier, checked_labels, fit_series, new_series
from udtw.timeseries.search import Neighbours, nearest
from udtw.timeseries.uncertainty import seeded_view, train_for_neighbours
from udtw.timeseries.views import ValueView, View

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
        A metric name, or a `Metric` with its parameters set.
        "udtw" is the divergence of the free energy, or with ``weighting="precision"`` the paper's ``d² + βΩ``.
    gamma, beta, band, warp_penalty, weighting, normalize : as in `udtw.align`
        The defaults suit series of unit variance. With the likelihood's weighting β and ω are starting values: ``fit``
        learns them together with the network. With ``warp_penalty=None`` leave-one-out chooses where ω starts (other
        metrics have none then).
    vote : "soft" or "uniform"
        Weight of a neighbour: ``exp(−d_k / mean_k d)``, or one. Ties go to the nearest neighbour's class.
    sigma : "local", "context", "series", "step", None, a `SigmaNet` or a fitted NearestCentroidTimeSeriesClassifier
        Where the variances of "udtw" come from: a network trained by ``fit``; none (Σ = 1); a network as it is; or that
        of a classifier. "local" compares values and slopes, each with its own variance from a `LocalSigmaNet`. It knows
        sensor faults from random tasks and is trained further, with random faults in half of the series, so that faults
        count little even if they come only after training. The others compare values and start from nothing: "context"
        sees 9 steps, "series" all, "step" one.
    sigma_objective : "neighbors" or "centroid"
        What ``fit`` trains the network for: that neighbours in the training set share their class (ours; the state with
        the least leave-one-out error is kept), or as part of a nearest-centroid classifier (the paper's).
    sigma_range : (low, high)
        Range of σ.
    sigma_iter, batch_size, learning_rate
        Of that training: steps of Adam, series per step (a step compares all pairs of them; fewer if they are longer
        than 150 steps), and rate.
    nan_policy : "raise" or "omit"
        What to do about steps with NaN: a named error, or leave them out.
    n_jobs : int, optional
        Threads of the search.
    progress : bool
        Show a progress bar while the network is trained (needs the package rich).
    random_state : int, RandomState or None
    device : str, torch.device or None
        Where distances and training are computed; None is the CPU (`udtw._io.device`).

    Attributes
    ----------
    classes_ : (C,); metric_ : the metric with what was learned; sigma_net_ : the network, if there is one; view_ : the
    features and variances in which series are compared, None for the values themselves.

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
        beta: float = 0.25,
        band: Any = None,
        warp_penalty: float | None = None,
        weighting: str = "likelihood",
        normalize: str | None = None,
        vote: str = "soft",
        sigma: Any = "local",
        sigma_objective: str = "neighbors",
        sigma_range: tuple[float, float] = (0.25, 4.0),
        sigma_iter: int = 400,
        batch_size: int = 24,
        learning_rate: float = 0.015,
        nan_policy: str = "raise",
        n_jobs: int | None = None,
        progress: bool = False,
        random_state: Any = None,
        device: Device = None,
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
        self.progress = progress
        self.random_state = random_state
        self.device = device

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
        self.view_ = self._fit_view(series, codes, metric)
        self.sigma_net_ = None if self.view_ is None else self.view_.net
        self._train = self._seen(series)
        self._codes = codes
        return self

    def _fit_view(self, series: SeriesSet, codes: np.ndarray, metric: Metric) -> View | None:
        if not metric.uncertain or self.sigma is None:
            return None
        if isinstance(self.sigma, NearestCentroidTimeSeriesClassifier):
            if getattr(self.sigma, "view_", None) is None:
                raise OptionError(
                    "sigma is a nearest-centroid classifier without a SigmaNet; fit it with sigma='local', 'context', "
                    "'series' or 'step' first."
                )
            return self.sigma.view_
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        view = seeded_view(self.sigma, series, self.sigma_range, seed)
        if isinstance(self.sigma, SigmaNet) or len(self.classes_) < 2 or len(series) < 3:
            return view
        if self.sigma_objective == "centroid":
            if not isinstance(view, ValueView):
                raise OptionError("sigma_objective='centroid' trains a SigmaNet: sigma='context', 'series' or 'step'.")
            centroid = NearestCentroidTimeSeriesClassifier(
                metric=metric, objective="discriminative", sigma=view.net, max_iter=self.sigma_iter,
                learning_rate=self.learning_rate, random_state=seed, device=self.device,
            )  # fmt: skip
            centroid.fit(series.rows(), codes)
            self.metric_ = centroid.metric_
            return centroid.view_
        descent = Descent(self.sigma_iter, self.batch_size, self.learning_rate, seed)
        with progress_bar("learning what to trust", self.sigma_iter, self.progress) as advance:
            self.metric_, _ = train_for_neighbours(
                view, series, codes, metric, descent, choose_penalty=self.warp_penalty is None,
                tick=lambda number, loss: advance(1),
            )  # fmt: skip
        return view

    def _seen(self, series: SeriesSet) -> SeriesSet:
        return series if self.view_ is None else self.view_.of(series)

    def search(self, X: Any, n_neighbors: int | None = None) -> Neighbours:
        """The nearest training series: ``distances`` and ``indices`` (n, k), and ``saved``, the share not computed."""
        check_is_fitted(self)
        metric = self.metric_
        series = self._seen(new_series(self, X, self.nan_policy, elastic=metric.elastic))
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
