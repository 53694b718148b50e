"""What happens on one anti-diagonal: the recurrences of README.md on SIMD vectors.

A *pack* interleaves several pairs of sequences: cell (i, j) of pair p lies on diagonal ``k = i + j`` at position
``(i + 1)·pack + p``. Its predecessors are then at fixed offsets: up (i−1, j) at ``position − pack`` and left (i, j−1)
at ``position`` of diagonal k−1, corner (i−1, j−1) at ``position − pack`` of diagonal k−2.

All rows live in one scratch array ``w``. An argument or attribute that names a quantity is the offset of its row there.
Loops run over a `Diagonal` in whole vectors and may overshoot its end by less than one vector; the guards
(`pack.guard_below`, `guard_above`) repair that.

A quantity with one number per pair has no row but a *slot*; the number of pairs in a pack is a power of two.
"""

from collections import namedtuple

from numba import njit

from udtw._kernels.cpu.simd import (
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

Diagonal = namedtuple("Diagonal", ["k", "pack", "first", "low", "high", "begin", "end", "mixed", "limits"])
"""Diagonal ``k`` of the pack that starts with pair ``first``: rows [low, high), positions [begin, end).

``mixed``: the pairs of the pack have different bands, and the rows of each are in ``limits`` (`pack.set_limits`).

The row below and the row above hold no cell of it, but neighbouring diagonals read there; not further, since from one
diagonal to the next neither ``low`` nor ``high`` falls or grows by more than one.
"""
Rolling = namedtuple("Rolling", ["here", "near", "far"])
"""Rows of one quantity on this diagonal, on the last one and on the one before it (backward: the next two)."""
Moves = namedtuple("Moves", ["up", "left", "corner"])
"""Rows of a quantity that each cell has for each of its predecessors."""
Steps = namedtuple("Steps", ["x", "y", "half_var_x", "half_var_y"])
"""Rows of the sequences and of half their variances, those of y reversed and shifted to meet x on the diagonal."""
State = namedtuple("State", ["weight", "power", "excess", "rest"])
"""`Rolling` rows of the forward sweep: Z as weight and power, prefix means of C (`excess`) and of other fields."""

INNER = {"nogil": True, "forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only other kernels call."""
SHARED = {name: value for name, value in INNER.items() if name != "forceinline"}
"""The same for long functions with several callers: copies of them would take minutes to compile."""


SLOT = MOST_PAIRS = 32
"""Room for one number per pair of the largest pack, which is no smaller than a vector."""


@njit(**INNER)
def rolling(at, row, k):
    """Return `Rolling` rows of a quantity with three rows from ``at`` on, for a forward sweep."""
    return Rolling(at + k % 3 * row, at + (k + 2) % 3 * row, at + (k + 1) % 3 * row)


@njit(**INNER)
def rolling_back(at, row, k):
    """Return the same for a backward sweep."""
    return Rolling(at + k % 3 * row, at + (k + 1) % 3 * row, at + (k + 2) % 3 * row)


STATE_ROWS = 12


@njit(**INNER)
def state_of(at, row, k):
    """Return the `State` whose `STATE_ROWS` rows lie from ``at`` on."""
    return State(
        rolling(at, row, k), rolling(at + 3 * row, row, k), rolling(at + 6 * row, row, k), rolling(at + 9 * row, row, k)
    )


@njit(**INNER)
def of_pairs(w, slot, t, pack):
    """Return the numbers of the pairs to which the cells at position ``t`` belong."""
    return load(w, slot + (t & (pack - 1)))


@njit(**INNER)
def squared_distance_row(w, d, steps, row, dim, out):
    """``out = Σ_f (x_f − y_f)²``; feature f of x lies ``f·row`` further on."""
    for t in range(d.begin, d.end, lanes(w)):
        difference = load(w, steps.x + t) - load(w, steps.y + t)
        store(w, out + t, difference * difference)
    for f in range(1, dim):
        for t in range(d.begin, d.end, lanes(w)):
            difference = load(w, steps.x + f * row + t) - load(w, steps.y + f * row + t)
            store(w, out + t, fma(difference, difference, load(w, out + t)))


@njit(**INNER)
def mean_variance_row(w, d, steps, out):
    """``Σ = ½σ²(x_m) + ½σ²(y_n)``."""
    for t in range(d.begin, d.end, lanes(w)):
        store(w, out + t, load(w, steps.half_var_x + t) + load(w, steps.half_var_y + t))


@njit(**INNER)
def feature_variance_at(w, steps, f, t):
    """Σ_f of a feature whose rows lie ``f`` further on than those of the first."""
    return load(w, steps.half_var_x + f + t) + load(w, steps.half_var_y + f + t)


@njit(**INNER)
def feature_cost_row(w, d, steps, row, dim, out):
    """``out = Σ_f (x_f − y_f)²/Σ_f`` with a variance of each feature."""
    fill(w, out + d.begin, out + d.end, w.dtype.type(0))
    for f in range(0, dim * row, row):
        for t in range(d.begin, d.end, lanes(w)):
            difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
            part = difference * difference / feature_variance_at(w, steps, f, t)
            store(w, out + t, load(w, out + t) + part)


@njit(**INNER)
def feature_log_row(w, d, steps, row, dim, out):
    """``Σ_f log Σ_f``."""
    fill(w, out + d.begin, out + d.end, w.dtype.type(0))
    for f in range(0, dim * row, row):
        for t in range(d.begin, d.end, lanes(w)):
            store(w, out + t, load(w, out + t) + log(feature_variance_at(w, steps, f, t)))


@njit(**INNER)
def feature_deviation_row(w, d, steps, row, dim, out):
    """``Σ_f (Σ_f − 1)²``."""
    one = splat(w, w.dtype.type(1))
    fill(w, out + d.begin, out + d.end, w.dtype.type(0))
    for f in range(0, dim * row, row):
        for t in range(d.begin, d.end, lanes(w)):
            excess = feature_variance_at(w, steps, f, t) - one
            store(w, out + t, fma(excess, excess, load(w, out + t)))


@njit(**INNER)
def weighted_cost_row(w, d, variance, cost):
    """``C = D / Σ`` in place."""
    for t in range(d.begin, d.end, lanes(w)):
        store(w, cost + t, load(w, cost + t) / load(w, variance + t))


@njit(**INNER)
def log_row(w, d, variance, out):
    """``log Σ``."""
    for t in range(d.begin, d.end, lanes(w)):
        store(w, out + t, log(load(w, variance + t)))


@njit(**INNER)
def deviation_row(w, d, variance, out):
    """``(Σ − 1)²``."""
    one = splat(w, w.dtype.type(1))
    for t in range(d.begin, d.end, lanes(w)):
        excess = load(w, variance + t) - one
        store(w, out + t, excess * excess)


@njit(**INNER)
def energy_row(w, d, at):
    """``C + β log Σ + κ``, written to ``at.energy``; log Σ lies in ``at.log``."""
    for t in range(d.begin, d.end, lanes(w)):
        price = fma(of_pairs(w, at.beta, t, d.pack), load(w, at.log + t), of_pairs(w, at.kappa, t, d.pack))
        store(w, at.energy + t, load(w, at.cost + t) + price)


@njit(**INNER)
def range_row(w, d, values, stretch, alarm):
    """Add NaN to ``alarm`` where ``values·stretch`` is not a finite number."""
    factor = splat(w, stretch)
    total = load(w, alarm)
    for t in range(d.begin, d.end, lanes(w)):
        stretched = load(w, values + t) * factor
        total = total + (stretched - stretched)
    store(w, alarm, total)


@njit(**INNER)
def positive_row(w, pack, steps, values, alarm):
    """Add to ``alarm`` unless all numbers of the first steps of every pair are positive and finite."""
    zero, one = splat(w, w.dtype.type(0)), splat(w, w.dtype.type(1))
    total = load(w, alarm)
    for t in range(pack, (steps + 1) * pack, lanes(w)):
        value = load(w, values + t)
        total = total + (where_greater(value, zero, zero, one) + (value - value))
    store(w, alarm, total)


@njit(**INNER)
def factor_row(w, d, at):
    """``scale·E``, and ``2^(−scale·E)`` without its power of two, for `soft_min_row`.

    A loop of its own: the chain of operations is long, and in a longer loop the processor could not overlap
    it with that of the next cells.
    """
    for t in range(d.begin, d.end, lanes(w)):
        scaled = load(w, at.energy + t) * of_pairs(w, at.scale, t, d.pack)
        store(w, at.scaled + t, scaled)
        store(w, at.factor + t, exp2_fraction(nearest(scaled) - scaled))


def _fused_factor_row(priced, featured=False, shared=False):
    """`factor_row` and `range_row` for ``C = (x − y)²/Σ``, ``Σ = ½σ²(x) + ½σ²(y)``, made in one loop.

    ``priced``: the energy is ``C + β log Σ + κ``. Otherwise it is C, and ``at.total = by_log·log Σ``.
    ``featured``: C and log Σ are sums over ``dim`` features, each with its variance. ``shared``: they have one for all.
    Otherwise there is one feature.
    """

    @njit(**INNER)
    def row(w, d, at, steps, dim, stretch, by_log):
        zero = splat(w, w.dtype.type(0))
        highest = zero
        for t in range(d.begin, d.end, lanes(w)):
            difference = load(w, steps.x + t) - load(w, steps.y + t)
            sigma = feature_variance_at(w, steps, 0, t)
            energy = difference * difference
            if shared:
                for f in range(at.row, dim * at.row, at.row):
                    difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
                    energy = fma(difference, difference, energy)
            energy = energy / sigma
            level = log(sigma)
            if featured:
                for f in range(at.row, dim * at.row, at.row):
                    difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
                    sigma = feature_variance_at(w, steps, f, t)
                    energy = energy + difference * difference / sigma
                    level = level + log(sigma)
            highest = worst(highest, energy)
            if priced:
                energy = energy + fma(of_pairs(w, at.beta, t, d.pack), level, of_pairs(w, at.kappa, t, d.pack))
            else:
                store(w, at.total + t, of_pairs(w, by_log, t, d.pack) * level)
            scaled = energy * of_pairs(w, at.scale, t, d.pack)
            store(w, at.scaled + t, scaled)
            store(w, at.factor + t, exp2_fraction(nearest(scaled) - scaled))
        store(w, at.alarm, fma(highest * splat(w, stretch), zero, load(w, at.alarm)))

    return row


usual_factor_row = _fused_factor_row(priced=False)
"""For the paper's loss; ``by_log`` is the slot of the weights of log Σ."""
likely_factor_row = _fused_factor_row(priced=True)
"""For the free energy of the likelihood; ``by_log`` is not read."""
featured_factor_row = _fused_factor_row(priced=True, featured=True)
"""The same with a variance of each feature."""
shared_factor_row = _fused_factor_row(priced=True, shared=True)
"""The same for several features with one variance."""


def _soft_min_row(keep=False, mean=False, pulls=False, rest=False, bounded=False, warped=False, quick=False):
    """Return the kernel for one diagonal of the partition function, specialised for what is wanted beside it.

    ``Z_k = 2^(−scale·E_k) Σ_p Z_p`` is held as ``weight·2^(−power)``, weight in [1, 2) and power a whole number: there
    is no logarithm, one polynomial, and no loss of accuracy however small γ is.

    - ``warped``: ``Z_p`` of the predecessors up and left counts ``2^(−scale·ω)`` times, in the same representation;
    - ``keep``: the transition probabilities ``q_p = Z_p / Σ Z_p``, written to ``to``; with one division, which is
      ``quick``, they are rounded once more;
    - ``mean``: the prefix mean of C, held as ``scale·A = θ·power + excess``, so that what is summed stays small;
    - ``pulls``: ``q_p (Σ q A − A_p)``, how the average path differs from one that arrives from p, in units of γ and
      weighted by ``at.by_cost``, written to ``pull``; ``rest`` adds the same of a further field ``at.total``, whose
      prefix mean is ``state.rest``, or has it alone where ``mean`` is not wanted.

    So that rounding hardly adds up, means are taken about one of the predecessors. For C it is the one of least mean,
    the likeliest but for the entropy of its paths; for a further field the likeliest, or where it is ``bounded``, so
    that no cell's value dwarfs the others', simply the corner.
    """

    @njit(**INNER)
    def row(w, d, at, state, to, pull, unreachable):
        weight, power, excess = state.weight, state.power, state.excess
        ceiling, deepest = splat(w, unreachable), splat(w, most_halvings(w))
        nothing, one = halved(deepest), splat(w, w.dtype.type(1))
        for t in range(d.begin, d.end, lanes(w)):
            above = t - d.pack
            up_power = load(w, power.near + above)
            left_power = load(w, power.near + t)
            corner_power = load(w, power.far + above)
            if warped:
                penalty = of_pairs(w, at.warp_power, t, d.pack)
                up_power, left_power = up_power + penalty, left_power + penalty
            least = minimum(minimum(up_power, left_power), corner_power)
            up_lag = minimum(up_power - least, deepest)
            left_lag = minimum(left_power - least, deepest)
            corner_lag = minimum(corner_power - least, deepest)
            up = load(w, weight.near + above) * (halved(up_lag) - nothing)
            left = load(w, weight.near + t) * (halved(left_lag) - nothing)
            corner = load(w, weight.far + above) * (halved(corner_lag) - nothing)
            if warped:
                share = of_pairs(w, at.warp_factor, t, d.pack)
                up, left = up * share, left * share
            total = up + left + corner
            scaled = load(w, at.scaled + t)
            value = total * load(w, at.factor + t)
            drop = exponent(value) - nearest(scaled)
            store(w, weight.here + t, mantissa(value))
            store(w, power.here + t, minimum(least - drop, ceiling))
            if quick:
                inverse = one / total
                q_up, q_left, q_corner = up * inverse, left * inverse, corner * inverse
            elif keep or mean:
                # Three divisions, no slower than one and its correction: a lone predecessor's share must be exactly 1.
                q_up, q_left, q_corner = up / total, left / total, corner / total
            if keep:
                store(w, to.up + t, q_up)
                store(w, to.left + t, q_left)
                store(w, to.corner + t, q_corner)
            if mean:
                offset = of_pairs(w, at.theta, t, d.pack)
                up_mean = fma(offset, up_lag, load(w, excess.near + above))
                left_mean = fma(offset, left_lag, load(w, excess.near + t))
                corner_mean = fma(offset, corner_lag, load(w, excess.far + above))
                centre = minimum(minimum(up_mean, left_mean), corner_mean)
                up_mean, left_mean, corner_mean = up_mean - centre, left_mean - centre, corner_mean - centre
                average = fma(q_corner, corner_mean, fma(q_left, left_mean, q_up * up_mean))
                store(w, excess.here + t, centre + (average + fma(offset, drop, scaled)))
                if pulls:
                    unit = of_pairs(w, at.by_cost, t, d.pack)
                    average, corner_mean = unit * average, unit * corner_mean
                    if not rest:
                        up_mean, left_mean = unit * up_mean, unit * left_mean
            if rest:
                up_rest, left_rest = load(w, state.rest.near + above), load(w, state.rest.near + t)
                corner_rest = load(w, state.rest.far + above)
                centre = corner_rest
                if not bounded:
                    centre = where_greater(up, corner, up_rest, centre)
                    centre = where_greater(left, maximum(up, corner), left_rest, centre)
                up_rest, left_rest = up_rest - centre, left_rest - centre
                rest_mean = fma(q_left, left_rest, q_up * up_rest)
                if not bounded:
                    corner_rest = corner_rest - centre
                    rest_mean = fma(q_corner, corner_rest, rest_mean)
                    if mean:
                        corner_mean = corner_mean + corner_rest
                store(w, state.rest.here + t, centre + (rest_mean + load(w, at.total + t)))
                if mean:
                    average = average + rest_mean
                    up_mean, left_mean = fma(unit, up_mean, up_rest), fma(unit, left_mean, left_rest)
                else:
                    average, up_mean, left_mean, corner_mean = rest_mean, up_rest, left_rest, corner_rest
            if pulls:
                store(w, pull.up + t, q_up * (average - up_mean))
                store(w, pull.left + t, q_left * (average - left_mean))
                store(w, pull.corner + t, q_corner * (average - corner_mean))

    return row


value_row = _soft_min_row()
"""Z alone."""
mean_row = _soft_min_row(mean=True)
"""Z and the prefix mean of C."""
transition_row = _soft_min_row(keep=True)
"""Z and the transition probabilities."""
mean_transition_row = _soft_min_row(keep=True, mean=True)
"""Z, the prefix mean of C and the transition probabilities."""
pull_row = _soft_min_row(keep=True, mean=True, pulls=True)
"""All that a gradient of E[C] needs."""
pull_rest_row = _soft_min_row(keep=True, mean=True, pulls=True, rest=True)
"""The same for E[C] and a further field."""
usual_row = _soft_min_row(keep=True, mean=True, pulls=True, rest=True, bounded=True)
"""The same where the further field is a multiple of log Σ."""
quick_row = _soft_min_row(keep=True, quick=True)
"""What the gradient of the free energy needs."""
warped_quick_row = _soft_min_row(keep=True, quick=True, warped=True)
warped_value_row = _soft_min_row(warped=True)
warped_transition_row = _soft_min_row(keep=True, warped=True)
rest_row = _soft_min_row(keep=True, pulls=True, rest=True)
"""What a gradient of fields needs where the paths are not those of C."""
warped_rest_row = _soft_min_row(keep=True, pulls=True, rest=True, warped=True)


@njit(**INNER)
def expectation_row(w, d, field, mean, to):
    """``A_k = F_k + Σ_p q_p A_p`` for any field, taken about the likeliest predecessor."""
    for t in range(d.begin, d.end, lanes(w)):
        q_up, q_left, q_corner = load(w, to.up + t), load(w, to.left + t), load(w, to.corner + t)
        up, left, corner = load(w, mean.near + t - d.pack), load(w, mean.near + t), load(w, mean.far + t - d.pack)
        centre = where_greater(q_up, q_corner, up, corner)
        centre = where_greater(q_left, maximum(q_up, q_corner), left, centre)
        excess = fma(q_corner, corner - centre, fma(q_left, left - centre, q_up * (up - centre)))
        store(w, mean.here + t, centre + (excess + load(w, field + t)))


@njit(**INNER)
def hard_min_row(w, d, cost, value):
    """Classical DTW: ``V_k = C_k + min_p V_p``."""
    for t in range(d.begin, d.end, lanes(w)):
        least = minimum(load(w, value.near + t), load(w, value.near + t - d.pack))
        least = minimum(least, load(w, value.far + t - d.pack))
        store(w, value.here + t, least + load(w, cost + t))


@njit(**INNER)
def distance_min_row(w, d, at, steps, dim, stretch, value):
    """`squared_distance_row`, `range_row` and `hard_min_row` in one loop."""
    zero = splat(w, w.dtype.type(0))
    highest = zero
    for t in range(d.begin, d.end, lanes(w)):
        difference = load(w, steps.x + t) - load(w, steps.y + t)
        cost = difference * difference
        for f in range(at.row, dim * at.row, at.row):
            difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
            cost = fma(difference, difference, cost)
        highest = worst(highest, cost)
        least = minimum(load(w, value.near + t), load(w, value.near + t - d.pack))
        least = minimum(least, load(w, value.far + t - d.pack))
        store(w, value.here + t, least + cost)
    store(w, at.alarm, fma(highest * splat(w, stretch), zero, load(w, at.alarm)))


@njit(**INNER)
def amerced_min_row(w, d, cost, warp, value):
    """`hard_min_row` where ω is added for the predecessors up and left."""
    for t in range(d.begin, d.end, lanes(w)):
        least = minimum(load(w, value.near + t), load(w, value.near + t - d.pack)) + of_pairs(w, warp, t, d.pack)
        least = minimum(least, load(w, value.far + t - d.pack))
        store(w, value.here + t, least + load(w, cost + t))


@njit(**INNER)
def product_row(w, d, factor, field, out):
    """``out = factor · field``: the first term of ``F = Σ_i g_i F_i``."""
    for t in range(d.begin, d.end, lanes(w)):
        store(w, out + t, of_pairs(w, factor, t, d.pack) * load(w, field + t))


@njit(**INNER)
def add_product_row(w, d, factor, field, out):
    """``out += factor · field``: any further term."""
    for t in range(d.begin, d.end, lanes(w)):
        store(w, out + t, fma(of_pairs(w, factor, t, d.pack), load(w, field + t), load(w, out + t)))


@njit(**INNER)
def add_quotient_row(w, pack, steps, number, values, out):
    """``out += number / values`` over the first steps of every pair; ``number`` is a slot."""
    for t in range(pack, (steps + 1) * pack, lanes(w)):
        store(w, out + t, load(w, out + t) + of_pairs(w, number, t, pack) / load(w, values + t))


@njit(**INNER)
def add_log_row(w, pack, steps, values, out):
    """``out += log(values)`` over the first steps of every pair."""
    for t in range(pack, (steps + 1) * pack, lanes(w)):
        store(w, out + t, load(w, out + t) + log(load(w, values + t)))


@njit(**INNER)
def sum_steps(w, pack, steps, values, out):
    """Return the sum over the first steps of every pair, written to the slot ``out``."""
    for p in range(0, pack, lanes(w)):
        total = splat(w, w.dtype.type(0))
        for t in range(values + pack + p, values + (steps + 1) * pack, pack):
            total = total + load(w, t)
        store(w, out + p, total)


@njit(**INNER)
def copy_row(w, begin, end, source, out):
    """Copy positions [begin, end) of a row."""
    for t in range(begin, end, lanes(w)):
        store(w, out + t, load(w, source + t))


@njit(**INNER)
def fill(w, begin, end, value):
    """``value`` at positions [begin, end), and in the rest of the last vector."""
    repeated = splat(w, value)
    for t in range(begin, end, lanes(w)):
        store(w, t, repeated)
