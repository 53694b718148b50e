"""Forward sweep over packs of pairs: soft-min and expectations in O(N + M) memory per pair."""

import numpy as np
from numba import njit

from udtw.kernels.cpu_pack import (
    COST,
    apply_mask,
    cost_row,
    diagonal,
    field_row,
    guard_above,
    guard_below,
    load_sequences,
    scatter,
    set_limits,
    spread,
    variances_usable,
)
from udtw.kernels.cpu_rows import INNER, expectation_row, fill, range_row, soft_min_row
from udtw.kernels.simd import lanes

OUTER = {"nogil": True, "cache": True}
"""Options of the functions that Python calls."""
OK, BAD_VALUE = 0, -1
"""They return OK, BAD_VALUE (a value out of range was met), or the size of scratch memory that they lack."""


@njit(**INNER)
def pack_shape(length, first, pack):
    rows = 0
    columns = 0
    for b in range(first, first + pack):
        rows = max(rows, length[0, b])
        columns = max(columns, length[1, b])
    return rows, columns


@njit(**INNER)
def row_size(pairs, pack_size, wide):
    """Positions of a row, whole vectors: the longest sequence, a guard step at either end, and room for overshoot."""
    longest = max(pairs.x.shape[1], pairs.y.shape[1], pairs.cost.shape[1], pairs.cost.shape[2])
    return ((longest + 2) * pack_size // wide + 4) * wide


@njit(**INNER)
def stretch_of(pairs, first, pack, rows, columns, unreachable, largest):
    """Factor that makes a cost overflow exactly when paths of such costs would not fit below ``unreachable``."""
    sharpest = 1.0
    for b in range(first, first + pack):
        sharpest = max(sharpest, 1 / (np.log(2) * pairs.gamma[b]))
    return largest / unreachable * (rows + columns) * sharpest


@njit(**INNER)
def start_soft_min(w, weight, power, row, pack, unreachable):
    """Nothing is reachable but a virtual cell (−1, −1), the corner predecessor of (0, 0)."""
    fill(w, weight, weight + 3 * row, w.dtype.type(1))
    fill(w, power, power + 3 * row, unreachable)
    for t in range(power + row, power + row + pack):  # diagonal −2 lies in row −2 mod 3 = 1
        w[t] = 0


@njit(**INNER)
def step_soft_min(
    w, pairs, d, row, cost, scale, weight, power, unreachable, keep, to_up, to_left, to_corner, with_logs, level, logs
):
    """One diagonal of the partition function in the three rolling rows of ``weight``, ``power`` and ``level``."""
    # Only ``power`` needs guards: a stale weight is finite, and an unreachable power makes its share exactly zero.
    r, r1, r2 = d.k % 3 * row, (d.k + 2) % 3 * row, (d.k + 1) % 3 * row
    guard_below(w, d, power + r, unreachable)
    soft_min_row(
        w, d.begin, d.end, d.pack, cost, scale, weight + r, weight + r1, weight + r2, power + r, power + r1, power + r2,
        unreachable, keep, to_up, to_left, to_corner, with_logs, level + r, level + r1, level + r2,
        logs, logs + row, logs + 2 * row,
    )  # fmt: skip
    if d.k == 0:
        fill(w, power + row, power + row + d.pack, unreachable)
    apply_mask(w, power + r, d, pairs.mask, unreachable)
    guard_above(w, d, power + r, unreachable)


@njit(**INNER)
def step_expectation(w, d, row, field, mean, to_up, to_left, to_corner):
    """One diagonal of an expectation; the three rolling rows of its rest follow those of its ``mean``."""
    r, r1, r2 = d.k % 3 * row, (d.k + 2) % 3 * row, (d.k + 1) % 3 * row
    rest = mean + 3 * row
    expectation_row(
        w, d.begin, d.end, d.pack, field, mean + r, mean + r1, mean + r2, rest + r, rest + r1, rest + r2,
        to_up, to_left, to_corner,
    )  # fmt: skip


@njit(**INNER)
def alarmed(w, alarm):
    for t in range(alarm, alarm + lanes(w)):
        if w[t] != 0:  # NaN is unequal to everything
            return True
    return False


@njit(**OUTER)
def forward(pairs, begin, end, pack_size, wanted, unreachable, largest, w, limits, out):
    """``out[b] = [soft_min, E[F] for F in wanted]`` for pairs [begin, end), ``pack_size`` at a time.

    ``wanted`` holds field numbers (see `cpu_pack`); ``w`` is float scratch, ``limits`` (4, N + M) integer scratch.
    """
    count = len(wanted)
    row = row_size(pairs, pack_size, lanes(w))
    sequences = (14 + 6 * count) * row
    need = sequences + (2 * pairs.x.shape[2] + 2) * row
    if w.size < need:
        return need
    if not variances_usable(pairs, begin, end):
        return BAD_VALUE
    scale, cost, variance, field, alarm = 0, row, 2 * row, 3 * row, 4 * row
    to_up, to_left, to_corner = 5 * row, 6 * row, 7 * row
    weight, power, means = 8 * row, 11 * row, 14 * row
    fill(w, alarm, alarm + lanes(w), w.dtype.type(0))
    for first in range(begin, end, pack_size):
        pack = min(pack_size, end - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        xs, ys, var_x, var_y = load_sequences(w, sequences, pairs, row, first, pack, rows, columns)
        spread(w, scale, row, 1 / (np.log(2) * pairs.gamma), first, pack)
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs.band, first if pairs.band.shape[1] > 1 else 0, rows, columns)
        start_soft_min(w, weight, power, row, pack, unreachable)
        fill(w, means, means + 6 * count * row, w.dtype.type(0))
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            shift = (columns - 1 - k) * pack
            cost_row(w, pairs, d, row, xs, ys + shift, var_x, var_y + shift, cost, variance)
            range_row(w, d.begin, d.end, cost, stretch, alarm)
            step_soft_min(
                w,
                pairs,
                d,
                row,
                cost,
                scale,
                weight,
                power,
                unreachable,
                count > 0,
                to_up,
                to_left,
                to_corner,
                False,
                0,
                0,
            )
            for f in range(count):
                source = cost
                if wanted[f] != COST:
                    source = field
                    field_row(w, pairs, d, wanted[f], variance, field)
                    range_row(w, d.begin, d.end, field, stretch, alarm)
                step_expectation(w, d, row, source, means + 6 * f * row, to_up, to_left, to_corner)
            for p in range(pack):
                b = first + p
                if pairs.length[0, b] + pairs.length[1, b] - 2 == k:
                    t = k % 3 * row + pairs.length[0, b] * pack + p
                    out[b, 0] = (w[power + t] - np.log2(w[weight + t])) * (np.log(2) * pairs.gamma[b])
                    for f in range(count):
                        out[b, 1 + f] = w[means + 6 * f * row + t] + w[means + (6 * f + 3) * row + t]
        if alarmed(w, alarm):
            return BAD_VALUE
    return OK


@njit(**OUTER)
def transitions(pairs, begin, end, pack_size, unreachable, largest, w, limits, out):
    """``out[0], out[1], out[2]`` (3, B, N, M): probability of arriving from the corner, from above, from the left."""
    row = row_size(pairs, pack_size, lanes(w))
    sequences = 13 * row
    need = sequences + (2 * pairs.x.shape[2] + 2) * row
    if w.size < need:
        return need
    if not variances_usable(pairs, begin, end):
        return BAD_VALUE
    scale, cost, variance, alarm, to_up, to_left, to_corner = 0, row, 2 * row, 3 * row, 4 * row, 5 * row, 6 * row
    weight, power = 7 * row, 10 * row
    one = w.dtype.type(1)
    fill(w, alarm, alarm + lanes(w), w.dtype.type(0))
    for first in range(begin, end, pack_size):
        pack = min(pack_size, end - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        xs, ys, var_x, var_y = load_sequences(w, sequences, pairs, row, first, pack, rows, columns)
        spread(w, scale, row, 1 / (np.log(2) * pairs.gamma), first, pack)
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs.band, first if pairs.band.shape[1] > 1 else 0, rows, columns)
        start_soft_min(w, weight, power, row, pack, unreachable)
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            shift = (columns - 1 - k) * pack
            cost_row(w, pairs, d, row, xs, ys + shift, var_x, var_y + shift, cost, variance)
            range_row(w, d.begin, d.end, cost, stretch, alarm)
            step_soft_min(
                w, pairs, d, row, cost, scale, weight, power, unreachable, True, to_up, to_left, to_corner, False, 0, 0
            )
            scatter(w, to_corner, d, out[0], pairs.length, one)
            scatter(w, to_up, d, out[1], pairs.length, one)
            scatter(w, to_left, d, out[2], pairs.length, one)
        if alarmed(w, alarm):
            return BAD_VALUE
    return OK
