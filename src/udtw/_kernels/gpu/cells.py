"""One cell of the grid: what it costs, and its state from those of its predecessors."""

import triton
import triton.language as tl

from udtw._kernels.gpu.lanes import FAR, LIMIT, LN2, is_blocked, split, two_to_minus


@triton.jit
def energy_of_pair(x, y, var_x, var_y, beta, kappa, UNCERTAIN: tl.constexpr, LIKELY: tl.constexpr):
    """``C = D/Σ``, or ``C + β log Σ + κ`` if ``LIKELY``; and log Σ. ``x`` and ``y`` are tuples of features."""
    gap = x[0] - y[0]
    energy = gap * gap
    for f in tl.static_range(1, len(x)):
        gap = x[f] - y[f]
        energy += gap * gap
    log = energy * 0
    if UNCERTAIN:
        variance = 0.5 * (var_x + var_y)
        energy = energy / variance
        log = tl.log(variance)
    if LIKELY:
        energy += beta * log + kappa
    return energy, log


@triton.jit
def warp_price(warp, scale, theta):
    """e^{−ω/γ} as (factor, power): ``factor · 2^−power``; and its excess, ``ω·scale − θ·power``."""
    price = tl.minimum(tl.maximum(warp * scale, -(1.0 * LIMIT) / 2), (1.0 * LIMIT) / 2)
    power = tl.floor(price + 0.5)
    return tl.exp2(power - price), power.to(tl.int32), price - theta * power


@triton.jit
def cell(
    d, u, v, energy, field, scale, price, theta, by_warp,
    MEANS: tl.constexpr, WARP: tl.constexpr, FUSED: tl.constexpr, F64: tl.constexpr,
):  # fmt: skip
    """Return the state of a cell from those of corner, up and left (d, u, v), and the shares of the three.

    ``by_warp`` is what a non-diagonal step adds to the mean of the field. Last come the deviations from their mean of
    what up and left bring: energy in units of γ log 2, and field.
    """
    if not FUSED:
        blocked = is_blocked(energy, F64)
        energy = tl.where(blocked, 0.0, energy)
    cost = energy * scale
    base = tl.minimum(tl.minimum(d[1], u[1]), v[1])
    up_power, left_power, least = u[1], v[1], base
    if WARP:
        up_power, left_power = u[1] + price[1], v[1] + price[1]
        least = tl.minimum(tl.minimum(d[1], up_power), left_power)
    kd, ku, kl = d[1] - least, up_power - least, left_power - least
    ad, au, al = d[0] * two_to_minus(kd, F64), u[0] * two_to_minus(ku, F64), v[0] * two_to_minus(kl, F64)
    if WARP:
        au, al = au * price[0], al * price[0]
    total = ad + au + al
    cost = tl.minimum(tl.maximum(cost, -1.0 * LIMIT), 1.0 * LIMIT)
    whole = tl.floor(cost)
    part = cost - whole
    weight, e = split(total * tl.exp2(-part), F64)
    power = least + whole.to(tl.int32) - e
    power = tl.where(power >= LIMIT, 2 * LIMIT, tl.where(power <= -LIMIT, -2 * LIMIT, power))
    power = tl.where((base >= LIMIT) | (base <= -LIMIT), base, power)
    if not FUSED:
        power = tl.where(blocked, FAR, power)
        field = tl.where(blocked, 0.0, field)
    inverse = 1.0 / total
    qd, qu, ql = ad * inverse, au * inverse, al * inverse
    if MEANS:
        # The mean energy about the least of the three.
        td, tu, tl_ = d[2] + theta * kd, u[2] + theta * ku, v[2] + theta * kl
        if WARP:
            tu, tl_ = tu + price[2], tl_ + price[2]
        ref = tl.minimum(tl.minimum(td, tu), tl_)
        mean = ref + (qd * (td - ref) + qu * (tu - ref) + ql * (tl_ - ref))
        excess = mean + tl.where(theta > 0, part + e, cost)
        # The mean of the field about the likeliest.
        vd, vu, vl = d[3], u[3] + by_warp, v[3] + by_warp
        best = tl.where(ad >= tl.maximum(au, al), vd, tl.where(au >= al, vu, vl))
        other = best + (qd * (vd - best) + qu * (vu - best) + ql * (vl - best))
        state = (weight, power, excess, other + field)
        return state, qd, qu, ql, (tu - mean, tl_ - mean), (vu - other, vl - other)
    else:
        return (weight, power), qd, qu, ql, (qu, ql), (qu, ql)


@triton.jit
def gibbs_scale(gamma):
    """``1/(γ log 2)``: energies times this are binary logarithms."""
    return 1.0 / (gamma * LN2)
