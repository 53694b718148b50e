"""scikit-learn's own checks of every estimator, and the few that cannot hold."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

ANY_LENGTH = "the number of columns is the length of the series, and an elastic metric compares any lengths"

ESTIMATORS = {
    KNeighborsTimeSeriesClassifier(sigma_iter=3, random_state=0): {"check_n_features_in_after_fitting": ANY_LENGTH},
    KNeighborsTimeSeriesClassifier(metric="euclidean"): {},
    NearestCentroidTimeSeriesClassifier(random_state=0, max_iter=40): {"check_n_features_in_after_fitting": ANY_LENGTH},
}


def failing(estimator):
    return next(known for one, known in ESTIMATORS.items() if repr(one) == repr(estimator))


@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
@parametrize_with_checks(list(ESTIMATORS), expected_failed_checks=failing)
def test_estimator(estimator, check):
    check(estimator)
