"""What happens on one anti-diagonal of the backward sweep, and how its π and W become gradients.

Layout and conventions are those of `rows`; suffixes 1 and 2 mean the diagonals after this one.
"""

from numba import njit

from udtw.kernels.cpu.rows import INNER, of_pairs
from udtw.kernels.cpu.simd import fma, fnma, lanes, least_probability, load, splat, store, where_greater


@njit(**INNER)
def coupling_row(w, begin, end, pack, to_up1, to_left1, to_corner2, coupling, coupling1, coupling2, seed):
    """``π_p = Σ_s q_{s→p} π_s`` over the successors down, right and opposite corner."""
    least, zero = splat(w, least_probability(w)), splat(w, w.dtype.type(0))
    for t in range(begin, end, lanes(w)):
        total = load(w, to_up1 + t + pack) * load(w, coupling1 + t + pack)
        total = fma(load(w, to_left1 + t), load(w, coupling1 + t), total)
        total = fma(load(w, to_corner2 + t + pack), load(w, coupling2 + t + pack), total) + load(w, seed + t)
        store(w, coupling + t, where_greater(total, least, total, zero))


@njit(**INNER)
def adjoint_at(
    w, t, pack, to_up1, to_left1, to_corner2, pull_up1, pull_left1, pull_corner2,
    coupling1, coupling2, adjoint1, adjoint2, seed,
):  # fmt: skip
    """π and W of the vector of cells at ``t``: as in `coupling_row`, and ``W_p = Σ_s q_s W_s + π_s·pull_s``."""
    q_down, q_right = load(w, to_up1 + t + pack), load(w, to_left1 + t)
    q_corner = load(w, to_corner2 + t + pack)
    down, right = load(w, coupling1 + t + pack), load(w, coupling1 + t)
    corner = load(w, coupling2 + t + pack)
    total = fma(q_down, load(w, adjoint1 + t + pack), down * load(w, pull_up1 + t + pack))
    total = fma(q_right, load(w, adjoint1 + t), fma(right, load(w, pull_left1 + t), total))
    total = fma(q_corner, load(w, adjoint2 + t + pack), fma(corner, load(w, pull_corner2 + t + pack), total))
    probability = fma(q_corner, corner, fma(q_right, right, q_down * down)) + load(w, seed + t)
    least, zero = splat(w, least_probability(w)), splat(w, w.dtype.type(0))
    return where_greater(probability, least, probability, zero), where_greater(probability, least, total, zero)


@njit(**INNER)
def adjoint_row(
    w, begin, end, pack, to_up1, to_left1, to_corner2, pull_up1, pull_left1, pull_corner2,
    coupling, coupling1, coupling2, adjoint, adjoint1, adjoint2, seed,
):  # fmt: skip
    """`coupling_row`, and W: how E[F] moves with C at fixed F."""
    for t in range(begin, end, lanes(w)):
        probability, total = adjoint_at(
            w, t, pack, to_up1, to_left1, to_corner2, pull_up1, pull_left1, pull_corner2,
            coupling1, coupling2, adjoint1, adjoint2, seed,
        )  # fmt: skip
        store(w, coupling + t, probability)
        store(w, adjoint + t, total)


@njit(**INNER)
def usual_gradient_row(
    w, begin, end, pack, xs, ys, half_var_x, half_var_y,
    to_up1, to_left1, to_corner2, pull_up1, pull_left1, pull_corner2,
    coupling, coupling1, coupling2, adjoint, adjoint1, adjoint2, seed,
    direct, by_log, grad_x, grad_y, grad_var_x, grad_var_y,
):  # fmt: skip
    """`adjoint_row`, and what it means for x, y and their variances, where ``C = (x − y)²/Σ`` is made here.

    Gradients are summed without their constant factors, like everywhere below: see `backward.hand_back`.
    """
    one = splat(w, w.dtype.type(1))
    # Downwards, as the diagonals go: the tables are then read as one stream, which the processor fetches ahead.
    last = begin + (end - begin - 1) // lanes(w) * lanes(w)
    for t in range(last, begin - 1, -lanes(w)):
        probability, total = adjoint_at(
            w, t, pack, to_up1, to_left1, to_corner2, pull_up1, pull_left1, pull_corner2,
            coupling1, coupling2, adjoint1, adjoint2, seed,
        )  # fmt: skip
        store(w, coupling + t, probability)
        store(w, adjoint + t, total)
        inverse = one / (load(w, half_var_x + t) + load(w, half_var_y + t))
        difference = load(w, xs + t) - load(w, ys + t)
        by_base = fma(of_pairs(w, direct, t, pack), probability, total) * inverse
        step_gradient = by_base * difference
        by_sigma = fnma(step_gradient, difference, of_pairs(w, by_log, t, pack) * probability) * inverse
        store(w, grad_var_x + t, load(w, grad_var_x + t) + by_sigma)
        store(w, grad_var_y + t, load(w, grad_var_y + t) + by_sigma)
        store(w, grad_x + t, load(w, grad_x + t) + step_gradient)
        store(w, grad_y + t, load(w, grad_y + t) - step_gradient)


@njit(**INNER)
def cost_gradient_row(w, begin, end, pack, coupling, adjoint, direct, gradient):
    """``∂/∂C = W + g·π``."""
    for t in range(begin, end, lanes(w)):
        store(w, gradient + t, fma(of_pairs(w, direct, t, pack), load(w, coupling + t), load(w, adjoint + t)))


@njit(**INNER)
def tilt_row(w, begin, end, pack, coupling, adjoint, by_soft_min, cost, tilt):
    """Adds ``C·(W + g_softmin·π)``, from which γ's gradient is"""
    for t in range(begin, end, lanes(w)):
        moved = fma(of_pairs(w, by_soft_min, t, pack), load(w, coupling + t), load(w, adjoint + t))
        store(w, tilt + t, fma(load(w, cost + t), moved, load(w, tilt + t)))


@njit(**INNER)
def variance_gradient_row(w, begin, end, pack, coupling, by_log, by_deviation, cost, variance, gradient, out):
    """From ``gradient = ∂/∂C``: ``out = ∂/∂Σ`` and, in place, ``gradient = ∂/∂D``."""
    one = splat(w, w.dtype.type(1))
    two = splat(w, w.dtype.type(2))
    for t in range(begin, end, lanes(w)):
        sigma = load(w, variance + t)
        inverse = one / sigma
        by_base = load(w, gradient + t) * inverse
        probability = load(w, coupling + t)
        total = of_pairs(w, by_log, t, pack) * probability * inverse - by_base * load(w, cost + t)
        store(w, out + t, fma(of_pairs(w, by_deviation, t, pack) * probability, two * (sigma - one), total))
        store(w, gradient + t, by_base)


@njit(**INNER)
def add_variance_gradient_row(w, begin, end, gradient, grad_x, grad_y):
    for t in range(begin, end, lanes(w)):
        part = load(w, gradient + t)
        store(w, grad_x + t, load(w, grad_x + t) + part)
        store(w, grad_y + t, load(w, grad_y + t) + part)


@njit(**INNER)
def add_sequence_gradient_row(w, begin, end, gradient, xs, ys, row, dim, grad_x, grad_y):
    for f in range(0, dim * row, row):
        for t in range(begin, end, lanes(w)):
            part = load(w, gradient + t) * (load(w, xs + f + t) - load(w, ys + f + t))
            store(w, grad_x + f + t, load(w, grad_x + f + t) + part)
            store(w, grad_y + f + t, load(w, grad_y + f + t) - part)
