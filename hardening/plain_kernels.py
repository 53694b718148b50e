"""Pytest plugin for mutants: kernels run as plain Python (``NUMBA_DISABLE_JIT=1``), and few hypothesis examples.

The intrinsics of `simd` and `atomics` exist only as machine code. The functions below
replace them by NumPy arrays of one register's length, and check the bounds that compiled code does not.
"""

import os
import sys
import threading
import types

import numpy as np

VECTOR_BYTES = 32
EXAMPLES = 15
_LEAST = {4: (50.0, 1e-22), 8: (128.0, 1e-250)}
_one_at_a_time = threading.Lock()


def borrow(array):
    return array


def lanes(array):
    return VECTOR_BYTES // array.dtype.itemsize


def most_halvings(array):
    return array.dtype.type(_LEAST[array.dtype.itemsize][0])


def least_probability(array):
    return array.dtype.type(_LEAST[array.dtype.itemsize][1])


def _place(array, index):
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
    """Compute as compiled: anything but a positive normal number gives a finite number, so do not rely on NaN."""
    return np.log(np.clip(np.abs(np.nan_to_num(x)), np.finfo(x.dtype).tiny, None))


def where_greater(a, b, x, y):
    return np.where(a > b, x, y)


def read(array, index):
    return array[index]


def add(array, index, amount):
    with _one_at_a_time:
        before = int(array[index])
        array[index] = before + amount
    return before


def pytest_configure(config):
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        np.seterr(all="ignore")  # compiled code does not warn either
        for name in ("simd", "atomics"):
            module = types.ModuleType(f"udtw._kernels.cpu.{name}")
            module.__dict__.update(globals(), __name__=module.__name__)
            sys.modules[module.__name__] = module


def pytest_collection_modifyitems(items):
    from hypothesis import Phase, settings

    for item in items:
        given = getattr(item.obj, "_hypothesis_internal_use_settings", None)
        if given is not None:
            few, phases = min(given.max_examples, EXAMPLES), (Phase.explicit, Phase.generate)  # no shrinking
            item.obj._hypothesis_internal_use_settings = settings(given, max_examples=few, phases=phases)
