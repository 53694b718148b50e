"""What `udtw.kernels.simd` offers, on NumPy arrays of one register's length, for kernels run as plain Python."""

import numpy as np

VECTOR_BYTES = 32
_POWERS = {4: (-50.0, 1e-22), 8: (-128.0, 1e-250)}


def borrow(array):
    return array


def lanes(array):
    return VECTOR_BYTES // array.dtype.itemsize


def least_power(array):
    return array.dtype.type(_POWERS[array.dtype.itemsize][0])


def least_probability(array):
    return array.dtype.type(_POWERS[array.dtype.itemsize][1])


def _place(array, index):
    """A whole vector inside the array: the compiled code would read or damage what lies beside it."""
    stop = index + lanes(array)
    if index < 0 or stop > array.size:
        raise IndexError(f"vector [{index}, {stop}) outside of {array.size} numbers")
    return slice(index, stop)


def load(array, index):
    return array[_place(array, index)].copy()


def store(array, index, value):
    array[_place(array, index)] = value


def splat(array, scalar):
    return np.full(lanes(array), scalar, array.dtype)


def fma(x, y, z):
    return x * y + z


def minimum(x, y):
    return np.where(x < y, x, y)


def maximum(x, y):
    return np.where(x > y, x, y)


def nearest(x):
    return np.rint(x)


def power_of_two(x):
    return np.exp2(x).astype(x.dtype)


exp2_fraction = power_of_two


def exponent(x):
    return (np.frexp(x)[1] - 1).astype(x.dtype)


def mantissa(x):
    return 2 * np.frexp(x)[0]


def log(x):
    """As compiled: bits that are no positive normal number give some finite number, so that no check leans on NaN."""
    return np.log(np.clip(np.abs(np.nan_to_num(x)), np.finfo(x.dtype).tiny, None))


def where_greater(a, b, x, y):
    return np.where(a > b, x, y)
