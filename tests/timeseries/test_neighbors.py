"""KNeighborsTimeSeriesClassifier."""

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import udtw
from udtw._engine.series_set import load_series
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError
from udtw.nn import SigmaNet, TrainingSettings
from udtw.timeseries import KNeighborsTimeSeriesClassifier as KNN
from udtw.timeseries import NearestCentroidTimeSeriesClassifier

from .helpers import bumps

X, Y = bumps()
X_NEW, Y_NEW = bumps(seed=1)
METRICS = ("euclidean", "dtw", "soft_dtw", "soft_dtw_divergence", "udtw")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 3, 5])
def test_every_metric_and_k_learns_the_classes(metric, k):
    model = KNN(k, metric=metric, max_iter=5, random_state=0).fit(X, Y)
    assert model.score(X_NEW, Y_NEW) > 0.7
    assert list(model.classes_) == ["one", "two"]


@pytest.mark.parametrize("metric", METRICS)
def test_neighbors_are_those_of_the_table_of_all_pairs(metric):
    model = KNN(3, metric=metric, metric_params={"gamma": 0.2, "beta": 0.3}, max_iter=5, random_state=0).fit(X, Y)
    if metric == "udtw":
        new, old = (model.view_.of(load_series("X", A)) for A in (X_NEW, X))
        table = udtw.pairwise(new.values, old.values, metric=model.metric_, var_x=new.variances, var_y=old.variances)
    else:
        table = udtw.pairwise(X_NEW, X, metric=model.metric_)
    distances, indices = model.kneighbors(X_NEW)
    assert np.array_equal(indices, np.argsort(table, axis=1, kind="stable")[:, :3])
    np.testing.assert_allclose(distances, np.sort(table, axis=1)[:, :3], rtol=1e-5)


def test_the_share_that_was_not_computed_is_reported():
    model = KNN(metric="dtw").fit(X, Y)
    assert 0 <= model.search(X_NEW).saved < 1


def test_soft_votes_weigh_near_neighbors_more_and_are_probabilities():
    model = KNN(3, metric="euclidean").fit([[0.0], [1.0], [1.1]], ["a", "b", "b"])
    near_a = model.predict_proba([[0.1]])
    assert near_a.sum() == pytest.approx(1)
    uniform = KNN(3, metric="euclidean", vote="uniform").fit([[0.0], [1.0], [1.1]], ["a", "b", "b"])
    assert near_a[0, 0] > uniform.predict_proba([[0.1]])[0, 0] == pytest.approx(1 / 3, abs=1e-5)


def test_a_tie_goes_to_the_nearest():
    model = KNN(2, metric="euclidean", vote="uniform").fit([[0.0], [1.0]], [0, 1])
    assert model.predict([[0.4], [0.6]]).tolist() == [0, 1]


def test_training_for_neighbors_brings_classes_apart():
    """Class is told by a calm middle part; loud random edges are in the way until σ says so."""
    rng = np.random.default_rng(0)

    def make(n):
        y = rng.integers(0, 2, n)
        series = 6.0 * rng.standard_normal((n, 24))
        series[:, 8:16] = np.where(y[:, None] == 0, 1.0, -1.0) + 0.1 * rng.standard_normal((n, 8))
        return series, y

    (a, b), (c, d) = make(24), make(60)
    plain = KNN(sigma=None, metric_params={"band": 2}).fit(a, b).score(c, d)
    learned = KNN(sigma="series", metric_params={"band": 2}, max_iter=80, random_state=0).fit(a, b).score(c, d)
    assert learned > plain + 0.1


def test_the_number_of_torch_threads_changes_no_bit():
    """With steps of more than a million cells, for which torch's own loops would share the work."""
    y = np.arange(30) % 3
    series = np.random.default_rng(0).standard_normal((30, 60, 6)).cumsum(1) + y[:, None, None]
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            model = KNN(metric_params={"band": 0.3}, max_iter=4, random_state=0).fit(series, y)
            found.append(model.kneighbors(series[:5] + 0.1, 3)[0])
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert (found[0] == found[1]).all()
    assert (found[0] == found[2]).all()


def test_sigma_can_come_from_a_network_a_classifier_or_the_centroid_task():
    net = SigmaNet(1, context=3)
    assert torch.equal(KNN(sigma=net).fit(X, Y).sigma_net_.net[0].weight, net.net[0].weight)
    centroid = NearestCentroidTimeSeriesClassifier(sigma="context", max_iter=3, random_state=0).fit(X, Y)
    assert KNN(sigma=centroid).fit(X, Y).sigma_net_ is centroid.sigma_net_
    trained = KNN(sigma="step", training={"objective": "centroid"}, max_iter=3, random_state=0).fit(X, Y)
    assert trained.score(X_NEW, Y_NEW) > 0.7


@pytest.mark.parametrize("sigma", ["free", None])
def test_a_classifier_without_a_network_cannot_give_one(sigma):
    centroid = NearestCentroidTimeSeriesClassifier(sigma=sigma, max_iter=2, random_state=0)
    for given in (centroid, clone(centroid).fit(X, Y)):
        with pytest.raises(OptionError, match="without a network"):
            KNN(sigma=given).fit(X, Y)


@pytest.mark.parametrize("metric", METRICS[1:])
def test_ragged_lists_and_features(metric):
    rng = np.random.default_rng(0)
    series = [rng.standard_normal((n, 2)) + 3 * (n % 2) for n in (5, 6, 7, 8, 9, 10)]
    model = KNN(metric=metric, max_iter=3, random_state=0).fit(series, [1, 0, 1, 0, 1, 0])
    assert model.predict([series[0][:4], series[1]]).tolist() == [1, 0]


def test_same_seed_same_model_and_no_global_seed_is_touched():
    state = torch.get_rng_state()
    a, b = (KNN(max_iter=5, random_state=3).fit(X, Y).kneighbors(X_NEW)[0] for _ in range(2))
    assert np.array_equal(a, b)
    assert torch.equal(state, torch.get_rng_state())


def test_pipelines_grid_search_and_clone_work():
    pipeline = make_pipeline(FunctionTransformer(), KNN(metric="soft_dtw"))
    grid = {"kneighborstimeseriesclassifier__metric_params": [{"gamma": 0.1}, {"gamma": 1.0}]}
    assert GridSearchCV(pipeline, grid, cv=2).fit(X, Y).best_score_ > 0.7
    settings = TrainingSettings(batch_size=8)
    assert clone(KNN(3, metric_params={"gamma": 0.5}, training=settings)).get_params()["training"] == settings


def test_missing_values_are_refused_or_left_out():
    broken = X.copy()
    broken[0, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        KNN(metric="dtw").fit(broken, Y)
    assert KNN(metric="dtw", metric_params={"nan_policy": "omit"}).fit(broken, Y).score(X_NEW, Y_NEW) > 0.7


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: KNN(0).fit(X, Y), OptionError),
        (lambda: KNN(17, metric="dtw").fit(X, Y), OptionError),
        (lambda: KNN(metric="dtw").fit(X, Y).search(X_NEW, 0), OptionError),
        (lambda: KNN(metric="dtw").fit(X, Y).search(X_NEW, len(X) + 1), OptionError),
        (lambda: KNN(vote="loud").fit(X, Y), OptionError),
        (lambda: KNN(metric="cosine").fit(X, Y), OptionError),
        (lambda: KNN(sigma="deep").fit(X, Y), OptionError),
        (lambda: KNN(training={"sigma_range": (2.0, 1.0)}).fit(X, Y), OptionError),
        (lambda: KNN(training={"objective": "luck"}).fit(X, Y), OptionError),
        (lambda: KNN(training={"weight_decay": 0.1}).fit(X, Y), OptionError),
        (lambda: KNN(training={"batch_size": 0}).fit(X, Y), OptionError),
        (lambda: KNN(training=0.1).fit(X, Y), OptionError),
        (lambda: KNN(max_iter=0).fit(X, Y), OptionError),
        (lambda: KNN(metric="dtw", metric_params={"bend": 2}).fit(X, Y), OptionError),
        (lambda: KNN(metric_params=[2]).fit(X, Y), OptionError),
        (lambda: KNN(metric="dtw").fit(X, Y).predict(np.zeros((2, 9, 3))), ShapeError),
        (lambda: KNN(metric="euclidean").fit(X[..., None], Y).predict(X[:, :9, None]), LengthError),
        (lambda: KNN(metric="dtw").fit([[1.0, 2], [np.inf]], [0, 1]), NonFiniteError),
    ],
)
def test_bad_input_is_a_named_error(call, error):
    with pytest.raises(error):
        call()
