"""udtw's estimators for aeon (extra ``aeon``): collections (n, d, T) or lists of (d, T), checked by aeon itself."""

from typing import Any

import numpy as np
from sklearn.base import clone

try:
    from aeon.classification import BaseClassifier
    from aeon.clustering import BaseClusterer
except ModuleNotFoundError as error:
    if error.name != "aeon":
        raise
    raise ImportError("udtw.interop.aeon needs aeon; install it with: pip install 'udtw[aeon]'") from error

from udtw.timeseries import (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    TimeSeriesKMeans,
)

ANY_SERIES = {
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "distance",
}


def time_first(X: Any) -> list[np.ndarray]:
    """(T, d) arrays from a collection of (d, T)."""
    return [np.asarray(one).T for one in X]


class UDTWClassifier(BaseClassifier):
    """A classifier of `udtw.timeseries` as an aeon classifier, for series of any number of channels and any lengths.

    Parameters
    ----------
    estimator : KNeighborsTimeSeriesClassifier or NearestCentroidTimeSeriesClassifier, optional
        With its options; ``KNeighborsTimeSeriesClassifier()`` by default. It is not changed.

    Attributes
    ----------
    estimator_ : the fitted copy

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.interop.aeon import UDTWClassifier
    >>> from udtw.timeseries import KNeighborsTimeSeriesClassifier
    >>> X = np.array([[[0.0, 0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]], [[1.0, 2.0, 3.0, 4.0]], [[0.0, 2.0, 3.0, 4.0]]])
    >>> model = UDTWClassifier(KNeighborsTimeSeriesClassifier(metric="dtw")).fit(X, ["bump", "bump", "ramp", "ramp"])
    >>> model.predict(X[::3])
    array(['bump', 'ramp'], dtype='<U4')
    """

    _tags = ANY_SERIES

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: np.ndarray) -> "UDTWClassifier":
        self.estimator_ = clone(self.estimator or KNeighborsTimeSeriesClassifier()).fit(time_first(X), y)
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.estimator_.predict(time_first(X))

    def _predict_proba(self, X: Any) -> np.ndarray:
        return self.estimator_.predict_proba(time_first(X))

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small settings for aeon's own checks."""
        return [
            {"estimator": KNeighborsTimeSeriesClassifier(sigma_iter=2, random_state=0)},
            {"estimator": NearestCentroidTimeSeriesClassifier(metric="soft_dtw", max_iter=2, random_state=0)},
        ]


class UDTWClusterer(BaseClusterer):
    """A clusterer of `udtw.timeseries` as an aeon clusterer, for series of any number of channels and any lengths.

    Parameters
    ----------
    estimator : TimeSeriesKMeans or TimeSeriesKMedoids, optional
        With its options; ``TimeSeriesKMeans()`` by default. It is not changed.

    Attributes
    ----------
    estimator_ : the fitted copy; labels_ : (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.interop.aeon import UDTWClusterer
    >>> from udtw.timeseries import TimeSeriesKMedoids
    >>> X = np.array([[[0.0, 0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]], [[1.0, 2.0, 3.0, 4.0]], [[0.0, 2.0, 3.0, 4.0]]])
    >>> labels = UDTWClusterer(TimeSeriesKMedoids(2, metric="dtw", random_state=0)).fit(X).labels_
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _tags = ANY_SERIES

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Any, y: Any = None) -> "UDTWClusterer":
        self.estimator_ = clone(self.estimator or TimeSeriesKMeans()).fit(time_first(X))
        self.labels_, self.n_clusters = self.estimator_.labels_, self.estimator_.n_clusters
        return self

    def _predict(self, X: Any) -> np.ndarray:
        return self.estimator_.predict(time_first(X))

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small settings for aeon's own checks."""
        return [{"estimator": TimeSeriesKMeans(2, metric="dtw", n_init=1, max_iter=2, random_state=0)}]
