"""Classical DTW over packs of pairs: the least path cost and, on request, which way each cell was reached."""

from collections import namedtuple

from numba import njit

from udtw.kernels.cpu.ends import SIDES, end_row, open_row, soonest_end
from udtw.kernels.cpu.forward import alarmed, pack_shape, row_size, usable
from udtw.kernels.cpu.pack import (
    apply_mask,
    borrow_pairs,
    diagonal,
    energy_rows,
    guard_above,
    guard_below,
    likely,
    load_sequences,
    next_pack,
    sequence_rows,
    set_limits,
    shifted,
)
from udtw.kernels.cpu.pair_numbers import constant_energy, put_number, put_prices
from udtw.kernels.cpu.rows import INNER, SLOT, amerced_min_row, fill, hard_min_row, range_row, rolling
from udtw.kernels.cpu.simd import borrow, lanes
from udtw.kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on
from udtw.prior import CORNER, LEFT, UP

HardLayout = namedtuple(
    "HardLayout",
    [
        "row",
        "cost", "variance", "alarm", "log",
        "energy",  # the row of C where that is the energy
        "value",  # three rolling rows
        "sequences",
        "warp", "scale", "beta", "kappa", "warp_power", "warp_factor",  # slots
        "end",
    ],
)  # fmt: skip
"""Offsets in the scratch memory."""


@njit(**INNER)
def hard_layout(row, pairs):
    sequences = 8 * row
    warp = sequences + sequence_rows(pairs) * row
    energy = 4 * row if likely(pairs) else 0
    return HardLayout(
        row, 0, row, 2 * row, 3 * row, energy, 5 * row, sequences, warp, warp + SLOT,
        warp + 2 * SLOT, warp + 3 * SLOT, warp + 4 * SLOT, warp + 5 * SLOT, warp + 6 * SLOT,
    )  # fmt: skip


@njit(**INNER)
def write_choices(w, d, value, warp, length, choice):
    """Where each cell of the diagonal is reached from; before its own values are written."""
    for i in range(d.low, d.high):
        for p in range(d.pack):
            b, t = d.first + p, (i + 1) * d.pack + p
            if i < length[0, b] and d.k - i < length[1, b]:
                least, best = w[value.far + t - d.pack], CORNER
                if w[value.near + t - d.pack] + w[warp + p] < least:
                    least, best = w[value.near + t - d.pack] + w[warp + p], UP
                if w[value.near + t] + w[warp + p] < least:
                    best = LEFT
                choice[b, i, d.k - i] = best


@njit(**OUTER)
def hard(pairs, queue, end, pack_size, unreachable, largest, w, limits, out, last, choice):
    """``out[b]`` = least path energy, ``last[:, b]`` = the cell in which that path ends.

    ``choice`` (B, N, M) uint8 = CORNER, UP or LEFT, if its size is not zero. A path goes back from ``last`` to where
    the choice is CORNER in the first row or column.
    """
    pairs, queue, w, limits = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits)
    out, last, choice = borrow(out), borrow(last), borrow(choice)
    row = row_size(pairs, pack_size, lanes(w))
    at = hard_layout(row, pairs)
    if w.size < at.end:
        return at.end
    fill(w, at.alarm, at.alarm + lanes(w), w.dtype.type(0))
    fill(w, at.warp, at.warp + SLOT, w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        if not usable(w, pairs, at, sequences, first, pack, rows, columns, unreachable):
            return end_work(queue, end, BAD_VALUE)
        put_prices(w, at, pairs, sequences, first, pack, rows, columns)
        for p in range(pack if pairs.warp.shape[0] > 0 else 0):
            put_number(w, at.warp, p, pack, pairs.warp[first + p])
        stretch = w.dtype.type(largest / unreachable * (rows + columns))
        set_limits(limits, pairs.band, first, rows, columns)
        fill(w, at.value, at.value + 3 * row, unreachable)
        for t in range(at.value + row, at.value + row + pack):  # the virtual cell (−1, −1), on diagonal −2 in row 1
            w[t] = 0
        out[first : first + pack] = largest
        soonest = soonest_end(pairs, first, pack)
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            value = rolling(at.value, row, k)
            energy_rows(w, pairs, d, at, shifted(sequences, d, columns))
            range_row(w, d, at.energy, stretch, at.alarm)
            open_row(w, pairs, d, value.far, w.dtype.type(0))
            if choice.size > 0:
                write_choices(w, d, value, at.warp, pairs.length, choice)
            guard_below(w, d, value.here, unreachable)
            if pairs.warp.shape[0] > 0:
                amerced_min_row(w, d, at.energy, at.warp, value)
            else:
                hard_min_row(w, d, at.energy, value)
            apply_mask(w, value.here, d, pairs.mask, unreachable)
            guard_above(w, d, value.here, unreachable)
            for p in range(pack if k >= soonest else 0):
                for side in range(SIDES):
                    i = end_row(pairs, d, first + p, side)
                    if i >= 0 and w[value.here + (i + 1) * pack + p] < out[first + p]:
                        out[first + p] = w[value.here + (i + 1) * pack + p]
                        last[0, first + p], last[1, first + p] = i, k - i
        if alarmed(w, at.alarm):
            return end_work(queue, end, BAD_VALUE)
        for p in range(pack):
            out[first + p] += constant_energy(w, at, pairs, first + p, p)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)


@njit(**OUTER)
def mark_paths(choice, last, out):
    """Ones in ``out`` (B, N, M) along the path that ``choice`` describes, from each pair's ``last`` cell back."""
    for b in range(choice.shape[0]):
        i, j = last[0, b], last[1, b]
        out[b, i, j] = 1
        while choice[b, i, j] != CORNER or (i > 0 and j > 0):
            step = choice[b, i, j]
            if step != LEFT:
                i -= 1
            if step != UP:
                j -= 1
            out[b, i, j] = 1
