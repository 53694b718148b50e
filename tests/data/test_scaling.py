"""`znormalize`: each series and feature by itself, in every form of input."""

import numpy as np
import pytest

from udtw.data import znormalize
from udtw.errors import ShapeError

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("shape", [(5, 30), (5, 30, 3)])
def test_mean_zero_and_deviation_one(shape):
    X = 100 + 7 * RNG.standard_normal(shape)
    before = X.copy()
    Z = znormalize(X)
    assert np.allclose(Z.mean(axis=1), 0)
    assert np.allclose(Z.std(axis=1), 1)
    assert np.array_equal(X, before)


def test_a_list_equals_its_series_one_by_one():
    series = [RNG.standard_normal((n, 2)) for n in (4, 9)]
    for found, steps in zip(znormalize(series), series, strict=True):
        assert np.allclose(found, znormalize(steps[None])[0])


@pytest.mark.parametrize("value", [0.0, 0.1, -1e9, 1e-300])
def test_a_constant_series_becomes_zeros(value):
    X = np.stack([np.full(7, value), np.arange(7.0)])
    assert np.array_equal(znormalize(X)[0], np.zeros(7))
    assert znormalize(X)[1].std() == pytest.approx(1)


def test_missing_values_stay_and_do_not_count():
    Z = znormalize(np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan], [2.0, np.nan, 2.0]]))
    expected = [[-1, np.nan, 1], [np.nan] * 3, [0, np.nan, 0]]
    assert np.array_equal(Z, expected, equal_nan=True)


def test_types():
    assert znormalize(np.ones((2, 3), np.float32)).dtype == np.float32
    assert znormalize(np.arange(6).reshape(2, 3)).dtype == np.float64


def test_one_series_alone_is_not_a_collection():
    with pytest.raises(ShapeError, match="a list of series"):
        znormalize(np.ones(3))
