"""The Numba kernels as torch custom operators: autograd, torch.compile, torch.func and autocast see ordinary ops.

Four operators, each opaque to the compiler: `path_sums` (soft_min and expectations of the built-in fields),
`path_expectations` (of the user's fields), `path_coupling`, and their shared derivative `path_gradients`. Second and
higher derivatives go through the portable backend, so they are exact.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw import validate
from udtw.kernels import cpu, generic
from udtw.kernels.bands import MASK, Band, check_mask, intervals
from udtw.kernels.cpu_pack import BUILT_IN
from udtw.kernels.problem import Problem

OptionalTensor = Tensor | None


def _problem(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask) -> Problem:
    return Problem(gamma, lengths, Band(kind, value, mask), x, y, cost, var_x, var_y, variance)


def _array(tensor: OptionalTensor) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().contiguous().numpy()


def _pairs(problem: Problem, fields: OptionalTensor = None) -> cpu.Pairs:
    validate.check_lengths(problem.lengths, *problem.shape[1:])
    validate.check_gamma(problem.gamma)
    lengths = problem.lengths.numpy()
    band = problem.band
    if band.kind == MASK and band.mask is not None:
        check_mask(band.mask.numpy(), lengths)
    return cpu.make_pairs(
        gamma=problem.gamma.detach().double().numpy(),
        length=lengths,
        x=_array(problem.x),
        y=_array(problem.y),
        cost=_array(problem.cost),
        var_x=_array(problem.var_x),
        var_y=_array(problem.var_y),
        variance=_array(problem.variance),
        fields=_array(fields),
        band=_array(intervals(band.kind, band.value, problem.lengths, problem.shape[1])),
        mask=_array(band.mask),
    )


def run(problem: Problem, fields: OptionalTensor, kernel, *args):
    """Run a function of `cpu` on the problem; explain what was wrong where it met a value out of range."""
    try:
        return kernel(_pairs(problem, fields), *args, n_threads=torch.get_num_threads())
    except cpu.ValueOutOfRange:
        problem.check_values([] if fields is None else list(fields))
        raise validate.range_error(problem.main.dtype) from None


@torch.library.custom_op("udtw::path_sums", mutates_args=(), device_types="cpu")
def path_sums(
    x: OptionalTensor,
    y: OptionalTensor,
    cost: OptionalTensor,
    var_x: OptionalTensor,
    var_y: OptionalTensor,
    variance: OptionalTensor,
    gamma: Tensor,
    lengths: Tensor,
    kind: int,
    value: float,
    mask: OptionalTensor,
    wanted: Sequence[int],
) -> Tensor:
    """(B, 1 + len(wanted)): soft_min, then the expectations of the built-in fields ``wanted``."""
    problem = _problem(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask)
    return torch.from_numpy(run(problem, None, cpu.sums, list(wanted)))


@torch.library.custom_op("udtw::path_expectations", mutates_args=(), device_types="cpu")
def path_expectations(
    fields: Tensor, cost: Tensor, gamma: Tensor, lengths: Tensor, kind: int, value: float, mask: OptionalTensor
) -> Tensor:
    """(B, K): expectations of ``fields`` (K, B, N, M) under the paths of ``cost``."""
    problem = Problem(gamma, lengths, Band(kind, value, mask), cost=cost)
    wanted = range(BUILT_IN, BUILT_IN + fields.shape[0])
    return torch.from_numpy(run(problem, fields, cpu.sums, list(wanted))[:, 1:].copy())


@torch.library.custom_op("udtw::path_coupling", mutates_args=(), device_types="cpu")
def path_coupling(
    cost: Tensor, gamma: Tensor, lengths: Tensor, kind: int, value: float, mask: OptionalTensor
) -> Tensor:
    """(B, N, M): π*."""
    problem = Problem(gamma, lengths, Band(kind, value, mask), cost=cost)
    run(problem, None, cpu.sums, [])  # the backward kernel does not check values; this sweep is a quarter of its cost
    return torch.from_numpy(run(problem, None, cpu.coupling))


@torch.library.custom_op("udtw::path_least", mutates_args=(), device_types="cpu")
def path_least(
    x: OptionalTensor,
    y: OptionalTensor,
    cost: OptionalTensor,
    var_x: OptionalTensor,
    var_y: OptionalTensor,
    variance: OptionalTensor,
    lengths: Tensor,
    kind: int,
    value: float,
    mask: OptionalTensor,
) -> Tensor:
    """(B,): the least path cost. Its derivative is made from `path_least_mask` by whoever needs one."""
    one = torch.ones(lengths.shape[1])
    problem = _problem(x, y, cost, var_x, var_y, variance, one, lengths, kind, value, mask)
    return torch.from_numpy(run(problem, None, cpu.least_cost, False)[0])


@torch.library.custom_op("udtw::path_least_mask", mutates_args=(), device_types="cpu")
def path_least_mask(cost: Tensor, lengths: Tensor, kind: int, value: float, mask: OptionalTensor) -> Tensor:
    """(B, N, M): one along the least-cost path, zero elsewhere."""
    problem = Problem(torch.ones(lengths.shape[1]), lengths, Band(kind, value, mask), cost=cost)
    return torch.from_numpy(run(problem, None, cpu.least_path))


@torch.library.custom_op("udtw::path_gradients", mutates_args=(), device_types="cpu")
def path_gradients(
    factors: Tensor,
    field: OptionalTensor,
    entropic: Tensor,
    x: OptionalTensor,
    y: OptionalTensor,
    cost: OptionalTensor,
    var_x: OptionalTensor,
    var_y: OptionalTensor,
    variance: OptionalTensor,
    gamma: Tensor,
    lengths: Tensor,
    kind: int,
    value: float,
    mask: OptionalTensor,
    want_gamma: bool,
    want_coupling: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of ``Σ_b factors[:, b]·(soft_min, E[C], E[log Σ], E[(Σ−1)²], E[1])_b + E[field]_b``.

    In x, y, cost, var_x, var_y, variance, gamma (empty where absent or not wanted); last the coupling itself.
    ``entropic`` (B,) bool is soft_min > 0, see `cpu.gradients`. The gradient in γ is a small difference of large
    numbers: where it is wanted, everything is computed in float64.
    """
    problem = _problem(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask)
    fields = None if field is None else field[None]
    if want_gamma and problem.main.dtype == torch.float32:
        wide = [None if t is None else t.double() for t in (factors, field, x, y, cost, var_x, var_y, variance, gamma)]
        result = path_gradients(*wide[:2], entropic, *wide[2:], lengths, kind, value, mask, want_gamma, want_coupling)
        return tuple(r.to(gamma.dtype) for r in result)
    result = run(problem, fields, cpu.gradients, _array(factors), _array(entropic), want_gamma, want_coupling)
    by_gamma = torch.from_numpy(result.gamma).to(gamma.dtype)
    x_, y_, cost_, var_x_, var_y_, variance_ = (torch.from_numpy(a) for a in result[:6])
    return x_, y_, cost_, var_x_.squeeze(2), var_y_.squeeze(2), variance_, by_gamma, torch.from_numpy(result.coupling)


# --- shapes, for tracing -----------------------------------------------------------------------------------------


@path_sums.register_fake
def _(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, wanted):
    main = x if x is not None else cost
    return main.new_empty((main.shape[0], 1 + len(wanted)))


@path_expectations.register_fake
def _(fields, cost, gamma, lengths, kind, value, mask):
    return cost.new_empty((cost.shape[0], fields.shape[0]))


@path_coupling.register_fake
def _(cost, gamma, lengths, kind, value, mask):
    return torch.empty_like(cost, memory_format=torch.contiguous_format)


@path_least.register_fake
def _(x, y, cost, var_x, var_y, variance, lengths, kind, value, mask):
    main = x if x is not None else cost
    return main.new_empty((main.shape[0],))


@path_least_mask.register_fake
def _(cost, lengths, kind, value, mask):
    return torch.empty_like(cost, memory_format=torch.contiguous_format)


@path_gradients.register_fake
def _(
    factors, field, entropic, x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, want_gamma,
    want_coupling,
):  # fmt: skip
    main = x if x is not None else cost
    shape = (x.shape[0], x.shape[1], y.shape[1]) if x is not None else cost.shape

    def like(tensor, empty):
        return main.new_empty(empty if tensor is None else tensor.shape)

    return (
        like(x, (0, 0, 0)),
        like(y, (0, 0, 0)),
        like(cost, (0, 0, 0)),
        like(var_x, (0, 0)),
        like(var_y, (0, 0)),
        like(variance, (0, 0, 0)),
        gamma.new_empty((gamma.shape[0] if want_gamma else 0,)),
        main.new_empty(shape if want_coupling else (0, 0, 0)),
    )


# --- first derivatives -------------------------------------------------------------------------------------------


def _differentiable(operator, setup_context, backward):
    """Give the operator its derivative; returns what to call.

    Autograd and torch.compile take the derivative from the operator itself. torch.func does not look there: under its
    transforms the same two functions serve as an autograd.Function.
    """
    operator.register_autograd(backward, setup_context=setup_context)
    members = {
        "generate_vmap_rule": True,
        "forward": staticmethod(operator),
        "setup_context": staticmethod(setup_context),
        "backward": staticmethod(backward),
    }
    function: Any = type(operator._name, (torch.autograd.Function,), members)

    def call(*args):
        if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
            return function.apply(*args)
        return operator(*args)

    return call


def _save_sums(ctx, inputs, output):
    *tensors, kind, value, mask, wanted = inputs
    ctx.save_for_backward(*tensors, mask, output[:, 0] > 0)
    ctx.band, ctx.wanted = (kind, value), wanted


def _sums_backward(ctx, grad):
    *tensors, gamma, lengths, mask, entropic = ctx.saved_tensors
    factors = grad.new_zeros((5, grad.shape[0]))
    rows = [0, *(1 + f for f in ctx.wanted)]
    factors = factors.index_add(0, torch.tensor(rows, device=grad.device), grad.T)
    needs = ctx.needs_input_grad
    *grads, by_gamma, _ = _gradients(
        factors, None, entropic, *tensors, gamma, lengths, *ctx.band, mask, bool(needs[6]), False
    )
    kept = [g if t is not None and need else None for g, t, need in zip(grads, tensors, needs, strict=False)]
    return *kept, by_gamma if needs[6] else None, None, None, None, None, None


sums = _differentiable(path_sums, _save_sums, _sums_backward)


def _save_coupling(ctx, inputs, output):
    cost, gamma, lengths, kind, value, mask = inputs
    ctx.save_for_backward(cost, gamma, lengths, mask)
    ctx.band = (kind, value)


def _coupling_backward(ctx, grad):
    cost, gamma, lengths, mask = ctx.saved_tensors
    none, entropic = grad.new_zeros((5, grad.shape[0])), cost.new_zeros(cost.shape[0], dtype=torch.bool)
    result = _gradients(
        none,
        grad,
        entropic,
        None,
        None,
        cost,
        None,
        None,
        None,
        gamma,
        lengths,
        *ctx.band,
        mask,
        ctx.needs_input_grad[1],
        False,
    )
    return result[2], result[6] if ctx.needs_input_grad[1] else None, None, None, None, None


coupling = _differentiable(path_coupling, _save_coupling, _coupling_backward)


def _save_expectations(ctx, inputs, output):
    fields, cost, gamma, lengths, kind, value, mask = inputs
    ctx.save_for_backward(fields, cost, gamma, lengths, mask)
    ctx.band = (kind, value)


def _expectations_backward(ctx, grad):
    fields, cost, gamma, lengths, mask = ctx.saved_tensors
    by_field, by_cost, by_gamma = ctx.needs_input_grad[:3]
    none, entropic = grad.new_zeros((5, grad.shape[0])), cost.new_zeros(cost.shape[0], dtype=torch.bool)
    field = torch.einsum("bk,kbnm->bnm", grad, fields)
    result = _gradients(
        none, field, entropic, None, None, cost, None, None, None, gamma, lengths, *ctx.band, mask, by_gamma, by_field
    )
    grad_fields = grad.T[:, :, None, None] * result[7][None] if by_field else None
    return grad_fields, result[2] if by_cost else None, result[6] if by_gamma else None, None, None, None, None


expectations = _differentiable(path_expectations, _save_expectations, _expectations_backward)


# --- higher derivatives, through the portable backend ------------------------------------------------------------


def _save_gradients(ctx, inputs, output):
    factors, field, _, *tensors, kind, value, mask, want_gamma, want_coupling = inputs
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
            soft_min, means = generic.sums_and_expectations(problem, range(4), extra, "portable")
            total = (factors * torch.stack([soft_min, *means[:4]])).sum()
            return total if field is None else total + means[4].sum()

        by_gamma, *by_values = torch.func.grad(loss, argnums=tuple(range(1 + len(present))))(gamma, *values)
        out = [*by_values]
        if want_gamma:
            out.append(by_gamma)
        if want_coupling:
            problem = base.replace(gamma=gamma, **dict(zip(present, values, strict=True)))
            out.append(generic.coupling(problem, "portable"))
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
        None,
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


# --- vmap: fold the mapped axis into the batch -------------------------------------------------------------------


def _fold(size: int, dim: int | None, tensor: OptionalTensor, batch_axis: int) -> OptionalTensor:
    """Merge the mapped axis of ``tensor`` (or ``size`` copies of it) into its batch axis."""
    if tensor is None:
        return None
    if dim is None:
        moved = tensor.unsqueeze(batch_axis).expand(*tensor.shape[:batch_axis], size, *tensor.shape[batch_axis:])
    else:
        moved = tensor.movedim(dim, batch_axis)
    return moved.flatten(batch_axis, batch_axis + 1)


def _register_vmap(op, batch_axes: dict[str, int], out_axes: tuple[int, ...] | int) -> None:
    """``batch_axes``: the batch axis of each tensor argument; ``out_axes``: of each output."""
    names = [argument.name for argument in op._opoverload._schema.arguments]

    def rule(info, in_dims, *args):
        folded = []
        for name, arg, dim in zip(names, args, in_dims, strict=True):
            if name == "mask" and arg is not None and (dim is not None or arg.shape[0] > 1):
                folded.append(
                    _fold(info.batch_size, dim, arg.expand(args_batch(args), -1, -1) if dim is None else arg, 0)
                )
            elif name in batch_axes and isinstance(arg, Tensor):
                folded.append(_fold(info.batch_size, dim, arg, batch_axes[name]))
            else:
                folded.append(arg)

        def split(out: Tensor, axis: int) -> Tensor:
            if out.shape[axis] == 0:
                return out.unsqueeze(axis).expand(*out.shape[:axis], info.batch_size, *out.shape[axis:])
            return out.unflatten(axis, (info.batch_size, out.shape[axis] // info.batch_size))

        result = op(*folded)
        if isinstance(out_axes, int):
            return split(result, out_axes), out_axes
        return tuple(split(r, a) for r, a in zip(result, out_axes, strict=True)), out_axes

    def args_batch(args):
        lengths = args[names.index("lengths")]
        return lengths.shape[1]

    op.register_vmap(rule)


_TENSORS = dict.fromkeys(("x", "y", "cost", "var_x", "var_y", "variance", "gamma", "field", "entropic"), 0) | {
    "lengths": 1,
    "factors": 1,
    "fields": 1,
}
_register_vmap(path_sums, _TENSORS, 0)
_register_vmap(path_expectations, _TENSORS, 0)
_register_vmap(path_coupling, _TENSORS, 0)
_register_vmap(path_least, _TENSORS, 0)
_register_vmap(path_least_mask, _TENSORS, 0)
_register_vmap(path_gradients, _TENSORS, (0,) * 8)
