"""What `udtw.kernels.cpu.simd` offers, on NumPy arrays of one register's length, for kernels run as plain Python."""

import numpy as np

VECTOR_BYTES = 32
_LEAST = {4: (50.0, 1e-22), 8: (128.0, 1e-250)}


def borrow(array):
    return array


def lanes(array):
    return VECTOR_BYTES // array.dtype.itemsize


def most_halvings(array):
    return array.dtype.type(_LEAST[array.dtype.itemsize][0])


def least_probability(array):
    return array.dtype.type(_LEAST[array.dtype.itemsize][1])


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


def get(array, index):
    if not 0 <= index < array.size:
        raise IndexError(f"number {index} of {array.size}")
    return array.reshape(-1)[index]


def put(array, index, number):
    if not 0 <= index < array.size:
        raise IndexError(f"number {index} of {array.size}")
    array.reshape(-1)[index] = number


def splat(array, scalar):
    return np.full(lanes(array), scalar, array.dtype)


def fma(x, y, z):
    return x * y + z


def fnma(x, y, z):
    return z - x * y


def worst(x, y):
    return np.where(np.isnan(x) | (x > y), x, y)


def minimum(x, y):
    return np.where(x < y, x, y)


def maximum(x, y):
    return np.where(x > y, x, y)


def nearest(x):
    return np.rint(x)


def halved(x):
    return np.exp2(-x).astype(x.dtype)


def exp2_fraction(x):
    return np.exp2(x).astype(x.dtype)


def exponent(x):
    return (np.frexp(x)[1] - 1).astype(x.dtype)


def mantissa(x):
    return 2 * np.frexp(x)[0]


def log(x):
    """As compiled: bits that are no positive normal number give some finite number, so that no check leans on NaN."""
    return np.log(np.clip(np.abs(np.nan_to_num(x)), np.finfo(x.dtype).tiny, None))


def where_greater(a, b, x, y):
    return np.where(a > b, x, y)
