"""One pair of NumPy arrays: the way past tensors gives the bits of the way through them, and refuses the same input."""

import numpy as np
import pytest
import torch

import udtw
from udtw._engine import align
from udtw.errors import NonFiniteError, ShapeError, UdtwError


def drawn(steps: int, dim: int, dtype: type) -> np.ndarray:
    shape = steps if dim == 1 else (steps, dim)
    return np.random.default_rng(steps).standard_normal(shape).cumsum(0).astype(dtype)


def through_tensors(x: np.ndarray, y: np.ndarray, **options) -> np.ndarray:
    return udtw.dtw(torch.from_numpy(x), torch.from_numpy(y), **options).numpy()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rows", "columns", "dim"),
    [(1, 1, 1), (1, 7, 1), (9, 1, 2), (15, 31, 1), (16, 16, 1), (50, 50, 1), (33, 128, 3), (200, 65, 16)],
)
def test_the_bits_are_those_of_a_batch(rows, columns, dim, dtype):
    x, y = drawn(rows, dim, dtype), drawn(columns + 300, dim, dtype)[:columns]
    found = align._dtw_of_arrays(x, y)
    assert type(found) is dtype
    assert found == udtw.dtw(x, y) == through_tensors(x, y)
    assert udtw.dtw(x, y, squared=False) == through_tensors(x, y, squared=False)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.zeros(3), np.zeros(6)[::2]),
        (np.zeros(3, ">f8"), np.zeros(3, ">f8")),
        (np.zeros(3, int), np.zeros(3, int)),
        (np.zeros((2, 3, 1)), np.zeros((2, 3, 1))),
        (np.zeros((3, 17)), np.zeros((3, 17))),
        ([0.0, 1.0], np.zeros(2)),
    ],
    ids=["dtypes", "strides", "byte order", "integers", "batch", "features", "list"],
)
def test_other_input_takes_the_usual_way(x, y):
    assert align._dtw_of_arrays(x, y) is None
    if np.asarray(x).dtype.isnative and np.asarray(x).dtype == np.asarray(y).dtype:
        assert np.isfinite(udtw.dtw(x, y)).all()


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e200])
def test_unusable_values_are_named_and_leave_nothing_behind(wrong):
    x, y = drawn(50, 1, np.float64), drawn(40, 1, np.float64)
    spoiled = y.copy()
    spoiled[3] = wrong
    expected = udtw.dtw(x, y)
    with pytest.raises(NonFiniteError if not np.isfinite(wrong) else UdtwError):
        udtw.dtw(x, spoiled)
    assert udtw.dtw(x, y) == expected


def test_shapes_are_checked():
    with pytest.raises(ShapeError):
        udtw.dtw(np.zeros((3, 2)), np.zeros((3, 1)))
    with pytest.raises(UdtwError):
        udtw.dtw(np.zeros(0), np.zeros(3))
