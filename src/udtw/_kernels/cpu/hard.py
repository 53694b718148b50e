"""Classical DTW over packs of pairs: the least path cost and, on request, which way each cell was reached."""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw._engine.prior import CORNER, LEFT, UP
from udtw._kernels.cpu.ends import SIDES, end_row, open_row, soonest_end
from udtw._kernels.cpu.forward import alarmed, pack_shape, row_size, usable
from udtw._kernels.cpu.layout import place_tables
from udtw._kernels.cpu.pack import (
    borrow_pairs,
    close_cells,
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
    uncertain,
)
from udtw._kernels.cpu.pair_numbers import constant_energy, put_number, put_prices
from udtw._kernels.cpu.rows import (
    INNER,
    SLOT,
    amerced_min_row,
    distance_min_row,
    fill,
    hard_min_row,
    of_pairs,
    range_row,
    rolling,
)
from udtw._kernels.cpu.simd import borrow, lanes, load, minimum, splat, store_bytes, where_greater
from udtw._kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on

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
def choice_row(w, codes, d, value, warp, at):
    """Where each cell of the diagonal is reached from; ties go to the corner, then up. ``at`` is an offset in codes."""
    corner_code, up_code = splat(w, w.dtype.type(CORNER)), splat(w, w.dtype.type(UP))
    left_code = splat(w, w.dtype.type(LEFT))
    for t in range(d.begin, d.end, lanes(w)):
        penalty = of_pairs(w, warp, t, d.pack)
        corner, up = load(w, value.far + t - d.pack), load(w, value.near + t - d.pack) + penalty
        code = where_greater(corner, up, up_code, corner_code)
        least = minimum(corner, up)
        store_bytes(codes, at + t, where_greater(least, load(w, value.near + t) + penalty, left_code, code))


@njit(**INNER)
def came_from(step, i, j):
    """Return the cell before (i, j) on a path that reached it by ``step``.

    Outside of the grid if the path starts there.
    """
    return i - (step != LEFT), j - (step != UP)


@njit(**INNER)
def write_path(codes, limits, choice, last, b, p, pack):
    """Copy the codes of the cells of pair b's path, from its last cell back."""
    i, j = last[0, b], last[1, b]
    while i >= 0 and j >= 0:
        choice[b, i, j] = codes[limits[2, i + j] + (i + 1) * pack + p]
        i, j = came_from(choice[b, i, j], i, j)


@njit(**OUTER)
def hard(pairs, queue, end, pack_size, unreachable, largest, w, limits, out, last, choice):
    """``out[b]`` = least path energy, ``last[:, b]`` = the cell in which that path ends.

    ``choice`` (B, N, M) uint8, if its size is not zero, gets CORNER, UP or LEFT in the cells of the path. It goes back
    from ``last`` to where the choice is CORNER in the first row or column.
    """
    pairs, queue, w, limits = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits)
    out, last, choice = borrow(out), borrow(last), borrow(choice)
    row = row_size(pairs, pack_size, lanes(w))
    at = hard_layout(row, pairs)
    if w.size < at.end:
        return at.end
    fill(w, at.alarm, at.alarm + lanes(w), w.dtype.type(0))
    fill(w, at.warp, at.warp + SLOT, w.dtype.type(0))
    fused = pairs.x.shape[2] > 0 and not uncertain(pairs) and pairs.warp.shape[0] == 0
    codes = np.empty(choice.shape[1] * choice.shape[2] * pack_size + lanes(w), np.uint8)
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
        set_limits(limits, pairs, first, pack, rows, columns)
        place_tables(limits, pack, 0, rows + columns - 1, 0, 0)
        fill(w, at.value, at.value + 3 * row, unreachable)
        for t in range(at.value + row, at.value + row + pack):  # the virtual cell (−1, −1), on diagonal −2 in row 1
            w[t] = 0
        out[first : first + pack] = largest
        soonest = soonest_end(pairs, first, pack)
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            value = rolling(at.value, row, k)
            steps = shifted(sequences, d, columns)
            if not fused:
                energy_rows(w, pairs, d, at, steps)
                range_row(w, d, at.energy, stretch, at.alarm)
            open_row(w, pairs, d, value.far, w.dtype.type(0))
            if choice.size > 0:
                choice_row(w, codes, d, value, at.warp, limits[2, k])
            guard_below(w, d, value.here, unreachable)
            if fused:
                distance_min_row(w, d, at, steps, pairs.x.shape[2], stretch, value)
            elif pairs.warp.shape[0] > 0:
                amerced_min_row(w, d, at.energy, at.warp, value)
            else:
                hard_min_row(w, d, at.energy, value)
            close_cells(w, value.here, d, pairs.mask, unreachable)
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
            if choice.size > 0:
                write_path(codes, limits, choice, last, first + p, p, pack)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)


@njit(**OUTER)
def list_cells(choice, last, out):
    """Pair, row and column of the cells of all paths, from each pair's ``last`` cell back; returns their number.

    ``out`` (3, K) must have room for B·(N + M − 1) cells.
    """
    count = 0
    for b in range(choice.shape[0]):
        i, j = last[0, b], last[1, b]
        while i >= 0 and j >= 0:
            out[0, count], out[1, count], out[2, count] = b, i, j
            count += 1
            i, j = came_from(choice[b, i, j], i, j)
    return count
