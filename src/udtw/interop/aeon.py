"""udtw's estimators for aeon (extra ``aeon``): collections (n, d, T) or lists of (d, T), checked by aeon itself."""

from typing import Any

import numpy as np

try:
    from aeon.classification import BaseClassifier
    from aeon.clustering import BaseClusterer
except ModuleNotFoundError as error:
    if error.name != "aeon":
        raise
    raise ImportError("udtw.interop.aeon needs aeon; install it with: pip install 'udtw[aeon]'") from error

from udtw.interop.wrapped import WrappedClassifier, WrappedClusterer, small_classifiers, small_clusterers

ANY_SERIES = {
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "distance",
}


def time_first(X: Any) -> list[np.ndarray]:
    """(T, d) arrays from a collection of (d, T)."""
    return [np.asarray(one).T for one in X]


class UDTWClassifier(WrappedClassifier, BaseClassifier):
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
    _series = staticmethod(time_first)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small settings for aeon's own checks."""
        return small_classifiers()


class UDTWClusterer(WrappedClusterer, BaseClusterer):
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
    _series = staticmethod(time_first)

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Small settings for aeon's own checks."""
        return small_clusterers()
