"""Nearest centroid: one prototype per class, with its uncertainty."""

import math
from typing import Any, Self

import numpy as np
import torch
from scipy.special import softmax
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from udtw._engine.metrics import Metric
from udtw._io.device import Device
from udtw._io.training import Descent
from udtw.errors import OptionError
from udtw.timeseries.classifier import MetricClassifier, checked_labels, fit_series, new_series
from udtw.timeseries.prototypes import (
    all_distances,
    fit_temperature,
    frechet_means,
    start_prototypes,
    train_prototypes,
)
from udtw.timeseries.uncertainty import LearnedPrices, seeded_view

OBJECTIVES = ("frechet", "discriminative")
LEAST_LOCAL = 9
"""Steps below which a network has nothing to read around a step."""


class NearestCentroidTimeSeriesClassifier(MetricClassifier):
    """The class whose prototype is nearest, by any metric of `udtw.pairwise`.

    Parameters
    ----------
    metric : str or Metric
        A metric name, or a `Metric` with its parameters set.
        "udtw" is the divergence of the free energy, or with ``weighting="precision"`` the paper's ``d² + βΩ``.
    objective : "discriminative" or "frechet"
        "frechet" (the paper's): each prototype is the Fréchet mean of its class, with its own uncertainty.
        "discriminative" (ours): starting there, prototypes and uncertainty minimise the cross-entropy of
        ``softmax_c(−d(x, p_c) / T)``, T learned.
    gamma, beta, band, warp_penalty, weighting, normalize : as in `udtw.align`
        The defaults suit z-normalised series. With the likelihood's weighting the discriminative objective learns β and
        ω too.
    sigma : "auto", "free", "local", "context", "series", "step", None or a `SigmaNet`
        Uncertainty of "udtw": one variance for each step of each prototype ("free"); a network of that kind (see
        `KNeighborsTimeSeriesClassifier`) on series and prototypes alike; none (Σ = 1); or a copy of a given network,
        trained further. "auto" is "local" for the discriminative objective, and "free" for Fréchet means and for
        series shorter than 9 steps.
    sigma_range : (low, high)
        Range of σ.
    length : int, optional
        Steps of the prototypes; the average length of the series by default.
    max_iter, batch_size, learning_rate
        Of the training: steps of Adam (of L-BFGS for Fréchet means without uncertainty), series per step, and rate.
    nan_policy : "raise" or "omit"
        What to do about steps with NaN: a named error, or leave them out.
    random_state : int, RandomState or None
    device : str, torch.device or None
        Where distances and training are computed; None is the CPU (`udtw._io.device`).

    Attributes
    ----------
    classes_ : (C,); prototypes_ : (C, L, d); variances_ : variances of the prototypes, (C, L), or (C, L, 2d) of values
    and slopes if a network reads both, None if Σ = 1; sigma_net_ : the network, if there is one; metric_ : the metric
    with what was learned; temperature_ : T; loss_trace_ : the loss of every of n_iter_ steps.

    Examples
    --------
    >>> from udtw.timeseries import NearestCentroidTimeSeriesClassifier
    >>> X, y = [[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 3.0, 4.0]], [0, 0, 1, 1]
    >>> model = NearestCentroidTimeSeriesClassifier(metric="soft_dtw", max_iter=20, random_state=0).fit(X, y)
    >>> model.predict([[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 2.0, 4.0]]).tolist(), model.prototypes_.shape
    ([0, 1], (2, 4, 1))
    """

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        metric: str | Metric = "udtw",
        *,
        objective: str = "discriminative",
        gamma: float = 0.1,
        beta: float = 0.1,
        band: Any = None,
        warp_penalty: float | None = None,
        weighting: str = "likelihood",
        normalize: str | None = None,
        sigma: Any = "auto",
        sigma_range: tuple[float, float] = (0.25, 4.0),
        length: int | None = None,
        max_iter: int = 200,
        batch_size: int = 32,
        learning_rate: float = 0.02,
        nan_policy: str = "raise",
        random_state: Any = None,
        device: Device = None,
    ) -> None:
        self.metric = metric
        self.objective = objective
        self.gamma = gamma
        self.beta = beta
        self.band = band
        self.warp_penalty = warp_penalty
        self.weighting = weighting
        self.normalize = normalize
        self.sigma = sigma
        self.sigma_range = sigma_range
        self.length = length
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.nan_policy = nan_policy
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Find the prototypes and their uncertainty."""
        if self.objective not in OBJECTIVES:
            raise OptionError(f"objective must be one of {OBJECTIVES}; got {self.objective!r}.")
        metric = self._metric()
        series = fit_series(self, X, self.nan_policy)
        self.classes_, codes = np.unique(checked_labels(series, y), return_inverse=True)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        sigma = self.sigma if metric.uncertain else None
        if sigma == "auto":
            local = self.objective == "discriminative" and series.values.shape[1] >= LEAST_LOCAL
            sigma = "local" if local else "free"
        if sigma is not None and sigma != "free":
            sigma = seeded_view(sigma, series, self.sigma_range, seed)
        found = start_prototypes(series, codes, length=self.length, sigma=sigma, sigma_range=self.sigma_range)
        descent = Descent(self.max_iter, self.batch_size, self.learning_rate, seed)
        self.loss_trace_: list[float] = []
        if self.objective == "frechet" and sigma is None and metric.name != "euclidean":
            found.values, self.loss_trace_ = frechet_means(found, series, codes, metric, self.max_iter)
        elif self.objective == "frechet" and metric.name != "euclidean":
            self.loss_trace_ = train_prototypes(found, series, codes, metric, "frechet", descent)
        elif self.objective == "discriminative" and len(self.classes_) > 1:
            found.prices = LearnedPrices(metric).to(series.device)
            self.loss_trace_ = train_prototypes(found, series, codes, metric, "discriminative", descent)
            metric = found.prices.fitted()
        self.metric_ = metric
        if self.objective == "discriminative":
            self.temperature_ = math.exp(float(found.log_temperature))
        else:
            self.temperature_ = fit_temperature(all_distances(found, series, metric), codes)
        self.n_iter_ = len(self.loss_trace_)
        self._prototypes = found
        self.view_ = found.view
        self.sigma_net_ = None if found.view is None else found.view.net
        with torch.no_grad():
            variances = found.variances()
        self.prototypes_ = found.values.cpu().numpy()
        self.variances_ = None if variances is None else variances.cpu().numpy()
        return self

    def distances(self, X: Any) -> np.ndarray:
        """(n, C): the distance to every prototype."""
        check_is_fitted(self)
        metric = self.metric_
        series = new_series(self, X, self.nan_policy, elastic=metric.elastic)
        return all_distances(self._prototypes, series, metric)

    def decision_function(self, X: Any) -> np.ndarray:
        """(n, C) ``−distance/T``; for two classes (n,), positive for the second."""
        distances = self.distances(X)
        scores = -distances / self.temperature_
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, C): ``softmax_c(−distance_c / T)``."""
        distances = self.distances(X)
        return softmax(-distances / self.temperature_, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        """(n,): the class of the nearest prototype."""
        distances = self.distances(X)
        return self.classes_[distances.argmin(1)]
