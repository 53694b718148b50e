"""Backward sweep over packs of pairs: coupling, and the gradient of ``Σ_i g_i E[F_i]`` in every input.

Tables exist only in scratch memory and only for a stretch of diagonals. A pack whose tables fit is swept forward once
and backward once. A longer one is swept forward first to save the state every ``segment`` diagonals; then each segment,
last first, is swept forward again with tables and then backward. Memory grows with N·√(N + M).
"""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw.kernels.cpu_forward import OK, OUTER, pack_shape, row_size, start_soft_min, step_soft_min
from udtw.kernels.cpu_pack import (
    BUILT_IN,
    DEVIATION,
    LOG_VARIANCE,
    ONE,
    add_back,
    cost_row,
    diagonal,
    field_row,
    guard_above,
    guard_below,
    load_sequences,
    scatter,
    set_limits,
    spread,
)
from udtw.kernels.cpu_rows import (
    INNER,
    add_product_row,
    add_sequence_gradient_row,
    add_variance_gradient_row,
    adjoint_row,
    copy_row,
    cost_gradient_row,
    coupling_row,
    fill,
    potential_row,
    product_row,
    tilt_row,
    variance_gradient_row,
)
from udtw.kernels.simd import lanes

Gradients = namedtuple(
    "Gradients",
    [
        "x",  # (B, N, d), as all of these zero at the start; of size 0 where not wanted
        "y",  # (B, M, d)
        "cost",  # (B, N, M): of the base cost
        "var_x",  # (B, N, 1)
        "var_y",  # (B, M, 1)
        "variance",  # (B, N, M)
        "gamma",  # (B,)
        "coupling",  # (B, N, M): not a gradient but π* itself
    ],
)

BY_SOFT_MIN, BY_COST, BY_LOG, BY_DEVIATION, BY_ONE = range(5)
FACTORS = 5
"""Rows of ``factors``: the loss's derivatives in soft_min, E[C], E[log Σ], E[(Σ − 1)²] and E[1]."""

Layout = namedtuple(
    "Layout",
    [
        "row",  # numbers in a row
        "weight", "power", "level", "potential",  # the rolling state, three rows each, contiguous
        "logs",  # three rows: log2 of the transition probabilities
        "coupling", "adjoint",  # rolling, three rows each
        "scale", "inverse_gamma", "by_entropy", "direct",
        "factors",  # FACTORS rows
        "over_gamma",  # FACTORS rows: the factors divided by γ
        "cost", "variance", "field", "total", "gradient", "sigma_gradient", "tilt",
        "grad_x", "grad_y", "grad_var_x", "grad_var_y",
        "sequences",
        "saved",  # the states saved at the start of each segment
        "tables",  # six of `size` numbers: transition probabilities and pulls to up, left, corner
        "size",
        "end",
    ],
)  # fmt: skip
"""Offsets in the scratch memory."""
STATE_ROWS = 12


@njit(**INNER)
def make_layout(row, dim, saves, size):
    state, logs, coupling, scale = 0, STATE_ROWS, 15, 21
    factors, cost = 25, 25 + 2 * FACTORS
    grads = cost + 7
    sequences = grads + 2 * dim + 2
    saved = sequences + 2 * dim + 2
    tables = (saved + STATE_ROWS * saves) * row
    return Layout(
        row,
        state * row, (state + 3) * row, (state + 6) * row, (state + 9) * row,
        logs * row,
        coupling * row, (coupling + 3) * row,
        scale * row, (scale + 1) * row, (scale + 2) * row, (scale + 3) * row,
        factors * row,
        (factors + FACTORS) * row,
        cost * row, (cost + 1) * row, (cost + 2) * row, (cost + 3) * row, (cost + 4) * row, (cost + 5) * row,
        (cost + 6) * row,
        grads * row, (grads + dim) * row, (grads + 2 * dim) * row, (grads + 2 * dim + 1) * row,
        sequences * row,
        saved * row,
        tables,
        size,
        tables + 6 * size,
    )  # fmt: skip


@njit(**INNER)
def spread_factors(w, at, pairs, factors, entropic, first, pack):
    """Everything that is one number a pair, repeated along rows."""
    gamma, row = pairs.gamma, at.row
    spread(w, at.scale, row, 1 / (np.log(2) * gamma), first, pack)
    spread(w, at.inverse_gamma, row, 1 / gamma, first, pack)
    spread(w, at.by_entropy, row, np.where(entropic, factors[BY_COST], 0) * np.log(2), first, pack)
    spread(w, at.direct, row, factors[BY_SOFT_MIN] + factors[BY_COST], first, pack)
    for f in range(FACTORS):
        spread(w, at.factors + f * row, row, factors[f], first, pack)
        spread(w, at.over_gamma + f * row, row, factors[f] / gamma, first, pack)
    spread(w, at.over_gamma + BY_COST * row, row, np.where(entropic, 0, factors[BY_COST]) / gamma, first, pack)


@njit(**INNER)
def total_field_row(w, pairs, d, at, used):
    """``F/γ = Σ_i (g_i/γ) F_i`` over the built-in fields that are ``used`` and the user's one."""
    product_row(w, d.begin, d.end, at.over_gamma + BY_COST * at.row, at.cost, at.total)
    for which in (LOG_VARIANCE, DEVIATION, ONE):
        if used[1 + which]:
            field_row(w, pairs, d, which, at.variance, at.field)
            add_product_row(w, d.begin, d.end, at.over_gamma + (1 + which) * at.row, at.field, at.total)
    if pairs.fields.shape[0] > 0:
        field_row(w, pairs, d, BUILT_IN, at.variance, at.field)
        add_product_row(w, d.begin, d.end, at.inverse_gamma, at.field, at.total)


@njit(**INNER)
def sweep_forward(w, pairs, d, at, sequences, shift, used, unreachable, table):
    """One diagonal of the forward sweep, its transitions and pulls written at ``table`` of each table."""
    xs, ys, var_x, var_y = sequences
    cost_row(w, pairs, d, at.row, xs, ys + shift, var_x, var_y + shift, at.cost, at.variance)
    to_up, to_left, to_corner = table, table + at.size, table + 2 * at.size
    step_soft_min(
        w, pairs, d, at.row, at.cost, at.scale, at.weight, at.power, unreachable, True, to_up, to_left, to_corner,
        used[0], at.level, at.logs,
    )  # fmt: skip
    if used[0]:
        total_field_row(w, pairs, d, at, used)
        r, r1, r2 = d.k % 3 * at.row, (d.k + 2) % 3 * at.row, (d.k + 1) % 3 * at.row
        potential_row(
            w, d.begin, d.end, d.pack, at.total, at.by_entropy, at.potential + r, at.potential + r1, at.potential + r2,
            to_up, to_left, to_corner, at.logs, at.logs + at.row, at.logs + 2 * at.row,
            table + 3 * at.size, table + 4 * at.size, table + 5 * at.size,
        )  # fmt: skip


@njit(**INNER)
def sweep_backward(w, d, at, table1, table2, with_adjoint):
    """One diagonal of π and W from the two after it."""
    r, r1, r2 = d.k % 3 * at.row, (d.k + 1) % 3 * at.row, (d.k + 2) % 3 * at.row
    coupling, adjoint, size, zero = at.coupling, at.adjoint, at.size, w.dtype.type(0)
    guard_below(w, d, coupling + r, zero)
    if with_adjoint:
        guard_below(w, d, adjoint + r, zero)
        adjoint_row(
            w, d.begin, d.end, d.pack, table1, table1 + size, table2 + 2 * size,
            table1 + 3 * size, table1 + 4 * size, table2 + 5 * size,
            coupling + r, coupling + r1, coupling + r2, adjoint + r, adjoint + r1, adjoint + r2,
        )  # fmt: skip
        guard_above(w, d, adjoint + r, zero)
    else:
        coupling_row(
            w, d.begin, d.end, d.pack, table1, table1 + size, table2 + 2 * size, coupling + r, coupling + r1,
            coupling + r2,
        )  # fmt: skip
    guard_above(w, d, coupling + r, zero)


@njit(**INNER)
def collect_gradients(w, pairs, grads, d, at, sequences, shift):
    """Turn π and W of one diagonal into gradients of what the cost was made from."""
    xs, ys, var_x, var_y = sequences
    begin, end, row = d.begin, d.end, at.row
    coupling, adjoint = at.coupling + d.k % 3 * row, at.adjoint + d.k % 3 * row
    cost_row(w, pairs, d, row, xs, ys + shift, var_x, var_y + shift, at.cost, at.variance)
    cost_gradient_row(w, begin, end, coupling, adjoint, at.direct, at.gradient)
    if grads.gamma.size > 0:
        tilt_row(w, begin, end, coupling, adjoint, at.factors, at.cost, at.tilt)
    additive = pairs.var_x.shape[0] > 0
    if additive or pairs.variance.shape[0] > 0:
        variance_gradient_row(
            w, begin, end, coupling, at.factors + BY_LOG * row, at.factors + BY_DEVIATION * row, at.cost, at.variance,
            at.gradient, at.sigma_gradient,
        )  # fmt: skip
        if additive:
            add_variance_gradient_row(w, begin, end, at.sigma_gradient, at.grad_var_x, at.grad_var_y + shift)
        else:
            scatter(w, at.sigma_gradient, d, grads.variance, pairs.length, w.dtype.type(np.inf))
    if pairs.x.shape[2] > 0:
        add_sequence_gradient_row(
            w, begin, end, at.gradient, xs, ys + shift, row, pairs.x.shape[2], at.grad_x, at.grad_y + shift
        )
    else:
        scatter(w, at.gradient, d, grads.cost, pairs.length, w.dtype.type(np.inf))


@njit(**INNER)
def place_tables(limits, pack, start, stop, first_table, row):
    """``limits[4, k]``: where diagonal k's positions count from in the first table."""
    at = first_table + row
    for k in range(start, stop):
        limits[4, k] = at - (limits[0, k] + 1) * pack
        at += (limits[1, k] - limits[0, k]) * pack


@njit(**INNER)
def hand_back(w, pairs, grads, at, factors, first, pack, rows, columns, soft_min):
    """Add the pack's summed gradients to the user's arrays."""
    index, length = pairs.index, pairs.length
    add_back(w, at.grad_x, at.row, grads.x, index[0], length[0], first, pack, rows, False)
    add_back(w, at.grad_y, at.row, grads.y, index[1], length[1], first, pack, columns, True)
    add_back(w, at.grad_var_x, at.row, grads.var_x, index[0], length[0], first, pack, rows, False)
    add_back(w, at.grad_var_y, at.row, grads.var_y, index[1], length[1], first, pack, columns, True)
    if grads.gamma.size > 0:
        for p in range(pack):
            tilted = 0.0
            for i in range(rows):
                tilted += w[at.tilt + (i + 1) * pack + p]
            b = first + p
            grads.gamma[b] = (factors[BY_SOFT_MIN, b] * soft_min[p] - tilted) / pairs.gamma[b]


@njit(**OUTER)
def backward(pairs, begin, end, pack_size, segment, factors, entropic, unreachable, w, limits, grads):
    """Fill ``grads`` for pairs [begin, end), given the loss's derivatives ``factors`` (5, B); see `FACTORS`.

    A user's field in ``pairs.fields`` (at most one) counts with factor one. Without any factor or field nothing but the
    coupling is computed. ``entropic`` (B,) bool chooses how E[C] is carried (README.md): a matter of rounding only.
    ``limits`` is (5, N + M − 1) integer scratch. Values are not checked: `forward` has.
    """
    wide, dim = lanes(w), pairs.x.shape[2]
    row = row_size(pairs, pack_size, wide)
    shortest = min(max(pairs.x.shape[1], pairs.cost.shape[1]), max(pairs.y.shape[1], pairs.cost.shape[2]))
    segment = min(segment, limits.shape[1])
    saves = (limits.shape[1] - 1) // segment
    size = ((segment + 2) * shortest * pack_size + 2 * row) // wide * wide + wide
    at = make_layout(row, dim, saves, size)
    if w.size < at.end:
        return at.end
    zero = w.dtype.type(0)
    used = np.zeros(FACTORS, np.bool_)
    for f in (BY_LOG, BY_DEVIATION, BY_ONE):
        used[f] = factors[f].any()
    used[0] = with_adjoint = factors.any() or pairs.fields.shape[0] > 0
    soft_min = np.zeros(pack_size)
    for first in range(begin, end, pack_size):
        pack = min(pack_size, end - first)
        rows, columns = pack_shape(pairs.length, first, pack)
        diagonals = rows + columns - 1
        last_segment = (diagonals - 1) // segment
        sequences = load_sequences(w, at.sequences, pairs, row, first, pack, rows, columns)
        spread_factors(w, at, pairs, factors, entropic, first, pack)
        set_limits(limits, pairs.band, first if pairs.band.shape[1] > 1 else 0, rows, columns)
        start_soft_min(w, at.weight, at.power, row, pack, unreachable)
        fill(w, at.level, at.potential + 3 * row, zero)
        fill(w, at.coupling, at.adjoint + 3 * row, zero)
        fill(w, at.tilt, at.sequences, zero)
        for k in range(last_segment * segment):
            if k % segment == 0:
                copy_row(w, 0, STATE_ROWS * row, at.weight, at.saved + k // segment * STATE_ROWS * row)
            d = diagonal(limits, k, pack, first)
            sweep_forward(
                w, pairs, d, at, sequences, (columns - 1 - k) * pack, used, unreachable, at.tables + row - d.begin
            )
        for s in range(last_segment, -1, -1):
            if s < last_segment:
                copy_row(w, 0, STATE_ROWS * row, at.saved + s * STATE_ROWS * row, at.weight)
            start, stop = s * segment, min((s + 1) * segment, diagonals)
            ahead = min(stop + 2, diagonals)
            place_tables(limits, pack, start, ahead, at.tables, row)
            for k in range(start, ahead):
                d = diagonal(limits, k, pack, first)
                sweep_forward(w, pairs, d, at, sequences, (columns - 1 - k) * pack, used, unreachable, limits[4, k])
                for p in range(pack):
                    if pairs.length[0, first + p] + pairs.length[1, first + p] - 2 == k:
                        t = k % 3 * row + pairs.length[0, first + p] * pack + p
                        soft_min[p] = (w[at.power + t] - np.log2(w[at.weight + t])) * np.log(2) * pairs.gamma[first + p]
            for k in range(stop - 1, start - 1, -1):
                d = diagonal(limits, k, pack, first)
                table1, table2 = limits[4, min(k + 1, diagonals - 1)], limits[4, min(k + 2, diagonals - 1)]
                sweep_backward(w, d, at, table1, table2, with_adjoint)
                for p in range(pack):
                    if pairs.length[0, first + p] + pairs.length[1, first + p] - 2 == k:
                        w[at.coupling + k % 3 * row + pairs.length[0, first + p] * pack + p] = 1
                if grads.coupling.size > 0:
                    scatter(w, at.coupling + k % 3 * row, d, grads.coupling, pairs.length, w.dtype.type(1))
                if with_adjoint:
                    collect_gradients(w, pairs, grads, d, at, sequences, (columns - 1 - k) * pack)
        if with_adjoint:
            hand_back(w, pairs, grads, at, factors, first, pack, rows, columns, soft_min)
    return OK
