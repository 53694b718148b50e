"""What the backward sweep keeps, and where in the scratch memory: gradients, factors of the loss, rows and tables."""

from collections import namedtuple

import numpy as np
from numba import njit

from udtw._kernels.cpu.pack import likely, sequence_rows
from udtw._kernels.cpu.pair_numbers import put_number, put_prices, theta_of
from udtw._kernels.cpu.rows import INNER, SLOT, STATE_ROWS, fill
from udtw._kernels.cpu.simd import borrow

Gradients = namedtuple(
    "Gradients",
    [
        "x",  # (B, N, d), as all of these zero at the start; of size 0 where not wanted
        "y",  # (B, M, d)
        "cost",  # (B, N, M): of the base cost
        "var_x",  # (B, N, 1 or d)
        "var_y",  # (B, M, 1 or d)
        "variance",  # (B, N, M)
        "gamma",  # (B,)
        "beta",  # (B,)
        "warp",  # (B,)
        "coupling",  # (B, N, M): not a gradient but π* itself
        "match",  # (B, N, MATCH_COLUMNS): not a gradient but sums over the rows of π*, see `collect_matches`
    ],
)


@njit(**INNER)
def borrow_gradients(grads):
    return Gradients(
        borrow(grads.x), borrow(grads.y), borrow(grads.cost), borrow(grads.var_x), borrow(grads.var_y),
        borrow(grads.variance), borrow(grads.gamma), borrow(grads.beta), borrow(grads.warp), borrow(grads.coupling),
        borrow(grads.match),
    )  # fmt: skip


BY_SOFT_MIN, BY_COST, BY_LOG, BY_DEVIATION, BY_ONE, BY_WARPS, BY_FIELD = range(7)
"""Rows of ``factors``, the loss's derivatives: in soft_min, then in E of the fields of `udtw._engine.problem`."""
FACTORS = 6
Mode = namedtuple(
    "Mode",
    [
        "plain",  # the energy of a cell is C and no step has a penalty: E[C] is held relative to the exponent of Z
        "likely",  # log Σ is part of the energy
        "warped",  # non-diagonal steps have a penalty
        "relaxed",  # paths may start and end along the borders
        "adjoint",  # an expectation counts, so that W is needed beside π
        "rest",  # a field other than a plain C counts
        "gradients",  # anything but π is wanted
        "usual",  # E[C] and log Σ of one feature with a variance of each step: the loops made for the paper's loss
        "swift",  # likewise for the free energy of the likelihood, of any number of features
        "fused",  # the energy of the likelihood is made in one loop
        "prices",  # gradients in β or ω are wanted, or that in γ without `entropy`
        "entropy",  # the gradient in γ is wanted, and is the entropy of paths between two fixed cells
    ],
)
"""What a backward sweep computes."""

Layout = namedtuple(
    "Layout",
    [
        "row",  # numbers in a row
        "state",  # the rows of `rows.State`
        "coupling", "adjoint",  # rolling, three rows each
        "cost", "scaled", "factor", "variance", "field", "total", "gradient", "sigma_gradient", "alarm", "seed", "log",
        "energy",  # the row of C where that is the energy
        "tilt", "visits", "log_tilt", "edges",  # sums over a row of the grid, see `gradient_rows`
        "grad_x", "grad_y", "grad_var_x", "grad_var_y",
        "sequences",
        "saved",  # the states saved at the start of each segment
        "scale", "theta", "by_cost", "direct", "beta", "kappa", "priced", "warp_power", "warp_factor",  # slots
        "factors",  # FACTORS slots
        "over_gamma",  # FACTORS + 1: the factors, and for the user's field one, divided by γ
        "tables",  # six of `size` numbers: transition probabilities and pulls to up, left, corner
        "size",
        "end",
    ],
)  # fmt: skip
"""Offsets in the scratch memory."""


@njit(**INNER)
def make_layout(row, pairs, saves, size):
    dim, noise = pairs.x.shape[2], pairs.var_x.shape[2]
    coupling = STATE_ROWS
    cost = coupling + 6
    sums = cost + 12
    grads = sums + 4
    sequences = grads + 2 * dim + 2 * noise
    saved = sequences + sequence_rows(pairs)
    scale = (saved + STATE_ROWS * saves) * row
    factors = scale + 9 * SLOT
    tables = factors + (2 * FACTORS + 1) * SLOT
    energy = (cost + 11) * row if likely(pairs) else cost * row
    return Layout(
        row,
        0,
        coupling * row, (coupling + 3) * row,
        cost * row, (cost + 1) * row, (cost + 2) * row, (cost + 3) * row, (cost + 4) * row, (cost + 5) * row,
        (cost + 6) * row, (cost + 7) * row, (cost + 8) * row, (cost + 9) * row, (cost + 10) * row,
        energy,
        sums * row, (sums + 1) * row, (sums + 2) * row, (sums + 3) * row,
        grads * row, (grads + dim) * row, (grads + 2 * dim) * row, (grads + 2 * dim + noise) * row,
        sequences * row,
        saved * row,
        scale, scale + SLOT, scale + 2 * SLOT, scale + 3 * SLOT, scale + 4 * SLOT, scale + 5 * SLOT, scale + 6 * SLOT,
        scale + 7 * SLOT, scale + 8 * SLOT,
        factors,
        factors + FACTORS * SLOT,
        tables,
        size,
        tables + 6 * size,
    )  # fmt: skip


@njit(**INNER)
def put_numbers(w, at, pairs, steps, mode, factors, first, pack, rows, columns):
    """Everything that is one number per pair."""
    fill(w, at.scale, at.tables, w.dtype.type(0))
    put_prices(w, at, pairs, steps, first, pack, rows, columns)
    for p in range(pack):
        b = first + p
        gamma = pairs.gamma[b]
        if mode.plain:
            put_number(w, at.theta, p, pack, theta_of(pairs, b))
            put_number(w, at.by_cost, p, pack, factors[BY_COST, b] * np.log(2))
        else:
            put_number(w, at.over_gamma + BY_COST * SLOT, p, pack, factors[BY_COST, b] / gamma)
        put_number(w, at.direct, p, pack, factors[BY_SOFT_MIN, b] + factors[BY_COST, b])
        if mode.likely:
            put_number(w, at.priced, p, pack, factors[BY_SOFT_MIN, b] * pairs.beta[b])
        for f in (BY_SOFT_MIN, BY_LOG, BY_DEVIATION):
            put_number(w, at.factors + f * SLOT, p, pack, factors[f, b])
        for f in (BY_LOG, BY_DEVIATION, BY_ONE, BY_WARPS):  # not of all: where they are large it could overflow
            put_number(w, at.over_gamma + f * SLOT, p, pack, factors[f, b] / gamma)
        put_number(w, at.over_gamma + BY_FIELD * SLOT, p, pack, 1 / gamma)


@njit(**INNER)
def place_tables(limits, pack, start, stop, first_table, row):
    """Set ``limits[2, k]``: the offset of diagonal k's positions in the first table."""
    at = first_table + row
    for k in range(start, stop):
        limits[2, k] = at - (limits[0, k] + 1) * pack
        at += (limits[1, k] - limits[0, k]) * pack
