"""Forward sweep over packs of pairs: soft-min and expectations in O(N + M) memory per pair."""

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
    theta_of,
    variances_usable,
)
from udtw.kernels.cpu.rows import INNER, SLOT, expectation_row, factor_row, fill, range_row, soft_min_row
from udtw.kernels.cpu.simd import borrow, lanes
from udtw.kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on
from udtw.problem import COST


@njit(**INNER)
def pack_shape(length, first, pack):
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
    for t in range(power + row, power + row + pack):  # diagonal −2 lies in row −2 mod 3 = 1; only diagonal 0 looks
        w[t] = 0


@njit(**INNER)
def step_soft_min(
    w, pairs, d, row, scaled, factor, state, unreachable, keep, to_up, to_left, to_corner, with_mean, theta,
    with_pulls, by_cost, pull_up, pull_left, pull_corner, with_rest, bounded, rest_field,
):  # fmt: skip
    """One diagonal of `soft_min_row` in the rolling rows of ``state``: three each of weight, power, excess and rest."""
    r, r1, r2 = state + d.k % 3 * row, state + (d.k + 2) % 3 * row, state + (d.k + 1) % 3 * row
    power, excess, rest = 3 * row, 6 * row, 9 * row
    guard_below(w, d, power + r, unreachable)
    soft_min_row(
        w, d.begin, d.end, d.pack, scaled, factor, r, r1, r2, power + r, power + r1, power + r2, unreachable,
        keep, to_up, to_left, to_corner, with_mean, theta, excess + r, excess + r1, excess + r2,
        with_pulls, by_cost, pull_up, pull_left, pull_corner,
        with_rest, bounded, rest_field, rest + r, rest + r1, rest + r2,
    )  # fmt: skip
    apply_mask(w, power + r, d, pairs.mask, unreachable)
    guard_above(w, d, power + r, unreachable)
    # An unreachable power makes a predecessor's share exactly zero, but means may be taken about its own: that must
    # not be large, nor depend on the other pairs of the pack.
    if with_mean:
        apply_mask(w, excess + r, d, pairs.mask, w.dtype.type(0))
        guard_above(w, d, excess + r, w.dtype.type(0))
    if with_rest:
        guard_above(w, d, rest + r, w.dtype.type(0))


@njit(**INNER)
def soft_min_at(w, state, row, k, position, gamma):
    """``−γ log Z`` of the cell at ``position`` of diagonal k."""
    t = state + k % 3 * row + position
    return (w[3 * row + t] - np.log2(w[t])) * (np.log(2) * gamma)


@njit(**INNER)
def mean_cost_at(w, state, theta, row, k, position, gamma):
    """Prefix mean of C at ``position`` of diagonal k; ``theta`` is where the pair's θ lies."""
    t = state + k % 3 * row + position
    return (w[theta] * w[3 * row + t] + w[6 * row + t]) * (np.log(2) * gamma)


@njit(**INNER)
def step_expectation(w, d, row, field, mean, to_up, to_left, to_corner):
    r, r1, r2 = d.k % 3 * row, (d.k + 2) % 3 * row, (d.k + 1) % 3 * row
    expectation_row(w, d.begin, d.end, d.pack, field, mean + r, mean + r1, mean + r2, to_up, to_left, to_corner)


@njit(**INNER)
def alarmed(w, alarm):
    for t in range(alarm, alarm + lanes(w)):
        if w[t] != 0:  # NaN is unequal to everything
            return True
    return False


@njit(**OUTER)
def forward(pairs, queue, end, pack_size, wanted, unreachable, largest, w, limits, out):
    """``out[b] = [soft_min, E[F] for F in wanted]`` for the pairs below ``end`` in the queue, ``pack_size`` at a time.

    ``wanted`` holds field numbers (see `pack`); ``w`` is float scratch, ``limits`` (3, N + M − 1) integer scratch.
    """
    pairs, queue, w, limits, out = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits), borrow(out)
    count = len(wanted)
    row = row_size(pairs, pack_size, lanes(w))
    sequences = (21 + 3 * count) * row
    scale = sequences + (2 * pairs.x.shape[2] + 2) * row
    theta = scale + SLOT
    need = theta + SLOT
    if w.size < need:
        return need
    cost, variance, field, alarm = 0, row, 2 * row, 3 * row
    to_up, to_left, to_corner = 4 * row, 5 * row, 6 * row
    scaled, factor = 7 * row, 8 * row
    state, means = 9 * row, 21 * row
    with_mean, others = False, False
    for f in range(count):
        with_mean |= wanted[f] == COST
        others |= wanted[f] != COST
    fill(w, alarm, alarm + lanes(w), w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        if not variances_usable(pairs, first, first + pack):
            return end_work(queue, end, BAD_VALUE)
        rows, columns = pack_shape(pairs.length, first, pack)
        xs, ys, var_x, var_y = load_sequences(w, sequences, pairs, row, first, pack, rows, columns)
        for p in range(pack):
            put_number(w, scale, p, pack, 1 / (np.log(2) * pairs.gamma[first + p]))
            put_number(w, theta, p, pack, theta_of(pairs, first + p))
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs.band, first, rows, columns)
        start_soft_min(w, state, row, pack, unreachable)
        fill(w, means, means + 3 * count * row, w.dtype.type(0))
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            shift = (columns - 1 - k) * pack
            cost_row(w, pairs, d, row, xs, ys + shift, var_x, var_y + shift, cost, variance)
            range_row(w, d.begin, d.end, cost, stretch, alarm)
            factor_row(w, d.begin, d.end, d.pack, cost, scale, scaled, factor)
            if count == 0:
                step_soft_min(
                    w, pairs, d, row, scaled, factor, state, unreachable, False, 0, 0, 0, False, 0,
                    False, 0, 0, 0, 0, False, False, 0,
                )  # fmt: skip
            else:
                step_soft_min(
                    w, pairs, d, row, scaled, factor, state, unreachable, others, to_up, to_left, to_corner,
                    with_mean, theta, False, 0, 0, 0, 0, False, False, 0,
                )  # fmt: skip
            for f in range(count):
                if wanted[f] != COST:
                    field_row(w, pairs, d, wanted[f], variance, field)
                    range_row(w, d.begin, d.end, field, stretch, alarm)
                    step_expectation(w, d, row, field, means + 3 * f * row, to_up, to_left, to_corner)
            for p in range(pack):
                b = first + p
                if ends_on(pairs.length, b, k):
                    position = pairs.length[0, b] * pack + p
                    out[b, 0] = soft_min_at(w, state, row, k, position, pairs.gamma[b])
                    for f in range(count):
                        if wanted[f] == COST:
                            out[b, 1 + f] = mean_cost_at(w, state, theta + p, row, k, position, pairs.gamma[b])
                        else:
                            out[b, 1 + f] = w[means + (3 * f + k % 3) * row + position]
        if alarmed(w, alarm):
            return end_work(queue, end, BAD_VALUE)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)


@njit(**OUTER)
def transitions(pairs, queue, end, pack_size, unreachable, largest, w, limits, out):
    """``out[0], out[1], out[2]`` (3, B, N, M): probability of arriving from the corner, from above, from the left."""
    pairs, queue, w, limits, out = borrow_pairs(pairs), borrow(queue), borrow(w), borrow(limits), borrow(out)
    row = row_size(pairs, pack_size, lanes(w))
    sequences = 20 * row
    scale = sequences + (2 * pairs.x.shape[2] + 2) * row
    need = scale + SLOT
    if w.size < need:
        return need
    cost, variance, alarm, to_up, to_left, to_corner = 0, row, 2 * row, 3 * row, 4 * row, 5 * row
    scaled, factor, state = 6 * row, 7 * row, 8 * row
    one = w.dtype.type(1)
    fill(w, alarm, alarm + lanes(w), w.dtype.type(0))
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        if not variances_usable(pairs, first, first + pack):
            return end_work(queue, end, BAD_VALUE)
        rows, columns = pack_shape(pairs.length, first, pack)
        xs, ys, var_x, var_y = load_sequences(w, sequences, pairs, row, first, pack, rows, columns)
        for p in range(pack):
            put_number(w, scale, p, pack, 1 / (np.log(2) * pairs.gamma[first + p]))
        stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs.band, first, rows, columns)
        start_soft_min(w, state, row, pack, unreachable)
        for k in range(rows + columns - 1):
            d = diagonal(limits, k, pack, first)
            shift = (columns - 1 - k) * pack
            cost_row(w, pairs, d, row, xs, ys + shift, var_x, var_y + shift, cost, variance)
            range_row(w, d.begin, d.end, cost, stretch, alarm)
            factor_row(w, d.begin, d.end, d.pack, cost, scale, scaled, factor)
            step_soft_min(
                w, pairs, d, row, scaled, factor, state, unreachable, True, to_up, to_left, to_corner, False,
                0, False, 0, 0, 0, 0, False, False, 0,
            )  # fmt: skip
            scatter(w, to_corner, d, out[0], pairs.length, one)
            scatter(w, to_up, d, out[1], pairs.length, one)
            scatter(w, to_left, d, out[2], pairs.length, one)
        if alarmed(w, alarm):
            return end_work(queue, end, BAD_VALUE)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)
