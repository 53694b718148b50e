"""The Numba kernels as torch operators, opaque to torch.compile, with their shapes for tracing.

`path_sums` (soft_min and expectations of the built-in fields), `path_loss_and_grads` (with the usual gradient too),
`path_expectations` (of the user's fields), `path_coupling`, `path_least`, `path_least_mask`, and the derivatives
`path_gradients` and `path_pullback`. Derivatives are attached in `autograd`, rules
for vmap in `vmap`.

They are defined with `torch.library.define`, not `custom_op`, whose first call imports the whole compiler.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw import inputs
from udtw.kernels.cpu import launch
from udtw.prior import MASK, Band, check_mask, intervals
from udtw.problem import BUILT_IN, Problem

OptionalTensor = Tensor | None
BAND = "int kind, float value, Tensor? mask"
PROBLEM = (
    "Tensor? x, Tensor? y, Tensor? cost, Tensor? var_x, Tensor? var_y, Tensor? variance, Tensor gamma, Tensor lengths, "
    + BAND
)
"""The arguments that describe a `Problem`; most operators take them, in this order."""
GRADS = "Tensor grad_x, Tensor grad_y, Tensor grad_cost, Tensor grad_var_x, Tensor grad_var_y, Tensor grad_variance"


implementations: dict[str, Callable] = {}
"""The Python function behind each operator, for callers that need no dispatch (`autograd`)."""


def _operator(schema: str) -> Callable[[Callable], Any]:
    """Decorator: register the function as torch operator ``udtw::name`` of that schema on the CPU."""

    def register(function: Callable) -> Any:
        name = f"udtw::{function.__name__}"
        torch.library.define(name, schema)
        torch.library.impl(name, "cpu", function)
        implementations[name] = function
        return getattr(torch.ops.udtw, function.__name__).default

    return register


def _fake(name: str) -> Callable:
    """Decorator: the operator's output shapes."""
    return torch.library.register_fake(f"udtw::{name}")


def arguments(problem: Problem) -> tuple:
    """The problem as the arguments `PROBLEM` of an operator."""
    return *problem.differentiable, problem.gamma, problem.lengths, *_band(problem)


def cost_arguments(problem: Problem) -> tuple:
    """A problem that is described by its cost alone, as arguments of an operator."""
    return problem.cost, problem.gamma, problem.lengths, *_band(problem)


def _band(problem: Problem) -> tuple:
    return problem.band.kind, problem.band.value, problem.band.mask


def _problem(*args) -> Problem:
    """Inverse of `arguments`."""
    *tensors, gamma, lengths, kind, value, mask = args
    return Problem(gamma, lengths, Band(kind, value, mask), *tensors)


def _array(tensor: OptionalTensor) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().numpy()


def _pairs(problem: Problem, fields: OptionalTensor = None) -> launch.Pairs:
    lengths, gamma = problem.lengths.numpy(), problem.gamma.detach().numpy()
    rows, columns = problem.shape[1:]
    if not launch.usable(lengths, gamma, rows, columns):
        inputs.check_lengths(problem.lengths, rows, columns)
        inputs.check_gamma(problem.gamma)
    band = problem.band
    if band.kind == MASK and band.mask is not None:
        check_mask(band.mask.numpy(), lengths)
    return launch.make_pairs(
        gamma=gamma,
        length=lengths,
        x=_array(problem.x),
        y=_array(problem.y),
        cost=_array(problem.cost),
        var_x=_array(problem.var_x),
        var_y=_array(problem.var_y),
        variance=_array(problem.variance),
        fields=_array(fields),
        index=_array(problem.index),
        band=_array(intervals(band.kind, band.value, problem.lengths, rows)),
        mask=_array(band.mask),
    )


def run(problem: Problem, fields: OptionalTensor, kernel, *args, n_threads: int | None = None):
    """The result of a function of `launch`; raises a named error where the kernel met a value out of range."""
    try:
        return kernel(_pairs(problem, fields), *args, n_threads=n_threads or torch.get_num_threads())
    except launch.ValueOutOfRange:
        if problem.index is None:  # series that are compared by index have been checked when they were loaded
            problem.check_values([] if fields is None else list(fields))
        raise inputs.range_error(problem.main.dtype) from None


def grad_tensors(gradients: launch.Gradients) -> tuple[Tensor, ...]:
    """Gradients in x, y, cost, var_x, var_y and variance; empty where absent."""
    x, y, cost, var_x, var_y, variance = (torch.from_numpy(array) for array in gradients[:6])
    return x, y, cost, var_x.squeeze(2), var_y.squeeze(2), variance


@_operator(f"({PROBLEM}, int[] wanted) -> Tensor")
def path_sums(*args) -> Tensor:
    """(B, 1 + len(wanted)): soft_min, then the expectations of the built-in fields ``wanted``."""
    *described, wanted = args
    return torch.from_numpy(run(_problem(*described), None, launch.sums, list(wanted)))


@_operator(f"(Tensor fields, Tensor cost, Tensor gamma, Tensor lengths, {BAND}) -> Tensor")
def path_expectations(fields: Tensor, cost: Tensor, gamma: Tensor, lengths: Tensor, *band) -> Tensor:
    """(B, K): expectations of ``fields`` (K, B, N, M) under the paths of ``cost``."""
    problem = Problem(gamma, lengths, Band(*band), cost=cost)
    wanted = range(BUILT_IN, BUILT_IN + fields.shape[0])
    return torch.from_numpy(run(problem, fields, launch.sums, list(wanted))[:, 1:].copy())


@_operator(f"(Tensor cost, Tensor gamma, Tensor lengths, {BAND}) -> Tensor")
def path_coupling(cost: Tensor, gamma: Tensor, lengths: Tensor, *band) -> Tensor:
    """(B, N, M): π*."""
    return torch.from_numpy(run(Problem(gamma, lengths, Band(*band), cost=cost), None, launch.coupling))


@_operator(f"({PROBLEM}) -> Tensor")
def path_least(*described) -> Tensor:
    """(B,): the least path cost. For its derivative see `path_least_mask`."""
    return torch.from_numpy(run(_problem(*described), None, launch.least_cost, False)[0])


@_operator(f"(Tensor cost, Tensor gamma, Tensor lengths, {BAND}) -> Tensor")
def path_least_mask(cost: Tensor, gamma: Tensor, lengths: Tensor, *band) -> Tensor:
    """(B, N, M): one along the least-cost path, zero elsewhere."""
    return torch.from_numpy(run(Problem(gamma, lengths, Band(*band), cost=cost), None, launch.least_path))


@_operator(
    f"(Tensor factors, Tensor? field, {PROBLEM}, bool want_gamma, bool want_coupling)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def path_gradients(factors: Tensor, field: OptionalTensor, *args) -> tuple[Tensor, ...]:
    """Gradients of ``Σ_b factors[:, b]·(soft_min, E[C], E[log Σ], E[(Σ−1)²], E[1])_b + E[field]_b``.

    In x, y, cost, var_x, var_y, variance, gamma (empty where absent or not wanted); last the coupling itself.
    The gradient in γ is a small difference of large numbers: where it is wanted, everything is computed in float64.
    """
    *described, want_gamma, want_coupling = args
    problem = _problem(*described)
    narrow = problem.main.dtype
    if want_gamma:
        problem, factors = problem.to(torch.float64), factors.double()
        field = None if field is None else field.double()
    fields = None if field is None else field[None]
    result = run(problem, fields, launch.gradients, _array(factors), want_gamma, want_coupling)
    found = (*grad_tensors(result), torch.from_numpy(result.gamma), torch.from_numpy(result.coupling))
    return tuple(tensor.to(narrow) for tensor in found)


@_operator(f"({PROBLEM}, float beta) -> ({', '.join(['Tensor'] * 9)})")
def path_loss_and_grads(*args) -> tuple[Tensor, ...]:
    """``E[C] + β E[log Σ]``, E[C], E[log Σ], all (B,), and the loss's gradients in x, y, cost and the variances.

    A gradient that is needed is nearly always this one, and both together cost one sweep each way.
    """
    *results, grads = loss_and_grads(*args)
    return *results, *grad_tensors(grads)


def loss_and_grads(*args) -> tuple[Tensor, Tensor, Tensor, launch.Gradients]:
    """`path_loss_and_grads` with grads as the kernel makes them."""
    *described, beta = args
    (_, mean_cost, mean_log), grads = run(_problem(*described), None, launch.sums_and_grads, beta)
    loss = mean_cost + mean_log.dtype.type(beta) * mean_log  # NumPy is quicker than torch on a handful of numbers
    return torch.from_numpy(loss), torch.from_numpy(mean_cost), torch.from_numpy(mean_log), grads


def loss_factors(by_loss: OptionalTensor, by_cost: OptionalTensor, by_log: OptionalTensor, beta: float) -> Tensor:
    """(5, B): the factors of `path_gradients` from the derivatives in the results of `path_loss_and_grads`."""
    given = next(g for g in (by_loss, by_cost, by_log) if g is not None)
    none = torch.zeros_like(given)
    loss, cost, log_variance = (none if g is None else g for g in (by_loss, by_cost, by_log))
    return torch.stack([none, cost + loss, torch.add(log_variance, loss, alpha=beta), none, none])


def common_amount(
    by_loss: OptionalTensor, by_cost: OptionalTensor, by_log: OptionalTensor, beta: float
) -> np.ndarray | None:
    """What the grads are to be multiplied with, (B,) or (), if the derivatives are a multiple of the loss's."""
    if by_loss is not None and by_cost is None and by_log is None:
        amount = by_loss.detach().numpy()
        if amount.strides[0] == 0 and amount.shape[0] > 0:  # the gradient of a mean or a sum
            amount = amount[:1].reshape(())
    else:
        _, amount, other, _, _ = loss_factors(by_loss, by_cost, by_log, beta).detach().numpy()
        expected = amount * amount.dtype.type(beta)
        if not (np.abs(other - expected) <= 8 * np.finfo(amount.dtype).eps * np.abs(expected)).all():
            return None
    return amount if np.isfinite(amount).all() else None


def scaled_grads(grads: launch.Gradients, factor: np.ndarray, wanted: Sequence[bool]) -> list[OptionalTensor]:
    """The ``wanted`` of the gradients in x, y, cost, var_x, var_y and variance, times ``factor`` (B,) or ()."""
    factor = factor[:, None, None] if factor.ndim else factor
    shaped = grads._replace(var_x=grads.var_x[:, :, 0], var_y=grads.var_y[:, :, 0])
    per_step = factor[:, :, 0] if factor.ndim else factor
    factors = (factor, factor, factor, per_step, per_step, factor)
    return [
        torch.from_numpy(grad * by) if want else None for grad, by, want in zip(shaped, factors, wanted, strict=False)
    ]


@_operator(
    f"(Tensor? by_loss, Tensor? by_cost, Tensor? by_log, {GRADS}, {PROBLEM}, float beta)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
)
def path_pullback(
    by_loss: OptionalTensor, by_cost: OptionalTensor, by_log: OptionalTensor, *args
) -> tuple[Tensor, ...]:
    """Derivative of `path_loss_and_grads`: the gradients times one number per pair, if only the loss was used.

    If the user built another loss from the terms, the gradients are computed again.
    """
    grads, described, beta = args[:6], args[6:-1], args[-1]
    factor = common_amount(by_loss, by_cost, by_log, beta)
    if factor is None:
        factors = loss_factors(by_loss, by_cost, by_log, beta)
        return path_gradients(factors, None, *described, False, False)[:6]
    amount = torch.from_numpy(factor)
    shaped = {2: amount, 3: amount} if amount.ndim == 0 else {2: amount[:, None], 3: amount[:, None, None]}
    return tuple(s * shaped[s.ndim] if s.numel() else s.clone() for s in grads)


@_fake("path_sums")
def _(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, wanted):
    main = x if x is not None else cost
    return main.new_empty((main.shape[0], 1 + len(wanted)))


@_fake("path_expectations")
def _(fields, cost, gamma, lengths, kind, value, mask):
    return cost.new_empty((cost.shape[0], fields.shape[0]))


@_fake("path_least")
def _(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask):
    main = x if x is not None else cost
    return main.new_empty((main.shape[0],))


@_fake("path_coupling")
@_fake("path_least_mask")
def _(cost, gamma, lengths, kind, value, mask):
    return torch.empty_like(cost, memory_format=torch.contiguous_format)


def _fake_grads(x, y, cost, var_x, var_y, variance) -> tuple[Tensor, ...]:
    main = x if x is not None else cost
    absent = ((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0), (0, 0), (0, 0, 0))
    tensors = (x, y, cost, var_x, var_y, variance)
    return tuple(main.new_empty(a if t is None else t.shape) for t, a in zip(tensors, absent, strict=True))


@_fake("path_gradients")
def _(factors, field, x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, want_gamma, want_coupling):
    main = x if x is not None else cost
    shape = (x.shape[0], x.shape[1], y.shape[1]) if x is not None else cost.shape
    return (
        *_fake_grads(x, y, cost, var_x, var_y, variance),
        gamma.new_empty((gamma.shape[0] if want_gamma else 0,)),
        main.new_empty(shape if want_coupling else (0, 0, 0)),
    )


@_fake("path_loss_and_grads")
def _(x, y, cost, var_x, var_y, variance, gamma, lengths, kind, value, mask, beta):
    main = x if x is not None else cost
    sums = (main.new_empty(main.shape[:1]) for _ in range(3))
    return *sums, *_fake_grads(x, y, cost, var_x, var_y, variance)


@_fake("path_pullback")
def _(by_loss, by_cost, by_log, *args):
    return _fake_grads(*args[6:12])
