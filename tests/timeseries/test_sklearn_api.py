"""scikit-learn's own checks of every estimator. None is expected to fail."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from udtw.timeseries import (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    TimeSeriesKMeans,
    TimeSeriesKMedoids,
)


@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
@parametrize_with_checks(
    [
        KNeighborsTimeSeriesClassifier(sigma_iter=3, random_state=0),
        KNeighborsTimeSeriesClassifier(metric="euclidean"),
        NearestCentroidTimeSeriesClassifier(random_state=0, max_iter=40),
        NearestCentroidTimeSeriesClassifier("soft_dtw", objective="frechet", max_iter=3),
        TimeSeriesKMeans(random_state=0),
        TimeSeriesKMeans(metric="soft_dtw_divergence", random_state=0),
        TimeSeriesKMeans(metric="euclidean", random_state=0),
        TimeSeriesKMedoids(metric="dtw", random_state=0),
    ]
)
def test_estimator(estimator, check):
    check(estimator)
