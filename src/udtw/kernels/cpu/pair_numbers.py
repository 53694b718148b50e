"""What is one number per pair: γ, β, ω, the reference level and θ, checked and as the row kernels read them."""

import numpy as np
from numba import njit

from udtw.kernels.cpu.pack import likely
from udtw.kernels.cpu.rows import INNER, SHARED
from udtw.kernels.cpu.simd import get, lanes


@njit(**INNER)
def put_number(w, slot, p, pack, value):
    """Pair p's number, where `rows.of_pairs` reads it."""
    for t in range(slot + p, slot + max(pack, lanes(w)), pack):
        w[t] = value


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
def variances_usable(pairs, begin, end):
    """Whether every variance of pairs [begin, end) inside its lengths is a positive finite number."""
    usable = True
    for b in range(begin, end):
        if pairs.var_x.shape[0] > 0:
            dim = pairs.var_x.shape[2]
            x, y = pairs.index[0, b] * pairs.var_x.shape[1] * dim, pairs.index[1, b] * pairs.var_y.shape[1] * dim
            for i in range(x, x + pairs.length[0, b] * dim):
                usable &= 0 < get(pairs.var_x, i) < np.inf
            for j in range(y, y + pairs.length[1, b] * dim):
                usable &= 0 < get(pairs.var_y, j) < np.inf
        if pairs.variance.shape[0] > 0:
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


@njit(**SHARED)
def put_prices(w, at, pairs, first, pack):
    """γ, β, ω and the reference level as the row kernels read them; after `variances_usable`."""
    for p in range(pack):
        b = first + p
        scale = 1 / (np.log(2) * pairs.gamma[b])
        put_number(w, at.scale, p, pack, scale)
        if likely(pairs):
            put_number(w, at.beta, p, pack, pairs.beta[b])
            put_number(w, at.kappa, p, pack, -pairs.beta[b] * log_level(pairs, b))
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
