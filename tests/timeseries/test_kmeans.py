"""k-means and k-medoids of series; scikit-learn's own checks are in test_sklearn_api."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score

import udtw
from udtw._engine.metrics import get_metric
from udtw._engine.series_set import load_series
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError
from udtw.timeseries import TimeSeriesKMeans, TimeSeriesKMedoids
from udtw.timeseries.base import resample
from udtw.timeseries.kmedoids import swapped
from udtw.timeseries.matched_means import Means, least_variance, match, prior_energy, update

from .helpers import bumps

X, Y = bumps(per_class=8)
RAGGED = [row[: 24 + number % 5] for number, row in enumerate(X)]
METRICS = ("euclidean", "dtw", "soft_dtw", "soft_dtw_divergence", "udtw")


@pytest.mark.parametrize("metric", METRICS[1:])
def test_elastic_metrics_find_the_classes(metric):
    params = None if metric == "udtw" else {"gamma": 0.1}
    model = TimeSeriesKMeans(2, metric=metric, metric_params=params, n_init=3, random_state=0).fit(X)
    assert adjusted_rand_score(Y, model.labels_) == 1
    assert model.cluster_centers_.shape == (2, 30, 1)
    assert (model.cluster_variances_ is not None) == (metric == "udtw")


@pytest.mark.parametrize("metric", METRICS)
def test_labels_inertia_predict_transform_and_score_agree(metric):
    model = TimeSeriesKMeans(3, metric=metric, max_iter=4, random_state=0).fit(X)
    table = model.transform(X)
    assert table.shape == (16, 3)
    assert np.array_equal(model.labels_, table.argmin(1))
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.inertia_ == pytest.approx(table.min(1).sum(), rel=1e-5)
    assert model.score(X) == pytest.approx(-model.inertia_, rel=1e-5)
    assert 1 <= model.n_iter_ <= 4


@pytest.mark.parametrize("metric", ["dtw", "soft_dtw", "udtw"])
def test_an_update_never_raises_the_inertia(metric):
    series = load_series("X", RAGGED).astype(np.dtype(np.float64))
    start = np.stack([resample(row, 26) for row in series.rows()[:2]])
    chosen = get_metric("udtw", gamma=4.0, warp_penalty=2.0) if metric == "udtw" else get_metric(metric, gamma=0.3)
    means = Means(start, np.full((2, 26), 0.1) if metric == "udtw" else None)
    owner, ones = np.arange(len(series)) % 2, np.ones(len(series))
    values = []
    for _ in range(12):
        matched = match(series, owner, ones, means, chosen)
        values.append(matched.energy.sum() + prior_energy(means))
        means = update(matched, means, chosen, least_variance(series))
    assert (np.diff(values) <= 1e-9 * np.abs(values[0])).all()
    assert values[-1] < values[0]


def test_more_rounds_and_more_starts_are_no_worse():
    few, more = (TimeSeriesKMeans(3, metric="dtw", n_init=1, max_iter=m, random_state=0).fit(X) for m in (1, 30))
    assert more.inertia_ < few.inertia_
    one, several = (TimeSeriesKMeans(3, metric="dtw", n_init=n, random_state=0).fit(X) for n in (1, 5))
    assert several.inertia_ <= one.inertia_


def test_the_same_seed_gives_the_same_clusters_with_any_number_of_threads():
    model = TimeSeriesKMeans(3, metric="soft_dtw", random_state=1)
    first, second = model.fit(X).labels_, clone(model).set_params(n_jobs=2).fit(X).labels_
    assert np.array_equal(first, second)


@pytest.mark.parametrize("metric", ["dtw", "udtw"])
def test_series_of_different_lengths_and_several_features(metric):
    model = TimeSeriesKMeans(2, metric=metric, random_state=0).fit(RAGGED)
    assert model.cluster_centers_.shape == (2, 26, 1)
    assert np.array_equal(model.predict(RAGGED), model.labels_)
    deep = [np.stack([row, -row], 1) for row in RAGGED]
    model = TimeSeriesKMeans(2, metric=metric, barycenter_params={"length": 20}, random_state=0).fit(deep)
    assert model.cluster_centers_.shape == (2, 20, 2)


@pytest.mark.parametrize("metric", ["dtw", "euclidean"])  # averages of matched steps, and barycenters of groups
def test_an_empty_cluster_gets_the_series_that_fits_worst(metric):
    far = np.full((1, 30), 100.0)
    start = np.concatenate([X[:1], far])[:, :, None]  # nothing is near the second mean
    model = TimeSeriesKMeans(2, metric=metric, init=start, max_iter=10).fit(X)
    assert len(set(model.labels_.tolist())) == 2
    same = TimeSeriesKMeans(3, metric=metric, random_state=0).fit(np.ones((4, 6)))
    assert same.inertia_ == pytest.approx(0, abs=1e-6)


def levels(*values: float) -> np.ndarray:
    """Constant series, whose DTW distances are eight times their squared differences."""
    return np.repeat(np.array(values, dtype=float)[:, None], 8, 1)


@pytest.mark.parametrize(
    ("series", "means", "expected"),
    [
        ((0, 0, 0, 5, 9), (0, 100, 200), (0, 9, 5)),  # the worst first
        ((0, 0, 1, 60), (0, 50, 1000), (0, 50, 1)),  # never the only series of another cluster
        ((0, 0.1, 0.3, 10, 12), (0, 11, 500, 600), (0, 11, 10, 0.3)),  # nor its last one
    ],
)
def test_which_series_an_empty_cluster_gets(series, means, expected):
    model = TimeSeriesKMeans(len(means), metric="dtw", init=levels(*means), max_iter=1).fit(levels(*series))
    np.testing.assert_allclose(model.cluster_centers_[:, 0, 0], expected, atol=1e-6)
    np.testing.assert_allclose(model.cluster_centers_.std(1), 0, atol=1e-6)


def test_series_that_are_equal_leave_a_least_variance():
    wave = np.sin(np.arange(30.0))
    start = TimeSeriesKMeans(1, init=wave[None], max_iter=1).fit(np.stack([wave] * 4))
    last = TimeSeriesKMeans(1, init=wave[None], max_iter=50, barycenter_params={"max_iter": 20}).fit(
        np.stack([wave] * 4)
    )
    for model in (start, last):
        assert (model.cluster_variances_ >= 0.99e-4 * wave.var()).all()
        assert (model.cluster_variances_ < 1e-3 * wave.var()).all()


def test_the_first_variance_is_the_mean_squared_difference_along_dtw_paths():
    rng = np.random.default_rng(0)
    data, start = rng.standard_normal((6, 12)), rng.standard_normal((1, 12))
    dtw = udtw.pairwise(data, start, metric="dtw").mean()
    for beta in (1.0, 2.0):
        model = TimeSeriesKMeans(1, metric_params={"beta": beta}, init=start, max_iter=1).fit(data)
        np.testing.assert_allclose(model.cluster_variances_, dtw / 12 / beta, rtol=1e-5)


def test_first_means_lie_far_apart():
    """k-means++ draws by distance: of forty series the two that stand alone become means at once."""
    data = np.r_[levels(*np.linspace(0, 0.1, 38)), levels(50, -70)]
    for seed in range(8):
        model = TimeSeriesKMeans(3, metric="dtw", n_init=1, max_iter=1, random_state=seed).fit(data)
        assert len(set(model.labels_[-2:])) == 2
        assert model.inertia_ < 2  # with the first means of one group it is 10,000 and more


def test_missing_steps_can_be_left_out():
    broken = X.copy()
    broken[0, 4] = np.nan
    model = TimeSeriesKMeans(2, metric="dtw", metric_params={"nan_policy": "omit"}, random_state=0).fit(broken)
    assert np.isfinite(model.cluster_centers_).all()
    with pytest.raises(ValueError, match="NaN"):
        TimeSeriesKMeans(2, metric="dtw").fit(broken)
    with pytest.raises(NonFiniteError):
        TimeSeriesKMeans(2, metric="dtw").fit([*RAGGED, np.array([np.nan, 1.0])])


def test_a_large_offset_does_not_cost_precision():
    near, far = (TimeSeriesKMeans(2, metric="dtw", random_state=0).fit(X + shift) for shift in (0.0, 1e7))
    assert np.array_equal(near.labels_, far.labels_)
    assert far.inertia_ == pytest.approx(near.inertia_, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_clusters": 0}, OptionError),
        ({"n_clusters": 17}, LengthError),
        ({"n_init": 0}, OptionError),
        ({"max_iter": 1.5}, OptionError),
        ({"init": "best"}, OptionError),
        ({"init": np.zeros((3, 5))}, ShapeError),
        ({"barycenter_params": {"sigma": "wide"}}, OptionError),
        ({"barycenter_params": {"max_iter": 0}}, OptionError),
        ({"barycenter_params": {"weights": None}}, OptionError),
        ({"metric": "cosine"}, OptionError),
        ({"metric": "soft_dtw", "metric_params": {"gamma": -1.0}}, ValueError),
    ],
)
def test_bad_options_are_named_errors(options, error):
    with pytest.raises(error):
        TimeSeriesKMeans(**({"n_clusters": 2} | options)).fit(X)


def test_the_euclidean_metric_refuses_different_lengths():
    with pytest.raises(LengthError, match="one length"):
        TimeSeriesKMeans(2, metric="euclidean").fit(RAGGED)


@pytest.mark.parametrize("metric", METRICS[1:])
def test_medoids_are_series_of_the_set(metric):
    model = TimeSeriesKMedoids(2, metric=metric, metric_params={"gamma": 0.1}, random_state=0).fit(RAGGED)
    assert model.labels_[model.medoid_indices_].tolist() == [0, 1]
    for index, medoid in zip(model.medoid_indices_, model.cluster_centers_, strict=True):
        np.testing.assert_array_equal(medoid[:, 0], RAGGED[index])
    assert np.array_equal(model.predict(RAGGED), model.labels_)
    assert model.score(RAGGED) == pytest.approx(-model.inertia_)


def test_precomputed_distances_give_the_same_medoids():
    table = udtw.pairwise(RAGGED, metric="dtw")
    by_table = TimeSeriesKMedoids(2, metric="precomputed", random_state=0).fit(table)
    by_series = TimeSeriesKMedoids(2, metric="dtw", random_state=0).fit(RAGGED)
    assert np.array_equal(by_table.medoid_indices_, by_series.medoid_indices_)
    assert by_table.inertia_ == pytest.approx(by_series.inertia_)
    assert by_table.cluster_centers_ is None
    assert np.array_equal(by_table.predict(table), by_table.labels_)
    with pytest.raises(ShapeError, match="square"):
        TimeSeriesKMedoids(2, metric="precomputed").fit(table[:, :5])


def test_no_swap_of_one_medoid_is_better():
    table = udtw.pairwise(X, metric="dtw")
    medoids, swaps = swapped(table, np.array([0, 1, 2]), 100)
    value = table[:, medoids].min(1).sum()
    assert swaps > 0
    for out, candidate in itertools.product(range(3), range(len(table))):
        other = medoids.copy()
        other[out] = candidate
        assert table[:, other].min(1).sum() >= value - 1e-9
    assert swapped(table, np.array([3]), 100)[0][0] == table.sum(0).argmin()
    with pytest.raises(LengthError):
        TimeSeriesKMedoids(20, metric="dtw").fit(X)
