"""DTW of one pair of short series, with as little around the sweep as possible.

The bits are those of `hard`. No tensor is made and no thread is asked, each of which takes longer than the alignment.
"""

import math

import numpy as np
from numba import njit

from udtw._kernels.cpu import launch
from udtw._kernels.cpu.rows import INNER, fill, rolling
from udtw._kernels.cpu.simd import borrow, fma, get, lanes, load, minimum, put, splat, store, worst
from udtw._kernels.cpu.threads import clear_scratch, scratch
from udtw._kernels.cpu.work_queue import OUTER

UNREACHABLE = {dtype: dtype.type(number) for dtype, number in launch.UNREACHABLE.items()}
MOST_CELLS = 2**20
"""Of longer pairs the sweep takes so long that the rest makes no difference."""


@njit(**INNER)
def row_size(rows, columns, wide):
    """Positions of a row: the longer series, a guard at either end, and room for overshoot."""
    return ((max(rows, columns) + 2) // wide + 4) * wide


@njit(**INNER)
def load_series(w, at, row, series, reverse):
    """Write each feature to a row, as `pack.interleave` does: the ends are repeated beyond the first and last step."""
    steps, dim = series.shape
    for f in range(dim):
        for i in range(row):
            step = min(max(steps - i if reverse else i - 1, 0), steps - 1)
            put(w, at + f * row + i, get(series, step * dim + f))


@njit(**OUTER)
def dtw_of_pair(x, y, w, unreachable):
    """Return the DTW of x (N, d) and y (M, d); NaN if a cost is out of range. ``w`` is scratch."""
    x, y, w = borrow(x), borrow(y), borrow(w)
    rows, columns, dim = x.shape[0], y.shape[0], x.shape[1]
    wide, zero = lanes(w), w.dtype.type(0)
    row = row_size(rows, columns, wide)
    values, xs, ys = 0, 3 * row, (3 + dim) * row
    load_series(w, xs, row, x, False)
    load_series(w, ys, row, y, True)
    fill(w, values, xs, unreachable)
    w[values + row] = 0  # the virtual cell (−1, −1), on diagonal −2 in row 1
    highest = splat(w, zero)
    for k in range(rows + columns - 1):
        low, high = max(0, k - columns + 1), min(rows, k + 1)
        value = rolling(values, row, k)
        w[value.here + low] = unreachable
        opposite = ys + columns - 1 - k
        for t in range(low + 1, high + 1, wide):
            difference = load(w, xs + t) - load(w, opposite + t)
            cost = difference * difference
            for f in range(row, dim * row, row):
                difference = load(w, xs + f + t) - load(w, opposite + f + t)
                cost = fma(difference, difference, cost)
            highest = worst(highest, cost)
            least = minimum(load(w, value.near + t), load(w, value.near + t - 1))
            least = minimum(least, load(w, value.far + t - 1))
            store(w, value.here + t, least + cost)
        fill(w, value.here + high + 1, value.here + high + 2, unreachable)
    found = w[rolling(values, row, rows + columns - 2).here + rows]
    store(w, values, highest)
    bound = unreachable / (rows + columns)
    for t in range(values, values + wide):
        if not w[t] < bound:
            return w.dtype.type(np.nan)
    return found


def dtw(x: np.ndarray, y: np.ndarray) -> np.floating | None:
    """Return the DTW of contiguous arrays (N, d) and (M, d) of one dtype; None if that takes the kernels for batches.

    They also tell which value cannot be used.
    """
    if len(x) * len(y) > MOST_CELLS:
        return None
    dtype = x.dtype
    size = (3 + 2 * x.shape[1]) * (max(len(x), len(y)) + 128)
    value = dtw_of_pair(x, y, scratch("work", size, dtype), UNREACHABLE[dtype])
    if math.isnan(value):
        clear_scratch()
        return None
    return dtype.type(value)
