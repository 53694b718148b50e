"""`split_by_seed`: a partition that respects classes of any size. `znormalize`: each series and feature by itself."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from udtw.data import split_by_seed, znormalize
from udtw.data.labelled import numbered_labels
from udtw.errors import DataError, OptionError, ShapeError

RNG = np.random.default_rng(0)


@given(st.lists(st.integers(0, 8), min_size=1, max_size=120), st.integers(0, 1000))
def test_any_labels_are_partitioned_with_every_class_in_the_first_part(labels, seed):
    y = np.array(labels)
    parts = split_by_seed(y, seed)
    assert len(parts) == 3
    assert sorted(np.concatenate(parts)) == list(range(len(y)))
    assert set(y[parts[0]]) == set(labels)
    for label in set(labels):
        for part, share in zip(parts, (0.5, 0.25, 0.25), strict=True):
            assert abs((y[part] == label).sum() - share * labels.count(label)) < 2


@pytest.mark.parametrize("n_classes", [2, 7, 40])
def test_rounding_in_small_classes_does_not_add_up(n_classes):
    y = np.repeat(np.arange(n_classes), 7)
    sizes = [len(part) for part in split_by_seed(y, 0)]
    assert np.allclose(sizes, [0.5 * len(y), 0.25 * len(y), 0.25 * len(y)], atol=1.5)


def test_the_split_depends_on_the_seed():
    y = np.repeat([0, 1], 20)
    first, again, other = (split_by_seed(y, seed)[0] for seed in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_split_is_the_same_on_every_machine():
    y = ["a", "b", "a", "a", "b", "a", "b", "a"]
    assert [part.tolist() for part in split_by_seed(y, 0)] == [[2, 3, 6, 7], [1, 5], [0, 4]]


def test_classes_of_one_go_to_the_first_part_and_leave_the_others_unchanged():
    y = np.array([*range(50), *[100] * 40, *[200] * 40])
    first, _, last = split_by_seed(y, 0)
    assert set(range(50)) <= set(first)
    assert (y[first] == 100).sum() in (19, 20, 21)
    assert (y[last] == 200).sum() in (9, 10, 11)


def test_other_shares():
    assert [len(p) for p in split_by_seed(np.zeros(10), 0, (0.8, 0.2))] == [8, 2]
    assert [len(p) for p in split_by_seed(np.zeros(10), 0, (1.0,))] == [10]


@pytest.mark.parametrize("shares", [(), (0.5, 0.4), (1.5, -0.5), (1.0, 0.0), (float("nan"), 1.0)])
def test_impossible_shares_are_refused(shares):
    with pytest.raises(OptionError, match="positive and add up to 1"):
        split_by_seed([0, 1], 0, shares)


@pytest.mark.parametrize("y", [[], [[0, 1]], 3])
def test_labels_of_another_shape_are_refused(y):
    with pytest.raises(ShapeError, match="one label per series"):
        split_by_seed(y, 0)


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


@pytest.mark.parametrize("label", [None, float("nan")])
def test_a_missing_label_is_refused(label):
    with pytest.raises(DataError, match="Label 1 is"):
        numbered_labels(["a", label, "b"])
