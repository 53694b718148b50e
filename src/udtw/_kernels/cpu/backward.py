"""Backward sweep over packs of pairs: coupling, and the gradient of ``Σ_i g_i E[F_i]`` in every input.

Tables exist only in scratch memory and only for a stretch of diagonals. A pack whose tables fit is swept forward once
and backward once. A longer one is swept forward first to save the state every ``segment`` diagonals; then each segment,
last first, is swept forward again with tables and then backward. Memory grows with N·√(N + M).
"""

import numpy as np
from numba import njit

from udtw._engine.problem import BUILT_IN, COST, DEVIATION, LOG_VARIANCE, ONE, WARPS
from udtw._kernels.cpu.ends import add_end_pulls, make_ends, open_row, open_starts, record_ends, set_seeds, settle_pack
from udtw._kernels.cpu.forward import (
    alarmed,
    pack_shape,
    row_size,
    start_soft_min,
    step_pulls,
    step_pulls_rest,
    step_quick,
    step_rest,
    step_transitions,
    step_usual,
    step_warped_quick,
    step_warped_rest,
    step_warped_transitions,
    stretch_of,
    swift_factor_row,
    usable,
)
from udtw._kernels.cpu.gradient_rows import (
    Sweep,
    add_sequence_gradient_row,
    add_variance_gradient_row,
    adjoint_edge_row,
    adjoint_row,
    cost_gradient_row,
    coupling_row,
    edge_row,
    entropy_row,
    feature_gradient_row,
    featured_gradient_row,
    featured_price_row,
    shared_gradient_row,
    shared_price_row,
    swift_gradient_row,
    swift_price_row,
    tilt_row,
    usual_gradient_row,
    variance_gradient_row,
    visits_row,
)
from udtw._kernels.cpu.layout import (
    BY_LOG,
    BY_SOFT_MIN,
    BY_WARPS,
    Mode,
    borrow_gradients,
    make_layout,
    place_tables,
    put_numbers,
)
from udtw._kernels.cpu.match_sums import collect_matches, keep_cells, sum_rows
from udtw._kernels.cpu.pack import (
    add_back,
    borrow_pairs,
    by_feature,
    diagonal,
    energy_rows,
    field_row,
    guard_above,
    likely,
    load_sequences,
    next_pack,
    scatter,
    set_limits,
    shifted,
    simple,
    uncertain,
)
from udtw._kernels.cpu.pair_numbers import log_level, put_number
from udtw._kernels.cpu.rows import (
    INNER,
    SHARED,
    SLOT,
    STATE_ROWS,
    Moves,
    Steps,
    add_product_row,
    add_quotient_row,
    copy_row,
    factor_row,
    fill,
    product_row,
    range_row,
    rolling_back,
    state_of,
    sum_steps,
    usual_factor_row,
)
from udtw._kernels.cpu.simd import borrow, get, lanes, put
from udtw._kernels.cpu.work_queue import BAD_VALUE, OK, OUTER, begin_work, end_work, go_on


@njit(**INNER)
def mode_of(pairs, factors, grads):
    """Return the `Mode` of a sweep, and which fields (by number, the user's last) its loss counts beside C."""
    warped, relaxed = pairs.warp.shape[0] > 0, pairs.relax.shape[1] > 0
    plain = not warped and not likely(pairs)
    fields = np.zeros(BUILT_IN + 1, np.bool_)
    for which in range(BUILT_IN):
        fields[which] = factors[1 + which].any()
    fields[BUILT_IN] = pairs.fields.shape[0] > 0
    adjoint = fields.any()
    if plain:
        fields[COST] = False
    gradients = factors.any() or fields[BUILT_IN]
    entropy = grads.gamma.size > 0 and gradients and not adjoint and not relaxed
    prices = (grads.gamma.size > 0 and not entropy) or grads.beta.size > 0 or grads.warp.size > 0
    usual = simple(pairs) and pairs.x.shape[2] == 1 and adjoint and plain and not relaxed and not prices
    usual &= not fields[LOG_VARIANCE + 1 :].any()
    fused = simple(pairs) and likely(pairs) and not adjoint and (entropy or not gradients or grads.gamma.size == 0)
    swift, rest, prices = fused and gradients, fields.any(), prices and gradients
    mode = Mode(plain, likely(pairs), warped, relaxed, adjoint, rest, gradients, usual, swift, fused, prices, entropy)
    return mode, fields


@njit(**INNER)
def rest_field_row(w, pairs, d, at, steps, fields):
    """``Σ_i (g_i/γ) F_i`` over the ``fields`` that count."""
    fresh = True
    for which in (COST, LOG_VARIANCE, DEVIATION, ONE, WARPS, BUILT_IN):
        if fields[which]:
            field_row(w, pairs, d, which, at, steps)
            if fresh:
                product_row(w, d, at.over_gamma + (1 + which) * SLOT, at.field, at.total)
            else:
                add_product_row(w, d, at.over_gamma + (1 + which) * SLOT, at.field, at.total)
            fresh = False


@njit(**INNER)
def sweep_forward(w, pairs, d, at, steps, mode, fields, stretch, table, unreachable):
    """One diagonal of the forward sweep, its transitions and pulls written at ``table`` of each table."""
    if mode.usual:
        usual_factor_row(w, d, at, steps, 1, stretch, at.over_gamma + BY_LOG * SLOT)
    elif mode.fused:
        swift_factor_row(w, pairs, d, at, steps, stretch)
    else:
        energy_rows(w, pairs, d, at, steps)
        if stretch > 0:
            range_row(w, d, at.energy, stretch, at.alarm)
        factor_row(w, d, at)
        if mode.rest:
            rest_field_row(w, pairs, d, at, steps, fields)
    state = state_of(at.state, at.row, d.k)
    to = Moves(table, table + at.size, table + 2 * at.size)
    pull = Moves(table + 3 * at.size, table + 4 * at.size, table + 5 * at.size)
    open_starts(w, pairs, d, state, at.over_gamma + BY_WARPS * SLOT)
    if mode.usual:
        step_usual(w, pairs, d, at, state, to, pull, unreachable)
    elif mode.adjoint:
        if not mode.plain:
            if mode.warped:
                step_warped_rest(w, pairs, d, at, state, to, pull, unreachable)
            else:
                step_rest(w, pairs, d, at, state, to, pull, unreachable)
        elif mode.rest:
            step_pulls_rest(w, pairs, d, at, state, to, pull, unreachable)
        else:
            step_pulls(w, pairs, d, at, state, to, pull, unreachable)
    elif mode.swift:
        if mode.warped:
            step_warped_quick(w, pairs, d, at, state, to, pull, unreachable)
        else:
            step_quick(w, pairs, d, at, state, to, pull, unreachable)
    elif mode.warped:
        step_warped_transitions(w, pairs, d, at, state, to, pull, unreachable)
    else:
        step_transitions(w, pairs, d, at, state, to, pull, unreachable)
    # On the way back nothing leads out of the grid: the last vector of a diagonal may cover a start's predecessor.
    open_row(w, pairs, d, to.corner + d.pack, w.dtype.type(0))


@njit(**INNER)
def sweep_of(d, at, table1, table2):
    """Return what the backward sweep reads and writes on diagonal d; the tables are those of the next two diagonals."""
    to = Moves(table1, table1 + at.size, table2 + 2 * at.size)
    pull = Moves(table1 + 3 * at.size, table1 + 4 * at.size, table2 + 5 * at.size)
    return Sweep(rolling_back(at.coupling, at.row, d.k), rolling_back(at.adjoint, at.row, d.k), to, pull, at.seed)


@njit(**SHARED)
def collect_gradients(w, pairs, grads, d, at, mode, sweep, steps, into):
    """Turn π and W of one diagonal into gradients of what the cost was made from."""
    if uncertain(pairs) or mode.prices:
        energy_rows(w, pairs, d, at, steps)
    cost_gradient_row(w, d, at, sweep)
    if mode.likely:
        visits_row(w, d, at, sweep)
    if mode.prices:
        if mode.adjoint:
            adjoint_edge_row(w, d, at, sweep)
        else:
            edge_row(w, d, at, sweep)
        if not mode.entropy:
            tilt_row(w, d, at, sweep, at.energy, at.tilt)
        if mode.likely:
            tilt_row(w, d, at, sweep, at.log, at.log_tilt)
    if by_feature(pairs):
        feature_gradient_row(w, d, at, sweep, steps, into, pairs.x.shape[2])
        return
    if uncertain(pairs):
        variance_gradient_row(w, d, at, sweep)
        if pairs.var_x.shape[0] > 0:
            add_variance_gradient_row(w, d, at.sigma_gradient, into)
        else:
            scatter(w, at.sigma_gradient, d, grads.variance, pairs.length, w.dtype.type(np.inf))
    if pairs.x.shape[2] > 0:
        add_sequence_gradient_row(w, d, at, steps, into, pairs.x.shape[2])
    else:
        scatter(w, at.gradient, d, grads.cost, pairs.length, w.dtype.type(np.inf))


@njit(**INNER)
def collect_swiftly(w, pairs, d, at, mode, sweep, steps, into):
    """π of one diagonal, and the gradients of the free energy where the pairs are `simple`."""
    dim = pairs.x.shape[2]
    if by_feature(pairs):
        if mode.prices:
            featured_price_row(w, d, at, sweep, steps, dim, into)
        else:
            featured_gradient_row(w, d, at, sweep, steps, dim, into)
    elif dim > 1:
        if mode.prices:
            shared_price_row(w, d, at, sweep, steps, dim, into)
        else:
            shared_gradient_row(w, d, at, sweep, steps, dim, into)
    elif mode.prices:
        swift_price_row(w, d, at, sweep, steps, dim, into)
    else:
        swift_gradient_row(w, d, at, sweep, steps, dim, into)


@njit(**INNER)
def summed(w, at, pack, rows, p):
    """Return the sum of pair p's numbers in a row."""
    total = 0.0
    for i in range(rows):
        total += w[at + (i + 1) * pack + p]
    return total


@njit(**SHARED)
def hand_back(w, pairs, grads, at, mode, factors, steps, first, pack, rows, columns, soft_min):
    """Add the pack's summed gradients to the user's arrays, with the factors of ``(x − y)²`` and ``½σ²``."""
    index, length = pairs.index, pairs.length
    two, half = w.dtype.type(2), w.dtype.type(0.5)
    if mode.likely:  # the slots of θ and its factor are free then: they belong to energies without log Σ
        sum_steps(w, pack, rows, at.visits, at.theta)
        if grads.var_x.shape[0] > 0:
            add_level_rows(w, pairs, at, steps, factors, first, pack, rows, columns)
    add_back(w, at.grad_x, at.row, grads.x, index[0], length[0], first, pack, rows, False, two)
    add_back(w, at.grad_y, at.row, grads.y, index[1], length[1], first, pack, columns, True, two)
    add_back(w, at.grad_var_x, at.row, grads.var_x, index[0], length[0], first, pack, rows, False, half)
    add_back(w, at.grad_var_y, at.row, grads.var_y, index[1], length[1], first, pack, columns, True, half)
    for p in range(pack):
        b = first + p
        if mode.likely and grads.variance.shape[0] > 0:
            add_level_gradient(pairs, grads, b, -pairs.beta[b] * visits_beyond(w, pairs, at, factors, b, p))
        by_soft_min = factors[BY_SOFT_MIN, b]
        if mode.entropy:
            grads.gamma[b] = -by_soft_min * summed(w, at.tilt, pack, rows, p)
        if mode.prices:
            edges = summed(w, at.edges, pack, rows, p)
            if grads.warp.size > 0:
                grads.warp[b] = edges
            if grads.beta.size > 0 and mode.likely:
                beyond = visits_beyond(w, pairs, at, factors, b, p)
                grads.beta[b] = summed(w, at.log_tilt, pack, rows, p) - log_level(pairs, b) * beyond
            if grads.gamma.size > 0 and not mode.entropy:
                tilted = summed(w, at.tilt, pack, rows, p)
                if mode.warped:
                    tilted += pairs.warp[b] * edges
                grads.gamma[b] = (by_soft_min * soft_min[p] - tilted) / pairs.gamma[b]


@njit(**INNER)
def visits_beyond(w, pairs, at, factors, b, p):
    """Return the loss's derivative in κ = −β log r, which is added to every cell, and −½κ(N + M) to every path."""
    return w[at.theta + p] - 0.5 * (pairs.length[0, b] + pairs.length[1, b]) * factors[BY_SOFT_MIN, b]


@njit(**INNER)
def add_level_rows(w, pairs, at, sequences, factors, first, pack, rows, columns):
    """Add the loss's derivative in the level log r to the summed gradients of the variances of the steps."""
    for side, steps, variance, grad in (
        (0, rows, sequences.half_var_x, at.grad_var_x),
        (1, columns, sequences.half_var_y, at.grad_var_y),
    ):
        for p in range(pack):
            b = first + p
            by_level = -0.5 * pairs.beta[b] * visits_beyond(w, pairs, at, factors, b, p)
            put_number(w, at.by_cost, p, pack, by_level / pairs.length[side, b])
        for f in range(0, pairs.var_x.shape[2] * at.row, at.row):
            add_quotient_row(w, pack, steps, at.by_cost, variance + f, grad + f)


@njit(**INNER)
def add_level_gradient(pairs, grads, b, by_level):
    """Add the loss's derivative in the level log r to the gradients of the joint variances."""
    n, m = pairs.length[0, b], pairs.length[1, b]
    share = grads.variance.dtype.type(by_level / (n * m))
    for i in range(n):
        start = (b * pairs.variance.shape[1] + i) * pairs.variance.shape[2]
        for cell in range(start, start + m):
            put(grads.variance, cell, get(grads.variance, cell) + share / get(pairs.variance, cell))


@njit(**OUTER)
def backward(
    pairs, queue, end, pack_size, segment, widest, factors, unreachable, largest, w, limits, grads, sums, tail
):
    """Fill ``grads`` for the pairs below ``end`` in the queue, given the loss's derivatives ``factors`` (6, B).

    If ``sums`` (3, B) is not empty it receives soft_min and, for the usual loss, E[C] and E[log Σ]; values are then
    checked as in `forward`. Otherwise they are not: `forward` has.

    A user's field in ``pairs.fields`` (at most one) counts with factor one. Without any factor or field nothing but the
    coupling is computed; with a factor of soft_min alone, whose gradient is the coupling, no adjoint.
    ``segment`` is how many diagonals have tables at a time, and ``widest`` how many rows each has at most.
    ``limits`` is integer scratch as in `forward`; ``tail`` is for `collect_matches`.
    """
    pairs, queue, factors, grads = borrow_pairs(pairs), borrow(queue), borrow(factors), borrow_gradients(grads)
    w, limits, sums = borrow(w), borrow(limits), borrow(sums)
    wide = lanes(w)
    row = row_size(pairs, pack_size, wide)
    segment = min(segment, limits.shape[1])
    saves = (limits.shape[1] - 1) // segment
    size = ((segment + 2) * widest * pack_size + 2 * row) // wide * wide + wide
    at = make_layout(row, pairs, saves, size)
    if w.size < at.end:
        return at.end
    checking = sums.size > 0
    zero = w.dtype.type(0)
    mode, fields = mode_of(pairs, factors, grads)
    soft_min = np.zeros(pack_size)
    turns = 2 if grads.match.size > 0 else 1
    summed_rows = Steps(at.grad_x, at.grad_y, at.grad_var_x, at.grad_var_y)
    fill(w, at.alarm, at.alarm + wide, zero)
    first, stop = begin_work(queue, pack_size, end)
    while first < end:
        pack = next_pack(pack_size, stop - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        diagonals = rows + columns - 1
        ends = make_ends(pairs, first, pack, diagonals)
        last_segment = (diagonals - 1) // segment
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        if checking and not usable(w, pairs, at, sequences, first, pack, rows, columns, unreachable):
            return end_work(queue, end, BAD_VALUE)
        put_numbers(w, at, pairs, sequences, mode, factors, first, pack, rows, columns)
        stretch = w.dtype.type(0)
        if checking:
            stretch = w.dtype.type(stretch_of(pairs, first, pack, rows, columns, unreachable, largest))
        set_limits(limits, pairs, first, pack, rows, columns)
        fill(w, at.tilt, at.sequences, zero)
        # First without tables up to the last segment, saving states; then segment by segment, from the last one back.
        # For intervals a second time, with the totals of the rows. Of a single segment without a band π is kept
        # instead, where an adjoint would have its pulls.
        parts = last_segment + 2
        keeping = grads.match.size > 0 and last_segment == 0 and pairs.band.shape[1] == 0
        for part in range(parts if keeping else turns * parts):
            turn, s = part // parts, last_segment + 1 - part % parts
            saving, sweeping = s > last_segment, turn == 0 or last_segment > 0
            if saving:
                fill(w, at.coupling, at.adjoint + 3 * row, zero)  # below a diagonal it stays so: `low` falls going back
                fill(w, at.seed, at.seed + row, zero)
                if sweeping:
                    start_soft_min(w, at.state, row, pack, unreachable)
            if s < last_segment:
                copy_row(w, 0, STATE_ROWS * row, at.saved + s * STATE_ROWS * row, at.state)
            start, done = (0, last_segment * segment) if saving else (s * segment, min((s + 1) * segment, diagonals))
            ahead = done if saving else min(done + 2, diagonals)
            if not saving:
                place_tables(limits, pack, start, ahead, at.tables, row)
            for k in range(start, ahead if sweeping else start):
                if saving and k % segment == 0:
                    copy_row(w, 0, STATE_ROWS * row, at.state, at.saved + k // segment * STATE_ROWS * row)
                d = diagonal(limits, k, pack, first)
                steps = shifted(sequences, d, columns)
                table = at.tables + row - d.begin if saving else limits[2, k]
                sweep_forward(w, pairs, d, at, steps, mode, fields, stretch, table, unreachable)
                if s >= last_segment and k >= ends.soonest:
                    record_ends(w, pairs, d, at, mode, factors, ends, sums, unreachable)
            if saving:
                continue
            if checking and alarmed(w, at.alarm):
                return end_work(queue, end, BAD_VALUE)
            if s == last_segment and sweeping:
                settle_pack(w, pairs, at, ends, first, soft_min, sums)
            for k in range(done - 1, start - 1, -1):
                d = diagonal(limits, k, pack, first)
                steps, into = shifted(sequences, d, columns), shifted(summed_rows, d, columns)
                sweep = sweep_of(d, at, limits[2, min(k + 1, diagonals - 1)], limits[2, min(k + 2, diagonals - 1)])
                if k + 1 >= ends.soonest:
                    set_seeds(w, pairs, limits, at, ends, first, pack, k)
                if mode.usual:
                    usual_gradient_row(w, d, at, sweep, steps, into)
                elif mode.swift:
                    collect_swiftly(w, pairs, d, at, mode, sweep, steps, into)
                elif mode.adjoint:
                    adjoint_row(w, d, sweep)
                    if mode.relaxed and k >= ends.soonest:
                        add_end_pulls(w, pairs, d, sweep.adjoint.here, ends)
                else:
                    coupling_row(w, d, sweep)
                if mode.adjoint:
                    guard_above(w, d, sweep.adjoint.here, zero)
                guard_above(w, d, sweep.coupling.here, zero)
                if grads.coupling.size > 0:
                    scatter(w, sweep.coupling.here, d, grads.coupling, pairs.length, w.dtype.type(1))
                to_left = limits[2, k] + at.size
                if keeping:
                    kept = at.tables + 3 * at.size
                    keep_cells(w, d, sweep.coupling.here, to_left, kept, rows, columns)
                elif grads.match.size > 0:
                    collect_matches(w, d, sweep.coupling.here, to_left, pairs.length, grads.match, tail * turn)
                if mode.entropy:
                    entropy_row(w, d, at, sweep, Moves(limits[2, k], to_left, to_left + at.size))
                if mode.gradients and not mode.usual and not mode.swift:  # which have collected already
                    collect_gradients(w, pairs, grads, d, at, mode, sweep, steps, into)
        if keeping:
            sum_rows(w, at.tables + 3 * at.size, pairs.length, grads.match, first, pack, rows, columns, tail)
        if mode.gradients:
            hand_back(w, pairs, grads, at, mode, factors, sequences, first, pack, rows, columns, soft_min)
        first, stop = go_on(queue, first + pack, stop, pack_size, end)
    return end_work(queue, end, OK)
