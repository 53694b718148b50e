"""Derivatives of the operators in `operators`: first ones by the kernels, higher ones by the portable backend.

Call `sums`, `coupling` and `loss` from here, not the bare operators.
"""

from typing import Any

import torch
from torch import Tensor

from udtw._engine.checks import make_masks
from udtw._engine.prior import Prior, starts_and_ends
from udtw._engine.problem import COST, LOG_VARIANCE, Problem
from udtw._kernels.differentiable import differentiable
from udtw._kernels.gpu import operators as ops
from udtw._kernels.gpu.operators import ENERGY, N_KEPT, N_LOSS, WARPS, pairs_of_loss
from udtw._kernels.reference import portable
from udtw._kernels.reference.torch_backends import PORTABLE
from udtw._kernels.vmap_rule import register_vmap

GRID = 5
"""Arguments of a grid: energy, γ, ω, lengths and relaxed ends, of which the first three can have gradients."""


def _differentiable(operator, setup_context, backward):
    return differentiable(operator, ops.implementations[operator._schema.name], setup_context, backward)


def _grid_grads(ctx, factors: Tensor, field: Tensor | None, grid, needs, means: bool, want_coupling: bool = False):
    """Gradients in energy, γ and ω, None where ``needs`` does not ask, and π*."""
    by_energy, by_warp, by_gamma, coupling = _gradients(factors, field, *grid, means, needs[1], want_coupling)
    found = by_energy, by_gamma, by_warp
    return [
        g if need and leaf is not None else None for g, need, leaf in zip(found, needs, grid, strict=False)
    ], coupling


def _save_sums(ctx, inputs, output):
    ctx.save_for_backward(*inputs[: GRID + 1])
    ctx.wanted = inputs[GRID + 1]


def _sums_backward(ctx, grad):
    *grid, fields = ctx.saved_tensors
    wanted = ctx.wanted
    by_free, *by_wanted = grad.unbind(1)
    zero = torch.zeros_like(by_free)
    by_energy, by_warps = zero, zero
    by_field: dict[int, Tensor] = {}
    for one, by in zip(wanted, by_wanted, strict=True):
        if one == ENERGY:
            by_energy = by_energy + by
        elif one == WARPS:
            by_warps = by_warps + by
        else:
            by_field[one] = by_field.get(one, zero) + by
    field = sum(by[:, None, None] * fields[one] for one, by in by_field.items()) if by_field else None
    needs, of_fields = ctx.needs_input_grad[:GRID], ctx.needs_input_grad[GRID] and bool(by_field)
    factors = torch.stack([by_free, by_energy, by_warps])
    (energy, gamma, warp), coupling = _grid_grads(ctx, factors, field, grid, needs, bool(wanted), of_fields)
    grad_fields = None
    if of_fields:
        weight = torch.stack([by_field.get(k, zero) for k in range(fields.shape[0])])
        grad_fields = weight[:, :, None, None] * coupling[None]
    return energy, gamma, warp, None, None, grad_fields, None


sums = _differentiable(ops.gpu_sums, _save_sums, _sums_backward)


def _save_coupling(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def _coupling_backward(ctx, grad):
    grid = ctx.saved_tensors
    (energy, gamma, warp), _ = _grid_grads(
        ctx, grad.new_zeros((3, grad.shape[0])), grad, grid, ctx.needs_input_grad, True
    )
    return energy, gamma, warp, None, None


coupling = _differentiable(ops.gpu_coupling, _save_coupling, _coupling_backward)


def _save_gradients(ctx, inputs, output):
    factors, field, *grid = inputs[: 2 + GRID]
    ctx.save_for_backward(factors, field, *grid)
    ctx.how = inputs[2 + GRID :]


def _for_portable(energy, gamma, warp, lengths, relax, fields=()) -> tuple[Any, list[Tensor]]:
    """Return what the functions of `portable` read of a grid, in float64, and ``fields`` likewise."""
    rows, columns = energy.shape[1:]
    cells = make_masks(lengths, rows, columns, True)[2]
    assert cells is not None, "asked for"
    admissible = cells & (energy != torch.finfo(energy.dtype).max)
    penalty = torch.zeros_like(gamma) if warp is None else warp
    both_ways = torch.stack([penalty, penalty])  # one price for both kinds of steps
    wide = [t.double() for t in (torch.where(admissible, energy, 0), gamma, both_ways)]
    borders = starts_and_ends(relax, lengths, rows, columns)
    return (*wide, admissible, borders), [f.double() for f in fields]


def _gradients_backward(ctx, *cotangents):
    factors, field, energy, gamma, warp, lengths, relax = ctx.saved_tensors
    means, want_gamma, want_coupling = ctx.how
    places = [place for place, leaf in enumerate((energy, gamma, warp)) if leaf is not None]

    def first_order(factors, field, *values):
        """Return what `gpu_gradients` computes, differentiable."""

        def leaves(values):
            given = dict(zip(places, values, strict=True))
            return given[0], given[1], given.get(2)

        def total(*values):
            energy, gamma, warp = leaves(values)
            given, fields = _for_portable(energy, gamma, warp, lengths, relax, [] if field is None else [field])
            free, (warps, _), found = portable.expectations(*(*given, [given[0], *fields]))
            result = (factors[0] * free).sum()
            if means:
                result = result + (factors[1] * (found[0] + given[2][0] * warps) + factors[2] * warps).sum()
            return result if field is None else result + found[1].sum()

        by = dict(zip(places, torch.func.grad(total, tuple(range(len(places))))(*values), strict=True))
        out = [by[0], by.get(2), by[1] if want_gamma else None, None]
        if want_coupling:
            of_energy, of_gamma, of_warp = leaves(values)
            given, _ = _for_portable(of_energy, of_gamma, of_warp, lengths, relax)
            out[3] = portable.coupling(*given).to(energy.dtype)
        return tuple(out[place] for place in given_places)

    used = [True, warp is not None, want_gamma, want_coupling]
    given_places = [place for place, use in enumerate(used) if use]
    leaves = [t for t in (energy, gamma, warp) if t is not None]

    def outputs(factors, *rest):
        return first_order(factors, None, *rest) if field is None else first_order(factors, *rest)

    primals = [factors, *leaves] if field is None else [factors, field, *leaves]
    pull = torch.func.vjp(outputs, *primals)[1]
    by_factors, *rest = pull(tuple(cotangents[place] for place in given_places))
    by_field = None if field is None else rest.pop(0)
    by_leaf = dict(zip(places, rest, strict=True))
    return by_factors, by_field, *(by_leaf.get(place) for place in range(3)), None, None, None, None, None


_gradients = _differentiable(ops.gpu_gradients, _save_gradients, _gradients_backward)


def _save_loss(ctx, inputs, output):
    kept = output[3:]
    ctx.mark_non_differentiable(*kept)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:N_LOSS], *kept)
    ctx.how = inputs[N_LOSS:]


PLACES = (0, 1, 2, 3, 4, 5, 7, 8)
"""Where the gradients of `gpu_loss_grads` belong among its arguments; γ has none."""


def _loss_backward(ctx, by_loss, by_energy, by_field, *_):
    nothing = [None] * (N_LOSS + 3)
    if by_loss is None and by_energy is None and by_field is None:
        return tuple(nothing)
    described, kept = ctx.saved_tensors[:N_LOSS], ctx.saved_tensors[N_LOSS:]
    weight, means, keep = ctx.how
    if not means:
        if by_loss is None:
            return tuple(nothing)
        first, second = by_loss, torch.zeros_like(by_loss)
    elif by_energy is None and by_field is None:
        first, second = by_loss, weight * by_loss
    else:
        keep = False
        given = next(g for g in (by_energy, by_field) if g is not None)
        none = torch.zeros_like(given)
        loss, energy, field = (none if g is None else g for g in (by_loss, by_energy, by_field))
        first, second = loss + energy, torch.add(field, loss, alpha=weight)
    found = _loss_grads(first, second, *kept, *described, weight, means, not keep)
    for place, grad in zip(PLACES, found, strict=True):
        if described[place] is not None and ctx.needs_input_grad[place] and grad.shape == described[place].shape:
            nothing[place] = grad
    return tuple(nothing)


loss = _differentiable(ops.gpu_loss, _save_loss, _loss_backward)


def _save_loss_grads(ctx, inputs, output):
    by_first, by_second, *rest = inputs
    ctx.save_for_backward(by_first, by_second, *rest[N_KEPT:-3])
    ctx.how = rest[-3:]


def _loss_grads_backward(ctx, *cotangents):
    by_first, by_second, *described = ctx.saved_tensors
    _, means, _ = ctx.how
    places = [place for place in PLACES if described[place] is not None]
    if not means and 1 in places:
        places.remove(1)

    def first_order(first, second, *values):
        def total(*values):
            given = list(described)
            for place, value in zip(places, values, strict=True):
                given[place] = value
            return _portable_loss(first, second, given, means)

        return torch.func.grad(total, tuple(range(len(places))))(*values)

    pull = torch.func.vjp(first_order, by_first, by_second, *(described[place] for place in places))[1]
    given = tuple(cotangents[PLACES.index(place)] for place in places)
    by_one, by_two, *by_leaf = pull(given)
    found = [None] * N_LOSS
    for place, grad in zip(places, by_leaf, strict=True):
        found[place] = grad
    return by_one, by_two, *[None] * N_KEPT, *found, None, None, None


def _portable_loss(first: Tensor, second: Tensor, described, means: bool) -> Tensor:
    """Σ first·F or Σ first·E[C] + second·E[field], in plain torch."""
    pairs = pairs_of_loss(*described)
    if pairs.energy is not None:
        fields = [] if pairs.field is None else [pairs.field]
        given, fields = _for_portable(pairs.energy, pairs.gamma, pairs.warp, pairs.lengths, pairs.relax, fields)
        free, _, found = portable.expectations(*(*given, [given[0], *fields]))
        found = [*found, torch.zeros_like(free)]
    else:
        prior = Prior(warp_penalty=pairs.warp, relax=pairs.relax)
        problem = Problem(
            pairs.gamma, pairs.lengths, prior, pairs.x, pairs.y, None, pairs.var_x, pairs.var_y, None, pairs.beta
        )
        free, found = PORTABLE.sums_and_expectations(problem, [COST, LOG_VARIANCE], [])
    return (first * found[0] + second * found[1]).sum() if means else (first * free).sum()


_loss_grads = _differentiable(ops.gpu_loss_grads, _save_loss_grads, _loss_grads_backward)

_AXES = {"lengths": 1, "relax": 1, "factors": 1, "fields": 1}
for _operator, _outputs in (
    (ops.gpu_sums, 0), (ops.gpu_coupling, 0), (ops.gpu_gradients, (0,) * 4), (ops.gpu_transitions, (1, 0)),
    (ops.gpu_least, (0, 1, 0)), (ops.gpu_loss, (0,) * (3 + N_KEPT)), (ops.gpu_loss_grads, (0,) * 8),
):  # fmt: skip
    _names = [argument.name for argument in _operator._schema.arguments]
    register_vmap(_operator, {name: _AXES.get(name, 0) for name in _names}, _outputs)
