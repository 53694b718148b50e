"""How a pack of pairs gets from the user's arrays into interleaved rows, and its gradients back.

Everything here touches each sequence element, or each cell of a given matrix, once; the work is in `cpu_rows`.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw.kernels.cpu_rows import (
    INNER,
    copy_row,
    deviation_row,
    fill,
    log_row,
    mean_variance_row,
    squared_distance_row,
    weighted_cost_row,
)
from udtw.kernels.simd import borrow, lanes

Pairs = namedtuple(
    "Pairs",
    [
        "x",  # (n_x, N, d): base cost ‖x_m − y_n‖² if d > 0, otherwise taken from `cost`
        "y",  # (n_y, M, d)
        "cost",  # (B, N, M) or (0, 0, 0)
        "var_x",  # (n_x, N, 1) or (0, 0, 1)
        "var_y",  # (n_y, M, 1) or (0, 0, 1)
        "variance",  # (B, N, M) or (0, 0, 0)
        "fields",  # (K, B, N, M): the user's
        "index",  # (2, B): which sequence of x and of y pair b compares
        "length",  # (2, B): how many of their steps are real
        "gamma",  # (B,) float64
        "band",  # (2, B, N): first and one past the last admissible column of each row, never falling; or (2, 0, 0)
        "mask",  # (1 or B, N, M) bool: True where a path may go; (0, 0, 0) without a mask
    ],
)


@njit(**INNER)
def borrow_pairs(pairs):
    return Pairs(
        borrow(pairs.x), borrow(pairs.y), borrow(pairs.cost), borrow(pairs.var_x), borrow(pairs.var_y),
        borrow(pairs.variance), borrow(pairs.fields), borrow(pairs.index), borrow(pairs.length), borrow(pairs.gamma),
        borrow(pairs.band), borrow(pairs.mask),
    )  # fmt: skip


COST, LOG_VARIANCE, DEVIATION, ONE = 0, 1, 2, 3
BUILT_IN = 4
"""Fields 0 to 3 are C, log Σ, (Σ − 1)² and 1; the user's follow."""

Diagonal = namedtuple("Diagonal", ["k", "pack", "first", "low", "high", "begin", "end"])
"""Diagonal ``k`` of the pack that starts with pair ``first``: rows [low, high), positions [begin, end).

The row below and the row above hold no cell of it, but neighbouring diagonals look there; not further, since from one
diagonal to the next neither ``low`` nor ``high`` falls or grows by more than one.
"""


@njit(**INNER)
def diagonal(limits, k, pack, first):
    low, high = limits[0, k], limits[1, k]
    return Diagonal(k, pack, first, low, high, (low + 1) * pack, (high + 1) * pack)


@njit(**INNER)
def set_limits(limits, band, band_index, rows, columns):
    """Fill ``limits[:2]``: rows [low, high) of each diagonal."""
    lower = 0
    upper = 0
    for k in range(rows + columns - 1):
        if band.shape[1] > 0:
            while lower < rows and lower + band[1, band_index, lower] <= k:
                lower += 1
            while upper < rows and upper + band[0, band_index, upper] <= k:
                upper += 1
            limits[0, k] = lower
            limits[1, k] = max(upper, lower)
        else:
            limits[0, k] = max(0, k - columns + 1)
            limits[1, k] = min(rows, k + 1)


@njit(**INNER)
def guard_below(w, d, row, value):
    """To be called before the diagonal is written: the last vector may run into it."""
    fill(w, row + d.begin - d.pack, row + d.begin, value)


@njit(**INNER)
def guard_above(w, d, row, value):
    """To be called after the diagonal is written: covers what its last vector overshot."""
    fill(w, row + d.end, row + d.end + d.pack + lanes(w), value)


@njit(**INNER)
def interleave(w, at, row, source, index, length, first, pack, steps, reverse):
    """``w[at + f·row + position] = source[index, step, f]``; past a sequence's end its last step is repeated."""
    for p in range(pack):
        s = index[first + p]
        last = length[first + p] - 1
        for f in range(source.shape[2]):
            for i in range(-1, steps + 1):
                step = min(max(steps - 1 - i if reverse else i, 0), last)
                w[at + f * row + (i + 1) * pack + p] = source[s, step, f]
    for f in range(source.shape[2]):
        end = at + f * row + (steps + 2) * pack
        for t in range(end, end + 2 * lanes(w)):
            w[t] = w[t - pack]


@njit(**INNER)
def add_back(w, at, row, out, index, length, first, pack, steps, reverse):
    """Inverse of `interleave`: adds each position's gradient to ``out[index, step, f]``, if ``out`` has any."""
    if out.shape[0] == 0:  # not wanted: even adding zero would write to memory that is not ours
        return
    for p in range(pack):
        s = index[first + p]
        for f in range(out.shape[2]):
            for step in range(length[first + p]):
                i = steps - 1 - step if reverse else step
                out[s, step, f] += w[at + f * row + (i + 1) * pack + p]


@njit(**INNER)
def spread(w, at, row, values):
    """Repeats one number per pair of the pack along a row: ``w[at + position] = values[p]``."""
    pack = len(values)
    for p in range(pack):
        w[at + p] = values[p]
    repeat(w, at, row, pack)


@njit(**INNER)
def repeat(w, at, row, pack):
    """Continue a row periodically from its first ``pack`` numbers."""
    if pack == 1:
        fill(w, at, at + row, w[at])
    else:
        head = max(pack, -(-lanes(w) // pack) * pack)  # whole periods of at least one vector
        for t in range(at + pack, at + head):
            w[t] = w[t - pack]
        copy_row(w, at + head, at + row, -head, 0)


@njit(**INNER)
def gather(w, at, d, matrix, length, outside):
    """One diagonal of the pack's matrices; cells past a pair's lengths get the value ``outside``."""
    for i in range(d.low, d.high):
        j = d.k - i
        for p in range(d.pack):
            b = d.first + p
            inside = i < length[0, b] and j < length[1, b]
            w[at + (i + 1) * d.pack + p] = matrix[b, i, j] if inside else outside
    fill(w, at + d.end, at + d.end + 1, outside)


@njit(**INNER)
def scatter(w, at, d, matrix, length, ceiling):
    """Inverse of `gather`: one diagonal, cut at ``ceiling``, into the pack's matrices."""
    for i in range(d.low, d.high):
        j = d.k - i
        for p in range(d.pack):
            b = d.first + p
            if i < length[0, b] and j < length[1, b]:
                matrix[b, i, j] = min(w[at + (i + 1) * d.pack + p], ceiling)


@njit(**INNER)
def apply_mask(w, at, d, mask, value):
    """``value`` where the mask forbids the cell."""
    if mask.shape[0] == 0:
        return
    for i in range(d.low, d.high):
        for p in range(d.pack):
            b = d.first + p if mask.shape[0] > 1 else 0
            if not mask[b, i, d.k - i]:
                w[at + (i + 1) * d.pack + p] = value


@njit(**INNER)
def load_sequences(w, at, pairs, row, first, pack, rows, columns):
    """x, reversed y, and their variances; returns the offsets of the four and the next free one."""
    dim = pairs.x.shape[2]
    xs, ys = at, at + dim * row
    var_x, var_y = at + 2 * dim * row, at + (2 * dim + 1) * row
    interleave(w, xs, row, pairs.x, pairs.index[0], pairs.length[0], first, pack, rows, False)
    interleave(w, ys, row, pairs.y, pairs.index[1], pairs.length[1], first, pack, columns, True)
    if pairs.var_x.shape[0] > 0:
        interleave(w, var_x, row, pairs.var_x, pairs.index[0], pairs.length[0], first, pack, rows, False)
        interleave(w, var_y, row, pairs.var_y, pairs.index[1], pairs.length[1], first, pack, columns, True)
    return xs, ys, var_x, var_y


@njit(**INNER)
def cost_row(w, pairs, d, row, xs, ys, var_x, var_y, cost, variance):
    """``C`` and Σ of one diagonal from whichever form the user gave; ``ys`` and ``var_y`` are already shifted."""
    if pairs.x.shape[2] > 0:
        squared_distance_row(w, d.begin, d.end, xs, ys, row, pairs.x.shape[2], cost)
    else:
        gather(w, cost, d, pairs.cost, pairs.length, w.dtype.type(0))
    if pairs.var_x.shape[0] > 0:
        mean_variance_row(w, d.begin, d.end, var_x, var_y, variance)
        weighted_cost_row(w, d.begin, d.end, variance, cost)
    elif pairs.variance.shape[0] > 0:
        gather(w, variance, d, pairs.variance, pairs.length, w.dtype.type(1))
        weighted_cost_row(w, d.begin, d.end, variance, cost)


@njit(**INNER)
def field_row(w, pairs, d, which, variance, out):
    """Field number ``which`` of one diagonal (not C, which `cost_row` has made)."""
    uncertain = pairs.var_x.shape[0] > 0 or pairs.variance.shape[0] > 0
    if which == LOG_VARIANCE and uncertain:
        log_row(w, d.begin, d.end, variance, out)
    elif which == DEVIATION and uncertain:
        deviation_row(w, d.begin, d.end, variance, out)
    elif which < BUILT_IN:
        fill(w, out + d.begin, out + d.end, w.dtype.type(1 if which == ONE else 0))
    else:
        gather(w, out, d, pairs.fields[which - BUILT_IN], pairs.length, w.dtype.type(0))


@njit(**INNER)
def diagonal_cost(pairs, b):
    """Mean of C over points of the straight diagonal of pair b: a cheap guess at what a step of its paths costs."""
    n, m = pairs.length[0, b], pairs.length[1, b]
    s, r = pairs.index[0, b], pairs.index[1, b]
    points = 8
    total = 0.0
    for point in range(points):
        i, j = point * (n - 1) // (points - 1), point * (m - 1) // (points - 1)
        base = 0.0
        if pairs.x.shape[2] > 0:
            for f in range(pairs.x.shape[2]):
                base += (pairs.x[s, i, f] - pairs.y[r, j, f]) ** 2
        else:
            base = pairs.cost[b, i, j]
        if pairs.var_x.shape[0] > 0:
            base /= 0.5 * (pairs.var_x[s, i, 0] + pairs.var_y[r, j, 0])
        elif pairs.variance.shape[0] > 0:
            base /= pairs.variance[b, i, j]
        total += base
    return total / points


@njit(**INNER)
def spread_theta(w, at, row, pairs, first, pack):
    """θ of each pair, repeated along a row: 1 where costs outweigh the entropy of the paths, else 0 (README.md)."""
    for p in range(pack):
        b = first + p
        w[at + p] = 1 if diagonal_cost(pairs, b) > np.log(2) * pairs.gamma[b] else 0
    repeat(w, at, row, pack)


@njit(**INNER)
def variances_usable(pairs, begin, end):
    """Whether every variance of pairs [begin, end) inside its lengths is a positive finite number."""
    usable = True
    for b in range(begin, end):
        if pairs.var_x.shape[0] > 0:
            for i in range(pairs.length[0, b]):
                usable &= 0 < pairs.var_x[pairs.index[0, b], i, 0] < np.inf
            for j in range(pairs.length[1, b]):
                usable &= 0 < pairs.var_y[pairs.index[1, b], j, 0] < np.inf
        if pairs.variance.shape[0] > 0:
            for i in range(pairs.length[0, b]):
                for j in range(pairs.length[1, b]):
                    usable &= 0 < pairs.variance[b, i, j] < np.inf
    return usable
