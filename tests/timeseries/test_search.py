"""Exact search: bounds that hold, and the answers of brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from udtw._engine.metrics import get_metric
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet, load_series
from udtw.timeseries.neighbors import nearest

METRICS = [
    get_metric("dtw"),
    get_metric("dtw", band=0.2, normalize="length"),
    get_metric("udtw", gamma=0.1, beta=0.0),
    get_metric("udtw", gamma=0.1, beta=1.0),
    get_metric("udtw", gamma=1.0, beta=0.3, lam=0.5, normalize="length"),
    get_metric("udtw", gamma=1.0, beta=-0.2),
    get_metric("udtw", gamma=0.01, beta=0.1, band=3),
]


def random_set(rng: np.random.Generator, count: int, longest: int, dim: int, noisy: bool, dtype) -> SeriesSet:
    lengths = rng.integers(1, longest + 1, count)
    series = [rng.standard_normal((n, dim)).cumsum(0).astype(dtype) for n in lengths]
    variances = [rng.uniform(0.05, 6, n).astype(dtype) for n in lengths] if noisy else None
    return load_series("X", series, variances)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 10**6), longest=st.integers(1, 25), dim=st.integers(1, 3), noisy=st.booleans())
@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_no_distance_is_below_its_bound(metric, seed, longest, dim, noisy):
    rng = np.random.default_rng(seed)
    noisy = noisy and metric.name == "udtw"
    x, y = (random_set(rng, n, longest, dim, noisy, np.float64) for n in (3, 4))
    assert (metric.bounds(x, y).quick <= distances(x, y, metric)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("metric", METRICS, ids=str)
def test_the_search_gives_the_answers_of_brute_force(metric, k, noisy, dtype):
    rng = np.random.default_rng(k)
    noisy = noisy and metric.name == "udtw"
    x, train = (random_set(rng, n, 20, 1, noisy, dtype) for n in (15, 40))
    found = nearest(x, train, k, metric)
    table = distances(x, train, metric)
    order = np.argsort(table, axis=1, kind="stable")[:, :k]
    assert np.array_equal(found.indices, order)
    np.testing.assert_allclose(found.distances, np.take_along_axis(table, order, 1), rtol=1e-6)


def test_distances_that_cannot_matter_are_not_computed():
    rng = np.random.default_rng(0)
    centres = np.repeat(np.arange(10) * 5.0, 20)
    series = load_series("X", centres[:, None] + rng.standard_normal((200, 30)))
    for metric in (get_metric("dtw"), get_metric("udtw", gamma=0.1)):
        assert nearest(series, series, 1, metric).saved > 0.8


def test_ties_go_to_the_first():
    same = load_series("X", np.zeros((6, 5)))
    for metric in (get_metric("dtw"), get_metric("udtw")):
        assert (nearest(same, same, 2, metric).indices == [0, 1]).all()


def test_metrics_without_a_bound_are_computed_in_full():
    series = load_series("X", np.random.default_rng(0).standard_normal((5, 8)))
    metric = get_metric("soft_dtw", gamma=0.5)
    assert metric.bounds(series, series) is None
    found = nearest(series, series, 2, metric)
    assert found.saved == 0
    assert np.array_equal(found.indices, np.argsort(distances(series, None, metric), axis=1)[:, :2])
