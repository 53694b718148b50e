"""udtw inside scikit-learn, aeon and tslearn: the same numbers as pairwise, whoever calls."""

import pickle

import numpy as np
import pytest
import torch

import udtw
from udtw.data import cylinder_bell_funnel
from udtw.errors import NonFiniteError, OptionError, ShapeError
from udtw.interop import dissimilarity, distance_function
from udtw.nn import SigmaNet


def draw(count, steps, features=2, seed=0):
    return np.random.default_rng(seed).normal(size=(count, steps, features))


@pytest.mark.parametrize("metric", ["dtw", "soft_dtw", "soft_dtw_divergence", "udtw"])
def test_a_distance_function_gives_the_entries_of_pairwise(metric):
    x, y = draw(3, 9), draw(2, 7, seed=1)
    options = {"gamma": 0.3, "band": 0.5, "normalize": "length"}
    table = udtw.pairwise(x, y, metric, **options)
    first, last = (distance_function(metric, layout=name, **options) for name in ("time_first", "channels_first"))
    for i in range(3):
        for j in range(2):
            assert isinstance(first(x[i], y[j]), float)
            assert first(x[i], y[j]) == table[i, j]
            assert last(x[i].T, y[j].T) == table[i, j]


def test_univariate_series_need_no_axis_of_features():
    x, y = draw(2, 8, 1)
    for layout in ("time_first", "channels_first"):
        assert distance_function("dtw", layout=layout)(x[:, 0], y[:, 0]) == float(udtw.dtw(x, y))


@pytest.mark.parametrize("kind", ["network", "function"])
def test_uncertainty_comes_from_a_network_or_a_function(kind):
    torch.manual_seed(0)
    net = SigmaNet(2)

    def absolute(series):
        return 0.5 + np.abs(series).mean(1)

    def of(series):
        return net(torch.from_numpy(series).float()).detach().numpy() if kind == "network" else absolute(series)

    x, y = draw(1, 9), draw(1, 7, seed=1)
    distance = distance_function(
        "udtw", layout="channels_first", sigma=net if kind == "network" else absolute, beta=0.3
    )
    expected = udtw.pairwise(x, y, var_x=[of(x[0])], var_y=[of(y[0])], beta=0.3)[0, 0]
    assert distance(x[0].T, y[0].T) == expected


def test_a_distance_function_survives_pickling_and_is_hashable():
    distance = distance_function("udtw", sigma=SigmaNet(2), gamma=0.2)
    x, y = draw(2, 6)
    assert pickle.loads(pickle.dumps(distance))(x, y) == distance(x, y)
    plain = distance_function("dtw", band=2)
    assert pickle.loads(pickle.dumps(plain)) == plain
    assert hash(plain) == hash(distance_function("dtw", band=2))


def test_wrong_options_are_refused_when_the_function_is_made():
    with pytest.raises(OptionError, match="cosine"):
        distance_function("cosine")
    with pytest.raises(OptionError, match="layout must be one of"):
        distance_function("dtw", layout="aeon")
    with pytest.raises(OptionError, match="radius"):
        distance_function("dtw", radius=3)
    with pytest.raises(OptionError, match="sigma requires a metric with variances"):
        distance_function("dtw", sigma=SigmaNet(1))
    with pytest.raises(ShapeError, match=r"\(d, T\)"):
        distance_function("dtw", layout="channels_first")(draw(2, 3), draw(2, 3))


@pytest.fixture(scope="module")
def bells():
    train, test = cylinder_bell_funnel(5, random_state=0), cylinder_bell_funnel(4, random_state=1)
    return train.X[:, ::4], train.y, test.X[:, ::4], test.y


def test_aeon_takes_it_for_all_pairs_and_for_neighbours(bells):
    distances = pytest.importorskip("aeon.distances")
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

    train, labels, test, _ = bells
    distance = distance_function("soft_dtw", layout="channels_first", gamma=0.1)
    theirs = distances.pairwise_distance(test[:, None], train[:, None], method=distance)
    np.testing.assert_allclose(theirs, udtw.pairwise(test, train, "soft_dtw", gamma=0.1), rtol=1e-6)
    knn = KNeighborsTimeSeriesClassifier(distance=distance, n_neighbors=1).fit(train[:, None], labels)
    nearest = udtw.pairwise(test, train, "soft_dtw", gamma=0.1).argmin(1)
    np.testing.assert_array_equal(knn.predict(test[:, None]), labels[nearest])


def test_aeon_takes_series_of_several_channels_and_different_lengths():
    distances = pytest.importorskip("aeon.distances")
    series = [draw(1, steps, 3, seed=steps)[0] for steps in (6, 9, 7)]
    distance = distance_function("udtw", layout="channels_first", gamma=0.5)
    theirs = distances.pairwise_distance([one.T for one in series], [one.T for one in series[:2]], method=distance)
    np.testing.assert_allclose(theirs, udtw.pairwise(series, series[:2], gamma=0.5), rtol=1e-6)


def test_tslearn_takes_it_for_silhouettes(bells):
    clustering = pytest.importorskip("tslearn.clustering")
    train, labels, _, _ = bells
    distance = distance_function("soft_dtw_divergence", gamma=0.1)
    table = udtw.pairwise(train, metric="soft_dtw_divergence", gamma=0.1)
    theirs = clustering.silhouette_score(train[..., None], labels, metric=distance)
    assert theirs == pytest.approx(clustering.silhouette_score(table, labels, metric="precomputed"), rel=1e-5)


def test_scikit_learn_takes_it_as_a_metric(bells):
    neighbors = pytest.importorskip("sklearn.neighbors")
    train, labels, test, _ = bells
    knn = neighbors.KNeighborsClassifier(1, algorithm="brute", metric=distance_function("udtw", gamma=0.1))
    found = knn.fit(train, labels).kneighbors(test)
    table = udtw.pairwise(test, train, gamma=0.1)
    np.testing.assert_array_equal(found[1][:, 0], table.argmin(1))
    np.testing.assert_allclose(found[0][:, 0], table.min(1), rtol=1e-6)


@pytest.mark.parametrize("metric", ["soft_dtw", "udtw"])
def test_a_dissimilarity_is_the_debiased_distance(metric, bells):
    train = bells[0]
    weighting = {"udtw": {"weighting": "precision"}}.get(metric, {})
    table = dissimilarity(udtw.pairwise(train, metric=metric, gamma=0.1, **weighting))
    x, y = np.broadcast_arrays(train[:, None], train[None])
    both = [part.reshape(-1, train.shape[1], 1) for part in (x, y)]
    distance = {"soft_dtw": "soft_min", "udtw": "expected"}[metric]
    found = udtw.align(*both, gamma=0.1, distance=distance, debias=True, weighting="precision")
    expected = found.distance.reshape(table.shape)
    np.testing.assert_allclose(table, expected, atol=1e-6 * expected.max())
    assert (np.diag(table) == 0).all()
    assert (table == table.T).all()
    assert (table >= 0).all()


@pytest.mark.parametrize("metric", ["dtw", "soft_dtw_divergence", "euclidean"])
def test_what_is_a_dissimilarity_already_stays_as_it_is(metric, bells):
    table = udtw.pairwise(bells[0], metric=metric)
    np.testing.assert_allclose(dissimilarity(table), table, atol=1e-6)
    np.testing.assert_array_equal(dissimilarity(torch.from_numpy(table)), dissimilarity(table))


def test_what_cannot_be_a_dissimilarity_is_refused():
    with pytest.raises(OptionError, match="least entry is -1"):
        dissimilarity([[2.0, 1.0], [1.0, 2.0]])
    with pytest.raises(OptionError, match="not symmetric"):
        dissimilarity([[0.0, 1.0], [2.0, 0.0]])
    with pytest.raises(ShapeError, match=r"\(2, 3\)"):
        dissimilarity(np.zeros((2, 3)))
    with pytest.raises(NonFiniteError, match="NaN"):
        dissimilarity([[0.0, np.nan], [np.nan, 0.0]])


@pytest.fixture(scope="module")
def two_shapes():
    """Twelve sines and twelve steps, each with a shift in time of its own and a little noise."""
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 30)
    shifts = rng.uniform(-0.1, 0.1, size=(24, 1))
    series = np.concatenate([np.sin(6 * (time + shifts[:12])), np.sign(time + shifts[12:] - 0.5)])
    return series + 0.05 * rng.normal(size=series.shape), np.repeat([0, 1], 12)


@pytest.mark.parametrize("metric", ["dtw", "soft_dtw", "soft_dtw_divergence", "udtw"])
def test_hdbscan_finds_the_two_shapes(metric, two_shapes):
    cluster = pytest.importorskip("sklearn.cluster")
    series, shape = two_shapes
    table = dissimilarity(udtw.pairwise(series, metric=metric, gamma=0.1))
    found = cluster.HDBSCAN(metric="precomputed", min_cluster_size=5, copy=True).fit(table).labels_
    assert {tuple(np.unique(shape[found == label])) for label in set(found) - {-1}} == {(0,), (1,)}


def test_tsne_keeps_the_two_shapes_apart(two_shapes):
    manifold = pytest.importorskip("sklearn.manifold")
    series, shape = two_shapes
    table = dissimilarity(udtw.pairwise(series, metric="soft_dtw", gamma=0.1))
    tsne = manifold.TSNE(
        metric="precomputed", method="exact", init="random", perplexity=5, max_iter=300, random_state=0
    )
    points = tsne.fit_transform(table)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (shape[distances.argmin(1)] == shape).mean() > 0.9


def test_scikit_learn_takes_a_precomputed_dissimilarity_for_neighbours(two_shapes):
    neighbors = pytest.importorskip("sklearn.neighbors")
    series, shape = two_shapes
    table = dissimilarity(udtw.pairwise(series, metric="udtw", gamma=0.1))
    assert neighbors.KNeighborsClassifier(3, metric="precomputed").fit(table, shape).score(table, shape) == 1
