"""What is one number per pair: γ, β, ω, the reference level and θ, checked and as the row kernels read them."""

import numpy as np
from numba import njit

from udtw._kernels.cpu.pack import likely
from udtw._kernels.cpu.rows import INNER, SHARED, add_log_row, fill, sum_steps
from udtw._kernels.cpu.simd import get, lanes


@njit(**INNER)
def put_number(w, slot, p, pack, value):
    """Pair p's number, where `rows.of_pairs` reads it."""
    t = slot + p
    while t < slot + max(pack, lanes(w)):  # a range would first divide to count its steps
        w[t] = value
        t += pack


@njit(**INNER)
def diagonal_cost(pairs, b):
    """Mean of C over points of the straight diagonal of pair b: a cheap guess at what a step of its paths costs."""
    n, m = pairs.length[0, b], pairs.length[1, b]
    s, r = pairs.index[0, b], pairs.index[1, b]
    last = pairs.var_x.shape[2] - 1
    total = 0.0
    for point in (1, 3, 5, 7):
        i, j = point * n // 8, point * m // 8
        base = 0.0
        if pairs.x.shape[2] > 0:
            for f in range(pairs.x.shape[2]):
                part = (pairs.x[s, i, f] - pairs.y[r, j, f]) ** 2
                if pairs.var_x.shape[0] > 0:
                    part /= 0.5 * (pairs.var_x[s, i, min(f, last)] + pairs.var_y[r, j, min(f, last)])
                base += part
        else:
            base = pairs.cost[b, i, j]
            if pairs.var_x.shape[0] > 0:
                base /= 0.5 * (pairs.var_x[s, i, 0] + pairs.var_y[r, j, 0])
        if pairs.variance.shape[0] > 0:
            base /= pairs.variance[b, i, j]
        total += base
    return total / 4


@njit(**INNER)
def theta_of(pairs, b):
    """θ of pair b: 1 where costs outweigh the entropy of the paths, else 0 (README.md)."""
    return 1 if diagonal_cost(pairs, b) > np.log(2) * pairs.gamma[b] else 0


@njit(**INNER)
def sum_of_logs(values, start, stop):
    """``Σ log v`` over a stretch of positive numbers, with a logarithm for every few of them."""
    total, product = 0.0, 1.0
    for i in range(start, stop):
        value = np.float64(get(values, i))
        if 1e-100 < value < 1e100:
            product *= value
            if not 1e-150 < product < 1e150:
                total += np.log(product)
                product = 1.0
        else:
            total += np.log(value)
    return total + np.log(product)


@njit(**INNER)
def log_level(pairs, b):
    """``log r`` of pair b: the mean log variance of the steps of x and that of y, averaged; of all matches if joint.

    The variances of the features of a step are summed.
    """
    n, m = pairs.length[0, b], pairs.length[1, b]
    if pairs.var_x.shape[0] > 0:
        dim = pairs.var_x.shape[2]
        x, y = pairs.index[0, b] * pairs.var_x.shape[1] * dim, pairs.index[1, b] * pairs.var_y.shape[1] * dim
        return 0.5 * (sum_of_logs(pairs.var_x, x, x + n * dim) / n + sum_of_logs(pairs.var_y, y, y + m * dim) / m)
    total = 0.0
    if pairs.variance.shape[0] > 0:
        rows, columns = pairs.variance.shape[1], pairs.variance.shape[2]
        for i in range(n):
            start = (b * rows + i) * columns
            total += sum_of_logs(pairs.variance, start, start + m)
    return total / (n * m)


@njit(**SHARED)
def joint_variances_usable(pairs, begin, end):
    """Whether every joint variance of pairs [begin, end) inside its lengths is a positive finite number."""
    usable = True
    for b in range(begin, end if pairs.variance.shape[0] > 0 else begin):
        for i in range(pairs.length[0, b]):
            for j in range(pairs.length[1, b]):
                usable &= 0 < pairs.variance[b, i, j] < np.inf
    return usable


LARGEST_LOG = 710.0
"""No logarithm of a positive number is larger than this, nor smaller than minus twice this."""


@njit(**INNER)
def prices_usable(pairs, begin, end, rows, columns, unreachable):
    """Whether β log Σ and ω, in units of γ and summed along a path, stay below ``unreachable``."""
    usable = True
    for b in range(begin, end):
        most = unreachable / (rows + columns) * min(1.0, np.log(2) * pairs.gamma[b])
        if pairs.beta.shape[0] > 0:
            usable &= abs(pairs.beta[b]) * 4 * LARGEST_LOG < most
        if pairs.warp.shape[0] > 0:
            usable &= abs(pairs.warp[b]) < most
    return usable


MANY_STEPS = 64
"""Up to so many steps of a pair, logarithms are taken and summed in vectors; of more they are summed in float64."""


@njit(**INNER)
def sum_log_rows(w, at, values, features, pack, steps, reverse, length, first, out):
    """``Σ log v`` over the steps of every pair of the pack, written to the slot ``out``.

    Adding zeros for the steps that a pair lacks makes no difference to a bit, whatever it shares the pack with.
    """
    fill(w, at.cost, at.cost + (steps + 2) * pack, w.dtype.type(0))
    for f in range(0, features * at.row, at.row):
        add_log_row(w, pack, steps, values + f, at.cost)
    for p in range(pack):
        for step in range(length[first + p], steps):
            w[at.cost + (steps - step if reverse else step + 1) * pack + p] = 0
    sum_steps(w, pack, steps, at.cost, out)


@njit(**SHARED)
def put_prices(w, at, pairs, steps, first, pack, rows, columns):
    """γ, β, ω and the reference level as the row kernels read them; after `forward.usable`."""
    by_step = likely(pairs) and pairs.var_x.shape[0] > 0
    if by_step:  # the slots of β and κ hold the sums meanwhile
        features, length = pairs.var_x.shape[2], pairs.length
        sum_log_rows(w, at, steps.half_var_x, features, pack, rows, False, length[0], first, at.beta)
        sum_log_rows(w, at, steps.half_var_y, features, pack, columns, True, length[1], first, at.kappa)
    for p in range(pack):
        b = first + p
        scale = 1 / (np.log(2) * pairs.gamma[b])
        put_number(w, at.scale, p, pack, scale)
        if likely(pairs):
            n, m = pairs.length[0, b], pairs.length[1, b]
            if by_step and max(n, m) <= MANY_STEPS:
                level = 0.5 * (w[at.beta + p] / n + w[at.kappa + p] / m) + np.log(2) * pairs.var_x.shape[2]
            else:
                level = log_level(pairs, b)
            put_number(w, at.beta, p, pack, pairs.beta[b])
            put_number(w, at.kappa, p, pack, -pairs.beta[b] * level)
        if pairs.warp.shape[0] > 0:
            whole = np.rint(pairs.warp[b] * scale)
            put_number(w, at.warp_power, p, pack, whole)
            put_number(w, at.warp_factor, p, pack, 2.0 ** (whole - pairs.warp[b] * scale))


@njit(**INNER)
def constant_energy(w, at, pairs, b, p):
    """``−½κ(N + M)``: the part of a path's energy that does not depend on the path."""
    if not likely(pairs):
        return 0.0
    return -0.5 * w[at.kappa + p] * (pairs.length[0, b] + pairs.length[1, b])
