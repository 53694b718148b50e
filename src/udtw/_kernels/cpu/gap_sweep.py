"""Sweeps over packs of pairs whose steps may stay unmatched: free energy, coupling and all gradients.

As in `backward`, tables exist only for a stretch of diagonals. The borders outside of the grid, where nothing of one
series has been consumed, are not part of the sweep: what leaving out the first steps costs is written beside each
diagonal. A band is a mask here, since left-out steps may lie anywhere.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw._kernels.cpu.backward import collect_gradients, hand_back, summed, visits_beyond
from udtw._kernels.cpu.forward import alarmed, pack_shape, row_size, stretch_of, swift_factor_row, usable
from udtw._kernels.cpu.gap_rows import (
    GAP_STATE_ROWS,
    GapSweep,
    Shares,
    gap_back_row,
    gap_featured_row,
    gap_row,
    gap_state_of,
    gap_swift_price_row,
    gap_swift_row,
)
from udtw._kernels.cpu.gradient_rows import Sweep, tilt_row
from udtw._kernels.cpu.layout import Mode, borrow_gradients, make_layout, place_tables, put_numbers
from udtw._kernels.cpu.match_sums import collect_matches
from udtw._kernels.cpu.pack import (
    borrow_pairs,
    by_feature,
    close_cells,
    diagonal,
    energy_rows,
    guard_above,
    guard_below,
    likely,
    load_sequences,
    next_pack,
    scatter,
    set_limits,
    shifted,
    simple,
)
from udtw._kernels.cpu.pair_numbers import constant_energy, log_level, put_number
from udtw._kernels.cpu.rows import INNER, SLOT, Moves, Steps, copy_row, factor_row, fill, range_row, rolling_back
from udtw._kernels.cpu.simd import borrow, lanes
from udtw._kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on

UP_PRICE, LEFT_PRICE, SKIP_PRICE, OPEN_PRICE = range(4)
"""Rows of ``gaps``: what the steps (1, 0) and (0, 1), a left-out step and a run of them cost."""
FREE_ENERGY, UPS, LEFTS, LEFT_OUT, RUNS = range(5)
"""Rows of ``found``: the free energy, and the means of what is priced."""
TABLES = 7
VALUES, PROBABILITIES, GRADIENTS, PRICED = range(4)
"""What is wanted: the free energy alone, π and the means of what is priced, gradients in the data, or in prices too."""

GapLayout = namedtuple(
    "GapLayout",
    [
        "state",
        "left_x", "left_y",  # probabilities: rolling, three rows each
        "ups", "lefts", "runs", "matches",  # sums over a row of the grid
        "up_power", "up_factor", "left_power", "left_factor",  # slots
        "skip_power", "skip_factor", "open_power", "open_factor",
        "saved",
        "tables",
        "size",
        "end",
    ],
)  # fmt: skip
"""Offsets in the scratch memory, behind those of `layout.Layout`."""


@njit(**INNER)
def gap_layout(begin, row, saves, size):
    probabilities = begin + GAP_STATE_ROWS * row
    sums = probabilities + 6 * row
    slots = sums + 4 * row
    saved = slots + 8 * SLOT
    tables = saved + GAP_STATE_ROWS * saves * row
    return GapLayout(
        begin, probabilities, probabilities + 3 * row,
        sums, sums + row, sums + 2 * row, sums + 3 * row,
        slots, slots + SLOT, slots + 2 * SLOT, slots + 3 * SLOT,
        slots + 4 * SLOT, slots + 5 * SLOT, slots + 6 * SLOT, slots + 7 * SLOT,
        saved, tables, size, tables + TABLES * size,
    )  # fmt: skip


@njit(**INNER)
def shares_at(table, size):
    return Shares(
        table, table + size, table + 2 * size, table + 3 * size, table + 4 * size, table + 5 * size, table + 6 * size
    )


@njit(**INNER)
def put_gap_prices(w, slots, pairs, gaps, first, pack):
    for p in range(pack):
        scale = 1 / (np.log(2) * pairs.gamma[first + p])
        for price, power, factor in (
            (UP_PRICE, slots.up_power, slots.up_factor),
            (LEFT_PRICE, slots.left_power, slots.left_factor),
            (SKIP_PRICE, slots.skip_power, slots.skip_factor),
            (OPEN_PRICE, slots.open_power, slots.open_factor),
        ):
            bits = gaps[price, first + p] * scale
            put_number(w, power, p, pack, np.rint(bits))
            put_number(w, factor, p, pack, 2.0 ** (np.rint(bits) - bits))


Run = namedtuple("Run", ["weight", "power", "skip_weight", "skip_power"])
"""The weight of a run of left-out steps from the beginning of a series, ``weight·2^(−power)``, and of one more step."""


@njit(**INNER)
def begin_run(run, pairs, gaps, first, pack):
    """Make the runs of a pack one step long."""
    for p in range(pack):
        scale = 1 / (np.log(2) * pairs.gamma[first + p])
        bits = (gaps[OPEN_PRICE, first + p] + gaps[SKIP_PRICE, first + p]) * scale
        run.power[p] = np.rint(bits)
        run.weight[p] = 2.0 ** (run.power[p] - bits)
        bits = gaps[SKIP_PRICE, first + p] * scale
        run.skip_power[p] = np.rint(bits)
        run.skip_weight[p] = 2.0 ** (run.skip_power[p] - bits)


@njit(**INNER)
def lengthen(run, p):
    """Make the run of pair p one step longer."""
    run.power[p] += run.skip_power[p]
    run.weight[p] *= run.skip_weight[p]
    if run.weight[p] < 0.75:
        run.weight[p], run.power[p] = 2 * run.weight[p], run.power[p] + 1
    elif run.weight[p] > 1.5:
        run.weight[p], run.power[p] = 0.5 * run.weight[p], run.power[p] - 1


@njit(**INNER)
def put_run(w, number, position, run, p):
    """Write the run of pair p at a position of this diagonal's rows."""
    w[number.weight.here + position], w[number.power.here + position] = run.weight[p], run.power[p]


@njit(**INNER)
def fill_pack(w, at, pack):
    """Zero for all pairs."""
    for p in range(pack):
        w[at + p] = 0


@njit(**INNER)
def start_gaps(w, at, row, run, pack, unreachable):
    """Nothing is reachable but the start, (−1, −1), and its neighbors, to which a step is left out."""
    for number in gap_state_of(at, row, -1):
        fill(w, number.weight.here, number.weight.here + row, w.dtype.type(1))
        fill(w, number.weight.near, number.weight.near + row, w.dtype.type(1))
        fill(w, number.power.here, number.power.here + row, unreachable)
        fill(w, number.power.near, number.power.near + row, unreachable)
    before = gap_state_of(at, row, -2).any
    fill(w, before.weight.here, before.weight.here + row, w.dtype.type(1))
    fill(w, before.power.here, before.power.here + row, unreachable)
    state = gap_state_of(at, row, -1)
    fill(w, state.any.power.far, state.any.power.far + row, unreachable)
    fill(w, state.any.weight.far, state.any.weight.far + row, w.dtype.type(1))
    for p in range(pack):
        w[before.power.here + p] = 0
        put_run(w, state.any, p, run, p)
        put_run(w, state.any, pack + p, run, p)
        put_run(w, state.open, pack + p, run, p)


@njit(**INNER)
def step_gaps(w, pairs, run, d, at, slots, state, to, unreachable):
    """One diagonal of `gap_row`, with the borders that its neighbors need."""
    close_cells(w, at.scaled, d, pairs.mask, unreachable)
    for number in state:
        guard_below(w, d, number.power.here, unreachable)
    gap_row(w, d, at, slots, state, to, unreachable)
    for number in state:
        guard_above(w, d, number.power.here, unreachable)
    for p in range(d.pack):
        lengthen(run, p)
        if d.low == 0:  # (−1, k + 1): all of these k + 2 steps of y are left out
            put_run(w, state.any, p, run, p)
        if d.high == d.k + 1:  # (k + 1, −1)
            put_run(w, state.any, d.end + p, run, p)
            put_run(w, state.open, d.end + p, run, p)
            # On the way back nothing leads out of the grid: the last vector of a diagonal may cover that place.
            w[to.corner + d.end - d.pack + p] = 0


@njit(**OUTER)
def gap_sweep(
    pairs, gaps, queue, end, pack_size, segment, factors, unreachable, largest, w, limits, grads, found, wanted, tail
):  # fmt: skip
    """``found`` (5, B), and for the ``wanted`` the coupling, `collect_matches` or gradients of the free energy.

    ``pairs`` have no band and no relaxed ends; ``gaps`` (4, B) are the prices, ``factors`` (6, B) those of a loss that
    is the free energy. The rest is as in `backward.backward`.
    """
    pairs, gaps, queue, grads = borrow_pairs(pairs), borrow(gaps), borrow(queue), borrow_gradients(grads)
    factors, w, limits, found = borrow(factors), borrow(w), borrow(limits), borrow(found)
    wide, zero = lanes(w), w.dtype.type(0)
    row = row_size(pairs, pack_size, wide)
    shortest = min(max(pairs.x.shape[1], pairs.cost.shape[1]), max(pairs.y.shape[1], pairs.cost.shape[2]))
    segment = min(segment, limits.shape[1])
    saves = (limits.shape[1] - 1) // segment
    size = ((segment + 2) * shortest * pack_size + 2 * row) // wide * wide + wide
    at = make_layout(row, pairs, 0, 0)
    slots = gap_layout(at.end, row, saves, size)
    if w.size < slots.end:
        return slots.end
    by_gamma = grads.gamma.size > 0
    quick = likely(pairs) and simple(pairs) and (by_feature(pairs) or pairs.x.shape[2] == 1)
    swift = quick and wanted >= GRADIENTS and not by_gamma
    mode = Mode(
        False, likely(pairs), False, False, False, False, wanted >= GRADIENTS, False, swift, quick, False, False
    )
    soft_min = np.zeros(pack_size)
    run = Run(np.zeros(pack_size), np.zeros(pack_size), np.zeros(pack_size), np.zeros(pack_size))
    saved_runs = np.zeros((2, saves + 1, pack_size))
    summed_rows = Steps(at.grad_x, at.grad_y, at.grad_var_x, at.grad_var_y)
    nowhere = Moves(at.tables, at.tables, at.tables)
    fill(w, at.alarm, at.alarm + wide, zero)
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        diagonals = rows + columns - 1
        last_segment = (diagonals - 1) // segment
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        if not usable(w, pairs, at, sequences, first, pack, rows, columns, unreachable):
            return end_work(queue, end, BAD_VALUE)
        put_numbers(w, at, pairs, sequences, mode, factors, first, pack, rows, columns)
        put_gap_prices(w, slots, pairs, gaps, first, pack)
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs, first, pack, rows, columns)
        begin_run(run, pairs, gaps, first, pack)
        start_gaps(w, slots.state, row, run, pack, unreachable)
        fill(w, at.coupling, at.adjoint + 3 * row, zero)
        fill(w, slots.left_x, slots.matches + row, zero)
        fill(w, at.tilt, at.sequences, zero)
        fill(w, at.seed, at.seed + row, zero)
        for s in range(last_segment + 1, -1, -1):
            saving = s > last_segment
            if s < last_segment:
                copy_row(w, 0, GAP_STATE_ROWS * row, slots.saved + s * GAP_STATE_ROWS * row, slots.state)
                run.weight[:], run.power[:] = saved_runs[0, s], saved_runs[1, s]
            start, done = (0, last_segment * segment) if saving else (s * segment, min((s + 1) * segment, diagonals))
            ahead = done if saving else min(done + 2, diagonals)
            if not saving:
                place_tables(limits, pack, start, ahead, slots.tables, row)
            for k in range(start, ahead):
                if saving and k % segment == 0:
                    copy_row(w, 0, GAP_STATE_ROWS * row, slots.state, slots.saved + k // segment * GAP_STATE_ROWS * row)
                    saved_runs[0, k // segment], saved_runs[1, k // segment] = run.weight, run.power
                d = diagonal(limits, k, pack, first)
                steps = shifted(sequences, d, columns)
                if quick:
                    swift_factor_row(w, pairs, d, at, steps, stretch)
                else:
                    energy_rows(w, pairs, d, at, steps)
                    range_row(w, d, at.energy, stretch, at.alarm)
                    factor_row(w, d, at)
                state = gap_state_of(slots.state, row, k)
                table = slots.tables + row - d.begin if saving else limits[2, k]
                step_gaps(w, pairs, run, d, at, slots, state, shares_at(table, slots.size), unreachable)
                for p in range(pack if s >= last_segment else 0):
                    n, m = pairs.length[0, first + p], pairs.length[1, first + p]
                    if k == n + m - 2:
                        weight = np.float64(w[state.any.weight.here + n * pack + p])
                        bits = np.float64(w[state.any.power.here + n * pack + p]) - np.log2(weight)
                        soft_min[p] = bits * (np.log(2) * pairs.gamma[first + p])
            if saving:
                continue
            if alarmed(w, at.alarm):
                return end_work(queue, end, BAD_VALUE)
            if wanted == VALUES:
                break
            for k in range(done - 1, start - 1, -1):
                d = diagonal(limits, k, pack, first)
                steps, into = shifted(sequences, d, columns), shifted(summed_rows, d, columns)
                for p in range(pack):
                    n, m = pairs.length[0, first + p], pairs.length[1, first + p]
                    if k + 3 >= n + m:
                        w[at.seed + n * pack + p] = 1 if k == n + m - 2 else 0
                match = rolling_back(at.coupling, row, k)
                sweep = GapSweep(
                    match, rolling_back(slots.left_x, row, k), rolling_back(slots.left_y, row, k),
                    shares_at(limits[2, k], size), shares_at(limits[2, min(k + 1, diagonals - 1)], size),
                    shares_at(limits[2, min(k + 2, diagonals - 1)], size), at.seed,
                )  # fmt: skip
                if not swift:
                    gap_back_row(w, d, at, slots, sweep, steps, 0, into)
                elif by_feature(pairs):
                    gap_featured_row(w, d, at, slots, sweep, steps, pairs.x.shape[2], into)
                elif wanted == PRICED:
                    gap_swift_price_row(w, d, at, slots, sweep, steps, 1, into)
                else:
                    gap_swift_row(w, d, at, slots, sweep, steps, 1, into)
                guard_above(w, d, sweep.match.here, zero)
                guard_above(w, d, sweep.left_x.here, zero)
                guard_above(w, d, sweep.left_y.here, zero)
                if d.high == k + 1:  # as for `step_gaps`
                    fill_pack(w, sweep.left_y.here + d.end - pack, pack)
                if grads.coupling.size > 0:
                    scatter(w, match.here, d, grads.coupling, pairs.length, w.dtype.type(1))
                if grads.match.size > 0:
                    collect_matches(w, d, match.here, limits[2, k] + size, pairs.length, grads.match, tail)
                if wanted >= GRADIENTS and not swift:
                    energy_rows(w, pairs, d, at, steps)  # for γ, whose gradient has no mode of its own here
                    plain = Sweep(match, rolling_back(at.adjoint, row, k), nowhere, nowhere, at.seed)
                    collect_gradients(w, pairs, grads, d, at, mode, plain, steps, into)
                    tilt_row(w, d, at, plain, at.energy, at.tilt)
                    if mode.likely:
                        tilt_row(w, d, at, plain, at.log, at.log_tilt)
        if wanted >= GRADIENTS:
            hand_back(w, pairs, grads, at, mode, factors, sequences, first, pack, rows, columns, soft_min)
        for p in range(pack):
            b = first + p
            found[FREE_ENERGY, b] = soft_min[p] + constant_energy(w, at, pairs, b, p)
            if wanted in (VALUES, GRADIENTS):
                continue
            ups, lefts = summed(w, slots.ups, pack, rows, p), summed(w, slots.lefts, pack, rows, p)
            matches = summed(w, slots.matches, pack, rows, p)
            # A match enters a row unless it came from the left, and a column unless from above.
            left_out = pairs.length[0, b] + pairs.length[1, b] - 2 * matches + ups + lefts
            # The first run begins outside of the grid, unless the first steps are matched with each other.
            runs = summed(w, slots.runs, pack, rows, p) + 1 - w[at.coupling + pack + p]
            found[UPS, b], found[LEFTS, b], found[LEFT_OUT, b], found[RUNS, b] = ups, lefts, left_out, runs
            if grads.beta.size > 0 and mode.likely:
                beyond = visits_beyond(w, pairs, at, factors, b, p)
                grads.beta[b] = summed(w, at.log_tilt, pack, rows, p) - log_level(pairs, b) * beyond
            if by_gamma:
                priced = ups * gaps[UP_PRICE, b] + lefts * gaps[LEFT_PRICE, b]
                priced += left_out * gaps[SKIP_PRICE, b] + runs * gaps[OPEN_PRICE, b]
                mean = summed(w, at.tilt, pack, rows, p) + priced
                grads.gamma[b] = (soft_min[p] - mean) / pairs.gamma[b]
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)
