"""Classical DTW over packs of pairs: the least path cost and, on request, which way each cell was reached."""

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
    variances_usable,
)
from udtw.kernels.cpu.rows import INNER, fill, hard_min_row, range_row
from udtw.kernels.cpu.simd import borrow, lanes
from udtw.kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on
from udtw.prior import CORNER, LEFT, UP


@njit(**INNER)
def write_choices(w, d, row, value, length, choice):
    value1, value2 = value + (d.k + 2) % 3 * row, value + (d.k + 1) % 3 * row
    for i in range(d.low, d.high):
        for p in range(d.pack):
            b, t = d.first + p, (i + 1) * d.pack + p
            if i < length[0, b] and d.k - i < length[1, b]:
                least, best = w[value2 + t - d.pack], CORNER
                if w[value1 + t - d.pack] < least:
                    least, best = w[value1 + t - d.pack], UP
                if w[value1 + t] < least:
                    best = LEFT
                choice[b, i, d.k - i] = best


@njit(**OUTER)
def hard(pairs, queue, end, pack_size, unreachable, largest, w, limits, out, choice):
    """``out[b]`` = least path cost; ``choice`` (B, N, M) uint8 = CORNER, UP or LEFT, if its size is not zero."""
    pairs, queue, w, limits = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits)
    out, choice = borrow(out), borrow(choice)
    row = row_size(pairs, pack_size, lanes(w))
    rows_used = 6 + 2 * pairs.x.shape[2] + 2
    if w.size < rows_used * row:
        return rows_used * row
    cost, variance, alarm, value, sequence_rows = 0, row, 2 * row, 3 * row, 6 * row
    fill(w, alarm, alarm + lanes(w), w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        if not variances_usable(pairs, first, first + pack):
            return end_work(queue, end, BAD_VALUE)
        rows, columns = pack_shape(pairs.length, first, pack)
        xs, ys, var_x, var_y = load_sequences(w, sequence_rows, pairs, row, first, pack, rows, columns)
        stretch = w.dtype.type(largest / unreachable * (rows + columns))
        set_limits(limits, pairs.band, first, rows, columns)
        fill(w, value, value + 3 * row, unreachable)
        for t in range(value + row, value + row + pack):  # the virtual cell (−1, −1), on diagonal −2 in row 1
            w[t] = 0
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            shift = (columns - 1 - k) * pack
            r, r1, r2 = k % 3 * row, (k + 2) % 3 * row, (k + 1) % 3 * row
            cost_row(w, pairs, d, row, xs, ys + shift, var_x, var_y + shift, cost, variance)
            range_row(w, d.begin, d.end, cost, stretch, alarm)
            if choice.size > 0:
                write_choices(w, d, row, value, pairs.length, choice)
            guard_below(w, d, value + r, unreachable)
            hard_min_row(w, d.begin, d.end, pack, cost, value + r, value + r1, value + r2)
            apply_mask(w, value + r, d, pairs.mask, unreachable)
            guard_above(w, d, value + r, unreachable)
            for p in range(pack):
                if ends_on(pairs.length, first + p, k):
                    out[first + p] = w[value + r + pairs.length[0, first + p] * pack + p]
        if alarmed(w, alarm):
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
