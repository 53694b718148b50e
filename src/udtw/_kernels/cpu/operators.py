"""The Numba kernels as torch operators, opaque to torch.compile, with their shapes for tracing.

`path_sums` (soft_min and expectations of the built-in fields), `path_loss_and_grads` (with the usual gradient too),
`path_expectations` (of the user's fields), `path_coupling`, `path_least`, `path_least_mask`, and the derivatives
`path_gradients` and `path_pullback`. Derivatives are attached in `autograd`, rules
for vmap in `vmap`.

They are defined with `torch.library.define`, not `custom_op`, whose first call imports the whole compiler.
"""

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import checks
from udtw._engine.prior import NONE, Band, Prior, check_mask, intervals
from udtw._engine.problem import BUILT_IN, Problem
from udtw._kernels.cpu import launch

OptionalTensor = Tensor | None
PROBLEM = (
    "Tensor? x, Tensor? y, Tensor? cost, Tensor? var_x, Tensor? var_y, Tensor? variance, "
    "Tensor gamma, Tensor? beta, Tensor? warp, Tensor lengths, Tensor? relax, int kind, float value, Tensor? mask"
)
"""The arguments that describe a `Problem`, in the order of every operator; the first nine can have gradients."""
DESCRIBED = 14
GRADS = (
    "Tensor grad_x, Tensor grad_y, Tensor grad_cost, Tensor grad_var_x, Tensor grad_var_y, Tensor grad_variance, "
    "Tensor grad_gamma, Tensor grad_beta, Tensor grad_warp"
)
"""Gradients in the first nine arguments of `PROBLEM`, empty where absent."""
N_GRADS = 9


implementations: dict[str, Callable] = {}
"""The Python function behind each operator, for callers that need no dispatch (`autograd`)."""


def _operator(schema: str) -> Callable[[Callable], Any]:
    """Register the function as torch operator ``udtw::name`` of that schema on the CPU."""

    def register(function: Callable) -> Any:
        name = f"udtw::{function.__name__}"
        torch.library.define(name, schema)
        torch.library.impl(name, "cpu", function)
        implementations[name] = function
        return getattr(torch.ops.udtw, function.__name__).default

    return register


def _fake(name: str) -> Callable:
    """Register the operator's output shapes."""
    return torch.library.register_fake(f"udtw::{name}")


def arguments(problem: Problem) -> tuple:
    """Return the problem as the arguments `PROBLEM` of an operator."""
    prior = problem.prior
    band = prior.band.kind, prior.band.value, prior.band.mask
    return *problem.data, *problem.prices, problem.lengths, prior.relax, *band


def as_problem(*args) -> Problem:
    """Inverse of `arguments`."""
    *data, gamma, beta, warp, lengths, relax, kind, value, mask = args
    x, y, cost, var_x, var_y, variance = data
    prior = Prior(Band(kind, value, mask), warp, relax)
    return Problem(gamma, lengths, prior, x, y, cost, var_x, var_y, variance, beta)


def _array(tensor: OptionalTensor) -> np.ndarray | None:
    return None if tensor is None else tensor.detach().numpy()


def _pairs(problem: Problem, fields: OptionalTensor = None) -> launch.Pairs:
    lengths, gamma = problem.lengths.numpy(), problem.gamma.detach().numpy()
    rows, columns = problem.shape[1:]
    if not launch.usable(lengths, gamma, rows, columns):
        checks.check_lengths(problem.lengths, rows, columns)
        checks.check_gamma(problem.gamma)
    relax = _array(problem.prior.relax)
    band, band_of, mask = _band(problem.prior.band, lengths, relax, rows)
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
        beta=_array(problem.beta),
        warp=_array(problem.prior.warp_penalty),
        relax=relax,
        band=band,
        band_of=band_of,
        mask=mask,
    )


def _band(band: Band, lengths: np.ndarray, relax: np.ndarray | None, rows: int) -> tuple[np.ndarray | None, ...]:
    """Return ``band``, ``band_of`` and ``mask`` of `launch.Pairs`; raises if a mask leaves no path."""
    if band.kind == NONE:
        return None, None, None
    mask = None if band.mask is None else np.ascontiguousarray(band.mask.numpy())
    if mask is not None and relax is not None:  # paths need not visit every row
        check_mask(mask, lengths, relax)
        return None, None, mask
    if mask is not None and len(mask) > 1:
        different, band_of = np.ascontiguousarray(lengths), np.arange(lengths.shape[1])
    else:
        different, band_of = _distinct(lengths)
    if mask is None:
        return _array(intervals(band.kind, band.value, torch.from_numpy(different), rows)), band_of, None
    found, blocked, holes = launch.band_of_mask(mask, different)
    if blocked >= 0:
        check_mask(mask, lengths)
    return found, band_of, mask if holes else None


def _distinct(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the different columns (2, U) of the lengths (2, B), and which of them each pair has, (B,)."""
    if (lengths == lengths[:, :1]).all():
        return np.ascontiguousarray(lengths[:, :1]), np.zeros(lengths.shape[1], np.int64)
    codes = lengths[0] * (lengths[1].max() + 1) + lengths[1]
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    return np.ascontiguousarray(lengths[:, first]), which


def run(problem: Problem, fields: OptionalTensor, kernel, *args, n_threads: int | None = None):
    """Return the result of a function of `launch`; raises a named error where the kernel met a value out of range."""
    try:
        return kernel(_pairs(problem, fields), *args, n_threads=n_threads or torch.get_num_threads())
    except launch.ValueOutOfRange:
        if problem.index is None:  # series that are compared by index have been checked when they were loaded
            problem.check_values([] if fields is None else list(fields))
        raise checks.make_range_error(problem.main.dtype) from None


def grad_tensors(gradients: launch.Gradients, like: Sequence[OptionalTensor]) -> tuple[Tensor, ...]:
    """Return the gradients `GRADS`, of the dtype of the data.

    Those of variances with the axes of ``like``, the data.
    """
    found = [torch.from_numpy(array) for array in gradients[:N_GRADS]]
    for which in (3, 4):
        variance = like[which]
        if variance is None or variance.ndim == 2:
            found[which] = found[which].squeeze(2)
    return tuple(gradient.to(found[0].dtype) for gradient in found)


@_operator(f"({PROBLEM}, int[] wanted) -> Tensor")
def path_sums(*args) -> Tensor:
    """(B, 1 + len(wanted)): soft_min, then the expectations of the built-in fields ``wanted``."""
    *described, wanted = args
    return torch.from_numpy(run(as_problem(*described), None, launch.sums, list(wanted)))


@_operator(f"(Tensor fields, {PROBLEM}) -> Tensor")
def path_expectations(fields: Tensor, *described) -> Tensor:
    """(B, K): expectations of ``fields`` (K, B, N, M)."""
    wanted = range(BUILT_IN, BUILT_IN + fields.shape[0])
    return torch.from_numpy(run(as_problem(*described), fields, launch.sums, list(wanted))[:, 1:].copy())


@_operator(f"({PROBLEM}) -> Tensor")
def path_coupling(*described) -> Tensor:
    """(B, N, M): π*."""
    return torch.from_numpy(run(as_problem(*described), None, launch.coupling))


@_operator(f"({PROBLEM}) -> Tensor")
def path_least(*described) -> Tensor:
    """(B,): the least path energy. For its derivative see `path_least_mask`."""
    return torch.from_numpy(run(as_problem(*described), None, launch.least_cost, False)[0])


@_operator(f"({PROBLEM}) -> Tensor")
def path_least_mask(*described) -> Tensor:
    """(B, N, M): one along the path of least energy, zero elsewhere."""
    return torch.from_numpy(run(as_problem(*described), None, launch.least_path))


@_operator(
    f"(Tensor factors, Tensor? field, {PROBLEM}, bool want_gamma, bool want_prices, bool want_coupling)"
    f" -> ({', '.join(['Tensor'] * (N_GRADS + 1))})"
)
def path_gradients(factors: Tensor, field: OptionalTensor, *args) -> tuple[Tensor, ...]:
    """Gradients of ``Σ_b factors[:, b]·(soft_min, E[C], E[log Σ], E[(Σ−1)²], E[1], E[warps])_b + E[field]_b``.

    `GRADS` (those in γ, β and ω only if wanted), then the coupling itself, empty if not wanted. The gradient in γ of
    the free energy is an entropy; otherwise, and with relaxed ends, it is a small difference of large numbers: where
    it is wanted, everything is then computed in float64.
    """
    described, flags = args[:DESCRIBED], args[DESCRIBED:]
    problem, wanted = as_problem(*described), launch.Wanted(*flags)
    narrow = problem.main.dtype
    if wanted.gamma and (field is not None or problem.prior.relax is not None or bool(factors[1:].any())):
        problem, factors = problem.to(torch.float64), factors.double()
        field = None if field is None else field.double()
    fields = None if field is None else field[None]
    result = run(problem, fields, launch.gradients, _array(factors), wanted)
    coupling = torch.from_numpy(result.coupling)
    return tuple(tensor.to(narrow) for tensor in (*grad_tensors(result, problem.data), coupling))


HOW = "float weight, bool energy, bool want_gamma, bool want_prices"


@_operator(f"({PROBLEM}, {HOW}) -> ({', '.join(['Tensor'] * (3 + N_GRADS))})")
def path_loss_and_grads(*args) -> tuple[Tensor, ...]:
    """Return the loss (B,), with E[C] and E[log Σ] if these are its terms, and the loss's gradients `GRADS`.

    The loss is ``E[C] + weight·E[log Σ]``, or with ``energy`` the free energy. A gradient that is needed is nearly
    always this one, and both together cost one sweep each way.
    """
    described, how = args[:DESCRIBED], args[DESCRIBED:]
    results, grads = loss_and_grads(as_problem(*described), *how)
    missing = (torch.zeros_like(results[0]) for _ in range(3 - len(results)))  # results must not alias each other
    return *results, *missing, *grad_tensors(grads, args[:6])


def loss_and_grads(
    problem: Problem, weight: float, energy: bool, want_gamma: bool, want_prices: bool
) -> tuple[tuple[Tensor, ...], launch.Gradients]:
    """Return the results of `path_loss_and_grads`, and the gradients as the kernel makes them."""
    if energy:
        loss, grads = run(problem, None, launch.energy_and_grads, launch.Wanted(want_gamma, want_prices))
        return (torch.from_numpy(loss),), grads
    (_, mean_cost, mean_log), grads = run(problem, None, launch.sums_and_grads, weight)
    loss = mean_cost + mean_log.dtype.type(weight) * mean_log  # NumPy is quicker than torch on a handful of numbers
    return tuple(map(torch.from_numpy, (loss, mean_cost, mean_log))), grads


def loss_factors(
    by_loss: OptionalTensor, by_cost: OptionalTensor, by_log: OptionalTensor, weight: float, energy: bool
) -> Tensor:
    """(6, B): the factors of `path_gradients` from the derivatives in the results of `path_loss_and_grads`."""
    given = next(g for g in (by_loss, by_cost, by_log) if g is not None)
    none = torch.zeros_like(given)
    loss, cost, log_variance = (none if g is None else g for g in (by_loss, by_cost, by_log))
    if energy:
        return torch.stack([loss, none, none, none, none, none])
    return torch.stack([none, cost + loss, torch.add(log_variance, loss, alpha=weight), none, none, none])


def common_amount(
    by_loss: OptionalTensor, by_cost: OptionalTensor, by_log: OptionalTensor, weight: float, energy: bool
) -> np.ndarray | None:
    """Return what the grads are to be multiplied with, (B,) or (), if the derivatives are a multiple of the loss's."""
    if by_loss is not None and (energy or (by_cost is None and by_log is None)):
        amount = by_loss.detach().numpy()
        if amount.strides[0] == 0 and amount.shape[0] > 0:  # the gradient of a mean or a sum
            return amount[:1].reshape(()) if isfinite(amount[0]) else None
    else:
        _, amount, other, *_ = loss_factors(by_loss, by_cost, by_log, weight, energy).detach().numpy()
        expected = amount * amount.dtype.type(weight)
        if not (np.abs(other - expected) <= 8 * np.finfo(amount.dtype).eps * np.abs(expected)).all():
            return None
    return amount if np.isfinite(amount).all() else None


def scaled_grads(
    grads: launch.Gradients, factor: np.ndarray, like: Sequence[OptionalTensor], wanted: Sequence[bool]
) -> list[OptionalTensor]:
    """Return the ``wanted`` of the gradients in the data ``like`` and in γ, β and ω, times ``factor`` (B,) or ()."""
    found: list[OptionalTensor] = []
    # The first nine of `Gradients` are in the order of the leaves.
    for which, (array, want) in enumerate(zip(grads, wanted, strict=False)):
        if not want:
            found.append(None)
            continue
        flat = array[:, :, 0] if which in (3, 4) and like[which].ndim == 2 else array  # type: ignore[union-attr]
        scaled = flat * (factor.reshape(-1, *[1] * (flat.ndim - 1)) if factor.ndim else factor)
        found.append(torch.from_numpy(scaled.astype(grads.x.dtype, copy=False)))
    return found


@_operator(
    f"(Tensor? by_loss, Tensor? by_cost, Tensor? by_log, {GRADS}, {PROBLEM}, {HOW})"
    f" -> ({', '.join(['Tensor'] * N_GRADS)})"
)
def path_pullback(
    by_loss: OptionalTensor, by_cost: OptionalTensor, by_log: OptionalTensor, *args
) -> tuple[Tensor, ...]:
    """Differentiate `path_loss_and_grads`: the gradients times one number per pair, if only the loss was used.

    If the user built another loss from the terms, the gradients are computed again.
    """
    grads, described, (weight, energy, *wants) = args[:N_GRADS], args[N_GRADS:-4], args[-4:]
    factor = common_amount(by_loss, by_cost, by_log, weight, energy)
    if factor is None:
        factors = loss_factors(by_loss, by_cost, by_log, weight, energy)
        return path_gradients(factors, None, *described, *wants, False)[:N_GRADS]
    amount = torch.from_numpy(factor)
    return tuple(
        s * (amount.reshape(-1, *[1] * (s.ndim - 1)) if amount.ndim else amount) if s.numel() else s.clone()
        for s in grads
    )


def _main(x: OptionalTensor, cost: OptionalTensor) -> Tensor:
    main = x if x is not None else cost
    assert main is not None, "a problem has sequences or a cost"
    return main


def _grid(*described) -> tuple[int, int, int]:
    x, y, cost = described[:3]
    return (x.shape[0], x.shape[1], y.shape[1]) if x is not None else tuple(cost.shape)


@_fake("path_sums")
def _(*args):
    main = _main(args[0], args[2])
    return main.new_empty((main.shape[0], 1 + len(args[-1])))


@_fake("path_expectations")
def _(fields, *described):
    return fields.new_empty((fields.shape[1], fields.shape[0]))


@_fake("path_least")
def _(*described):
    main = _main(described[0], described[2])
    return main.new_empty((main.shape[0],))


@_fake("path_coupling")
@_fake("path_least_mask")
def _(*described):
    return _main(described[0], described[2]).new_empty(_grid(*described))


def _fake_grads(described: Sequence, want_gamma: bool, want_prices: bool) -> tuple[Tensor, ...]:
    main = _main(described[0], described[2])
    absent = ((0, 0, 0), (0, 0, 0), (0, 0, 0), (0, 0), (0, 0), (0, 0, 0))
    data = (main.new_empty(a if t is None else t.shape) for t, a in zip(described[:6], absent, strict=True))
    wants = zip(described[6:9], (want_gamma, want_prices, want_prices), strict=True)
    prices = (main.new_empty((0 if t is None or not want else main.shape[0],)) for t, want in wants)
    return *data, *prices


@_fake("path_gradients")
def _(factors, field, *args):
    described, (want_gamma, want_prices, want_coupling) = args[:DESCRIBED], args[DESCRIBED:]
    main = _main(described[0], described[2])
    return (
        *_fake_grads(described, want_gamma, want_prices),
        main.new_empty(_grid(*described) if want_coupling else (0, 0, 0)),
    )


@_fake("path_loss_and_grads")
def _(*args):
    main = _main(args[0], args[2])
    sums = (main.new_empty(main.shape[:1]) for _ in range(3))
    return *sums, *_fake_grads(args[:DESCRIBED], *args[-2:])


@_fake("path_pullback")
def _(by_loss, by_cost, by_log, *args):
    return _fake_grads(args[N_GRADS : N_GRADS + DESCRIBED], *args[-2:])
