"""Classical DTW over packs of pairs: the least path cost and, on request, which way each cell was reached."""

from collections import namedtuple

from numba import njit

from udtw.kernels.cpu.forward import alarmed, ends_on, pack_shape, row_size
from udtw.kernels.cpu.pack import (
    apply_mask,
    borrow_pairs,
    cost_row,
    diagonal,
    guard_above,
    guard_below,
    load_sequences,
    next_pack,
    set_limits,
    shifted,
    variances_usable,
)
from udtw.kernels.cpu.rows import INNER, fill, hard_min_row, range_row, rolling
from udtw.kernels.cpu.simd import borrow, lanes
from udtw.kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on
from udtw.prior import CORNER, LEFT, UP

HardLayout = namedtuple("HardLayout", ["row", "cost", "variance", "alarm", "value", "sequences", "end"])
"""Offsets in the scratch memory; ``value`` has three rolling rows."""


@njit(**INNER)
def write_choices(w, d, value, length, choice):
    """Where each cell of the diagonal is reached from; before its own values are written."""
    for i in range(d.low, d.high):
        for p in range(d.pack):
            b, t = d.first + p, (i + 1) * d.pack + p
            if i < length[0, b] and d.k - i < length[1, b]:
                least, best = w[value.far + t - d.pack], CORNER
                if w[value.near + t - d.pack] < least:
                    least, best = w[value.near + t - d.pack], UP
                if w[value.near + t] < least:
                    best = LEFT
                choice[b, i, d.k - i] = best


@njit(**OUTER)
def hard(pairs, queue, end, pack_size, unreachable, largest, w, limits, out, choice):
    """``out[b]`` = least path cost; ``choice`` (B, N, M) uint8 = CORNER, UP or LEFT, if its size is not zero."""
    pairs, queue, w, limits = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits)
    out, choice = borrow(out), borrow(choice)
    row = row_size(pairs, pack_size, lanes(w))
    at = HardLayout(row, 0, row, 2 * row, 3 * row, 6 * row, (8 + 2 * pairs.x.shape[2]) * row)
    if w.size < at.end:
        return at.end
    fill(w, at.alarm, at.alarm + lanes(w), w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        if not variances_usable(pairs, first, first + pack):
            return end_work(queue, end, BAD_VALUE)
        rows, columns = pack_shape(pairs.length, first, pack)
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        stretch = w.dtype.type(largest / unreachable * (rows + columns))
        set_limits(limits, pairs.band, first, rows, columns)
        fill(w, at.value, at.value + 3 * row, unreachable)
        for t in range(at.value + row, at.value + row + pack):  # the virtual cell (−1, −1), on diagonal −2 in row 1
            w[t] = 0
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            value = rolling(at.value, row, k)
            cost_row(w, pairs, d, at, shifted(sequences, d, columns))
            range_row(w, d, at.cost, stretch, at.alarm)
            if choice.size > 0:
                write_choices(w, d, value, pairs.length, choice)
            guard_below(w, d, value.here, unreachable)
            hard_min_row(w, d, at.cost, value)
            apply_mask(w, value.here, d, pairs.mask, unreachable)
            guard_above(w, d, value.here, unreachable)
            for p in range(pack):
                if ends_on(pairs.length, first + p, k):
                    out[first + p] = w[value.here + pairs.length[0, first + p] * pack + p]
        if alarmed(w, at.alarm):
            return end_work(queue, end, BAD_VALUE)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)


@njit(**OUTER)
def mark_paths(choice, length, out):
    """Ones in ``out`` (B, N, M) along the path that ``choice`` describes, from each pair's last cell back."""
    for b in range(choice.shape[0]):
        i, j = length[0, b] - 1, length[1, b] - 1
        out[b, i, j] = 1
        while i > 0 or j > 0:
            step = choice[b, i, j]
            if step != LEFT:
                i -= 1
            if step != UP:
                j -= 1
            out[b, i, j] = 1
