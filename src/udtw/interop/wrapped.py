"""Base classes of the estimators for aeon and sktime, which fit a copy of an estimator of `udtw.timeseries`."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from udtw.timeseries import (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    TimeSeriesKMeans,
    TimeSeriesKMedoids,
)


class Wrapped:
    """Mixin for the left of the base class of the other library."""

    estimator_: Any
    _series: Callable[[Any], Sequence[np.ndarray]]
    """Static method from a collection of the other library to arrays (T, d)."""

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _predict(self, X: Any) -> np.ndarray:
        return self.estimator_.predict(self._series(X))


class WrappedClassifier(Wrapped):
    """Mixin for a classifier; ``KNeighborsTimeSeriesClassifier()`` by default."""

    def _fit(self, X: Any, y: np.ndarray) -> Any:
        self.estimator_ = clone(self.estimator or KNeighborsTimeSeriesClassifier()).fit(self._series(X), y)
        return self

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.estimator_.predict_proba(self._series(X))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return small settings for the checks of the other library."""
        return [
            {"estimator": KNeighborsTimeSeriesClassifier(max_iter=2, random_state=0)},
            {"estimator": NearestCentroidTimeSeriesClassifier(metric="soft_dtw", max_iter=2, random_state=0)},
        ]

    _get_test_params = get_test_params  # its name in aeon


class WrappedClusterer(Wrapped):
    """Mixin for a clusterer; ``TimeSeriesKMeans()`` by default."""

    def _fit(self, X: Any, y: Any = None) -> Any:
        self.estimator_ = clone(self.estimator or TimeSeriesKMeans()).fit(self._series(X))
        self.labels_, self.n_clusters = self.estimator_.labels_, self.estimator_.n_clusters
        return self

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return small settings for the checks of the other library."""
        return [
            {"estimator": TimeSeriesKMeans(2, metric="dtw", n_init=1, max_iter=2, random_state=0)},
            {"estimator": TimeSeriesKMedoids(2, metric="dtw", random_state=0)},
        ]

    _get_test_params = get_test_params  # its name in aeon
