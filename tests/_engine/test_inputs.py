"""Collections of series: padded once, and handed back as they came."""

import numpy as np
import pytest

from udtw._engine.series_set import SeriesSet, load_series
from udtw.errors import NonFiniteError, ShapeError

SERIES = [np.arange(3.0), np.arange(5.0) + 10, np.arange(1.0) + 20]
NOISE = [np.full(3, 2.0), np.full(5, 3.0), np.full(1, 4.0)]


@pytest.fixture
def loaded() -> SeriesSet:
    return load_series("X", SERIES, NOISE)


def test_series_are_padded_with_zeros_and_variances_with_ones(loaded):
    assert len(loaded) == 3
    assert loaded.values.shape == (3, 5, 1)
    assert loaded.lengths.tolist() == [3, 5, 1]
    assert loaded.values[0, :, 0].tolist() == [0, 1, 2, 0, 0]
    assert loaded.variances.tolist() == [[2, 2, 2, 1, 1], [3, 3, 3, 3, 3], [4, 1, 1, 1, 1]]


def test_padding_is_taken_off_again(loaded):
    assert all(np.array_equal(row[:, 0], given) for row, given in zip(loaded.rows(), SERIES, strict=True))
    assert all(np.array_equal(row, given) for row, given in zip(loaded.variance_rows(), NOISE, strict=True))
    assert load_series("X", SERIES).variance_rows() is None


def test_some_of_the_series(loaded):
    some = loaded[np.array([2, 0])]
    assert some.lengths.tolist() == [1, 3]
    assert np.array_equal(some.rows()[1], loaded.rows()[0])
    assert some.variances[:, 0].tolist() == [4, 2]
    assert load_series("X", SERIES)[np.array([1])].variances is None


def test_other_variances_and_other_precision(loaded):
    assert loaded.with_unit_variances() is loaded
    assert loaded.with_variances(None).variances is None
    ones = load_series("X", SERIES).with_unit_variances()
    assert ones.variances.shape == (3, 5)
    assert (ones.variances == 1).all()
    narrow = loaded.astype(np.dtype(np.float32))
    assert narrow.values.dtype == narrow.variances.dtype == np.float32
    assert load_series("X", SERIES).astype(np.dtype(np.float32)).variances is None


def test_the_widest_precision_of_all_is_taken_and_whole_numbers_become_doubles():
    wide, narrow = np.ones(2), np.ones(2, np.float32)
    assert load_series("X", [narrow, narrow]).values.dtype == np.float32
    assert load_series("X", [narrow, wide]).values.dtype == np.float64
    assert load_series("X", [narrow], [wide]).values.dtype == np.float64
    assert load_series("X", [np.ones(2, np.float16)]).values.dtype == np.float32
    assert load_series("X", [np.ones(2, int)]).values.dtype == np.float64


def test_steps_that_are_left_out_take_their_variances_with_them():
    steps = np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]])
    found = load_series("X", [steps], [[0.5, np.nan, 2.0]], nan_policy="omit")
    assert found.values.tolist() == [[[1, 2], [4, 5]]]
    assert found.variances.tolist() == [[0.5, 2]]


def test_variances_follow_the_rules_of_a_pair():
    assert (load_series("X", SERIES, 2.0).variances == 2).all()
    assert load_series("X", SERIES, [one[:, None] for one in NOISE]).variances.shape == (3, 5)
    with pytest.raises(ShapeError, match=r"var_x\[0\] must hold one variance per step, shape \(3,\)"):
        load_series("X", SERIES, np.ones((3, 5)))
    with pytest.raises(ShapeError, match="one per feature in every series"):
        load_series("X", SERIES, [NOISE[0][:, None], *NOISE[1:]])


def test_the_place_of_a_fault_is_that_in_the_users_array():
    with pytest.raises(NonFiniteError, match=r"X\[1, 3, 0\] is inf"):
        load_series("X", [[1.0, 2.0], [np.nan, np.nan, 1.0, np.inf]], nan_policy="omit")
