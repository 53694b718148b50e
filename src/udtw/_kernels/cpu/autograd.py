"""Derivatives of the operators in `operators`: first ones by the backward kernel, higher ones by the portable backend.

Call `sums`, `loss_terms`, `expectations` and `coupling` from here, not the bare operators.
"""

import torch
from torch import Tensor

from udtw._engine.problem import BUILT_IN, Problem
from udtw._kernels.cpu.layout import FACTORS
from udtw._kernels.cpu.operators import (
    DESCRIBED,
    N_GRADS,
    arguments,
    as_problem,
    common_amount,
    grad_tensors,
    implementations,
    loss_and_grads,
    loss_factors,
    path_coupling,
    path_expectations,
    path_gradients,
    path_loss_and_grads,
    path_pullback,
    path_sums,
    scaled_grads,
)
from udtw._kernels.differentiable import differentiable, plain
from udtw._kernels.reference.torch_backends import PORTABLE


def _differentiable(operator, setup_context, backward):
    return differentiable(operator, implementations[operator._schema.name], setup_context, backward)


DATA, PRICES = 6, 3
"""Of the arguments that describe a problem the first are the data, then come γ, β and ω."""
LEAVES = DATA + PRICES
TAIL = DESCRIBED - LEAVES
"""What else describes a problem has no gradient."""


class _Saved:
    """The arguments that describe a problem, in a context: tensors by autograd, the rest as attributes."""

    @staticmethod
    def keep(ctx, described, *more):
        *tensors, kind, value, mask = described
        ctx.save_for_backward(*tensors, mask, *more)
        ctx.band = kind, value

    @staticmethod
    def of(ctx) -> tuple[list, list]:
        """Return the described problem, and the ``more`` tensors that were kept."""
        *tensors, mask = ctx.saved_tensors[: DESCRIBED - 2]
        return [*tensors, *ctx.band, mask], list(ctx.saved_tensors[DESCRIBED - 2 :])


def _leaf_grads(factors, field, described, needs) -> list:
    """Gradients in the leaves of a problem, None where ``needs`` does not ask, and then the coupling.

    ``needs`` has an entry for each leaf, and a last one for the coupling.
    """
    want_gamma, want_prices, want_coupling = needs[DATA], needs[DATA + 1] or needs[DATA + 2], needs[-1]
    *found, coupling = _gradients(factors, field, *described, want_gamma, want_prices, want_coupling)
    present = (t is not None and need for t, need in zip(described, needs[:LEAVES], strict=False))
    return [g if use else None for g, use in zip(found, present, strict=True)] + [coupling]


def _save_sums(ctx, inputs, output):
    _Saved.keep(ctx, inputs[:DESCRIBED])
    ctx.wanted = inputs[DESCRIBED]


def _sums_backward(ctx, grad):
    described, _ = _Saved.of(ctx)
    factors = grad.new_zeros((FACTORS, grad.shape[0]))
    rows = [0, *(1 + f for f in ctx.wanted)]
    factors = factors.index_add(0, torch.tensor(rows, device=grad.device), grad.T)
    *found, _ = _leaf_grads(factors, None, described, [*ctx.needs_input_grad[:LEAVES], False])
    return *found, *[None] * (TAIL + 1)


sums = _differentiable(path_sums, _save_sums, _sums_backward)


def _save_loss_and_grads(ctx, inputs, output):
    grads = output[3:]
    ctx.mark_non_differentiable(*grads)
    ctx.set_materialize_grads(False)
    _Saved.keep(ctx, inputs[:DESCRIBED], *grads)
    ctx.how = inputs[DESCRIBED:]


def _needed(grads, needs) -> list:
    """`GRADS`, None where not needed."""
    return [g if need else None for g, need in zip(grads, needs, strict=False)]


def _loss_and_grads_backward(ctx, by_loss, by_cost, by_log, *_):
    nothing = [None] * (TAIL + 4)
    if by_loss is None and by_cost is None and by_log is None:
        return *[None] * LEAVES, *nothing
    described, grads = _Saved.of(ctx)
    found = _pullback(by_loss, by_cost, by_log, *grads, *described, *ctx.how)
    return *_needed(found, ctx.needs_input_grad), *nothing


_loss_terms = _differentiable(path_loss_and_grads, _save_loss_and_grads, _loss_and_grads_backward)


class _Loss(torch.autograd.Function):
    """`path_loss_and_grads` on plain tensors, with as little around the kernel as possible.

    Gradients stay NumPy arrays, and what has no gradient stays in the problem: every tensor costs autograd its time.
    """

    @staticmethod
    def forward(ctx, problem, how, *leaves):
        results, ctx.grads = loss_and_grads(problem, *how)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*leaves)
        ctx.problem, ctx.how = problem, how
        return results

    @staticmethod
    def backward(ctx, by_loss, by_cost=None, by_log=None):
        if by_loss is None and by_cost is None and by_log is None:
            return (None,) * (2 + LEAVES)
        needs, (weight, energy, *_) = ctx.needs_input_grad[2:], ctx.how
        amount = None if torch.is_grad_enabled() else common_amount(by_loss, by_cost, by_log, weight, energy)
        if amount is not None:
            return None, None, *scaled_grads(ctx.grads, amount, ctx.problem.data, needs)
        # Higher derivatives, or another combination of the results.
        described = *ctx.saved_tensors, *arguments(ctx.problem)[LEAVES:]
        grads = grad_tensors(ctx.grads, described[:DATA])
        return None, None, *_needed(_pullback(by_loss, by_cost, by_log, *grads, *described, *ctx.how), needs)


_apply_loss = super(torch.autograd.Function, _Loss).apply
"""``_Loss.apply`` without what torch does for torch.func, of which there is none on plain tensors."""


def loss_terms(
    problem: Problem, weight: float, energy: bool, want_gamma: bool, want_prices: bool
) -> tuple[Tensor, ...]:
    """Return the loss, and unless it is the free energy E[C] and E[log Σ] after it; see `path_loss_and_grads`."""
    leaves = *problem.data, *problem.prices
    if plain(*leaves):
        return _apply_loss(problem, (weight, energy, want_gamma, want_prices), *leaves)
    return _loss_terms(*arguments(problem), weight, energy, want_gamma, want_prices)


def _save_coupling(ctx, inputs, output):
    _Saved.keep(ctx, inputs)


def _coupling_backward(ctx, grad):
    described, _ = _Saved.of(ctx)
    factors = grad.new_zeros((FACTORS, grad.shape[0]))
    *found, _ = _leaf_grads(factors, grad, described, [*ctx.needs_input_grad[:LEAVES], False])
    return *found, *[None] * TAIL


coupling = _differentiable(path_coupling, _save_coupling, _coupling_backward)


def _save_expectations(ctx, inputs, output):
    fields, *described = inputs
    _Saved.keep(ctx, described, fields)


def _expectations_backward(ctx, grad):
    described, (fields,) = _Saved.of(ctx)
    by_field, *needs = ctx.needs_input_grad[: 1 + LEAVES]
    field = torch.einsum("bk,kbnm->bnm", grad, fields)
    factors = grad.new_zeros((FACTORS, grad.shape[0]))
    *found, coupling = _leaf_grads(factors, field, described, [*needs, by_field])
    grad_fields = grad.T[:, :, None, None] * coupling[None] if by_field else None
    return grad_fields, *found, *[None] * TAIL


expectations = _differentiable(path_expectations, _save_expectations, _expectations_backward)


def _save_gradients(ctx, inputs, output):
    factors, field, *rest = inputs
    _Saved.keep(ctx, rest[:DESCRIBED], factors, field)
    ctx.wants = rest[DESCRIBED:]


def _gradients_backward(ctx, *cotangents):
    described, (factors, field) = _Saved.of(ctx)
    base, leaves = as_problem(*described), described[:LEAVES]
    places = [place for place, leaf in enumerate(leaves) if leaf is not None]
    want_gamma, want_prices, want_coupling = ctx.wants

    def first_order(factors, field, *values):
        """Return what `path_gradients` computes, differentiable."""

        def with_leaves(values):
            described_anew = list(described)
            for place, value in zip(places, values, strict=True):
                described_anew[place] = value
            return as_problem(*described_anew)

        def loss(*values):
            extra = [] if field is None else [field]
            soft_min, means = PORTABLE.sums_and_expectations(with_leaves(values), range(BUILT_IN), extra)
            total = (factors * torch.stack([soft_min, *means[:BUILT_IN]])).sum()
            return total if field is None else total + means[BUILT_IN].sum()

        by_leaf = dict(zip(places, torch.func.grad(loss, argnums=tuple(range(len(places))))(*values), strict=True))
        order = [*range(DATA), *((DATA,) if want_gamma else ()), *((DATA + 1, DATA + 2) if want_prices else ())]
        out = [by_leaf[place] for place in order if place in by_leaf]
        if want_coupling:
            out.append(PORTABLE.unchecked_coupling(with_leaves(values)))
        return tuple(out)

    *by_data, by_gamma, by_beta, by_warp, by_coupling = cotangents
    given = [g for g, leaf in zip(by_data, leaves, strict=False) if leaf is not None]
    given += [by_gamma] if want_gamma else []
    if want_prices:
        given += [g for g, leaf in ((by_beta, base.beta), (by_warp, base.prior.warp_penalty)) if leaf is not None]
    given += [by_coupling] if want_coupling else []
    primals = [leaves[place] for place in places]
    inputs = [factors, *primals] if field is None else [factors, field, *primals]

    def outputs(factors, *rest):
        return first_order(factors, None, *rest) if field is None else first_order(factors, *rest)

    pull = torch.func.vjp(outputs, *inputs)[1]
    by_factors, *by_rest = pull(tuple(given))
    by_field = None if field is None else by_rest.pop(0)
    by_place = dict(zip(places, by_rest, strict=True))
    return by_factors, by_field, *(by_place.get(place) for place in range(LEAVES)), *[None] * (TAIL + 3)


_gradients = _differentiable(path_gradients, _save_gradients, _gradients_backward)


def _save_pullback(ctx, inputs, output):
    by_loss, by_cost, by_log, *rest = inputs
    described, how = rest[N_GRADS:-4], rest[-4:]
    _Saved.keep(ctx, described, loss_factors(by_loss, by_cost, by_log, *how[:2]), None)
    ctx.wants, ctx.how = (*how[2:], False), how
    ctx.given = tuple(g is not None for g in (by_loss, by_cost, by_log))


def _pullback_backward(ctx, *cotangents):
    by_factors, _, *by_described = _gradients_backward(ctx, *cotangents, None)
    weight, energy, *_ = ctx.how
    by_cost, by_log = by_factors[1], by_factors[2]
    by_loss = by_factors[0] if energy else torch.add(by_cost, by_log, alpha=weight)
    kept = [by if given else None for by, given in zip((by_loss, by_cost, by_log), ctx.given, strict=True)]
    return *kept, *[None] * N_GRADS, *by_described[:LEAVES], *[None] * (TAIL + 4)


_pullback = _differentiable(path_pullback, _save_pullback, _pullback_backward)
