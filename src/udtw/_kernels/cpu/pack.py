"""How a pack of pairs gets from the user's arrays into interleaved rows, and its gradients back.

Everything here touches each sequence element, or each cell of a given matrix, once; the work is in `rows`.
"""

from collections import namedtuple

from numba import njit

from udtw._engine.problem import BUILT_IN, COST, DEVIATION, LOG_VARIANCE, ONE, WARPS
from udtw._kernels.cpu.rows import (
    INNER,
    SHARED,
    Diagonal,
    Steps,
    copy_row,
    deviation_row,
    energy_row,
    feature_cost_row,
    feature_deviation_row,
    feature_log_row,
    fill,
    log_row,
    mean_variance_row,
    squared_distance_row,
    weighted_cost_row,
)
from udtw._kernels.cpu.simd import borrow, get, lanes, put

Pairs = namedtuple(
    "Pairs",
    [
        "x",  # (n_x, N, d): base cost ‖x_m − y_n‖² if d > 0, otherwise taken from `cost`
        "y",  # (n_y, M, d)
        "cost",  # (B, N, M) or (0, 0, 0)
        "var_x",  # (n_x, N, 1), (n_x, N, d) with a variance of each feature, or (0, 0, 1)
        "var_y",  # (n_y, M, 1), (n_y, M, d) or (0, 0, 1)
        "variance",  # (B, N, M) or (0, 0, 0)
        "fields",  # (K, B, N, M): the user's
        "index",  # (2, B): which sequence of x and of y pair b compares
        "length",  # (2, B): how many of their steps are real
        "gamma",  # (B,) float64
        "beta",  # (B,) float64 for the likelihood's energy, or (0,)
        "warp",  # (B,) float64: what a non-diagonal step costs; or (0,)
        "relax",  # (5, B) unmatched steps allowed at x begin, x end, y begin, y end, `ends.LAST_START`; or (5, 0)
        "band",  # (2, U, N): first and one past the last admissible column of each row, never falling; or (2, 0, 0)
        "band_of",  # (B,): which of these U bands each pair has; or (0,)
        "mask",  # (1 or B, N, M) bool: True where a path may go; (0, 0, 0) without a mask
    ],
)


@njit(**INNER)
def borrow_pairs(pairs):
    return Pairs(
        borrow(pairs.x), borrow(pairs.y), borrow(pairs.cost), borrow(pairs.var_x), borrow(pairs.var_y),
        borrow(pairs.variance), borrow(pairs.fields), borrow(pairs.index), borrow(pairs.length), borrow(pairs.gamma),
        borrow(pairs.beta), borrow(pairs.warp), borrow(pairs.relax), borrow(pairs.band), borrow(pairs.band_of),
        borrow(pairs.mask),
    )  # fmt: skip


@njit(**INNER)
def uncertain(pairs):
    """Whether the pairs have variances."""
    return pairs.var_x.shape[0] > 0 or pairs.variance.shape[0] > 0


@njit(**INNER)
def likely(pairs):
    """Whether log Σ is part of the energy: only then do the cost of a cell and its energy differ."""
    return pairs.beta.shape[0] > 0 and uncertain(pairs)


@njit(**INNER)
def by_feature(pairs):
    """Whether every feature has a variance of its own."""
    return pairs.var_x.shape[2] > 1


@njit(**INNER)
def simple(pairs):
    """Whether sequences are given with a variance of each step, or of each feature: fused loops can make the cost."""
    return pairs.var_x.shape[0] > 0 and pairs.x.shape[2] > 0


@njit(**INNER)
def diagonal(limits, k, pack, first):
    """Diagonal k of the pack, within the ``limits`` of `set_limits`."""
    low, high = limits[0, k], limits[1, k]
    mixed = limits.shape[0] > OWN_LIMITS and limits[OWN_LIMITS, 0] >= 0
    return Diagonal(k, pack, first, low, high, (low + 1) * pack, (high + 1) * pack, mixed, limits)


OWN_LIMITS = 3
"""Rows of ``limits`` from here on: for each pair of the pack low and high of its own band, if the batch has several
bands; of the first pair −1 if those of the pack are the same. The rows before are of the pack (see `place_tables`)."""


@njit(**INNER)
def set_limits(limits, pairs, first, pack, rows, columns):
    """Fill ``limits[:2]``: rows [low, high) of each diagonal, which hold the cells of all pairs of the pack."""
    if pairs.band.shape[1] == 0:
        for k in range(rows + columns - 1):
            limits[0, k] = max(0, k - columns + 1)
            limits[1, k] = min(rows, k + 1)
    else:
        set_band_limits(limits, pairs, first, pack, rows, columns)


@njit(**SHARED)
def set_band_limits(limits, pairs, first, pack, rows, columns):
    """`set_limits` of bands: their union, whose low and high also grow by at most one from diagonal to diagonal."""
    same = True
    for b in range(first + 1, first + pack):
        same &= pairs.band_of[b] == pairs.band_of[first]
    if same:
        set_own_limits(limits, 0, pairs, first)
        if limits.shape[0] > OWN_LIMITS:
            limits[OWN_LIMITS, 0] = -1
        return
    for p in range(pack):
        set_own_limits(limits, OWN_LIMITS + 2 * p, pairs, first + p)
    low, high = 0, 0
    for k in range(rows + columns - 1):
        least, most = rows, 0
        for p in range(pack):
            if k < pairs.length[0, first + p] + pairs.length[1, first + p] - 1:
                least = min(least, limits[OWN_LIMITS + 2 * p, k])
                most = max(most, limits[OWN_LIMITS + 2 * p + 1, k])
        high = min(high + 1, max(high, most))
        low = min(max(low, min(low + 1, least)), high)
        limits[0, k], limits[1, k] = low, high


@njit(**INNER)
def set_own_limits(limits, at, pairs, b):
    """Rows [low, high) of pair b's band on each diagonal, none past its last one, written to ``limits[at:at + 2]``."""
    band, which = pairs.band, pairs.band_of[b]
    rows, columns = pairs.length[0, b], pairs.length[1, b]
    lower = 0
    upper = 0
    for k in range(rows + columns - 1):
        while lower < rows and lower + band[1, which, lower] <= k:
            lower += 1
        while upper < rows and upper + band[0, which, upper] <= k:
            upper += 1
        limits[at, k] = lower
        limits[at + 1, k] = max(upper, lower)
    for k in range(rows + columns - 1, limits.shape[1]):
        limits[at, k] = limits[at + 1, k] = 0


@njit(**INNER)
def own_rows(d, p):
    """[start, stop): the rows of the diagonal in which the band of pair p of the pack has a cell."""
    if not d.mixed:
        return d.low, d.high
    return d.limits[OWN_LIMITS + 2 * p, d.k], d.limits[OWN_LIMITS + 2 * p + 1, d.k]


@njit(**INNER)
def guard_below(w, d, row, value):
    """To be called before the diagonal is written: the last vector may run into it."""
    fill(w, row + d.begin - d.pack, row + d.begin, value)


@njit(**INNER)
def guard_above(w, d, row, value):
    """To be called after the diagonal is written: covers what its last vector overshot."""
    fill(w, row + d.end, row + d.end + d.pack + lanes(w), value)


@njit(**SHARED)
def interleave(w, at, row, source, index, length, first, pack, steps, reverse, factor):
    """``w[at + f·row + position] = factor·source[index, step, f]``; beyond a sequence's ends these are repeated."""
    padded, dim = source.shape[1], source.shape[2]
    for f in range(dim):
        for p in range(pack):
            own, real = index[first + p] * padded * dim + f, length[first + p]
            to = at + f * row + p + (steps if reverse else 1) * pack
            stride = -pack if reverse else pack
            for step in range(real):
                put(w, to + step * stride, factor * get(source, own + step * dim))
            put(w, to - stride, factor * get(source, own))
            last = factor * get(source, own + (real - 1) * dim)
            for step in range(real, steps + 1):
                put(w, to + step * stride, last)
        end = at + f * row + (steps + 2) * pack
        for t in range(end, end + 2 * lanes(w)):
            put(w, t, get(w, t - pack))


@njit(**SHARED)
def add_back(w, at, row, out, index, length, first, pack, steps, reverse, factor):
    """Inverse of `interleave`: adds ``factor`` times each position's sum to ``out[index, step, f]``, if it has any."""
    if out.shape[0] == 0:  # not wanted: even adding zero would write to memory that is not ours
        return
    padded, dim = out.shape[1], out.shape[2]
    stride = -pack if reverse else pack
    for p in range(pack):
        for f in range(dim):
            position = at + f * row + (steps if reverse else 1) * pack + p
            to = index[first + p] * padded * dim + f
            for _ in range(length[first + p]):
                put(out, to, get(out, to) + factor * get(w, position))
                position += stride
                to += dim


@njit(**INNER)
def next_pack(pack_size, left):
    """How many of the pairs that are ``left`` go into the next pack: a power of two, like ``pack_size``."""
    while pack_size > left:
        pack_size //= 2
    return pack_size


@njit(**INNER)
def rows_inside(d, length, p):
    """[start, stop): the rows of the diagonal in which its cell lies within the lengths of pair p of the pack."""
    n, m = length[0, d.first + p], length[1, d.first + p]
    low, high = own_rows(d, p)
    start = max(d.low, low, d.k - m + 1)
    return start, max(start, min(high, n))


@njit(**INNER)
def gather(w, at, d, matrix, length, outside):
    """One diagonal of the pack's matrices; cells past a pair's lengths or band get the value ``outside``."""
    rows, columns = matrix.shape[1], matrix.shape[2]
    for p in range(d.pack):
        start, stop = rows_inside(d, length, p)
        corner = (d.first + p) * rows * columns + d.k
        for i in range(d.low, min(start, d.high)):
            put(w, at + (i + 1) * d.pack + p, outside)
        for i in range(start, stop):
            put(w, at + (i + 1) * d.pack + p, get(matrix, corner + i * (columns - 1)))
        for i in range(stop, d.high):
            put(w, at + (i + 1) * d.pack + p, outside)
    fill(w, at + d.end, at + d.end + 1, outside)


@njit(**INNER)
def scatter(w, at, d, matrix, length, ceiling):
    """Inverse of `gather`: one diagonal, cut at ``ceiling``, into the pack's matrices."""
    rows, columns = matrix.shape[1], matrix.shape[2]
    for p in range(d.pack):
        start, stop = rows_inside(d, length, p)
        corner = (d.first + p) * rows * columns + d.k
        for i in range(start, stop):
            put(matrix, corner + i * (columns - 1), min(get(w, at + (i + 1) * d.pack + p), ceiling))


@njit(**INNER)
def close_cells(w, at, d, mask, value):
    """``value`` where the mask or a pair's own band forbids the cell."""
    if mask.shape[0] > 0:
        for i in range(d.low, d.high):
            for p in range(d.pack):
                b = d.first + p if mask.shape[0] > 1 else 0
                if not mask[b, i, d.k - i]:
                    w[at + (i + 1) * d.pack + p] = value
    for p in range(d.pack if d.mixed else 0):
        start, stop = own_rows(d, p)
        for i in range(d.low, min(start, d.high)):
            w[at + (i + 1) * d.pack + p] = value
        for i in range(max(stop, d.low), d.high):
            w[at + (i + 1) * d.pack + p] = value


@njit(**INNER)
def load_sequences(w, at, pairs, row, first, pack, rows, columns):
    """Write x, reversed y, and half their variances; returns their rows as `Steps` for diagonal ``columns − 1``."""
    dim = pairs.x.shape[2]
    one, half = w.dtype.type(1), w.dtype.type(0.5)
    xs, ys = at, at + dim * row
    var_x, var_y = at + 2 * dim * row, at + (2 * dim + pairs.var_x.shape[2]) * row
    interleave(w, xs, row, pairs.x, pairs.index[0], pairs.length[0], first, pack, rows, False, one)
    interleave(w, ys, row, pairs.y, pairs.index[1], pairs.length[1], first, pack, columns, True, one)
    if pairs.var_x.shape[0] > 0:
        interleave(w, var_x, row, pairs.var_x, pairs.index[0], pairs.length[0], first, pack, rows, False, half)
        interleave(w, var_y, row, pairs.var_y, pairs.index[1], pairs.length[1], first, pack, columns, True, half)
    return Steps(xs, ys, var_x, var_y)


@njit(**INNER)
def shifted(steps, d, columns):
    """Return the `Steps` for diagonal d: y and its variances moved so that they meet x."""
    shift = (columns - 1 - d.k) * d.pack
    return Steps(steps.x, steps.y + shift, steps.half_var_x, steps.half_var_y + shift)


@njit(**INNER)
def sequence_rows(pairs):
    """Rows that `load_sequences` writes, and as many gradients."""
    return 2 * pairs.x.shape[2] + 2 * pairs.var_x.shape[2]


@njit(**INNER)
def cost_row(w, pairs, d, at, steps):
    """C and Σ of one diagonal, written to ``at.cost`` and ``at.variance``, from whichever form the user gave.

    With a variance of each feature there is no single Σ.
    """
    if by_feature(pairs):
        feature_cost_row(w, d, steps, at.row, pairs.x.shape[2], at.cost)
        return
    if pairs.x.shape[2] > 0:
        squared_distance_row(w, d, steps, at.row, pairs.x.shape[2], at.cost)
    else:
        gather(w, at.cost, d, pairs.cost, pairs.length, w.dtype.type(0))
    if pairs.var_x.shape[0] > 0:
        mean_variance_row(w, d, steps, at.variance)
        weighted_cost_row(w, d, at.variance, at.cost)
    elif pairs.variance.shape[0] > 0:
        gather(w, at.variance, d, pairs.variance, pairs.length, w.dtype.type(1))
        weighted_cost_row(w, d, at.variance, at.cost)


@njit(**SHARED)
def energy_rows(w, pairs, d, at, steps):
    """`cost_row`, and where they differ from it log Σ and the energy, written to ``at.log`` and ``at.energy``."""
    cost_row(w, pairs, d, at, steps)
    if likely(pairs):
        log_variance_row(w, pairs, d, at, steps, at.log)
        energy_row(w, d, at)


@njit(**INNER)
def log_variance_row(w, pairs, d, at, steps, out):
    """log Σ, or its sum over the features; after `cost_row`."""
    if by_feature(pairs):
        feature_log_row(w, d, steps, at.row, pairs.x.shape[2], out)
    else:
        log_row(w, d, at.variance, out)


@njit(**INNER)
def field_row(w, pairs, d, which, at, steps):
    """Field number ``which`` of one diagonal, written to ``at.field``; after `cost_row`.

    The number of non-diagonal steps of a path of L cells is 2L less what its ends say (`ends`).
    """
    out = at.field
    if which == COST:
        copy_row(w, d.begin, d.end, at.cost, out)
    elif which == LOG_VARIANCE and uncertain(pairs):
        log_variance_row(w, pairs, d, at, steps, out)
    elif which == DEVIATION and uncertain(pairs):
        if by_feature(pairs):
            feature_deviation_row(w, d, steps, at.row, pairs.x.shape[2], out)
        else:
            deviation_row(w, d, at.variance, out)
    elif which < BUILT_IN:
        fill(w, out + d.begin, out + d.end, w.dtype.type(1 if which == ONE else 2 if which == WARPS else 0))
    else:
        gather(w, out, d, pairs.fields[which - BUILT_IN], pairs.length, w.dtype.type(0))
