"""What happens on one anti-diagonal: the recurrences of README.md on SIMD vectors.

A *pack* interleaves ``pack`` pairs of sequences: cell (i, j) of pair p lies on diagonal ``k = i + j`` at position
``(i + 1)·pack + p``. Its predecessors are then at fixed offsets: up (i−1, j) at ``position − pack`` and left (i, j−1)
at ``position`` of diagonal k−1, corner (i−1, j−1) at ``position − pack`` of diagonal k−2.

All rows live in one scratch array ``w``; arguments that name a quantity are the offset of its row there, and suffixes 1
and 2 mean the diagonals before this one. Loops run in whole vectors from ``begin`` and
may overshoot ``end`` by less than one vector; the guards (`pack.guard_below`, `guard_above`) repair that.

What is one number a pair has no row but a *slot*; the number of pairs in a pack is a power of two.
"""

from numba import njit

from udtw.kernels.cpu.simd import (
    exp2_fraction,
    exponent,
    fma,
    halved,
    lanes,
    load,
    log,
    mantissa,
    maximum,
    minimum,
    most_halvings,
    nearest,
    splat,
    store,
    where_greater,
    worst,
)

INNER = {"nogil": True, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only other kernels call."""


SLOT = MOST_PAIRS = 32
"""Room for one number a pair of the largest pack, which is no smaller than a vector."""


@njit(**INNER)
def of_pairs(w, slot, t, pack):
    """The numbers of the pairs to which the cells at position ``t`` belong."""
    return load(w, slot + (t & (pack - 1)))


@njit(**INNER)
def squared_distance_row(w, begin, end, xs, ys, row, dim, out):
    """``out = Σ_f (x_f − y_f)²``; feature f of x lies ``f·row`` further on."""
    for t in range(begin, end, lanes(w)):
        difference = load(w, xs + t) - load(w, ys + t)
        store(w, out + t, difference * difference)
    for f in range(1, dim):
        for t in range(begin, end, lanes(w)):
            difference = load(w, xs + f * row + t) - load(w, ys + f * row + t)
            store(w, out + t, fma(difference, difference, load(w, out + t)))


@njit(**INNER)
def mean_variance_row(w, begin, end, half_var_x, half_var_y, out):
    """``Σ = ½σ²(x_m) + ½σ²(y_n)``."""
    for t in range(begin, end, lanes(w)):
        store(w, out + t, load(w, half_var_x + t) + load(w, half_var_y + t))


@njit(**INNER)
def weighted_cost_row(w, begin, end, variance, cost):
    """``C = D / Σ`` in place."""
    for t in range(begin, end, lanes(w)):
        store(w, cost + t, load(w, cost + t) / load(w, variance + t))


@njit(**INNER)
def log_row(w, begin, end, variance, out):
    """``log Σ``."""
    for t in range(begin, end, lanes(w)):
        store(w, out + t, log(load(w, variance + t)))


@njit(**INNER)
def deviation_row(w, begin, end, variance, out):
    """``(Σ − 1)²``."""
    one = splat(w, w.dtype.type(1))
    for t in range(begin, end, lanes(w)):
        excess = load(w, variance + t) - one
        store(w, out + t, excess * excess)


@njit(**INNER)
def range_row(w, begin, end, values, stretch, alarm):
    """Adds NaN to ``alarm`` where ``values·stretch`` is not a finite number."""
    factor = splat(w, stretch)
    total = load(w, alarm)
    for t in range(begin, end, lanes(w)):
        stretched = load(w, values + t) * factor
        total = total + (stretched - stretched)
    store(w, alarm, total)


@njit(**INNER)
def factor_row(w, begin, end, pack, cost, scale, scaled_cost, factor):
    """``scale·C``, and ``2^(−scale·C)`` without its power of two, for `soft_min_row`.

    A loop of its own: the chain of operations is long, and in a longer loop the processor could not look far enough
    ahead to overlap it with that of the next cells.
    """
    for t in range(begin, end, lanes(w)):
        scaled = load(w, cost + t) * of_pairs(w, scale, t, pack)
        store(w, scaled_cost + t, scaled)
        store(w, factor + t, exp2_fraction(nearest(scaled) - scaled))


@njit(**INNER)
def usual_factor_row(
    w, begin, end, pack, xs, ys, half_var_x, half_var_y, scale, by_log, stretch, alarm, scaled_cost, factor, field
):  # fmt: skip
    """`factor_row`, `range_row` and ``field = by_log·log Σ`` for ``C = (x − y)²/Σ``, ``Σ = ½σ²(x) + ½σ²(y)``."""
    zero = splat(w, w.dtype.type(0))
    highest = zero
    for t in range(begin, end, lanes(w)):
        difference = load(w, xs + t) - load(w, ys + t)
        sigma = load(w, half_var_x + t) + load(w, half_var_y + t)
        cost = difference * difference / sigma
        highest = worst(highest, cost)
        scaled = cost * of_pairs(w, scale, t, pack)
        store(w, scaled_cost + t, scaled)
        store(w, factor + t, exp2_fraction(nearest(scaled) - scaled))
        store(w, field + t, of_pairs(w, by_log, t, pack) * log(sigma))
    store(w, alarm, fma(highest * splat(w, stretch), zero, load(w, alarm)))


@njit(**INNER)
def soft_min_row(
    w, begin, end, pack, scaled_cost, factor, weight, weight1, weight2, power, power1, power2, unreachable,
    keep, to_up, to_left, to_corner,
    with_mean, theta, excess, excess1, excess2,
    with_pulls, by_cost, pull_up, pull_left, pull_corner,
    with_rest, bounded, rest_field, rest, rest1, rest2,
):  # fmt: skip
    """One diagonal of the partition function, and on request of the prefix means and their derivatives.

    ``Z_k = 2^(−scale·C_k) Σ_p Z_p`` is held as ``weight·2^(−power)``, weight in [1, 2) and power a whole number: there
    is no logarithm, one polynomial, and no loss of accuracy however small γ is.

    - ``keep``: the transition probabilities ``q_p = Z_p / Σ Z_p``;
    - ``with_mean``: the prefix mean of C, held as ``scale·A = θ·power + excess``, so that what is summed stays small;
    - ``with_pulls``: ``q_p (Σ q A − A_p)``, how the average path differs from one that arrives from p, in units of γ
      and weighted by ``by_cost``; ``with_rest`` adds the same of a further field, whose prefix mean is ``rest``.

    So that rounding hardly adds up, means are taken about one of the predecessors. For C it is the one of least mean,
    the likeliest but for the entropy of its paths; for a further field the likeliest, or where it is ``bounded``, so
    that no cell's value dwarfs the others', simply the corner.
    """
    ceiling, deepest = splat(w, unreachable), splat(w, most_halvings(w))
    nothing = halved(deepest)
    for t in range(begin, end, lanes(w)):
        up_power = load(w, power1 + t - pack)
        left_power = load(w, power1 + t)
        corner_power = load(w, power2 + t - pack)
        least = minimum(minimum(up_power, left_power), corner_power)
        up_lag = minimum(up_power - least, deepest)
        left_lag = minimum(left_power - least, deepest)
        corner_lag = minimum(corner_power - least, deepest)
        up = load(w, weight1 + t - pack) * (halved(up_lag) - nothing)
        left = load(w, weight1 + t) * (halved(left_lag) - nothing)
        corner = load(w, weight2 + t - pack) * (halved(corner_lag) - nothing)
        total = up + left + corner
        scaled = load(w, scaled_cost + t)
        value = total * load(w, factor + t)
        drop = exponent(value) - nearest(scaled)
        store(w, weight + t, mantissa(value))
        store(w, power + t, minimum(least - drop, ceiling))
        if keep or with_mean:
            # Three divisions, no slower than one and its correction: a lone predecessor's share must be exactly one.
            q_up, q_left, q_corner = up / total, left / total, corner / total
            if keep:
                store(w, to_up + t, q_up)
                store(w, to_left + t, q_left)
                store(w, to_corner + t, q_corner)
            if with_mean:
                offset = of_pairs(w, theta, t, pack)
                up_mean = fma(offset, up_lag, load(w, excess1 + t - pack))
                left_mean = fma(offset, left_lag, load(w, excess1 + t))
                corner_mean = fma(offset, corner_lag, load(w, excess2 + t - pack))
                centre = minimum(minimum(up_mean, left_mean), corner_mean)
                up_mean, left_mean, corner_mean = up_mean - centre, left_mean - centre, corner_mean - centre
                mean = fma(q_corner, corner_mean, fma(q_left, left_mean, q_up * up_mean))
                store(w, excess + t, centre + (mean + fma(offset, drop, scaled)))
                if with_pulls:
                    unit = of_pairs(w, by_cost, t, pack)
                    mean, corner_mean = unit * mean, unit * corner_mean
                    if with_rest:
                        up_rest, left_rest = load(w, rest1 + t - pack), load(w, rest1 + t)
                        corner_rest = load(w, rest2 + t - pack)
                        centre = corner_rest
                        if not bounded:
                            centre = where_greater(up, corner, up_rest, centre)
                            centre = where_greater(left, maximum(up, corner), left_rest, centre)
                        up_rest, left_rest = up_rest - centre, left_rest - centre
                        rest_mean = fma(q_left, left_rest, q_up * up_rest)
                        if not bounded:
                            corner_rest = corner_rest - centre
                            rest_mean = fma(q_corner, corner_rest, rest_mean)
                            corner_mean = corner_mean + corner_rest
                        store(w, rest + t, centre + (rest_mean + load(w, rest_field + t)))
                        mean = mean + rest_mean
                        up_mean, left_mean = fma(unit, up_mean, up_rest), fma(unit, left_mean, left_rest)
                    else:
                        up_mean, left_mean = unit * up_mean, unit * left_mean
                    store(w, pull_up + t, q_up * (mean - up_mean))
                    store(w, pull_left + t, q_left * (mean - left_mean))
                    store(w, pull_corner + t, q_corner * (mean - corner_mean))


@njit(**INNER)
def expectation_row(w, begin, end, pack, field, mean, mean1, mean2, to_up, to_left, to_corner):
    """``A_k = F_k + Σ_p q_p A_p`` for any field, taken about the likeliest predecessor."""
    for t in range(begin, end, lanes(w)):
        q_up, q_left, q_corner = load(w, to_up + t), load(w, to_left + t), load(w, to_corner + t)
        up, left, corner = load(w, mean1 + t - pack), load(w, mean1 + t), load(w, mean2 + t - pack)
        centre = where_greater(q_up, q_corner, up, corner)
        centre = where_greater(q_left, maximum(q_up, q_corner), left, centre)
        excess = fma(q_corner, corner - centre, fma(q_left, left - centre, q_up * (up - centre)))
        store(w, mean + t, centre + (excess + load(w, field + t)))


@njit(**INNER)
def hard_min_row(w, begin, end, pack, cost, value, value1, value2):
    """Classical DTW: ``V_k = C_k + min_p V_p``."""
    for t in range(begin, end, lanes(w)):
        least = minimum(load(w, value1 + t), load(w, value1 + t - pack))
        least = minimum(least, load(w, value2 + t - pack))
        store(w, value + t, least + load(w, cost + t))


@njit(**INNER)
def product_row(w, begin, end, pack, factor, field, out):
    """``out = factor · field``: the first term of ``F = Σ_i g_i F_i``."""
    for t in range(begin, end, lanes(w)):
        store(w, out + t, of_pairs(w, factor, t, pack) * load(w, field + t))


@njit(**INNER)
def add_product_row(w, begin, end, pack, factor, field, out):
    """``out += factor · field``: any further term."""
    for t in range(begin, end, lanes(w)):
        store(w, out + t, fma(of_pairs(w, factor, t, pack), load(w, field + t), load(w, out + t)))


@njit(**INNER)
def copy_row(w, begin, end, source, out):
    for t in range(begin, end, lanes(w)):
        store(w, out + t, load(w, source + t))


@njit(**INNER)
def fill(w, begin, end, value):
    """``value`` at positions [begin, end), and in the rest of the last vector."""
    repeated = splat(w, value)
    for t in range(begin, end, lanes(w)):
        store(w, t, repeated)
