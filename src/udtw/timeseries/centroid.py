"""NearestCentroidTimeSeriesClassifier: one prototype per class, with its uncertainty."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from udtw._engine.metrics import Metric
from udtw._engine.series_set import SeriesSet
from udtw._io.device import Device
from udtw._io.progress import progress_bar
from udtw._io.training import Descent
from udtw.errors import OptionError
from udtw.nn import TrainingSettings
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
from udtw.timeseries.prototypes import (
    Prototypes,
    Tick,
    all_distances,
    fit_temperature,
    frechet_means,
    start_prototypes,
    train_prototypes,
)
from udtw.timeseries.uncertainty import LearnedPrices, seeded_view
from udtw.timeseries.views import USUAL_RANGE

OBJECTIVES = ("frechet", "discriminative")
LEAST_LOCAL = 9
"""Length of series from which ``sigma="auto"`` reads the steps around each step."""


@accepts_old_options
class NearestCentroidTimeSeriesClassifier(ClassifierMixin, MetricEstimator):
    """Classify by the nearest prototype, one per class, under any metric of `udtw.pairwise`.

    Parameters
    ----------
    metric : str or Metric
        "udtw" is the divergence of the free energy, or with ``weighting="precision"`` the paper's ``d² + βΩ``.
    objective : "discriminative" or "frechet"
        What training minimizes. "frechet" (the paper's): each prototype is the Fréchet mean of its class, with its own
        uncertainty. "discriminative" (ours): starting there, prototypes and uncertainty minimize the cross-entropy of
        ``softmax_c(−d(x, p_c) / T)`` with learned T.
    metric_params : dict, optional
        Parameters of the metric and ``nan_policy``, as keywords of `udtw.pairwise`. By default γ = 0.1 and β = 0.1,
        which suit z-normalized series. For "udtw" with ``weighting="likelihood"`` the discriminative objective learns
        β and ω (``warp_penalty``), starting at the given values. A `Metric` keeps its own parameters.
    sigma : "auto", "free", "local", "context", "series", "step", None or a `SigmaNet`
        Uncertainty of "udtw": one variance for each step of each prototype ("free"); a network of that kind (see
        `KNeighborsTimeSeriesClassifier`) for series and prototypes alike; none (Σ = 1); or a copy of a given network,
        trained further. "auto" is "local" for the discriminative objective, and "free" for Fréchet means and for
        series shorter than 9 steps.
    max_iter : int
        Steps of Adam (of L-BFGS for Fréchet means without uncertainty).
    training : TrainingSettings or dict, optional
        Has ``batch_size`` (32), ``learning_rate`` (0.02), ``sigma_range`` (0.25 to 4) and ``progress``.
    length : int, optional
        Steps of the prototypes; by default the average length of the series.
    random_state : int, RandomState or None
    device : str, torch.device or None
        Device for distances and training; None is the CPU.

    Attributes
    ----------
    classes_ : (C,)
    prototypes_ : (C, L, d)
    variances_ : array or None
        Variances of the prototypes: (C, L), or (C, L, 2d) of values and slopes if a network reads both; None if Σ = 1.
    sigma_net_ : torch.nn.Module or None
        The network of the variances.
    metric_ : Metric
        The metric with its learned parameters.
    temperature_ : float
        T.
    loss_trace_ : list of float
        The loss of each of the ``n_iter_`` steps.

    Examples
    --------
    >>> from udtw.timeseries import NearestCentroidTimeSeriesClassifier
    >>> X, y = [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 3.0, 4.0]], [0, 0, 1, 1]
    >>> model = NearestCentroidTimeSeriesClassifier(metric="soft_dtw", max_iter=20, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 2.0, 4.0]]).tolist(), model.prototypes_.shape
    ([0, 1], (2, 4, 1))
    """

    old_options: ClassVar = {
        **OLD_METRIC_OPTIONS,
        "weighting": "metric_params.weighting",
        "normalize": "metric_params.normalize",
        "sigma_range": "training.sigma_range",
        "batch_size": "training.batch_size",
        "learning_rate": "training.learning_rate",
    }

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        metric: str | Metric = "udtw",
        *,
        objective: str = "discriminative",
        metric_params: Mapping[str, Any] | None = None,
        sigma: Any = "auto",
        max_iter: int = 200,
        training: TrainingSettings | Mapping[str, Any] | None = None,
        length: int | None = None,
        random_state: Any = None,
        device: Device = None,
    ) -> None:
        self.metric = metric
        self.objective = objective
        self.metric_params = metric_params
        self.sigma = sigma
        self.max_iter = max_iter
        self.training = training
        self.length = length
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Compute the prototypes and their uncertainty."""
        if self.objective not in OBJECTIVES:
            raise OptionError(f"objective must be one of {OBJECTIVES}; got {self.objective!r}.")
        check_counts(self, ("max_iter",))
        settings = training_settings(
            self.training, type(self).__name__, batch_size=32, learning_rate=0.02, sigma_range=USUAL_RANGE
        )
        metric = classifier_metric(self.metric, self.metric_params, beta=0.1)
        series = fit_series(self, X)
        self.classes_, codes = np.unique(checked_labels(series, y), return_inverse=True)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        sigma = self.sigma if metric.uncertain else None
        if sigma == "auto":
            local = self.objective == "discriminative" and series.values.shape[1] >= LEAST_LOCAL
            sigma = "local" if local else "free"
        if sigma is not None and sigma != "free":
            sigma = seeded_view(sigma, series, settings.sigma_range, seed)
        start = start_prototypes(series, codes, length=self.length, sigma=sigma, sigma_range=settings.sigma_range)
        descent = Descent(self.max_iter, settings.batch_size, settings.learning_rate, seed)
        with progress_bar("training the prototypes", self.max_iter, settings.progress) as advance:
            self._train(start, series, codes, metric, descent, lambda *_: advance(1))
        self._prototypes = start
        self.n_iter_ = len(self.loss_trace_)
        self.view_ = start.view
        self.sigma_net_ = None if start.view is None else start.view.net
        with torch.no_grad():
            variances = start.variances()
        self.prototypes_ = start.values.cpu().numpy()
        self.variances_ = None if variances is None else variances.cpu().numpy()
        return self

    def _train(
        self, prototypes: Prototypes, series: SeriesSet, codes: np.ndarray, metric: Metric, descent: Descent, tick: Tick
    ) -> None:
        """Train the prototypes in place; sets ``metric_``, ``temperature_`` and ``loss_trace_``."""
        self.loss_trace_: list[float] = []
        elastic = metric.name != "euclidean"
        if self.objective == "frechet" and elastic and prototypes.raw_sigma is None and prototypes.view is None:
            prototypes.values, self.loss_trace_ = frechet_means(prototypes, series, codes, metric, self.max_iter)
        elif self.objective == "frechet" and elastic:
            self.loss_trace_ = train_prototypes(prototypes, series, codes, metric, "frechet", descent, tick)
        elif self.objective == "discriminative" and len(self.classes_) > 1:
            prototypes.prices = LearnedPrices(metric).to(series.device)
            self.loss_trace_ = train_prototypes(prototypes, series, codes, metric, "discriminative", descent, tick)
            metric = prototypes.prices.fitted()
        self.metric_ = metric
        if self.objective == "discriminative":
            self.temperature_ = math.exp(float(prototypes.log_temperature))
        else:
            self.temperature_ = fit_temperature(all_distances(prototypes, series, metric), codes)

    def distances(self, X: Any) -> np.ndarray:
        """Return the distance of each series to each prototype, (n, C)."""
        check_is_fitted(self)
        return all_distances(self._prototypes, new_series(self, X), self.metric_)

    def class_distances(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return distances to the prototypes (n, C), and the classes assigned, as numbers (n,)."""
        found = self.distances(X)
        return found, found.argmin(1)

    def decision_function(self, X: Any) -> np.ndarray:
        """Return ``−distance/T``, (n, C); for two classes (n,), positive for the second."""
        scores = -self.distances(X) / self.temperature_
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return ``softmax_c(−distance_c / T)``, (n, C)."""
        return softmax(-self.distances(X) / self.temperature_, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the nearest prototype, (n,)."""
        nearest = self.distances(X).argmin(1)  # scikit-learn wants the error of an unfitted estimator first
        return self.classes_[nearest]
