"""The Numba kernels as torch operators, opaque to torch.compile, with their shapes for tracing and rules for vmap.

`path_sums` (soft_min and expectations of the built-in fields), `path_sums_and_slopes` (with the usual gradient too),
`path_expectations` (of the user's fields), `path_coupling`, `path_least`, `path_least_mask`, and the derivatives
`path_gradients` and `path_pullback`. Derivatives are attached in `numba_autograd`.

They are defined with `torch.library.define`, not `custom_op`, whose first call imports the whole compiler.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from udtw import validate
from udtw.kernels import cpu
from udtw.kernels.bands import MASK, Band, check_mask, intervals
from udtw.kernels.cpu_pack import BUILT_IN
from udtw.kernels.problem import Problem

OptionalTensor = Tensor | None
Six = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""Gradients in x, y, cost, var_x, var_y and variance; empty where absent."""


def _operator(function: Callable) -> Any:
    """Register the function as torch operator ``udtw::name`` on the CPU; returns the operator."""
    name = f"udtw::{function.__name__}"
    torch.library.define(name, torch.library.infer_schema(function, mutates_args=()))
    torch.library.impl(name, "cpu", function)
    return getattr(torch.ops.udtw, function.__name__).default


def _fake(name: str) -> Callable:
    """Decorator: the operator's output shapes."""
    return torch.library.register_fake(f"udtw::{name}")


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


def _tensors(gradients: cpu.Gradients) -> Six:
    x, y, cost, var_x, var_y, variance = (torch.from_numpy(array) for array in gradients[:6])
    return x, y, cost, var_x.squeeze(2), var_y.squeeze(2), variance


@_operator
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


@_operator
def path_expectations(
    fields: Tensor, cost: Tensor, gamma: Tensor, lengths: Tensor, kind: int, value: float, mask: OptionalTensor
) -> Tensor:
    """(B, K): expectations of ``fields`` (K, B, N, M) under the paths of ``cost``."""
    problem = Problem(gamma, lengths, Band(kind, value, mask), cost=cost)
    wanted = range(BUILT_IN, BUILT_IN + fields.shape[0])
    return torch.from_numpy(run(problem, fields, cpu.sums, list(wanted))[:, 1:].copy())


@_operator
def path_coupling(
    cost: Tensor, gamma: Tensor, lengths: Tensor, kind: int, value: float, mask: OptionalTensor
) -> Tensor:
    """(B, N, M): π*."""
    problem = Problem(gamma, lengths, Band(kind, value, mask), cost=cost)
    return torch.from_numpy(run(problem, None, cpu.coupling))


@_operator
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


@_operator
def path_least_mask(cost: Tensor, lengths: Tensor, kind: int, value: float, mask: OptionalTensor) -> Tensor:
    """(B, N, M): one along the least-cost path, zero elsewhere."""
    problem = Problem(torch.ones(lengths.shape[1]), lengths, Band(kind, value, mask), cost=cost)
    return torch.from_numpy(run(problem, None, cpu.least_path))


@_operator
def path_gradients(
    factors: Tensor,
    field: OptionalTensor,
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
    The gradient in γ is a small difference of large numbers: where it is wanted, everything is computed in float64.
    """
    problem = _problem(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask)
    fields = None if field is None else field[None]
    if want_gamma and problem.main.dtype == torch.float32:
        wide = [None if t is None else t.double() for t in (factors, field, x, y, cost, var_x, var_y, variance, gamma)]
        result = path_gradients(*wide, lengths, kind, value, mask, want_gamma, want_coupling)
        return cast(
            "tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]",
            tuple(r.to(gamma.dtype) for r in result),
        )
    result = run(problem, fields, cpu.gradients, _array(factors), want_gamma, want_coupling)
    by_gamma = torch.from_numpy(result.gamma).to(gamma.dtype)
    return *_tensors(result), by_gamma, torch.from_numpy(result.coupling)


@_operator
def path_sums_and_slopes(
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
    direction: Sequence[float],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """(B, 3) soft_min, E[C], E[log Σ], and the gradients of ``Σ direction·(these)`` in x, y, cost and the variances.

    Whoever asks for a gradient will nearly always ask for this one, and both together cost one sweep each way.
    """
    problem = _problem(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask)
    sums, slopes = run(problem, None, cpu.sums_and_slopes, list(direction))
    return torch.from_numpy(sums), *_tensors(slopes)


@_operator
def path_pullback(
    grad: Tensor,
    slope_x: Tensor,
    slope_y: Tensor,
    slope_cost: Tensor,
    slope_var_x: Tensor,
    slope_var_y: Tensor,
    slope_variance: Tensor,
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
    direction: Sequence[float],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Derivative of `path_sums_and_slopes`: the slopes times a number a pair if ``grad`` (B, 3) has their direction.

    Otherwise (the user built another loss from the parts) the gradients are computed afresh.
    """
    slopes = (slope_x, slope_y, slope_cost, slope_var_x, slope_var_y, slope_variance)
    amount = grad[:, 1]
    expected = amount[:, None] * torch.tensor(list(direction), dtype=grad.dtype)
    if torch.allclose(grad, expected, rtol=8 * torch.finfo(grad.dtype).eps, atol=0):
        scaled = [s * amount.reshape(-1, *[1] * (s.ndim - 1)) if s.numel() else s.clone() for s in slopes]
        return cast("Six", tuple(scaled))
    factors = torch.cat([grad.T, grad.new_zeros((2, grad.shape[0]))])
    tensors = (x, y, cost, var_x, var_y, variance)
    return path_gradients(factors, None, *tensors, gamma, lengths, kind, value, mask, False, False)[:6]


# --- shapes, for tracing -----------------------------------------------------------------------------------------


@_fake("path_sums")
def _(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, wanted):
    main = x if x is not None else cost
    return main.new_empty((main.shape[0], 1 + len(wanted)))


@_fake("path_expectations")
def _(fields, cost, gamma, lengths, kind, value, mask):
    return cost.new_empty((cost.shape[0], fields.shape[0]))


@_fake("path_coupling")
def _(cost, gamma, lengths, kind, value, mask):
    return torch.empty_like(cost, memory_format=torch.contiguous_format)


@_fake("path_least")
def _(x, y, cost, var_x, var_y, variance, lengths, kind, value, mask):
    main = x if x is not None else cost
    return main.new_empty((main.shape[0],))


@_fake("path_least_mask")
def _(cost, lengths, kind, value, mask):
    return torch.empty_like(cost, memory_format=torch.contiguous_format)


def _fake_slopes(x, y, cost, var_x, var_y, variance) -> tuple[Tensor, ...]:
    main = x if x is not None else cost
    absent = ((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0), (0, 0), (0, 0, 0))
    tensors = (x, y, cost, var_x, var_y, variance)
    return tuple(main.new_empty(a if t is None else t.shape) for t, a in zip(tensors, absent, strict=True))


@_fake("path_gradients")
def _(factors, field, x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, want_gamma, want_coupling):
    main = x if x is not None else cost
    shape = (x.shape[0], x.shape[1], y.shape[1]) if x is not None else cost.shape
    return (
        *_fake_slopes(x, y, cost, var_x, var_y, variance),
        gamma.new_empty((gamma.shape[0] if want_gamma else 0,)),
        main.new_empty(shape if want_coupling else (0, 0, 0)),
    )


@_fake("path_sums_and_slopes")
def _(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, direction):
    main = x if x is not None else cost
    return main.new_empty((main.shape[0], 3)), *_fake_slopes(x, y, cost, var_x, var_y, variance)


@_fake("path_pullback")
def _(grad, *args):
    return _fake_slopes(*args[6:12])


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


def _register_vmap(op: Any, batch_axes: dict[str, int], out_axes: tuple[int, ...] | int) -> None:
    """``batch_axes``: the batch axis of each tensor argument; ``out_axes``: of each output."""
    names = [argument.name for argument in op._schema.arguments]

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

    torch.library.register_vmap(op._schema.name, rule)


_SLOPES = ("slope_x", "slope_y", "slope_cost", "slope_var_x", "slope_var_y", "slope_variance")
_TENSORS = dict.fromkeys((*_SLOPES, "grad", "x", "y", "cost", "var_x", "var_y", "variance", "gamma", "field"), 0) | {
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
_register_vmap(path_sums_and_slopes, _TENSORS, (0,) * 7)
_register_vmap(path_pullback, _TENSORS, (0,) * 6)
