"""The estimators as scikit-learn sees them: its own checks, few options, and the options of version 0.2."""

import inspect

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import udtw.interop
import udtw.nn
import udtw.timeseries
from udtw.nn import TrainingSettings
from udtw.timeseries import (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    SequenceForecaster,
    TimeSeriesKMeans,
    TimeSeriesKMedoids,
)


@pytest.mark.filterwarnings("ignore:Can't check dok sparse matrix:UserWarning")
@parametrize_with_checks(
    [
        KNeighborsTimeSeriesClassifier(max_iter=3, random_state=0),
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


ESTIMATORS = (
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    SequenceForecaster,
    TimeSeriesKMeans,
    TimeSeriesKMedoids,
)
PUBLIC = [
    getattr(module, name)
    for module in (udtw.timeseries, udtw.nn, udtw.interop)
    for name in module.__all__
    if callable(getattr(module, name))
]
CASES = [(estimator, old, new) for estimator in ESTIMATORS for old, new in estimator.old_options.items()]


@pytest.mark.parametrize("public", PUBLIC, ids=lambda one: one.__name__)
def test_options_are_few(public):
    parameters = inspect.signature(public).parameters.values()
    options = [p.name for p in parameters if p.default is not p.empty or p.kind is p.VAR_KEYWORD]
    assert len(options) <= (10 if isinstance(public, type) else 12), options


@pytest.mark.parametrize(("estimator", "old", "new"), CASES)
def test_options_of_version_0_2_warn_and_mean_the_same(estimator, old, new):
    group, _, key = new.partition(".")
    wanted = {group: {key: 7} if key else 7}
    with pytest.warns(FutureWarning, match=f"{estimator.__name__}.*'{old}' was renamed"):
        model = estimator(**{old: 7})
    assert model.get_params() == estimator(**wanted).get_params()
    with pytest.warns(FutureWarning, match=f"'{old}' was renamed"):
        later = estimator().set_params(random_state=3, **{old: 7})
    assert later.get_params() == estimator(random_state=3, **wanted).get_params()


def test_old_options_keep_what_was_set():
    model = KNeighborsTimeSeriesClassifier(metric_params={"band": 3}, training=TrainingSettings(batch_size=8))
    with pytest.warns(FutureWarning):
        model.set_params(gamma=0.5, learning_rate=0.1)
    assert model.metric_params == {"band": 3, "gamma": 0.5}
    assert model.training == TrainingSettings(batch_size=8, learning_rate=0.1)
    assert clone(model).get_params() == model.get_params()


def test_settings_show_what_was_set():
    assert repr(TrainingSettings(batch_size=8, progress=True)) == "TrainingSettings(batch_size=8, progress=True)"
