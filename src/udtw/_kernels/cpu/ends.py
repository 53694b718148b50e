"""Where paths start and end: in the first and the last cell, or where relaxed ends allow it anywhere along a border.

A path may start in the first column down to row ``relax[0]`` and in the first row up to column ``relax[2]``, and ends
likewise near the last cell. So every anti-diagonal has at most two starts and two ends per pair (`SIDES`). A start is a
cell whose corner predecessor, which lies outside of the grid, has Z = 1. After the sweep the ends are the predecessors
of one virtual last cell.
"""

import math
from collections import namedtuple

import numpy as np
from numba import njit

from udtw._kernels.cpu.layout import BY_LOG, BY_WARPS
from udtw._kernels.cpu.pack import diagonal
from udtw._kernels.cpu.pair_numbers import constant_energy
from udtw._kernels.cpu.rows import INNER, SHARED, SLOT, state_of

SIDES = 2
LAST_START = 4
"""Row of ``pairs.relax`` that holds, for every pair, the last diagonal on which any of them may start."""
DEEPEST = 1000
"""A share that is halved more often than this is zero."""


@njit(**INNER)
def slack(pairs, end, b):
    """How many steps of pair b may stay unmatched at that end, numbered as in ``pairs.relax``."""
    return pairs.relax[end, b] if pairs.relax.shape[1] > 0 else 0


@njit(**INNER)
def end_row(pairs, d, b, side):
    """Row of the cell of diagonal d in which paths of pair b may end: in the last column, or in the last row; or −1."""
    n, m = pairs.length[0, b], pairs.length[1, b]
    if side == 0:
        row = d.k - m + 1
        found = n - 1 - slack(pairs, 1, b) <= row <= n - 1
    else:
        row = n - 1
        found = m - 1 - slack(pairs, 3, b) <= d.k - row <= m - 2  # the last column has been counted
    return row if found and d.low <= row < d.high else -1


@njit(**INNER)
def soonest_end(pairs, first, pack):
    """Return the first diagonal on which a path of the pack may end."""
    soonest = pairs.length[0, first] + pairs.length[1, first]
    for b in range(first, first + pack):
        relaxed = max(slack(pairs, 1, b), slack(pairs, 3, b))
        soonest = min(soonest, pairs.length[0, b] + pairs.length[1, b] - 2 - relaxed)
    return soonest


@njit(**INNER)
def has_starts(pairs, d):
    """Whether any pair may start on diagonal d, not counting the first cell."""
    return pairs.relax.shape[1] > 0 and d.k <= pairs.relax[LAST_START, d.first]


@njit(**INNER)
def start_position(pairs, d, b, p, side):
    """Position, on the diagonal before the last one, of the virtual predecessor of a start of pair b; or −1.

    The first cell is not meant, which has its own (`forward.start_soft_min`).
    """
    row = d.k if side == 0 else 0
    if not 0 < d.k <= pairs.relax[2 * side, b] or not d.low <= row < d.high:
        return -1
    return row * d.pack + p


@njit(**INNER)
def open_starts(w, pairs, d, state, unit):
    """Make the starts of diagonal d reachable. ``unit`` is the slot of what a non-diagonal step adds to the mean."""
    for p in range(d.pack if has_starts(pairs, d) else 0):
        for side in range(SIDES):
            position = start_position(pairs, d, d.first + p, p, side)
            if position >= 0:
                w[state.weight.far + position] = 1
                w[state.power.far + position] = 0
                w[state.excess.far + position] = 0
                w[state.rest.far + position] = d.k * w[unit + p]


@njit(**INNER)
def open_row(w, pairs, d, row, value):
    """Write ``value`` at the virtual predecessors of the starts of diagonal d; these lie one ``pack`` further on."""
    for p in range(d.pack if has_starts(pairs, d) else 0):
        for side in range(SIDES):
            position = start_position(pairs, d, d.first + p, p, side)
            if position >= 0:
                w[row + position] = value


@njit(**INNER)
def z_at(w, state, position, unreachable):
    """``Z = weight·2^(−power)`` of a cell of this diagonal, in float64; an infinite power if no path leads there."""
    weight, power = np.float64(w[state.weight.here + position]), np.float64(w[state.power.here + position])
    return weight, power if power < 0.5 * unreachable else np.inf


@njit(**INNER)
def settle(weights, powers, means, p):
    """``−log2 Z`` of the virtual last cell whose predecessors are the ends of pair p; (pack, 2, K) each.

    In place: ``weights`` become the shares of the ends, ``means`` what `add_end_pulls` adds for them.
    """
    least = np.inf
    for side in range(SIDES):
        for e in range(powers.shape[2]):
            least = min(least, powers[p, side, e])
    total, average = 0.0, 0.0
    for side in range(SIDES):
        for e in range(powers.shape[2]):
            lag = powers[p, side, e] - least
            weights[p, side, e] = math.ldexp(weights[p, side, e], -int(lag)) if lag < DEEPEST else 0.0
            total += weights[p, side, e]
            average += weights[p, side, e] * means[p, side, e]
    average /= total
    for side in range(SIDES):
        for e in range(powers.shape[2]):
            weights[p, side, e] /= total
            means[p, side, e] = weights[p, side, e] * (average - means[p, side, e])
    return least - np.log2(total)


@njit(**INNER)
def mean_cost_at(w, state, theta, position, gamma):
    """Prefix mean of C at ``position`` of this diagonal; ``theta`` is where the pair's θ lies."""
    mean = w[theta] * w[state.power.here + position] + w[state.excess.here + position]
    return mean * (np.log(2) * gamma)


Ends = namedtuple("Ends", ["soonest", "weights", "powers", "means"])
"""Of the paths' ends from diagonal ``soonest`` on, (pack, 2, diagonals) each; see `ends.settle`."""


@njit(**INNER)
def make_ends(pairs, first, pack, diagonals):
    soonest = soonest_end(pairs, first, pack)
    shape = (pack, SIDES, diagonals - soonest)
    return Ends(soonest, np.zeros(shape), np.full(shape, np.inf), np.zeros(shape))


@njit(**SHARED)
def record_ends(w, pairs, d, at, mode, factors, ends, sums, unreachable):
    """For each path end on diagonal d: Z, and the mean of the loss over the paths to it, in units of γ.

    For a loss of E[C] and E[log Σ], which have one end only, these go to ``sums[1:]``.
    """
    state = state_of(at.state, at.row, d.k)
    for p in range(d.pack):
        b = d.first + p
        for side in range(SIDES):
            i = end_row(pairs, d, b, side)
            if i < 0:
                continue
            position, e = (i + 1) * d.pack + p, d.k - ends.soonest
            ends.weights[p, side, e], ends.powers[p, side, e] = z_at(w, state, position, unreachable)
            mean, rest = mean_cost_at(w, state, at.theta + p, position, 1.0), np.float64(w[state.rest.here + position])
            by_warps = np.float64(w[at.over_gamma + BY_WARPS * SLOT + p]) * (d.k + 2)
            ends.means[p, side, e] = w[at.by_cost + p] / np.log(2) * mean + rest - by_warps
            if sums.size > 0 and mode.plain and not mode.relaxed:
                sums[1, b] = mean * pairs.gamma[b]
                if factors[BY_LOG, b] != 0:
                    sums[2, b] = rest * pairs.gamma[b] / factors[BY_LOG, b]


@njit(**INNER)
def settle_pack(w, pairs, at, ends, first, soft_min, sums):
    """Turn the ends of the pack into shares and pulls; writes its values to ``soft_min`` and ``sums[0]``."""
    for p in range(ends.weights.shape[0]):
        b = first + p
        soft_min[p] = settle(ends.weights, ends.powers, ends.means, p) * (np.log(2) * pairs.gamma[b])
        if sums.size > 0:
            sums[0, b] = soft_min[p] + constant_energy(w, at, pairs, b, p)


@njit(**INNER)
def set_seeds(w, pairs, limits, at, ends, first, pack, k):
    """Return the share of paths that end in a cell of diagonal k; zero where some end on the diagonal after it."""
    for later in (1, 0):
        e = k + later - ends.soonest
        if 0 <= e < ends.weights.shape[2]:
            d = diagonal(limits, k + later, pack, first)
            for p in range(pack):
                for side in range(SIDES):
                    i = end_row(pairs, d, first + p, side)
                    if i >= 0:
                        w[at.seed + (i + 1) * pack + p] = 0 if later else ends.weights[p, side, e]


@njit(**INNER)
def add_end_pulls(w, pairs, d, adjoint, ends):
    """Add what the choice of the end carries of the loss's derivative to W."""
    for p in range(d.pack):
        for side in range(SIDES):
            i = end_row(pairs, d, d.first + p, side)
            if i >= 0:
                w[adjoint + (i + 1) * d.pack + p] += ends.means[p, side, d.k - ends.soonest]
