"""Estimators for aeon (extra ``aeon``), for collections (n, d, T) or lists of (d, T)."""

from typing import Any

import numpy as np

try:
    from aeon.classification import BaseClassifier
    from aeon.clustering import BaseClusterer
except ModuleNotFoundError as error:
    if error.name != "aeon":
        raise
    raise ImportError("udtw.interop.aeon needs aeon; install it with: pip install 'udtw[aeon]'") from error

from udtw.interop.wrapped import WrappedClassifier, WrappedClusterer

ANY_SERIES = {
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "X_inner_type": ["np-list", "numpy3D"],
    "algorithm_type": "distance",
}


def time_first(X: Any) -> list[np.ndarray]:
    """Return arrays (T, d) of a collection of (d, T)."""
    return [np.asarray(one).T for one in X]


class UDTWClassifier(WrappedClassifier, BaseClassifier):
    """Wrap a classifier of `udtw.timeseries` for aeon; series may have any number of channels and any lengths.

    Parameters
    ----------
    estimator : KNeighborsTimeSeriesClassifier or NearestCentroidTimeSeriesClassifier, optional
        By default ``KNeighborsTimeSeriesClassifier()``. A copy is fitted.

    Attributes
    ----------
    estimator_ : estimator
        The fitted copy.

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


class UDTWClusterer(WrappedClusterer, BaseClusterer):
    """Wrap a clusterer of `udtw.timeseries` for aeon; series may have any number of channels and any lengths.

    Parameters
    ----------
    estimator : TimeSeriesKMeans or TimeSeriesKMedoids, optional
        By default ``TimeSeriesKMeans()``. A copy is fitted.

    Attributes
    ----------
    estimator_ : estimator
        The fitted copy.
    labels_ : (n,)

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
