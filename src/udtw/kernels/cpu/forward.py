"""Forward sweep over packs of pairs: soft-min and expectations in O(N + M) memory per pair."""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw.kernels.cpu.pack import (
    apply_mask,
    borrow_pairs,
    cost_row,
    diagonal,
    field_row,
    guard_above,
    guard_below,
    load_sequences,
    next_pack,
    put_number,
    scatter,
    set_limits,
    shifted,
    theta_of,
    variances_usable,
)
from udtw.kernels.cpu.rows import (
    INNER,
    SLOT,
    STATE_ROWS,
    Moves,
    expectation_row,
    factor_row,
    fill,
    mean_row,
    mean_transition_row,
    pull_rest_row,
    pull_row,
    range_row,
    rolling,
    state_of,
    transition_row,
    usual_row,
    value_row,
)
from udtw.kernels.cpu.simd import borrow, lanes
from udtw.kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on
from udtw.problem import COST


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
def ends_on(length, b, k):
    """Whether the last cell of pair b lies on diagonal k."""
    return length[0, b] + length[1, b] - 2 == k


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
        row_kernel(w, d, at, state, to, pull, unreachable)
        apply_mask(w, state.power.here, d, pairs.mask, unreachable)
        guard_above(w, d, state.power.here, unreachable)
        # An unreachable power makes a predecessor's share exactly zero, but means may be taken about its own: that must
        # not be large, nor depend on the other pairs of the pack.
        if mean:
            apply_mask(w, state.excess.here, d, pairs.mask, w.dtype.type(0))
            guard_above(w, d, state.excess.here, w.dtype.type(0))
        if rest:
            guard_above(w, d, state.rest.here, w.dtype.type(0))

    return step


step_value = _step(value_row)
step_mean = _step(mean_row, mean=True)
step_transitions = _step(transition_row)
step_mean_transitions = _step(mean_transition_row, mean=True)
step_pulls = _step(pull_row, mean=True)
step_pulls_rest = _step(pull_rest_row, mean=True, rest=True)
step_usual = _step(usual_row, mean=True, rest=True)


@njit(**INNER)
def soft_min_at(w, state, position, gamma):
    """``−γ log Z`` of the cell at ``position`` of this diagonal."""
    return (w[state.power.here + position] - np.log2(w[state.weight.here + position])) * (np.log(2) * gamma)


@njit(**INNER)
def mean_cost_at(w, state, theta, position, gamma):
    """Prefix mean of C at ``position`` of this diagonal; ``theta`` is where the pair's θ lies."""
    mean = w[theta] * w[state.power.here + position] + w[state.excess.here + position]
    return mean * (np.log(2) * gamma)


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
        "cost", "variance", "field", "alarm", "to_up", "to_left", "to_corner", "scaled", "factor",
        "state",  # the rows of `rows.State`
        "means",  # three rolling rows for each field
        "sequences",
        "scale", "theta",  # slots
        "end",
    ],
)  # fmt: skip
"""Offsets in the scratch memory."""


@njit(**INNER)
def forward_layout(row, dim, fields):
    """The layout for sequences of ``dim`` features and so many fields beside C."""
    state = 9 * row
    means = state + STATE_ROWS * row
    sequences = means + 3 * fields * row
    scale = sequences + (2 * dim + 2) * row
    return ForwardLayout(
        row, 0, row, 2 * row, 3 * row, 4 * row, 5 * row, 6 * row, 7 * row, 8 * row, state, means, sequences, scale,
        scale + SLOT, scale + 2 * SLOT,
    )  # fmt: skip


@njit(**OUTER)
def forward(pairs, queue, end, pack_size, wanted, unreachable, largest, w, limits, out):
    """``out[b] = [soft_min, E[F] for F in wanted]`` for the pairs below ``end`` in the queue, ``pack_size`` at a time.

    ``wanted`` holds field numbers (see `udtw.problem`); ``w`` is float scratch, ``limits`` (3, N + M − 1) integer
    scratch.
    """
    pairs, queue, w, limits, out = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits), borrow(out)
    count = len(wanted)
    row = row_size(pairs, pack_size, lanes(w))
    at = forward_layout(row, pairs.x.shape[2], count)
    if w.size < at.end:
        return at.end
    to = Moves(at.to_up, at.to_left, at.to_corner)
    with_mean, others = False, False
    for f in range(count):
        with_mean |= wanted[f] == COST
        others |= wanted[f] != COST
    fill(w, at.alarm, at.alarm + lanes(w), w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        if not variances_usable(pairs, first, first + pack):
            return end_work(queue, end, BAD_VALUE)
        rows, columns = pack_shape(pairs.length, first, pack)
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        for p in range(pack):
            put_number(w, at.scale, p, pack, 1 / (np.log(2) * pairs.gamma[first + p]))
            put_number(w, at.theta, p, pack, theta_of(pairs, first + p))
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs.band, first, rows, columns)
        start_soft_min(w, at.state, row, pack, unreachable)
        fill(w, at.means, at.means + 3 * count * row, w.dtype.type(0))
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            state = state_of(at.state, row, k)
            cost_row(w, pairs, d, at, shifted(sequences, d, columns))
            range_row(w, d, at.cost, stretch, at.alarm)
            factor_row(w, d, at)
            if count == 0:
                step_value(w, pairs, d, at, state, to, to, unreachable)
            elif not others:
                step_mean(w, pairs, d, at, state, to, to, unreachable)
            elif with_mean:
                step_mean_transitions(w, pairs, d, at, state, to, to, unreachable)
            else:
                step_transitions(w, pairs, d, at, state, to, to, unreachable)
            for f in range(count):
                if wanted[f] != COST:
                    field_row(w, pairs, d, wanted[f], at)
                    range_row(w, d, at.field, stretch, at.alarm)
                    expectation_row(w, d, at.field, rolling(at.means + 3 * f * row, row, k), to)
            for p in range(pack):
                b = first + p
                if ends_on(pairs.length, b, k):
                    position = pairs.length[0, b] * pack + p
                    out[b, 0] = soft_min_at(w, state, position, pairs.gamma[b])
                    for f in range(count):
                        if wanted[f] == COST:
                            out[b, 1 + f] = mean_cost_at(w, state, at.theta + p, position, pairs.gamma[b])
                        else:
                            out[b, 1 + f] = w[rolling(at.means + 3 * f * row, row, k).here + position]
        if alarmed(w, at.alarm):
            return end_work(queue, end, BAD_VALUE)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)


@njit(**OUTER)
def transitions(pairs, queue, end, pack_size, unreachable, largest, w, limits, out):
    """``out[0], out[1], out[2]`` (3, B, N, M): probability of arriving from the corner, from above, from the left."""
    pairs, queue, w, limits, out = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits), borrow(out)
    row = row_size(pairs, pack_size, lanes(w))
    at = forward_layout(row, pairs.x.shape[2], 0)
    if w.size < at.end:
        return at.end
    to = Moves(at.to_up, at.to_left, at.to_corner)
    one = w.dtype.type(1)
    fill(w, at.alarm, at.alarm + lanes(w), w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        if not variances_usable(pairs, first, first + pack):
            return end_work(queue, end, BAD_VALUE)
        rows, columns = pack_shape(pairs.length, first, pack)
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        for p in range(pack):
            put_number(w, at.scale, p, pack, 1 / (np.log(2) * pairs.gamma[first + p]))
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs.band, first, rows, columns)
        start_soft_min(w, at.state, row, pack, unreachable)
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            cost_row(w, pairs, d, at, shifted(sequences, d, columns))
            range_row(w, d, at.cost, stretch, at.alarm)
            factor_row(w, d, at)
            step_transitions(w, pairs, d, at, state_of(at.state, row, k), to, to, unreachable)
            scatter(w, to.corner, d, out[0], pairs.length, one)
            scatter(w, to.up, d, out[1], pairs.length, one)
            scatter(w, to.left, d, out[2], pairs.length, one)
        if alarmed(w, at.alarm):
            return end_work(queue, end, BAD_VALUE)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)
