"""What the backward sweep keeps, and where in the scratch memory: gradients, factors of the loss, rows and tables."""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw.kernels.cpu.pack import put_number, theta_of
from udtw.kernels.cpu.rows import INNER, SLOT, STATE_ROWS
from udtw.kernels.cpu.simd import borrow

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


@njit(**INNER)
def borrow_gradients(grads):
    return Gradients(
        borrow(grads.x), borrow(grads.y), borrow(grads.cost), borrow(grads.var_x), borrow(grads.var_y),
        borrow(grads.variance), borrow(grads.gamma), borrow(grads.coupling),
    )  # fmt: skip


BY_SOFT_MIN, BY_COST, BY_LOG, BY_DEVIATION, BY_ONE, BY_FIELD = range(6)
FACTORS = 5
"""Rows of ``factors``: the loss's derivatives in soft_min, E[C], E[log Σ], E[(Σ − 1)²] and E[1]."""
ADJOINT, REST, USUAL = 0, 1, 6
"""``used[ADJOINT]``: an expectation counts, so that W is needed beside π; ``used[REST]``: any field but C counts; from
BY_LOG to BY_FIELD: that field counts; ``used[USUAL]``: gradients by the loops made for the usual case, one feature with
a variance each step and no field beside C and log Σ."""

Layout = namedtuple(
    "Layout",
    [
        "row",  # numbers in a row
        "state",  # the rows of `rows.State`
        "coupling", "adjoint",  # rolling, three rows each
        "cost", "scaled", "factor", "variance", "field", "total", "gradient", "sigma_gradient", "alarm", "seed", "tilt",
        "grad_x", "grad_y", "grad_var_x", "grad_var_y",
        "sequences",
        "saved",  # the states saved at the start of each segment
        "scale", "theta", "by_cost", "direct",  # slots, as are the next two
        "factors",  # FACTORS of them
        "over_gamma",  # FACTORS + 1: the factors, and for the user's field one, divided by γ
        "tables",  # six of `size` numbers: transition probabilities and pulls to up, left, corner
        "size",
        "end",
    ],
)  # fmt: skip
"""Offsets in the scratch memory."""


@njit(**INNER)
def make_layout(row, dim, saves, size):
    coupling = STATE_ROWS
    cost = coupling + 6
    grads = cost + 11
    sequences = grads + 2 * dim + 2
    saved = sequences + 2 * dim + 2
    scale = (saved + STATE_ROWS * saves) * row
    factors = scale + 4 * SLOT
    tables = factors + (2 * FACTORS + 1) * SLOT
    return Layout(
        row,
        0,
        coupling * row, (coupling + 3) * row,
        cost * row, (cost + 1) * row, (cost + 2) * row, (cost + 3) * row, (cost + 4) * row, (cost + 5) * row,
        (cost + 6) * row, (cost + 7) * row, (cost + 8) * row, (cost + 9) * row, (cost + 10) * row,
        grads * row, (grads + dim) * row, (grads + 2 * dim) * row, (grads + 2 * dim + 1) * row,
        sequences * row,
        saved * row,
        scale, scale + SLOT, scale + 2 * SLOT, scale + 3 * SLOT,
        factors,
        factors + FACTORS * SLOT,
        tables,
        size,
        tables + 6 * size,
    )  # fmt: skip


@njit(**INNER)
def put_numbers(w, at, pairs, factors, first, pack):
    """Everything that is one number per pair."""
    for p in range(pack):
        b = first + p
        gamma = pairs.gamma[b]
        put_number(w, at.scale, p, pack, 1 / (np.log(2) * gamma))
        put_number(w, at.theta, p, pack, theta_of(pairs, b))
        put_number(w, at.by_cost, p, pack, factors[BY_COST, b] * np.log(2))
        put_number(w, at.direct, p, pack, factors[BY_SOFT_MIN, b] + factors[BY_COST, b])
        for f in (BY_SOFT_MIN, BY_LOG, BY_DEVIATION):
            put_number(w, at.factors + f * SLOT, p, pack, factors[f, b])
        for f in (BY_LOG, BY_DEVIATION, BY_ONE):  # of no others: where they are large the quotient could overflow
            put_number(w, at.over_gamma + f * SLOT, p, pack, factors[f, b] / gamma)
        put_number(w, at.over_gamma + BY_FIELD * SLOT, p, pack, 1 / gamma)


@njit(**INNER)
def place_tables(limits, pack, start, stop, first_table, row):
    """Sets ``limits[2, k]``: the offset of diagonal k's positions in the first table."""
    at = first_table + row
    for k in range(start, stop):
        limits[2, k] = at - (limits[0, k] + 1) * pack
        at += (limits[1, k] - limits[0, k]) * pack
