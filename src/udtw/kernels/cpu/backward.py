"""Backward sweep over packs of pairs: coupling, and the gradient of ``Σ_i g_i E[F_i]`` in every input.

Tables exist only in scratch memory and only for a stretch of diagonals. A pack whose tables fit is swept forward once
and backward once. A longer one is swept forward first to save the state every ``segment`` diagonals; then each segment,
last first, is swept forward again with tables and then backward. Memory grows with N·√(N + M).
"""

import numpy as np
from numba import njit

from udtw.kernels.cpu.forward import (
    alarmed,
    ends_on,
    mean_cost_at,
    pack_shape,
    row_size,
    soft_min_at,
    start_soft_min,
    step_pulls,
    step_pulls_rest,
    step_transitions,
    step_usual,
    stretch_of,
)
from udtw.kernels.cpu.gradient_rows import (
    Sweep,
    add_sequence_gradient_row,
    add_variance_gradient_row,
    adjoint_row,
    cost_gradient_row,
    coupling_row,
    tilt_row,
    usual_gradient_row,
    variance_gradient_row,
)
from udtw.kernels.cpu.layout import (
    ADJOINT,
    BY_COST,
    BY_DEVIATION,
    BY_FIELD,
    BY_LOG,
    BY_ONE,
    BY_SOFT_MIN,
    FACTORS,
    REST,
    USUAL,
    borrow_gradients,
    make_layout,
    place_tables,
    put_numbers,
)
from udtw.kernels.cpu.pack import (
    add_back,
    borrow_pairs,
    cost_row,
    diagonal,
    field_row,
    guard_above,
    load_sequences,
    next_pack,
    scatter,
    set_limits,
    shifted,
    variances_usable,
)
from udtw.kernels.cpu.rows import (
    INNER,
    SLOT,
    STATE_ROWS,
    Moves,
    Steps,
    add_product_row,
    copy_row,
    factor_row,
    fill,
    product_row,
    range_row,
    rolling_back,
    state_of,
    usual_factor_row,
)
from udtw.kernels.cpu.simd import borrow, lanes
from udtw.kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on
from udtw.problem import BUILT_IN, DEVIATION, LOG_VARIANCE, ONE


@njit(**INNER)
def rest_field_row(w, pairs, d, at, used):
    """``Σ_i (g_i/γ) F_i`` over the fields that are ``used``, other than C: built-in ones and the user's."""
    fresh = True
    for which in (LOG_VARIANCE, DEVIATION, ONE, BUILT_IN):
        if used[1 + which]:
            field_row(w, pairs, d, which, at)
            if fresh:
                product_row(w, d, at.over_gamma + (1 + which) * SLOT, at.field, at.total)
            else:
                add_product_row(w, d, at.over_gamma + (1 + which) * SLOT, at.field, at.total)
            fresh = False


@njit(**INNER)
def sweep_forward(w, pairs, d, at, steps, used, stretch, table, unreachable):
    """One diagonal of the forward sweep, its transitions and pulls written at ``table`` of each table."""
    if used[USUAL]:
        usual_factor_row(w, d, at, steps, at.over_gamma + BY_LOG * SLOT, stretch)
    else:
        cost_row(w, pairs, d, at, steps)
        if stretch > 0:
            range_row(w, d, at.cost, stretch, at.alarm)
        factor_row(w, d, at)
        if used[REST]:
            rest_field_row(w, pairs, d, at, used)
    state = state_of(at.state, at.row, d.k)
    to = Moves(table, table + at.size, table + 2 * at.size)
    pull = Moves(table + 3 * at.size, table + 4 * at.size, table + 5 * at.size)
    if used[USUAL]:
        step_usual(w, pairs, d, at, state, to, pull, unreachable)
    elif used[ADJOINT]:
        if used[REST]:
            step_pulls_rest(w, pairs, d, at, state, to, pull, unreachable)
        else:
            step_pulls(w, pairs, d, at, state, to, pull, unreachable)
    else:
        step_transitions(w, pairs, d, at, state, to, pull, unreachable)


@njit(**INNER)
def sweep_of(d, at, table1, table2):
    """What the backward sweep reads and writes on diagonal d; the tables are those of the next two diagonals."""
    to = Moves(table1, table1 + at.size, table2 + 2 * at.size)
    pull = Moves(table1 + 3 * at.size, table1 + 4 * at.size, table2 + 5 * at.size)
    return Sweep(rolling_back(at.coupling, at.row, d.k), rolling_back(at.adjoint, at.row, d.k), to, pull, at.seed)


@njit(**INNER)
def collect_gradients(w, pairs, grads, d, at, sweep, steps, into):
    """Turns π and W of one diagonal into gradients of what the cost was made from."""
    cost_row(w, pairs, d, at, steps)
    cost_gradient_row(w, d, at, sweep)
    if grads.gamma.size > 0:
        tilt_row(w, d, at, sweep)
    additive = pairs.var_x.shape[0] > 0
    if additive or pairs.variance.shape[0] > 0:
        variance_gradient_row(w, d, at, sweep)
        if additive:
            add_variance_gradient_row(w, d, at.sigma_gradient, into)
        else:
            scatter(w, at.sigma_gradient, d, grads.variance, pairs.length, w.dtype.type(np.inf))
    if pairs.x.shape[2] > 0:
        add_sequence_gradient_row(w, d, at, steps, into, pairs.x.shape[2])
    else:
        scatter(w, at.gradient, d, grads.cost, pairs.length, w.dtype.type(np.inf))


@njit(**INNER)
def soonest_end(length, first, pack):
    """The first diagonal on which a pair of the pack ends."""
    soonest = length[0, first] + length[1, first] - 2
    for b in range(first + 1, first + pack):
        soonest = min(soonest, length[0, b] + length[1, b] - 2)
    return soonest


@njit(**INNER)
def set_seeds(w, seed, length, first, pack, k):
    """One where a pair ends on diagonal k: every path goes there. Zero where one ends on the diagonal after it."""
    for p in range(pack):
        b = first + p
        if ends_on(length, b, k + 1):
            w[seed + length[0, b] * pack + p] = 0
    for p in range(pack):
        b = first + p
        if ends_on(length, b, k):
            w[seed + length[0, b] * pack + p] = 1


@njit(**INNER)
def hand_back(w, pairs, grads, at, factors, first, pack, rows, columns, soft_min):
    """Add the pack's summed gradients to the user's arrays, with the factors of ``(x − y)²`` and ``½σ²``."""
    index, length = pairs.index, pairs.length
    two, half = w.dtype.type(2), w.dtype.type(0.5)
    add_back(w, at.grad_x, at.row, grads.x, index[0], length[0], first, pack, rows, False, two)
    add_back(w, at.grad_y, at.row, grads.y, index[1], length[1], first, pack, columns, True, two)
    add_back(w, at.grad_var_x, at.row, grads.var_x, index[0], length[0], first, pack, rows, False, half)
    add_back(w, at.grad_var_y, at.row, grads.var_y, index[1], length[1], first, pack, columns, True, half)
    if grads.gamma.size > 0:
        for p in range(pack):
            tilted = 0.0
            for i in range(rows):
                tilted += w[at.tilt + (i + 1) * pack + p]
            b = first + p
            grads.gamma[b] = (factors[BY_SOFT_MIN, b] * soft_min[p] - tilted) / pairs.gamma[b]


@njit(**OUTER)
def backward(pairs, queue, end, pack_size, segment, factors, unreachable, largest, w, limits, grads, sums):
    """Fill ``grads`` for the pairs below ``end`` in the queue, given the loss's derivatives ``factors`` (5, B).

    If ``sums`` (3, B) is not empty it receives soft_min and, where gradients are computed, E[C] and, if that is all
    that counts beside C, E[log Σ]; values are then checked as in `forward`. Otherwise they are not: `forward` has.

    A user's field in ``pairs.fields`` (at most one) counts with factor one. Without any factor or field nothing but the
    coupling is computed; with a factor of soft_min alone, whose gradient is the coupling, no adjoint.
    ``limits`` is (3, N + M − 1) integer scratch.
    """
    pairs, queue, factors, grads = borrow_pairs(pairs), borrow(queue), borrow(factors), borrow_gradients(grads)
    w, limits, sums = borrow(w), borrow(limits), borrow(sums)
    wide, dim = lanes(w), pairs.x.shape[2]
    row = row_size(pairs, pack_size, wide)
    shortest = min(max(pairs.x.shape[1], pairs.cost.shape[1]), max(pairs.y.shape[1], pairs.cost.shape[2]))
    segment = min(segment, limits.shape[1])
    saves = (limits.shape[1] - 1) // segment
    size = ((segment + 2) * shortest * pack_size + 2 * row) // wide * wide + wide
    at = make_layout(row, dim, saves, size)
    if w.size < at.end:
        return at.end
    checking = sums.size > 0
    zero = w.dtype.type(0)
    used = np.zeros(FACTORS + 2, np.bool_)
    for f in (BY_LOG, BY_DEVIATION, BY_ONE):
        used[f] = factors[f].any()
    used[BY_FIELD] = pairs.fields.shape[0] > 0
    used[REST] = used[BY_LOG : BY_FIELD + 1].any()
    with_gradients = factors.any() or used[REST]
    used[ADJOINT] = factors[BY_COST].any() or used[REST]
    used[USUAL] = (
        used[ADJOINT]
        and pairs.x.shape[2] == 1
        and pairs.var_x.shape[0] > 0
        and not used[BY_LOG + 1 : BY_FIELD + 1].any()
        and grads.gamma.size == 0
    )
    soft_min = np.zeros(pack_size)
    summed = Steps(at.grad_x, at.grad_y, at.grad_var_x, at.grad_var_y)
    fill(w, at.alarm, at.alarm + wide, zero)
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        if checking and not variances_usable(pairs, first, first + pack):
            return end_work(queue, end, BAD_VALUE)
        rows, columns = pack_shape(pairs.length, first, pack)
        diagonals = rows + columns - 1
        soonest = soonest_end(pairs.length, first, pack)
        last_segment = (diagonals - 1) // segment
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        put_numbers(w, at, pairs, factors, first, pack)
        stretch = w.dtype.type(0)
        if checking:
            stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs.band, first, rows, columns)
        start_soft_min(w, at.state, row, pack, unreachable)
        fill(w, at.coupling, at.adjoint + 3 * row, zero)  # below a diagonal it stays so: `low` falls on the way back
        fill(w, at.tilt, at.sequences, zero)
        fill(w, at.seed, at.seed + row, zero)
        for k in range(last_segment * segment):
            if k % segment == 0:
                copy_row(w, 0, STATE_ROWS * row, at.state, at.saved + k // segment * STATE_ROWS * row)
            d = diagonal(limits, k, pack, first)
            steps = shifted(sequences, d, columns)
            sweep_forward(w, pairs, d, at, steps, used, stretch, at.tables + row - d.begin, unreachable)
        for s in range(last_segment, -1, -1):
            if s < last_segment:
                copy_row(w, 0, STATE_ROWS * row, at.saved + s * STATE_ROWS * row, at.state)
            start, done = s * segment, min((s + 1) * segment, diagonals)
            ahead = min(done + 2, diagonals)
            place_tables(limits, pack, start, ahead, at.tables, row)
            for k in range(start, ahead):
                d = diagonal(limits, k, pack, first)
                steps = shifted(sequences, d, columns)
                sweep_forward(w, pairs, d, at, steps, used, stretch, limits[2, k], unreachable)
                for p in range(pack if k >= soonest else 0):
                    b = first + p
                    if ends_on(pairs.length, b, k):
                        position = pairs.length[0, b] * pack + p
                        state = state_of(at.state, row, k)
                        soft_min[p] = soft_min_at(w, state, position, pairs.gamma[b])
                        if checking:
                            sums[0, b] = soft_min[p]
                            sums[1, b] = mean_cost_at(w, state, at.theta + p, position, pairs.gamma[b])
                            if used[BY_LOG]:
                                sums[2, b] = w[state.rest.here + position] * pairs.gamma[b] / factors[BY_LOG, b]
            if checking and alarmed(w, at.alarm):
                return end_work(queue, end, BAD_VALUE)
            for k in range(done - 1, start - 1, -1):
                d = diagonal(limits, k, pack, first)
                steps, into = shifted(sequences, d, columns), shifted(summed, d, columns)
                sweep = sweep_of(d, at, limits[2, min(k + 1, diagonals - 1)], limits[2, min(k + 2, diagonals - 1)])
                if k + 1 >= soonest:
                    set_seeds(w, at.seed, pairs.length, first, pack, k)
                if used[USUAL]:
                    usual_gradient_row(w, d, at, sweep, steps, into)
                elif used[ADJOINT]:
                    adjoint_row(w, d, sweep)
                else:
                    coupling_row(w, d, sweep)
                if used[ADJOINT]:
                    guard_above(w, d, sweep.adjoint.here, zero)
                guard_above(w, d, sweep.coupling.here, zero)
                if grads.coupling.size > 0:
                    scatter(w, sweep.coupling.here, d, grads.coupling, pairs.length, w.dtype.type(1))
                if with_gradients and not used[USUAL]:  # which has collected already
                    collect_gradients(w, pairs, grads, d, at, sweep, steps, into)
        if with_gradients:
            hand_back(w, pairs, grads, at, factors, first, pack, rows, columns, soft_min)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)
