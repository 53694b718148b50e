"""Forward sweep over packs of pairs: soft-min and expectations in O(N + M) memory per pair."""

import math
from collections import namedtuple

import numpy as np
from numba import njit

from udtw._engine.problem import COST, WARPS
from udtw._kernels.cpu.ends import (
    DEEPEST,
    SIDES,
    end_row,
    mean_cost_at,
    open_row,
    open_starts,
    settle,
    soonest_end,
    z_at,
)
from udtw._kernels.cpu.pack import (
    borrow_pairs,
    by_feature,
    close_cells,
    diagonal,
    energy_rows,
    field_row,
    guard_above,
    guard_below,
    likely,
    load_sequences,
    next_pack,
    scatter,
    sequence_rows,
    set_limits,
    shifted,
    simple,
)
from udtw._kernels.cpu.pair_numbers import (
    constant_energy,
    joint_variances_usable,
    prices_usable,
    put_number,
    put_prices,
    theta_of,
)
from udtw._kernels.cpu.rows import (
    INNER,
    SLOT,
    STATE_ROWS,
    Moves,
    expectation_row,
    factor_row,
    featured_factor_row,
    fill,
    likely_factor_row,
    mean_row,
    mean_transition_row,
    positive_row,
    pull_rest_row,
    pull_row,
    quick_row,
    range_row,
    rest_row,
    rolling,
    shared_factor_row,
    state_of,
    transition_row,
    usual_row,
    value_row,
    warped_quick_row,
    warped_rest_row,
    warped_transition_row,
    warped_value_row,
)
from udtw._kernels.cpu.simd import borrow, lanes
from udtw._kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on


@njit(**INNER)
def pack_shape(length, first, pack):
    """Rows and columns of the largest pair of the pack."""
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
def start_soft_min(w, state, row, pack, unreachable):
    """Nothing is reachable but a virtual cell (−1, −1), the corner predecessor of (0, 0)."""
    power = state + 3 * row
    fill(w, state, power, w.dtype.type(1))
    fill(w, power, power + 3 * row, unreachable)
    fill(w, power + 3 * row, power + 9 * row, w.dtype.type(0))
    for t in range(power + row, power + row + pack):  # diagonal −2 lies in row −2 mod 3 = 1; only diagonal 0 reads it
        w[t] = 0


def _step(row_kernel, mean=False, rest=False):
    """One diagonal of a row kernel of `rows`, with the guards that its neighbours need."""

    @njit(**INNER)
    def step(w, pairs, d, at, state, to, pull, unreachable):
        guard_below(w, d, state.power.here, unreachable)
        if pairs.band.shape[1] > 0:  # there a diagonal may begin above a cell of an earlier one
            if mean:
                guard_below(w, d, state.excess.here, w.dtype.type(0))
            if rest:
                guard_below(w, d, state.rest.here, w.dtype.type(0))
        row_kernel(w, d, at, state, to, pull, unreachable)
        close_cells(w, state.power.here, d, pairs.mask, unreachable)
        guard_above(w, d, state.power.here, unreachable)
        # An unreachable power makes a predecessor's share exactly zero, but means may be taken about its own: that must
        # not be large, nor depend on the other pairs of the pack.
        if mean:
            close_cells(w, state.excess.here, d, pairs.mask, w.dtype.type(0))
            guard_above(w, d, state.excess.here, w.dtype.type(0))
        if rest:
            close_cells(w, state.rest.here, d, pairs.mask, w.dtype.type(0))
            guard_above(w, d, state.rest.here, w.dtype.type(0))

    return step


step_value = _step(value_row)
step_mean = _step(mean_row, mean=True)
step_transitions = _step(transition_row)
step_mean_transitions = _step(mean_transition_row, mean=True)
step_pulls = _step(pull_row, mean=True)
step_pulls_rest = _step(pull_rest_row, mean=True, rest=True)
step_usual = _step(usual_row, mean=True, rest=True)
step_rest = _step(rest_row, rest=True)
step_quick = _step(quick_row)
step_warped_quick = _step(warped_quick_row)
step_warped_value = _step(warped_value_row)
step_warped_transitions = _step(warped_transition_row)
step_warped_rest = _step(warped_rest_row, rest=True)


@njit(**INNER)
def swift_factor_row(w, pairs, d, at, steps, stretch):
    """Return the factors of the free energy where the pairs are `simple`."""
    if by_feature(pairs):
        featured_factor_row(w, d, at, steps, pairs.x.shape[2], stretch, 0)
    elif pairs.x.shape[2] > 1:
        shared_factor_row(w, d, at, steps, pairs.x.shape[2], stretch, 0)
    else:
        likely_factor_row(w, d, at, steps, 1, stretch, 0)


@njit(**INNER)
def alarmed(w, alarm):
    """Whether `range_row` met a value out of range."""
    for t in range(alarm, alarm + lanes(w)):
        if w[t] != 0:  # NaN is unequal to everything
            return True
    return False


ForwardLayout = namedtuple(
    "ForwardLayout",
    [
        "row",  # numbers in a row
        "cost", "variance", "field", "alarm", "to_up", "to_left", "to_corner", "scaled", "factor", "log",
        "energy",  # the row of C where that is the energy
        "state",  # the rows of `rows.State`
        "means",  # three rolling rows for each field
        "sequences",
        "scale", "theta", "beta", "kappa", "warp_power", "warp_factor", "zero",  # slots
        "end",
    ],
)  # fmt: skip
"""Offsets in the scratch memory."""


@njit(**INNER)
def forward_layout(row, pairs, fields):
    """Return the layout for the pairs and so many fields beside C."""
    state = 11 * row
    means = state + STATE_ROWS * row
    sequences = means + 3 * fields * row
    scale = sequences + sequence_rows(pairs) * row
    energy = 10 * row if likely(pairs) else 0
    return ForwardLayout(
        row, 0, row, 2 * row, 3 * row, 4 * row, 5 * row, 6 * row, 7 * row, 8 * row, 9 * row, energy,
        state, means, sequences, scale, scale + SLOT, scale + 2 * SLOT,
        scale + 3 * SLOT, scale + 4 * SLOT, scale + 5 * SLOT, scale + 6 * SLOT, scale + 7 * SLOT,
    )  # fmt: skip


@njit(**INNER)
def usable(w, pairs, at, steps, first, pack, rows, columns, unreachable):
    """Whether the kernels can compute with the variances and prices of the pack, whose ``steps`` are loaded."""
    if pairs.var_x.shape[0] > 0:
        for f in range(0, pairs.var_x.shape[2] * at.row, at.row):
            positive_row(w, pack, rows, steps.half_var_x + f, at.alarm)
            positive_row(w, pack, columns, steps.half_var_y + f, at.alarm)
    last = first + pack
    fit = joint_variances_usable(pairs, first, last) and prices_usable(pairs, first, last, rows, columns, unreachable)
    return fit and not alarmed(w, at.alarm)


@njit(**OUTER)
def forward(pairs, queue, end, pack_size, wanted, unreachable, largest, w, limits, out):
    """``out[b] = [soft_min, E[F] for F in wanted]`` for the pairs below ``end`` in the queue, ``pack_size`` at a time.

    ``wanted`` holds field numbers (see `problem`); ``w`` is float scratch, ``limits`` (3 or more, N + M − 1)
    integer scratch, see `pack.set_limits`.
    """
    pairs, queue, w, limits, out = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits), borrow(out)
    count = len(wanted)
    row = row_size(pairs, pack_size, lanes(w))
    at = forward_layout(row, pairs, count)
    if w.size < at.end:
        return at.end
    to = Moves(at.to_up, at.to_left, at.to_corner)
    warped = pairs.warp.shape[0] > 0
    # The mean of C is held relative to the exponent of Z, which is possible only where C is all of the energy.
    plain = not warped and not likely(pairs)
    swift = count == 0 and likely(pairs) and simple(pairs)
    with_mean, others = False, False
    for f in range(count):
        with_mean |= plain and wanted[f] == COST
        others |= not plain or wanted[f] != COST
    fill(w, at.alarm, at.alarm + lanes(w), w.dtype.type(0))
    fill(w, at.zero, at.zero + SLOT, w.dtype.type(0))
    found = np.zeros((2 + count, pack_size))  # for each pair: weight and power of all ends so far, and means
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        if not usable(w, pairs, at, sequences, first, pack, rows, columns, unreachable):
            return end_work(queue, end, BAD_VALUE)
        put_prices(w, at, pairs, sequences, first, pack, rows, columns)
        for p in range(pack):
            put_number(w, at.theta, p, pack, theta_of(pairs, first + p) if plain else 0)
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs, first, pack, rows, columns)
        start_soft_min(w, at.state, row, pack, unreachable)
        fill(w, at.means, at.means + 3 * count * row, w.dtype.type(0))
        found[:] = 0
        soonest = soonest_end(pairs, first, pack)
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            state = state_of(at.state, row, k)
            steps = shifted(sequences, d, columns)
            if swift:
                swift_factor_row(w, pairs, d, at, steps, stretch)
            else:
                energy_rows(w, pairs, d, at, steps)
                range_row(w, d, at.energy, stretch, at.alarm)
                factor_row(w, d, at)
            open_starts(w, pairs, d, state, at.zero)
            if warped:
                if count == 0:
                    step_warped_value(w, pairs, d, at, state, to, to, unreachable)
                else:
                    step_warped_transitions(w, pairs, d, at, state, to, to, unreachable)
            elif count == 0:
                step_value(w, pairs, d, at, state, to, to, unreachable)
            elif not others:
                step_mean(w, pairs, d, at, state, to, to, unreachable)
            elif with_mean:
                step_mean_transitions(w, pairs, d, at, state, to, to, unreachable)
            else:
                step_transitions(w, pairs, d, at, state, to, to, unreachable)
            for f in range(count):
                if not plain or wanted[f] != COST:
                    field_row(w, pairs, d, wanted[f], at, steps)
                    range_row(w, d, at.field, stretch, at.alarm)
                    mean = rolling(at.means + 3 * f * row, row, k)
                    open_row(w, pairs, d, mean.far, w.dtype.type(k if wanted[f] == WARPS else 0))
                    expectation_row(w, d, at.field, mean, to)
            for p in range(pack if k >= soonest else 0):
                for side in range(SIDES):
                    i = end_row(pairs, d, first + p, side)
                    position = (max(i, 0) + 1) * pack + p
                    weight, power = z_at(w, state, position, unreachable)
                    if i >= 0 and power < np.inf:
                        share = join_end(found, p, weight, power)
                        for f in range(count):
                            if plain and wanted[f] == COST:
                                value = mean_cost_at(w, state, at.theta + p, position, pairs.gamma[first + p])
                            else:
                                value = w[rolling(at.means + 3 * f * row, row, k).here + position]
                                if wanted[f] == WARPS:
                                    value -= k + 2
                            found[2 + f, p] += share * (value - found[2 + f, p])
        if alarmed(w, at.alarm):
            return end_work(queue, end, BAD_VALUE)
        for p in range(pack):
            b = first + p
            bits = found[1, p] - np.log2(found[0, p])
            out[b, 0] = bits * np.log(2) * pairs.gamma[b] + constant_energy(w, at, pairs, b, p)
            for f in range(count):
                out[b, 1 + f] = found[2 + f, p]
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)


@njit(**INNER)
def join_end(found, p, weight, power):
    """Add an end with ``Z = weight·2^(−power)`` to those of pair p; returns its share of all so far."""
    if found[0, p] == 0:
        found[0, p], found[1, p] = weight, power
        return 1.0
    lag = found[1, p] - power
    if lag > 0:  # the new end is the larger one
        found[0, p], found[1, p] = math.ldexp(found[0, p], -int(min(lag, DEEPEST))), power
    else:
        weight = math.ldexp(weight, -int(min(-lag, DEEPEST)))
    found[0, p] += weight
    return weight / found[0, p]


@njit(**OUTER)
def transitions(pairs, queue, end, pack_size, unreachable, largest, w, limits, out, ends):
    """``out[0], out[1], out[2]`` (3, B, N, M): probability of arriving from the corner, from above, from the left.

    ``ends`` (B, 2, N + M − 1): probability that a path ends in the last column, or in the last row, by diagonal.
    """
    pairs, queue, w, limits = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits)
    out, ends = borrow(out), borrow(ends)
    row = row_size(pairs, pack_size, lanes(w))
    at = forward_layout(row, pairs, 0)
    if w.size < at.end:
        return at.end
    to = Moves(at.to_up, at.to_left, at.to_corner)
    one = w.dtype.type(1)
    fill(w, at.alarm, at.alarm + lanes(w), w.dtype.type(0))
    fill(w, at.zero, at.zero + SLOT, w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        if not usable(w, pairs, at, sequences, first, pack, rows, columns, unreachable):
            return end_work(queue, end, BAD_VALUE)
        put_prices(w, at, pairs, sequences, first, pack, rows, columns)
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs, first, pack, rows, columns)
        start_soft_min(w, at.state, row, pack, unreachable)
        weights = np.zeros((pack, SIDES, rows + columns - 1))
        powers, means = np.full(weights.shape, np.inf), np.zeros(weights.shape)
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            state = state_of(at.state, row, k)
            energy_rows(w, pairs, d, at, shifted(sequences, d, columns))
            range_row(w, d, at.energy, stretch, at.alarm)
            factor_row(w, d, at)
            open_starts(w, pairs, d, state, at.zero)
            if pairs.warp.shape[0] > 0:
                step_warped_transitions(w, pairs, d, at, state, to, to, unreachable)
            else:
                step_transitions(w, pairs, d, at, state, to, to, unreachable)
            scatter(w, to.corner, d, out[0], pairs.length, one)
            scatter(w, to.up, d, out[1], pairs.length, one)
            scatter(w, to.left, d, out[2], pairs.length, one)
            for p in range(pack):
                for side in range(SIDES):
                    i = end_row(pairs, d, first + p, side)
                    if i >= 0:
                        weights[p, side, k], powers[p, side, k] = z_at(w, state, (i + 1) * pack + p, unreachable)
        if alarmed(w, at.alarm):
            return end_work(queue, end, BAD_VALUE)
        for p in range(pack):
            settle(weights, powers, means, p)
            ends[first + p, :, : rows + columns - 1] = weights[p]
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)
