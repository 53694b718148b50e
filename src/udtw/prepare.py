"""From a user's call to a `Problem` for the kernels."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from udtw import inputs, likelihood, prior
from udtw.errors import OptionError, ShapeError
from udtw.inputs import ArrayLike, Form
from udtw.kernels import backends, memory_estimate
from udtw.kernels.problem import Problem


def prepare(
    x: ArrayLike,
    y: ArrayLike,
    *,
    var_x: ArrayLike | None = None,
    var_y: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    gamma: Any = 1.0,
    lengths_x: Any = None,
    lengths_y: Any = None,
    band: Any = None,
    backend: str = "auto",
) -> tuple[Problem, Form, str]:
    """Validate a user's call and turn it into a `Problem`."""
    if variance is not None and (var_x is not None or var_y is not None):
        raise OptionError("Give either var_x / var_y (one variance a step) or variance (one a match), not both.")
    tensors: dict[str, Tensor | None] = {}
    if cost is not None:
        if x is not None or y is not None:
            raise OptionError("Give either x and y or a ready-made cost, not both; with cost= pass x=None, y=None.")
        main, single = inputs.matrix("cost", cost)
        tensors["cost"] = main
        rows, columns = main.shape[1:]
    else:
        if x is None or y is None:
            raise ShapeError("x and y are needed, unless a ready-made cost= is given.")
        (first, single_x), (second, single_y) = inputs.sequence("x", x), inputs.sequence("y", y)
        tensors |= {"x": first, "y": second}
        if first.shape[2] != second.shape[2]:
            raise ShapeError(
                "x and y must have the same number of features; got shapes "
                f"{tuple(first.shape)} and {tuple(second.shape)} as (B, N, d)."
            )
        single = single_x and single_y
        rows, columns = first.shape[1], second.shape[1]
    tensors["var_x"] = inputs.step_variance("var_x", var_x, rows)
    tensors["var_y"] = inputs.step_variance("var_y", var_y, columns)
    if variance is not None:
        joint, _ = inputs.matrix("variance", variance)
        tensors["variance"] = joint
        if tuple(joint.shape[1:]) != (rows, columns):
            raise ShapeError(
                f"variance must have one entry a match, shape ({rows}, {columns}) or (B, {rows}, {columns}); got "
                f"{tuple(joint.shape)}."
            )
    tensors = inputs.same_batch(inputs.common(tensors))
    given = tensors["cost"] if cost is not None else tensors["x"]
    assert given is not None, "checked above"
    main = given
    count = main.shape[0]
    single = single and count == 1
    for name, steps in (("var_x", rows), ("var_y", columns)):
        other = tensors["var_y" if name == "var_x" else "var_x"]
        if tensors[name] is None and other is not None:
            tensors[name] = main.new_ones((count, steps))
    problem = Problem(
        gamma=inputs.gamma(gamma, count, main),
        lengths=inputs.both_lengths(lengths_x, lengths_y, count, rows, columns, main.device),
        band=prior.parse(band, count, rows, columns, main.device),
        **tensors,
    )
    if lengths_x is not None or lengths_y is not None:
        if inputs.visible(problem.lengths):
            inputs.check_lengths(problem.lengths, rows, columns)
        problem = _without_padding(problem)
    numpy = not isinstance(cost if cost is not None else x, Tensor)
    return problem, Form(numpy=numpy, single=single), backends.choose(backend, main)


def _without_padding(problem: Problem) -> Problem:
    """Replace padding by zeros (variances by ones), so that NaN there cannot reach a gradient."""
    _, rows, columns = problem.shape
    device = problem.main.device
    in_x = torch.arange(rows, device=device) < problem.lengths[0, :, None]
    in_y = torch.arange(columns, device=device) < problem.lengths[1, :, None]
    matrices = problem.cost is not None or problem.variance is not None
    if matrices:
        memory_estimate.refuse_copies(problem)
    grid = in_x[:, :, None] & in_y[:, None, :] if matrices else None  # sequences alone need no (B, N, M) memory

    def keep(tensor: Tensor | None, inside: Tensor | None, otherwise: float) -> Tensor | None:
        if tensor is None or inside is None:
            return None
        shaped = inside.reshape(*inside.shape, *[1] * (tensor.ndim - inside.ndim))
        return torch.where(shaped, tensor, otherwise)

    return problem.replace(
        x=keep(problem.x, in_x, 0.0),
        y=keep(problem.y, in_y, 0.0),
        cost=keep(problem.cost, grid, 0.0),
        var_x=keep(problem.var_x, in_x, 1.0),
        var_y=keep(problem.var_y, in_y, 1.0),
        variance=keep(problem.variance, grid, 1.0),
    )


def for_kernels(problem: Problem) -> Problem:
    """Many features are turned into a cost matrix once, by a matrix product; few are better read by the kernel."""
    if problem.x is None or problem.y is None or problem.x.shape[2] <= likelihood.MAX_DIRECT_DIM:
        return problem
    if inputs.visible(problem.x, problem.y):
        # The sum is a cheap witness: only if it is not finite is the precise, slower check needed.
        for name, tensor in (("x", problem.x), ("y", problem.y)):
            if not bool(torch.isfinite(tensor.detach().sum())):
                inputs.check_finite(name, tensor)
    memory_estimate.refuse_cost_matrix(problem)
    return problem.replace(x=None, y=None, cost=problem.base_cost())


def self_pair(problem: Problem, side: str) -> Problem:
    """The problem of matching x (or y) with itself."""
    row = 0 if side == "x" else 1
    sequence, variance = getattr(problem, side), getattr(problem, f"var_{side}")
    lengths = problem.lengths[row].expand(2, -1)
    return problem.replace(x=sequence, y=sequence, var_x=variance, var_y=variance, lengths=lengths)


def without_autocast(value: Any) -> AbstractContextManager:
    """Casting would lose digits; where nobody asked for it, switching it off is left out, since that takes its time."""
    device_type = value.device.type if isinstance(value, Tensor) else "cpu"
    return torch.autocast(device_type, enabled=False) if torch.is_autocast_enabled(device_type) else nullcontext()
