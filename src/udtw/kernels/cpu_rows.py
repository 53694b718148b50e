"""What happens on one anti-diagonal: the recurrences of README.md on SIMD vectors.

A *pack* interleaves ``pack`` pairs of sequences: cell (i, j) of pair p lies on diagonal ``k = i + j`` at position
``(i + 1)·pack + p``. Its predecessors are then at fixed offsets: up (i−1, j) at ``position − pack`` and left (i, j−1)
at ``position`` of diagonal k−1, corner (i−1, j−1) at ``position − pack`` of diagonal k−2.

All rows live in one scratch array ``w``; arguments that name a quantity are the offset of its row there, and suffixes 1
and 2 mean the diagonals before this one. Loops run in whole vectors from ``begin`` and
may overshoot ``end`` by less than one vector; the guards (`cpu_pack.guard_below`, `guard_above`) repair that.
"""

from numba import njit

from udtw.kernels.simd import (
    exp2_fraction,
    exponent,
    fma,
    lanes,
    least_power,
    load,
    log,
    mantissa,
    maximum,
    minimum,
    nearest,
    power_of_two,
    splat,
    store,
    where_greater,
)

INNER = {"nogil": True, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only other kernels call."""


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
def mean_variance_row(w, begin, end, var_x, var_y, out):
    """``Σ = ½(σ²(x_m) + σ²(y_n))``."""
    half = splat(w, w.dtype.type(0.5))
    for t in range(begin, end, lanes(w)):
        store(w, out + t, (load(w, var_x + t) + load(w, var_y + t)) * half)


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
def factor_row(w, begin, end, cost, scale, scaled_cost, factor):
    """``scale·C``, and ``2^(−scale·C)`` without its power of two, for `soft_min_row`.

    A loop of its own: the chain of operations is long, and in a longer loop the processor could not look far enough
    ahead to overlap it with that of the next cells.
    """
    for t in range(begin, end, lanes(w)):
        scaled = load(w, cost + t) * load(w, scale + t)
        store(w, scaled_cost + t, scaled)
        store(w, factor + t, exp2_fraction(nearest(scaled) - scaled))


@njit(**INNER)
def usual_factor_row(
    w, begin, end, xs, ys, var_x, var_y, scale, by_log, stretch, alarm, scaled_cost, factor, field
):  # fmt: skip
    """`factor_row`, `range_row` and ``field = by_log·log Σ`` for ``C = (x − y)²/Σ``, ``Σ = ½(σ²(x) + σ²(y))``."""
    half, zero = splat(w, w.dtype.type(0.5)), splat(w, w.dtype.type(0))
    stretched, watch = splat(w, stretch), load(w, alarm)
    for t in range(begin, end, lanes(w)):
        difference = load(w, xs + t) - load(w, ys + t)
        sigma = (load(w, var_x + t) + load(w, var_y + t)) * half
        cost = difference * difference / sigma
        watch = fma(cost * stretched, zero, watch)
        scaled = cost * load(w, scale + t)
        store(w, scaled_cost + t, scaled)
        store(w, factor + t, exp2_fraction(nearest(scaled) - scaled))
        store(w, field + t, load(w, by_log + t) * log(sigma))
    store(w, alarm, watch)


@njit(**INNER)
def soft_min_row(
    w, begin, end, pack, scaled_cost, factor, weight, weight1, weight2, power, power1, power2, unreachable,
    keep, to_up, to_left, to_corner,
    with_mean, theta, excess, excess1, excess2,
    with_pulls, by_cost, pull_up, pull_left, pull_corner,
    with_rest, rest_field, rest, rest1, rest2,
):  # fmt: skip
    """One diagonal of the partition function, and on request of the prefix means and their derivatives.

    ``Z_k = 2^(−scale·C_k) Σ_p Z_p`` is held as ``weight·2^(−power)``, weight in [1, 2) and power a whole number: there
    is no logarithm, one polynomial, and no loss of accuracy however small γ is.

    - ``keep``: the transition probabilities ``q_p = Z_p / Σ Z_p``;
    - ``with_mean``: the prefix mean of C, held as ``scale·A = θ·power + excess``, so that what is summed stays small;
    - ``with_pulls``: ``q_p (A_p − Σ q A)``, how a path that arrives from p differs from the average one, in units of
      γ and weighted by ``by_cost``; ``with_rest`` adds the same of a further field, whose prefix mean is ``rest``.

    All means are taken about the likeliest predecessor, so that rounding hardly adds up.
    """
    ceiling = splat(w, unreachable)
    floor = splat(w, least_power(w))
    nothing = power_of_two(floor)
    for t in range(begin, end, lanes(w)):
        up_power = load(w, power1 + t - pack)
        left_power = load(w, power1 + t)
        corner_power = load(w, power2 + t - pack)
        least = minimum(minimum(up_power, left_power), corner_power)
        up_gap = maximum(least - up_power, floor)
        left_gap = maximum(least - left_power, floor)
        corner_gap = maximum(least - corner_power, floor)
        up = load(w, weight1 + t - pack) * (power_of_two(up_gap) - nothing)
        left = load(w, weight1 + t) * (power_of_two(left_gap) - nothing)
        corner = load(w, weight2 + t - pack) * (power_of_two(corner_gap) - nothing)
        total = up + left + corner
        scaled = load(w, scaled_cost + t)
        whole = nearest(scaled)
        value = total * load(w, factor + t)
        gain = whole - exponent(value)
        store(w, weight + t, mantissa(value))
        store(w, power + t, minimum(least + gain, ceiling))
        if keep or with_mean:
            # Three divisions, no slower than one and its correction: a lone predecessor's share must be exactly one.
            q_up, q_left, q_corner = up / total, left / total, corner / total
            if keep:
                store(w, to_up + t, q_up)
                store(w, to_left + t, q_left)
                store(w, to_corner + t, q_corner)
            if with_mean:
                offset = load(w, theta + t)
                likeliest = maximum(up, corner)
                up_mean = load(w, excess1 + t - pack) - offset * up_gap
                left_mean = load(w, excess1 + t) - offset * left_gap
                corner_mean = load(w, excess2 + t - pack) - offset * corner_gap
                centre = where_greater(up, corner, up_mean, corner_mean)
                centre = where_greater(left, likeliest, left_mean, centre)
                up_mean, left_mean, corner_mean = up_mean - centre, left_mean - centre, corner_mean - centre
                mean = fma(q_corner, corner_mean, fma(q_left, left_mean, q_up * up_mean))
                store(w, excess + t, centre + (mean + (scaled - offset * gain)))
                if with_pulls:
                    unit = load(w, by_cost + t)
                    up_pull, left_pull = unit * (up_mean - mean), unit * (left_mean - mean)
                    corner_pull = unit * (corner_mean - mean)
                    if with_rest:
                        up_rest, left_rest = load(w, rest1 + t - pack), load(w, rest1 + t)
                        corner_rest = load(w, rest2 + t - pack)
                        centre = where_greater(up, corner, up_rest, corner_rest)
                        centre = where_greater(left, likeliest, left_rest, centre)
                        up_rest, left_rest, corner_rest = up_rest - centre, left_rest - centre, corner_rest - centre
                        mean = fma(q_corner, corner_rest, fma(q_left, left_rest, q_up * up_rest))
                        store(w, rest + t, centre + (mean + load(w, rest_field + t)))
                        up_pull, left_pull = up_pull + (up_rest - mean), left_pull + (left_rest - mean)
                        corner_pull = corner_pull + (corner_rest - mean)
                    store(w, pull_up + t, q_up * up_pull)
                    store(w, pull_left + t, q_left * left_pull)
                    store(w, pull_corner + t, q_corner * corner_pull)


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
def product_row(w, begin, end, factor, field, out):
    """``out = factor · field``: the first term of ``F = Σ_i g_i F_i``."""
    for t in range(begin, end, lanes(w)):
        store(w, out + t, load(w, factor + t) * load(w, field + t))


@njit(**INNER)
def add_product_row(w, begin, end, factor, field, out):
    """``out += factor · field``: any further term."""
    for t in range(begin, end, lanes(w)):
        store(w, out + t, fma(load(w, factor + t), load(w, field + t), load(w, out + t)))


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
