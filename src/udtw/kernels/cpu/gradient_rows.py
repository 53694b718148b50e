"""What happens on one anti-diagonal of the backward sweep, and how its π and W become gradients.

Layout and conventions are those of `rows`; the neighbouring diagonals are here the ones after this one.
"""

from collections import namedtuple

from numba import njit

from udtw.kernels.cpu.layout import BY_DEVIATION, BY_LOG, BY_SOFT_MIN
from udtw.kernels.cpu.rows import INNER, SLOT, of_pairs
from udtw.kernels.cpu.simd import fma, fnma, lanes, least_probability, load, splat, store, where_greater

Sweep = namedtuple("Sweep", ["coupling", "adjoint", "to", "pull", "seed"])
"""`Rolling` rows of π and W, `Moves` of the successors' transition probabilities and pulls, and where paths end."""


@njit(**INNER)
def coupling_row(w, d, sweep):
    """``π_p = Σ_s q_{s→p} π_s`` over the successors down, right and opposite corner."""
    to, coupling = sweep.to, sweep.coupling
    least, zero = splat(w, least_probability(w)), splat(w, w.dtype.type(0))
    for t in range(d.begin, d.end, lanes(w)):
        below = t + d.pack
        total = load(w, to.up + below) * load(w, coupling.near + below)
        total = fma(load(w, to.left + t), load(w, coupling.near + t), total)
        total = fma(load(w, to.corner + below), load(w, coupling.far + below), total) + load(w, sweep.seed + t)
        store(w, coupling.here + t, where_greater(total, least, total, zero))


@njit(**INNER)
def adjoint_at(w, t, pack, sweep):
    """π and W of the vector of cells at ``t``: as in `coupling_row`, and ``W_p = Σ_s q_s W_s + π_s·pull_s``."""
    to, pull, coupling, adjoint, below = sweep.to, sweep.pull, sweep.coupling, sweep.adjoint, t + pack
    q_down, q_right = load(w, to.up + below), load(w, to.left + t)
    q_corner = load(w, to.corner + below)
    down, right = load(w, coupling.near + below), load(w, coupling.near + t)
    corner = load(w, coupling.far + below)
    total = fma(q_down, load(w, adjoint.near + below), down * load(w, pull.up + below))
    total = fma(q_right, load(w, adjoint.near + t), fma(right, load(w, pull.left + t), total))
    total = fma(q_corner, load(w, adjoint.far + below), fma(corner, load(w, pull.corner + below), total))
    probability = fma(q_corner, corner, fma(q_right, right, q_down * down)) + load(w, sweep.seed + t)
    least, zero = splat(w, least_probability(w)), splat(w, w.dtype.type(0))
    return where_greater(probability, least, probability, zero), where_greater(probability, least, total, zero)


@njit(**INNER)
def adjoint_row(w, d, sweep):
    """`coupling_row`, and W: how E[F] moves with C at fixed F."""
    for t in range(d.begin, d.end, lanes(w)):
        probability, total = adjoint_at(w, t, d.pack, sweep)
        store(w, sweep.coupling.here + t, probability)
        store(w, sweep.adjoint.here + t, total)


@njit(**INNER)
def usual_gradient_row(w, d, at, sweep, steps, into):
    """`adjoint_row`, and the gradients ``into`` of x, y and their variances, where ``C = (x − y)²/Σ`` is made here.

    Gradients are summed without their constant factors, as everywhere below: see `backward.hand_back`.
    """
    by_log = at.factors + BY_LOG * SLOT
    one = splat(w, w.dtype.type(1))
    # Downwards, as the diagonals go: the tables are then read as one stream, which the processor prefetches.
    last = d.begin + (d.end - d.begin - 1) // lanes(w) * lanes(w)
    for t in range(last, d.begin - 1, -lanes(w)):
        probability, total = adjoint_at(w, t, d.pack, sweep)
        store(w, sweep.coupling.here + t, probability)
        store(w, sweep.adjoint.here + t, total)
        inverse = one / (load(w, steps.half_var_x + t) + load(w, steps.half_var_y + t))
        difference = load(w, steps.x + t) - load(w, steps.y + t)
        by_base = fma(of_pairs(w, at.direct, t, d.pack), probability, total) * inverse
        by_x = by_base * difference
        by_sigma = fnma(by_x, difference, of_pairs(w, by_log, t, d.pack) * probability) * inverse
        store(w, into.half_var_x + t, load(w, into.half_var_x + t) + by_sigma)
        store(w, into.half_var_y + t, load(w, into.half_var_y + t) + by_sigma)
        store(w, into.x + t, load(w, into.x + t) + by_x)
        store(w, into.y + t, load(w, into.y + t) - by_x)


@njit(**INNER)
def cost_gradient_row(w, d, at, sweep):
    """``∂/∂C = W + g·π``, written to ``at.gradient``."""
    for t in range(d.begin, d.end, lanes(w)):
        coupling, adjoint = load(w, sweep.coupling.here + t), load(w, sweep.adjoint.here + t)
        store(w, at.gradient + t, fma(of_pairs(w, at.direct, t, d.pack), coupling, adjoint))


@njit(**INNER)
def tilt_row(w, d, at, sweep):
    """Adds ``C·(W + g_softmin·π)``, from which the gradient in γ follows, to ``at.tilt``."""
    by_soft_min = at.factors + BY_SOFT_MIN * SLOT
    for t in range(d.begin, d.end, lanes(w)):
        coupling, adjoint = load(w, sweep.coupling.here + t), load(w, sweep.adjoint.here + t)
        moved = fma(of_pairs(w, by_soft_min, t, d.pack), coupling, adjoint)
        store(w, at.tilt + t, fma(load(w, at.cost + t), moved, load(w, at.tilt + t)))


@njit(**INNER)
def variance_gradient_row(w, d, at, sweep):
    """From ``at.gradient = ∂/∂C``: ``at.sigma_gradient = ∂/∂Σ`` and, in place, ``at.gradient = ∂/∂D``."""
    by_log, by_deviation = at.factors + BY_LOG * SLOT, at.factors + BY_DEVIATION * SLOT
    one = splat(w, w.dtype.type(1))
    two = splat(w, w.dtype.type(2))
    for t in range(d.begin, d.end, lanes(w)):
        sigma = load(w, at.variance + t)
        inverse = one / sigma
        by_base = load(w, at.gradient + t) * inverse
        probability = load(w, sweep.coupling.here + t)
        total = of_pairs(w, by_log, t, d.pack) * probability * inverse - by_base * load(w, at.cost + t)
        total = fma(of_pairs(w, by_deviation, t, d.pack) * probability, two * (sigma - one), total)
        store(w, at.sigma_gradient + t, total)
        store(w, at.gradient + t, by_base)


@njit(**INNER)
def add_variance_gradient_row(w, d, gradient, into):
    """Adds ∂/∂Σ to the gradients of the steps' variances."""
    for t in range(d.begin, d.end, lanes(w)):
        part = load(w, gradient + t)
        store(w, into.half_var_x + t, load(w, into.half_var_x + t) + part)
        store(w, into.half_var_y + t, load(w, into.half_var_y + t) + part)


@njit(**INNER)
def add_sequence_gradient_row(w, d, at, steps, into, dim):
    """Adds ``∂/∂D · (x − y)`` to the gradients of the sequences."""
    for f in range(0, dim * at.row, at.row):
        for t in range(d.begin, d.end, lanes(w)):
            part = load(w, at.gradient + t) * (load(w, steps.x + f + t) - load(w, steps.y + f + t))
            store(w, into.x + f + t, load(w, into.x + f + t) + part)
            store(w, into.y + f + t, load(w, into.y + f + t) - part)
