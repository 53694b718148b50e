"""What happens on one anti-diagonal of the backward sweep, and how its π and W become gradients.

Layout and conventions are those of `rows`; the neighbouring diagonals are here the ones after this one.
"""

from collections import namedtuple

from numba import njit

from udtw._kernels.cpu.layout import BY_DEVIATION, BY_LOG, BY_SOFT_MIN
from udtw._kernels.cpu.rows import INNER, SLOT, feature_variance_at, of_pairs
from udtw._kernels.cpu.simd import fma, fnma, lanes, least_probability, load, log, maximum, splat, store, where_greater

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


def _swift_gradient_row(featured=False, prices=False, shared=False):
    """`coupling_row`, and the gradients ``into`` of a multiple of the free energy for ``C = Σ_f (x_f − y_f)²/Σ_f``.

    ``∂F/∂D = π/Σ`` and ``∂F/∂Σ = π(β − C)/Σ``; the sum of π goes to ``at.visits``, and for the ``prices`` β and ω that
    of ``π log Σ`` to ``at.log_tilt`` and that of the non-diagonal steps to ``at.edges``. Of several features, each has
    a variance (``featured``), or all have one (``shared``).
    """

    @njit(**INNER)
    def row(w, d, at, sweep, steps, dim, into):
        to, coupling = sweep.to, sweep.coupling
        least, zero, one = splat(w, least_probability(w)), splat(w, w.dtype.type(0)), splat(w, w.dtype.type(1))
        # Downwards, as the diagonals go: the tables are then read as one stream, which the processor prefetches.
        last = d.begin + (d.end - d.begin - 1) // lanes(w) * lanes(w)
        for t in range(last, d.begin - 1, -lanes(w)):
            below = t + d.pack
            beside = load(w, to.up + below) * load(w, coupling.near + below)
            beside = fma(load(w, to.left + t), load(w, coupling.near + t), beside)
            total = fma(load(w, to.corner + below), load(w, coupling.far + below), beside) + load(w, sweep.seed + t)
            probability = where_greater(total, least, total, zero)
            store(w, coupling.here + t, probability)
            direct = of_pairs(w, at.direct, t, d.pack)
            visit = direct * probability
            price = of_pairs(w, at.priced, t, d.pack) * probability
            store(w, at.visits + t, load(w, at.visits + t) + visit)
            level = zero
            if shared:
                sigma = feature_variance_at(w, steps, 0, t)
                inverse = one / sigma
                by_base, by_sigma = visit * inverse, price
                for f in range(0, dim * at.row, at.row):
                    difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
                    by_x = by_base * difference
                    by_sigma = fnma(by_x, difference, by_sigma)
                    store(w, into.x + f + t, load(w, into.x + f + t) + by_x)
                    store(w, into.y + f + t, load(w, into.y + f + t) - by_x)
                by_sigma = by_sigma * inverse
                store(w, into.half_var_x + t, load(w, into.half_var_x + t) + by_sigma)
                store(w, into.half_var_y + t, load(w, into.half_var_y + t) + by_sigma)
                if prices:
                    level = log(sigma)
            for f in range(0, 0 if shared else dim * at.row if featured else 1, at.row):
                sigma = feature_variance_at(w, steps, f, t)
                inverse = one / sigma
                difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
                by_x = visit * inverse * difference
                by_sigma = fnma(by_x, difference, price) * inverse
                store(w, into.half_var_x + f + t, load(w, into.half_var_x + f + t) + by_sigma)
                store(w, into.half_var_y + f + t, load(w, into.half_var_y + f + t) + by_sigma)
                store(w, into.x + f + t, load(w, into.x + f + t) + by_x)
                store(w, into.y + f + t, load(w, into.y + f + t) - by_x)
                if prices:
                    level = level + log(sigma)
            if prices:
                store(w, at.log_tilt + t, fma(visit, level, load(w, at.log_tilt + t)))
                # Where nothing is visited, the tables may hold anything.
                moved = where_greater(probability, zero, direct * beside, zero)
                store(w, at.edges + t, load(w, at.edges + t) + moved)

    return row


swift_gradient_row = _swift_gradient_row()
swift_price_row = _swift_gradient_row(prices=True)
featured_gradient_row = _swift_gradient_row(featured=True)
featured_price_row = _swift_gradient_row(featured=True, prices=True)
shared_gradient_row = _swift_gradient_row(shared=True)
shared_price_row = _swift_gradient_row(shared=True, prices=True)


def _edge_row(with_adjoint):
    @njit(**INNER)
    def row(w, d, at, sweep):
        to, pull, coupling, adjoint = sweep.to, sweep.pull, sweep.coupling, sweep.adjoint
        by_soft_min, zero = at.factors + BY_SOFT_MIN * SLOT, splat(w, w.dtype.type(0))
        for t in range(d.begin, d.end, lanes(w)):
            below, factor = t + d.pack, of_pairs(w, by_soft_min, t, d.pack)
            down, right = load(w, coupling.near + below), load(w, coupling.near + t)
            by_down, by_right = factor * down, factor * right
            if with_adjoint:
                by_down = by_down + load(w, adjoint.near + below)
                by_right = by_right + load(w, adjoint.near + t)
            total = fma(load(w, to.left + t), by_right, load(w, to.up + below) * by_down)
            if with_adjoint:
                total = fma(down, load(w, pull.up + below), fma(right, load(w, pull.left + t), total))
            # Beside the diagonal, where nothing is visited, the tables may hold anything.
            total = where_greater(load(w, coupling.here + t), zero, total, zero)
            store(w, at.edges + t, load(w, at.edges + t) + total)

    return row


edge_row = _edge_row(False)
"""Adds what the non-diagonal steps to the next diagonal carry of the loss's derivative in ω to ``at.edges``."""
adjoint_edge_row = _edge_row(True)
"""The same where the loss has expectations."""


@njit(**INNER)
def energy_gradient_at(w, t, pack, at, sweep):
    """``W + g_softmin·π``: the loss's derivative in the energy of the cells at ``t``, all fields held fixed."""
    by_soft_min = at.factors + BY_SOFT_MIN * SLOT
    return fma(of_pairs(w, by_soft_min, t, pack), load(w, sweep.coupling.here + t), load(w, sweep.adjoint.here + t))


@njit(**INNER)
def cost_gradient_row(w, d, at, sweep):
    """``∂/∂C = W + g·π``, written to ``at.gradient``."""
    for t in range(d.begin, d.end, lanes(w)):
        coupling, adjoint = load(w, sweep.coupling.here + t), load(w, sweep.adjoint.here + t)
        store(w, at.gradient + t, fma(of_pairs(w, at.direct, t, d.pack), coupling, adjoint))


@njit(**INNER)
def tilt_row(w, d, at, sweep, weights, out):
    """Add the energy's gradient times ``weights`` to ``out``."""
    for t in range(d.begin, d.end, lanes(w)):
        moved = energy_gradient_at(w, t, d.pack, at, sweep)
        store(w, out + t, fma(load(w, weights + t), moved, load(w, out + t)))


@njit(**INNER)
def entropy_row(w, d, at, sweep, to):
    """Add ``−π Σ_p q_p log q_p``, which sums up to the entropy of the paths, to ``at.tilt``; all terms are positive."""
    least, zero = splat(w, least_probability(w)), splat(w, w.dtype.type(0))
    for t in range(d.begin, d.end, lanes(w)):
        entropy = zero
        for table in (to.up, to.left, to.corner):
            share = maximum(load(w, table + t), least)
            entropy = fnma(share, log(share), entropy)
        probability = load(w, sweep.coupling.here + t)
        # Where nothing is visited, the tables may hold anything.
        part = where_greater(probability, zero, probability * entropy, zero)
        store(w, at.tilt + t, load(w, at.tilt + t) + part)


@njit(**INNER)
def visits_row(w, d, at, sweep):
    """Add the energy's gradient to ``at.visits``."""
    for t in range(d.begin, d.end, lanes(w)):
        store(w, at.visits + t, load(w, at.visits + t) + energy_gradient_at(w, t, d.pack, at, sweep))


@njit(**INNER)
def log_gradient_at(w, t, pack, at, sweep):
    """Return the loss's derivative in log Σ, as a field and as a part of the energy."""
    probability = load(w, sweep.coupling.here + t)
    by_energy = of_pairs(w, at.beta, t, pack) * energy_gradient_at(w, t, pack, at, sweep)
    return fma(of_pairs(w, at.factors + BY_LOG * SLOT, t, pack), probability, by_energy)


@njit(**INNER)
def variance_gradient_row(w, d, at, sweep):
    """From ``at.gradient = ∂/∂C``: ``at.sigma_gradient = ∂/∂Σ`` and, in place, ``at.gradient = ∂/∂D``."""
    by_deviation = at.factors + BY_DEVIATION * SLOT
    one = splat(w, w.dtype.type(1))
    two = splat(w, w.dtype.type(2))
    for t in range(d.begin, d.end, lanes(w)):
        sigma = load(w, at.variance + t)
        inverse = one / sigma
        by_base = load(w, at.gradient + t) * inverse
        probability = load(w, sweep.coupling.here + t)
        total = log_gradient_at(w, t, d.pack, at, sweep) * inverse - by_base * load(w, at.cost + t)
        total = fma(of_pairs(w, by_deviation, t, d.pack) * probability, two * (sigma - one), total)
        store(w, at.sigma_gradient + t, total)
        store(w, at.gradient + t, by_base)


@njit(**INNER)
def feature_gradient_row(w, d, at, sweep, steps, into, dim):
    """From ``at.gradient = ∂/∂C``: gradients of the sequences and of their variances of each feature."""
    by_deviation = at.factors + BY_DEVIATION * SLOT
    one = splat(w, w.dtype.type(1))
    two = splat(w, w.dtype.type(2))
    for f in range(0, dim * at.row, at.row):
        for t in range(d.begin, d.end, lanes(w)):
            sigma = feature_variance_at(w, steps, f, t)
            inverse = one / sigma
            difference = load(w, steps.x + f + t) - load(w, steps.y + f + t)
            by_x = load(w, at.gradient + t) * inverse * difference
            by_sigma = fnma(by_x, difference, log_gradient_at(w, t, d.pack, at, sweep)) * inverse
            probability = load(w, sweep.coupling.here + t)
            by_sigma = fma(of_pairs(w, by_deviation, t, d.pack) * probability, two * (sigma - one), by_sigma)
            store(w, into.half_var_x + f + t, load(w, into.half_var_x + f + t) + by_sigma)
            store(w, into.half_var_y + f + t, load(w, into.half_var_y + f + t) + by_sigma)
            store(w, into.x + f + t, load(w, into.x + f + t) + by_x)
            store(w, into.y + f + t, load(w, into.y + f + t) - by_x)


@njit(**INNER)
def add_variance_gradient_row(w, d, gradient, into):
    """Add ∂/∂Σ to the gradients of the steps' variances."""
    for t in range(d.begin, d.end, lanes(w)):
        part = load(w, gradient + t)
        store(w, into.half_var_x + t, load(w, into.half_var_x + t) + part)
        store(w, into.half_var_y + t, load(w, into.half_var_y + t) + part)


@njit(**INNER)
def add_sequence_gradient_row(w, d, at, steps, into, dim):
    """Add ``∂/∂D · (x − y)`` to the gradients of the sequences."""
    for f in range(0, dim * at.row, at.row):
        for t in range(d.begin, d.end, lanes(w)):
            part = load(w, at.gradient + t) * (load(w, steps.x + f + t) - load(w, steps.y + f + t))
            store(w, into.x + f + t, load(w, into.x + f + t) + part)
            store(w, into.y + f + t, load(w, into.y + f + t) - part)
