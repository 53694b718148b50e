"""What the backward sweep keeps, and where in the scratch memory: gradients, factors of the loss, rows and tables."""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw.kernels.cpu_pack import spread, spread_theta
from udtw.kernels.cpu_rows import INNER
from udtw.kernels.simd import borrow

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
        "state",  # the rolling rows of `step_soft_min`
        "coupling", "adjoint",  # rolling, three rows each
        "scale", "theta", "by_cost", "direct",
        "factors",  # FACTORS rows
        "over_gamma",  # FACTORS + 1 rows: the factors, and for the user's field one, divided by γ
        "cost", "scaled", "factor", "variance", "field", "total", "gradient", "sigma_gradient", "alarm", "seed", "tilt",
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
    coupling = STATE_ROWS
    scale = coupling + 6
    factors = scale + 4
    cost = factors + 2 * FACTORS + 1
    grads = cost + 11
    sequences = grads + 2 * dim + 2
    saved = sequences + 2 * dim + 2
    tables = (saved + STATE_ROWS * saves) * row
    return Layout(
        row,
        0,
        coupling * row, (coupling + 3) * row,
        scale * row, (scale + 1) * row, (scale + 2) * row, (scale + 3) * row,
        factors * row,
        (factors + FACTORS) * row,
        cost * row, (cost + 1) * row, (cost + 2) * row, (cost + 3) * row, (cost + 4) * row, (cost + 5) * row,
        (cost + 6) * row, (cost + 7) * row, (cost + 8) * row, (cost + 9) * row, (cost + 10) * row,
        grads * row, (grads + dim) * row, (grads + 2 * dim) * row, (grads + 2 * dim + 1) * row,
        sequences * row,
        saved * row,
        tables,
        size,
        tables + 6 * size,
    )  # fmt: skip


@njit(**INNER)
def spread_factors(w, at, pairs, factors, used, first, pack):
    """Everything that is one number a pair, repeated along rows."""
    gamma, factors, row = pairs.gamma[first : first + pack], factors[:, first : first + pack], at.row
    spread(w, at.scale, row, 1 / (np.log(2) * gamma))
    spread_theta(w, at.theta, row, pairs, first, pack)
    spread(w, at.by_cost, row, factors[BY_COST] * np.log(2))
    spread(w, at.direct, row, factors[BY_SOFT_MIN] + factors[BY_COST])
    for f in (BY_SOFT_MIN, BY_LOG, BY_DEVIATION):
        spread(w, at.factors + f * row, row, factors[f])
    for f in (BY_LOG, BY_DEVIATION, BY_ONE):
        if used[f] or f == BY_LOG:
            spread(w, at.over_gamma + f * row, row, factors[f] / gamma)
    if used[BY_FIELD]:
        spread(w, at.over_gamma + BY_FIELD * row, row, 1 / gamma)


@njit(**INNER)
def place_tables(limits, pack, start, stop, first_table, row):
    """``limits[2, k]``: where diagonal k's positions count from in the first table."""
    at = first_table + row
    for k in range(start, stop):
        limits[2, k] = at - (limits[0, k] + 1) * pack
        at += (limits[1, k] - limits[0, k]) * pack
