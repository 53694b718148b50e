"""Derivatives of the operators in `operators`: first ones by the backward kernel, higher ones by the portable backend.

Call `sums`, `loss_terms`, `expectations` and `coupling` from here, not the bare operators.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from udtw.kernels.cpu.operators import (
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
from udtw.kernels.reference.torch_backends import PORTABLE
from udtw.prior import Band
from udtw.problem import Problem

_WATCHED_BY_AUTOGRAD_ALONE = {Tensor, Parameter, type(None), bool, int, float, list}
"""Types of arguments for which torch's dispatcher would find the CPU implementation and nothing else."""


def _differentiable(operator, setup_context, backward, direct=None):
    """Give the operator its derivative; returns what to call.

    Autograd and torch.compile take the derivative from the operator itself. torch.func does not look there: under its
    transforms the same two functions serve as an autograd.Function. So they do on plain tensors, around the bare
    implementation: finding it through torch's dispatcher takes as long as aligning a few dozen short pairs.
    """
    implementation = implementations[operator._schema.name]
    torch.library.register_autograd(operator._schema.name, backward, setup_context=setup_context)

    def forward(ctx, *args):
        output = implementation(*args)
        setup_context(ctx, args, output)
        return output

    def function(**members) -> Any:
        members = {name: staticmethod(member) for name, member in members.items()}
        return type(operator._opname, (torch.autograd.Function,), members | {"generate_vmap_rule": True})

    transformed = function(forward=operator, setup_context=setup_context, backward=backward)
    # Without setup_context, which makes torch inspect signatures.
    direct = direct or function(forward=forward, backward=backward)

    def call(*args):
        if torch.compiler.is_compiling():
            return operator(*args)
        if torch._C._functorch.peek_interpreter_stack() is not None:
            return transformed.apply(*args)
        if torch._C._len_torch_dispatch_stack() == 0 and _WATCHED_BY_AUTOGRAD_ALONE.issuperset(map(type, args)):
            return direct.apply(*args) if torch.is_grad_enabled() else implementation(*args)
        return operator(*args)

    return call


def _save_sums(ctx, inputs, output):
    *tensors, kind, value, mask, wanted = inputs
    ctx.save_for_backward(*tensors, mask)
    ctx.band, ctx.wanted = (kind, value), wanted


def _sums_backward(ctx, grad):
    *tensors, gamma, lengths, mask = ctx.saved_tensors
    factors = grad.new_zeros((5, grad.shape[0]))
    rows = [0, *(1 + f for f in ctx.wanted)]
    factors = factors.index_add(0, torch.tensor(rows, device=grad.device), grad.T)
    needs = ctx.needs_input_grad
    *grads, by_gamma, _ = _gradients(factors, None, *tensors, gamma, lengths, *ctx.band, mask, bool(needs[6]), False)
    kept = [g if t is not None and need else None for g, t, need in zip(grads, tensors, needs, strict=False)]
    return *kept, by_gamma if needs[6] else None, None, None, None, None, None


sums = _differentiable(path_sums, _save_sums, _sums_backward)


def _save_loss_and_grads(ctx, inputs, output):
    *tensors, kind, value, mask, beta = inputs
    grads = output[3:]
    ctx.mark_non_differentiable(*grads)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*grads, *tensors, mask)
    ctx.band, ctx.beta = (kind, value), beta


def _loss_and_grads_backward(ctx, by_loss, by_cost, by_log, *_):
    if by_loss is None and by_cost is None and by_log is None:
        return (None,) * 12
    *tensors, mask = ctx.saved_tensors
    grads = _pullback(by_loss, by_cost, by_log, *tensors, *ctx.band, mask, ctx.beta)
    kept = [g if need else None for g, need in zip(grads, ctx.needs_input_grad, strict=False)]
    return *kept, None, None, None, None, None, None


class _Loss(torch.autograd.Function):
    """`path_loss_and_grads` on plain tensors. Gradients stay NumPy arrays: every tensor costs autograd its time."""

    @staticmethod
    def forward(ctx, *args):
        *tensors, kind, value, mask, beta = args
        *results, ctx.grads = loss_and_grads(*args)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, mask)
        ctx.band, ctx.beta = (kind, value), beta
        return tuple(results)

    @staticmethod
    def backward(ctx, by_loss, by_cost, by_log):
        if by_loss is None and by_cost is None and by_log is None:
            return (None,) * 12
        amount = None if torch.is_grad_enabled() else common_amount(by_loss, by_cost, by_log, ctx.beta)
        if amount is None:  # higher derivatives, or another combination of the results
            *tensors, mask = ctx.saved_tensors
            grads = grad_tensors(ctx.grads)
            found = _pullback(by_loss, by_cost, by_log, *grads, *tensors, *ctx.band, mask, ctx.beta)
            found = [g if need else None for g, need in zip(found, ctx.needs_input_grad, strict=False)]
        else:
            found = scaled_grads(ctx.grads, amount, ctx.needs_input_grad)
        return *found, None, None, None, None, None, None


loss_terms = _differentiable(path_loss_and_grads, _save_loss_and_grads, _loss_and_grads_backward, _Loss)
"""``E[C] + β E[log Σ]``, E[C] and E[log Σ]; on other than plain tensors the grads too."""


def _field_gradients(ctx, field, cost, gamma, lengths, mask, want_gamma, want_coupling):
    """Gradients of E[field] under the paths of a ready-made cost."""
    factors = field.new_zeros((5, field.shape[0]))
    absent = None
    described = (absent, absent, cost, absent, absent, absent, gamma, lengths, *ctx.band, mask)
    return _gradients(factors, field, *described, want_gamma, want_coupling)


def _save_coupling(ctx, inputs, output):
    cost, gamma, lengths, kind, value, mask = inputs
    ctx.save_for_backward(cost, gamma, lengths, mask)
    ctx.band = (kind, value)


def _coupling_backward(ctx, grad):
    cost, gamma, lengths, mask = ctx.saved_tensors
    result = _field_gradients(ctx, grad, cost, gamma, lengths, mask, ctx.needs_input_grad[1], False)
    return result[2], result[6] if ctx.needs_input_grad[1] else None, None, None, None, None


coupling = _differentiable(path_coupling, _save_coupling, _coupling_backward)


def _save_expectations(ctx, inputs, output):
    fields, cost, gamma, lengths, kind, value, mask = inputs
    ctx.save_for_backward(fields, cost, gamma, lengths, mask)
    ctx.band = (kind, value)


def _expectations_backward(ctx, grad):
    fields, cost, gamma, lengths, mask = ctx.saved_tensors
    by_field, by_cost, by_gamma = ctx.needs_input_grad[:3]
    field = torch.einsum("bk,kbnm->bnm", grad, fields)
    result = _field_gradients(ctx, field, cost, gamma, lengths, mask, by_gamma, by_field)
    grad_fields = grad.T[:, :, None, None] * result[7][None] if by_field else None
    return grad_fields, result[2] if by_cost else None, result[6] if by_gamma else None, None, None, None, None


expectations = _differentiable(path_expectations, _save_expectations, _expectations_backward)


def _save_gradients(ctx, inputs, output):
    factors, field, *tensors, kind, value, mask, want_gamma, want_coupling = inputs
    ctx.save_for_backward(factors, field, *tensors, mask)
    ctx.band, ctx.wants = (kind, value), (want_gamma, want_coupling)


def _gradients_backward(ctx, *cotangents):
    factors, field, *tensors, gamma, lengths, mask = ctx.saved_tensors
    names = ("x", "y", "cost", "var_x", "var_y", "variance")
    present = [n for n, t in zip(names, tensors, strict=True) if t is not None]
    want_gamma, want_coupling = ctx.wants
    kind, value = ctx.band
    base = Problem(gamma, lengths, Band(kind, value, mask), **dict(zip(names, tensors, strict=True)))

    def first_order(factors, field, gamma, *values):
        """What `path_gradients` computes, differentiable."""

        def loss(gamma, *values):
            problem = base.replace(gamma=gamma, **dict(zip(present, values, strict=True)))
            extra = [] if field is None else [field]
            soft_min, means = PORTABLE.sums_and_expectations(problem, range(4), extra)
            total = (factors * torch.stack([soft_min, *means[:4]])).sum()
            return total if field is None else total + means[4].sum()

        by_gamma, *by_values = torch.func.grad(loss, argnums=tuple(range(1 + len(present))))(gamma, *values)
        out = [*by_values]
        if want_gamma:
            out.append(by_gamma)
        if want_coupling:
            problem = base.replace(gamma=gamma, **dict(zip(present, values, strict=True)))
            out.append(PORTABLE.unchecked_coupling(problem))
        return tuple(out)

    keep = [*(t is not None for t in tensors), want_gamma, want_coupling]
    given = tuple(c for c, used in zip(cotangents, keep, strict=True) if used)
    primals = [t for t in tensors if t is not None]
    inputs = [factors, gamma, *primals] if field is None else [factors, field, gamma, *primals]

    def outputs(factors, *rest):
        return first_order(factors, None, *rest) if field is None else first_order(factors, *rest)

    pull = torch.func.vjp(outputs, *inputs)[1]
    by_factors, *by_rest = pull(given)
    by_field = None if field is None else by_rest.pop(0)
    by_gamma, *by_present = by_rest
    by_name = dict(zip(present, by_present, strict=True))
    return (
        by_factors,
        by_field,
        *(by_name.get(name) for name in names),
        by_gamma,
        None,
        None,
        None,
        None,
        None,
        None,
    )


_gradients = _differentiable(path_gradients, _save_gradients, _gradients_backward)


def _save_pullback(ctx, inputs, output):
    by_loss, by_cost, by_log, *rest = inputs
    *tensors, kind, value, mask, beta = rest[6:]
    ctx.save_for_backward(loss_factors(by_loss, by_cost, by_log, beta), None, *tensors, mask)
    ctx.band, ctx.wants, ctx.beta = (kind, value), (False, False), beta
    ctx.given = tuple(g is not None for g in (by_loss, by_cost, by_log))


def _pullback_backward(ctx, *cotangents):
    (_, by_cost, by_log, _, _), _, *by_tensors = _gradients_backward(ctx, *cotangents, None, None)
    by_sums = (torch.add(by_cost, by_log, alpha=ctx.beta), by_cost, by_log)
    kept = [by if given else None for by, given in zip(by_sums, ctx.given, strict=True)]
    return *kept, *[None] * 6, *by_tensors[:7], *[None] * 5


_pullback = _differentiable(path_pullback, _save_pullback, _pullback_backward)
