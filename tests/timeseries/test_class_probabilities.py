"""Probabilities of classes hold on series that were not trained on, and never contradict the class assigned."""

import numpy as np
import pytest

pytest.importorskip("sklearn")

from tests.timeseries.helpers import bumps
from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier
from udtw.timeseries.class_probabilities import Calibration, calibrate_classes


def noisy(per_class, seed):
    series, labels = bumps(per_class, seed=seed)
    return series + 0.5 * np.random.default_rng(seed).normal(size=series.shape), labels


@pytest.mark.parametrize("neighbors", [1, 5])
def test_probabilities_hold_on_new_series(neighbors, one_thread):
    classifier = KNeighborsTimeSeriesClassifier(neighbors, metric="dtw", metric_params={"band": 3})
    (X, y), (new, truth) = noisy(45, 0), noisy(150, 1)
    calibration = calibrate_classes(classifier, X, y, 0)
    assert calibration.held_out == 90
    classifier.fit(X, y)
    distances, winners = classifier.class_distances(new)
    found = calibration.probabilities(distances, winners)
    np.testing.assert_allclose(found.sum(1), 1)
    np.testing.assert_array_equal(classifier.classes_[winners], classifier.predict(new))
    np.testing.assert_array_equal(found[np.arange(300), winners], found.max(1))
    right = classifier.classes_[winners] == truth
    assert 0.6 < right.mean() < 0.97, "the task must be neither trivial nor hopeless"
    assert found.max(1).mean() == pytest.approx(right.mean(), abs=0.08)
    assert calibration.mean_probability == pytest.approx(calibration.accuracy, abs=0.15)
    sure = found.max(1) > np.median(found.max(1))
    assert right[sure].mean() > right[~sure].mean()


def test_perfect_series_are_not_certain(one_thread):
    X, y = bumps(9)
    classifier = NearestCentroidTimeSeriesClassifier("dtw", objective="frechet")
    calibration = calibrate_classes(classifier, [*X], y, 0)
    assert (calibration.held_out, calibration.accuracy) == (6, 1.0)
    found = calibration.probabilities(*classifier.fit(X, y).class_distances(X))
    assert 0.8 < found.max() <= 1 - 0.5 / 8


def test_a_class_of_two_lends_none():
    classifier = KNeighborsTimeSeriesClassifier(metric="dtw")
    assert calibrate_classes(classifier, np.eye(4), np.array(["a", "a", "b", "b"]), 0) is None


def test_the_class_assigned_is_never_less_probable():
    found = Calibration(1.0, 0.1, 8, 1.0, 1.0).probabilities(np.array([[0.0, 1.0, 2.0]]), np.array([1]))
    assert found[0, 1] == found.max()
