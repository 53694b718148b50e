"""What happens on one anti-diagonal where steps may stay unmatched: the three states of README.md on SIMD vectors.

Layout and numbers are those of `rows`. Beside the states M, X and Y a cell has two sums of them:
``U = M + X``, which a run of left-out steps of y continues, and ``A = U + Y``, which the next match continues.
"""

from collections import namedtuple

from numba import njit

from udtw._kernels.cpu.rows import INNER, Rolling, feature_variance_at, of_pairs, rolling
from udtw._kernels.cpu.simd import (
    exponent,
    fma,
    fnma,
    halved,
    lanes,
    least_probability,
    load,
    log,
    mantissa,
    minimum,
    most_halvings,
    nearest,
    splat,
    store,
    where_greater,
)

Number = namedtuple("Number", ["weight", "power"])
"""`Rolling` rows of a quantity ``weight·2^(−power)``."""
GapState = namedtuple("GapState", ["match", "left_x", "left_y", "open", "any"])
"""A `Number` each: M, X, Y, U and A."""
Shares = namedtuple("Shares", ["up", "left", "corner", "left_x", "left_y", "open", "any"])
"""Rows of shares: of M's predecessors above, to the left and beyond the corner; of X in X, Y in Y, M in U, U in A."""
GapSweep = namedtuple("GapSweep", ["match", "left_x", "left_y", "here", "next", "corner", "seed"])
"""`Rolling` rows of probabilities, `Shares` of this diagonal, of the next and of the one after it, and the ends."""
GAP_STATE_ROWS = 22


@njit(**INNER)
def two(at, row, k):
    """Return `Rolling` rows of a quantity of which the sweep reads the last diagonal alone."""
    return Rolling(at + k % 2 * row, at + (k + 1) % 2 * row, at)


@njit(**INNER)
def gap_state_of(at, row, k):
    """Return the `GapState` whose `GAP_STATE_ROWS` rows lie from ``at`` on."""
    return GapState(
        Number(two(at, row, k), two(at + 2 * row, row, k)),
        Number(two(at + 4 * row, row, k), two(at + 6 * row, row, k)),
        Number(two(at + 8 * row, row, k), two(at + 10 * row, row, k)),
        Number(two(at + 12 * row, row, k), two(at + 14 * row, row, k)),
        Number(rolling(at + 16 * row, row, k), rolling(at + 19 * row, row, k)),
    )


@njit(**INNER)
def aligned(weight, power, least, deepest, nothing):
    """Return the weight of a number for the exponent ``least``, which is no larger than its own."""
    return weight * (halved(minimum(power - least, deepest)) - nothing)


@njit(**INNER)
def gap_row(w, d, at, slots, state, to, unreachable):
    """All states of the diagonal and the shares of what they came from.

    The two sums are not normalized: weights below six do no harm. All shares take one division, of the product of the
    five totals, each of which lies between ½ and 16.
    """
    ceiling, deepest = splat(w, unreachable), splat(w, most_halvings(w))
    nothing, zero, one = halved(deepest), splat(w, w.dtype.type(0)), splat(w, w.dtype.type(1))
    match, left_x, left_y, opened, every = state
    for t in range(d.begin, d.end, lanes(w)):
        above = t - d.pack
        skip_power, skip_factor = of_pairs(w, slots.skip_power, t, d.pack), of_pairs(w, slots.skip_factor, t, d.pack)
        open_power, open_factor = of_pairs(w, slots.open_power, t, d.pack), of_pairs(w, slots.open_factor, t, d.pack)
        from_above, from_above_power = load(w, match.weight.near + above), load(w, match.power.near + above)

        up_power = from_above_power + of_pairs(w, slots.up_power, t, d.pack)
        left_power = load(w, match.power.near + t) + of_pairs(w, slots.left_power, t, d.pack)
        corner_power = load(w, every.power.far + above)
        least = minimum(minimum(up_power, left_power), corner_power)
        up = aligned(from_above, up_power, least, deepest, nothing) * of_pairs(w, slots.up_factor, t, d.pack)
        left = aligned(load(w, match.weight.near + t), left_power, least, deepest, nothing)
        left = left * of_pairs(w, slots.left_factor, t, d.pack)
        corner = aligned(load(w, every.weight.far + above), corner_power, least, deepest, nothing)
        m_total = up + left + corner
        scaled = load(w, at.scaled + t)
        value = m_total * load(w, at.factor + t)
        m_weight = mantissa(value)
        m_power = minimum(least - (exponent(value) - nearest(scaled)), ceiling)

        x_before, before_power = load(w, left_x.power.near + above), from_above_power + open_power
        least = minimum(x_before, before_power)
        of_x = aligned(load(w, left_x.weight.near + above), x_before, least, deepest, nothing)
        begun_x = aligned(from_above * open_factor, before_power, least, deepest, nothing)
        x_total = of_x + begun_x
        value = x_total * skip_factor
        x_weight, x_power = mantissa(value), minimum(least + skip_power - exponent(value), ceiling)

        y_before, before_power = load(w, left_y.power.near + t), load(w, opened.power.near + t) + open_power
        least = minimum(y_before, before_power)
        of_y = aligned(load(w, left_y.weight.near + t), y_before, least, deepest, nothing)
        begun_y = aligned(load(w, opened.weight.near + t) * open_factor, before_power, least, deepest, nothing)
        y_total = of_y + begun_y
        value = y_total * skip_factor
        y_weight, y_power = mantissa(value), minimum(least + skip_power - exponent(value), ceiling)

        u_power = minimum(m_power, x_power)
        of_match = aligned(m_weight, m_power, u_power, deepest, nothing)
        other = aligned(x_weight, x_power, u_power, deepest, nothing)
        u_total = of_match + other
        a_power = minimum(u_power, y_power)
        of_open = aligned(u_total, u_power, a_power, deepest, nothing)
        closed = aligned(y_weight, y_power, a_power, deepest, nothing)
        a_total = of_open + closed
        store(w, match.weight.here + t, m_weight)
        store(w, match.power.here + t, m_power)
        store(w, left_x.weight.here + t, x_weight)
        store(w, left_x.power.here + t, x_power)
        store(w, left_y.weight.here + t, y_weight)
        store(w, left_y.power.here + t, y_power)
        store(w, opened.weight.here + t, u_total)
        store(w, opened.power.here + t, u_power)
        store(w, every.weight.here + t, a_total)
        store(w, every.power.here + t, a_power)

        matches, runs = m_total * x_total, y_total * u_total
        product = matches * runs
        inverse = one / (product * a_total)
        rest = inverse * a_total
        of_matches, of_runs = rest * runs, rest * matches
        by_match = of_matches * x_total
        store(w, to.up + t, up * by_match)
        store(w, to.left + t, left * by_match)
        store(w, to.corner + t, corner * by_match)
        # Exactly one where there is no other, so that nothing leads where no path can come from.
        store(w, to.left_x + t, where_greater(begun_x, zero, of_x * (of_matches * m_total), one))
        store(w, to.left_y + t, where_greater(begun_y, zero, of_y * (of_runs * u_total), one))
        store(w, to.open + t, where_greater(other, zero, of_match * (of_runs * y_total), one))
        store(w, to.any + t, where_greater(closed, zero, of_open * (inverse * product), one))


def _gap_back_row(swift=False, featured=False, prices=True):
    """Return the kernel for one diagonal of the backward sweep: the probabilities of all states, and what they sum to.

    With ``swift`` (and ``featured``: a variance of each feature) the gradients ``into`` of the free energy too, as in
    `gradient_rows`. The sums, for ``prices``: the steps (1, 0) and (0, 1), runs and matches, and π log Σ.
    """

    @njit(**INNER)
    def row(w, d, at, slots, sweep, steps, dim, into):
        least, zero, one = splat(w, least_probability(w)), splat(w, w.dtype.type(0)), splat(w, w.dtype.type(1))
        match, left_x, left_y = sweep.match, sweep.left_x, sweep.left_y
        here, after, beyond = sweep.here, sweep.next, sweep.corner
        # Downwards, as the diagonals go: the tables are then read as one stream, which the processor prefetches.
        last = d.begin + (d.end - d.begin - 1) // lanes(w) * lanes(w)
        for t in range(last, d.begin - 1, -lanes(w)):
            below = t + d.pack
            up = load(w, after.up + below) * load(w, match.near + below)
            left = load(w, after.left + t) * load(w, match.near + t)
            anything = fma(load(w, beyond.corner + below), load(w, match.far + below), load(w, sweep.seed + t))
            to_open = load(w, here.any + t) * anything
            y_right, stays = load(w, left_y.near + t), load(w, after.left_y + t)
            of_y = fma(stays, y_right, anything - to_open)
            to_open = fma(one - stays, y_right, to_open)
            to_match = load(w, here.open + t) * to_open
            x_below, stays = load(w, left_x.near + below), load(w, after.left_x + below)
            of_x = fma(stays, x_below, to_open - to_match)
            total = (up + left) + fma(one - stays, x_below, to_match)
            probability = where_greater(total, least, total, zero)
            of_x = where_greater(of_x, least, of_x, zero)
            of_y = where_greater(of_y, least, of_y, zero)
            store(w, match.here + t, probability)
            store(w, left_x.here + t, of_x)
            store(w, left_y.here + t, of_y)
            if prices:  # where nothing is visited, the tables may hold anything
                store(w, slots.ups + t, load(w, slots.ups + t) + where_greater(probability, zero, up, zero))
                store(w, slots.lefts + t, load(w, slots.lefts + t) + where_greater(probability, zero, left, zero))
                begun = where_greater(of_x, zero, (one - load(w, here.left_x + t)) * of_x, zero)
                begun = begun + where_greater(of_y, zero, (one - load(w, here.left_y + t)) * of_y, zero)
                store(w, slots.runs + t, load(w, slots.runs + t) + begun)
                store(w, slots.matches + t, load(w, slots.matches + t) + probability)
            if swift:
                store(w, at.visits + t, load(w, at.visits + t) + probability)
                price = of_pairs(w, at.beta, t, d.pack) * probability
                level = zero
                for f in range(0, dim * at.row if featured else 1, at.row):
                    sigma = feature_variance_at(w, steps, f, t)
                    inverse = one / sigma
                    difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
                    by_x = probability * inverse * difference
                    by_sigma = fnma(by_x, difference, price) * inverse
                    store(w, into.half_var_x + f + t, load(w, into.half_var_x + f + t) + by_sigma)
                    store(w, into.half_var_y + f + t, load(w, into.half_var_y + f + t) + by_sigma)
                    store(w, into.x + f + t, load(w, into.x + f + t) + by_x)
                    store(w, into.y + f + t, load(w, into.y + f + t) - by_x)
                    if prices:
                        level = level + log(sigma)
                if prices:
                    store(w, at.log_tilt + t, fma(probability, level, load(w, at.log_tilt + t)))

    return row


gap_back_row = _gap_back_row()
gap_swift_row = _gap_back_row(swift=True, prices=False)
gap_swift_price_row = _gap_back_row(swift=True)
gap_featured_row = _gap_back_row(swift=True, featured=True)
