"""The Triton kernels as torch operators, opaque to torch.compile, with their shapes for tracing.

They read the energies of the cells (`GRID`); `gpu_loss`, the fast way to the usual losses, also sequences (`LOSS`).
Derivatives are attached in `autograd`.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from udtw._engine.checks import make_range_error
from udtw._kernels.gpu import launch
from udtw._kernels.gpu.availability import interpreted
from udtw._kernels.gpu.launch import Kept, Pairs, Weights

GRID = "Tensor energy, Tensor gamma, Tensor? warp, Tensor lengths, Tensor? relax"
"""Energies of cells (B, N, M), the largest finite number where no path may go; γ, ω, lengths and relaxed ends."""
LOSS = (
    "Tensor? energy, Tensor? field, Tensor? x, Tensor? y, Tensor? var_x, Tensor? var_y, Tensor gamma, Tensor? beta, "
    "Tensor? warp, Tensor lengths, Tensor? relax"
)
N_LOSS, N_KEPT = 11, 7
KEPT = (
    "Tensor table, Tensor row_values, Tensor row_powers, Tensor column_values, Tensor column_powers, Tensor ends, "
    "Tensor level"
)
ENERGY, WARPS = -1, -2
"""What can be wanted of `gpu_sums` beside the numbers of its fields: mean path energy, mean number of warps."""

implementations: dict[str, Callable] = {}


def _operator(schema: str) -> Callable[[Callable], Any]:
    """Register the function as torch operator ``udtw::name`` on GPUs, in Triton's interpreter on the CPU."""

    def register(function: Callable) -> Any:
        name = f"udtw::{function.__name__}"

        def on_device(*args):
            main = next(arg for arg in args if isinstance(arg, Tensor))
            with nullcontext() if main.device.type == "cpu" else torch.cuda.device_of(main):
                return function(*args)

        torch.library.define(name, schema)
        torch.library.impl(name, "cpu" if interpreted() else "cuda", on_device)
        implementations[name] = on_device
        return getattr(torch.ops.udtw, function.__name__).default

    return register


def _fake(name: str) -> Callable:
    """Register the operator's output shapes."""
    return torch.library.register_fake(f"udtw::{name}")


def _grid(energy: Tensor, gamma: Tensor, warp: Tensor | None, lengths: Tensor, relax: Tensor | None) -> Pairs:
    return Pairs(gamma, lengths, energy=energy, warp=warp, relax=relax)


def pairs_of_loss(*args) -> Pairs:
    """`Pairs` from the arguments `LOSS`."""
    energy, field, x, y, var_x, var_y, gamma, beta, warp, lengths, relax = args
    return Pairs(gamma, lengths, energy, x, y, var_x, var_y, beta, warp, relax, field)


def _checked(out: Tensor) -> Tensor:
    """Return the results; raises if a kernel met a value that it cannot use. The only wait for the device."""
    if out.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return out
    if not bool(torch.isfinite(out).all()):
        raise make_range_error(out.dtype)
    return out


def _weights(like: Tensor, energy: float = 0.0, field: float = 0.0, warp: float = 0.0) -> Weights:
    return Weights(*(torch.full_like(like, value) for value in (energy, field, warp)))


@_operator(f"({GRID}, Tensor fields, int[] wanted) -> Tensor")
def gpu_sums(*args) -> Tensor:
    """(B, 1 + len(wanted)): the free energy, and means of what is ``wanted``; ``fields`` is (K, B, N, M)."""
    *grid, fields, wanted = args
    pairs = _grid(*grid)
    if not wanted:
        return _checked(launch.forward(pairs)[0][:, :1])
    found: dict[int, Tensor] = {}
    for one in sorted(set(wanted), reverse=True):
        if one == ENERGY and found:
            continue
        weights = _weights(pairs.gamma, warp=float(one == WARPS))
        sums, _, _ = launch.forward(pairs._replace(field=fields[one] if one >= 0 else None), weights)
        found[one], found[ENERGY], free = sums[:, 2] if one != ENERGY else sums[:, 1], sums[:, 1], sums[:, 0]
    return _checked(torch.stack([free, *(found[one] for one in wanted)], 1))


@_operator(f"({GRID}) -> Tensor")
def gpu_coupling(*grid) -> Tensor:
    """(B, N, M): π*."""
    pairs = _grid(*grid)
    sums, kept, _ = launch.forward(pairs, keep=True)
    _checked(sums[:, 0])
    found = launch.backward(pairs, kept, None, torch.ones_like(pairs.gamma), grad=False, coupling=True)
    assert found.coupling is not None, "asked for"
    return found.coupling


@_operator(
    f"(Tensor factors, Tensor? field, {GRID}, bool means, bool want_gamma, bool want_coupling) -> "
    "(Tensor, Tensor, Tensor, Tensor)"
)
def gpu_gradients(factors: Tensor, field: Tensor | None, *args) -> tuple[Tensor, ...]:
    """Gradients of ``factors``·(free energy, mean path energy, E[warps]) + E[field] in energy, ω and γ, and π*.

    ``factors`` is (3, B); without ``means`` only the first counts. The gradient in γ is a small difference of large
    numbers: where it is wanted, everything is computed in float64.
    """
    *grid, means, want_gamma, want_coupling = args
    energy, gamma, warp, lengths, relax = grid
    narrow = energy.dtype
    if want_gamma:
        blocked = energy == torch.finfo(narrow).max
        energy = torch.where(blocked, torch.finfo(torch.float64).max, energy.double())
        gamma, factors = gamma.double(), factors.double()
        warp, field = (None if t is None else t.double() for t in (warp, field))
    pairs = _grid(energy, gamma, warp, lengths, relax)._replace(field=field)
    by_free, by_energy, by_warps = factors.contiguous()
    one = torch.ones_like(gamma)
    weights = Weights(by_energy, one, by_warps) if means else None
    sums, kept, _ = launch.forward(pairs, weights, keep=True)
    gain = by_free + by_energy if means else by_free
    found = launch.backward(
        pairs, kept, weights, one if means else by_free, gain=gain, coupling=want_coupling or want_gamma
    )
    assert found.energy is not None, "of energies"
    warps, pull = found.totals[:, 0], found.totals[:, 1]
    by_warp = gain * warps + pull
    by_gamma = energy.new_zeros(0)
    if want_gamma:
        assert found.coupling is not None, "asked for"
        finite = torch.where(blocked | (found.coupling == 0), 0, energy)
        visited = (finite * found.coupling).sum((1, 2))
        # What acts by the probabilities of paths depends on E/γ and ω/γ only.
        price = 0 if warp is None else warp
        free = by_free * (sums[:, 0] - visited - price * warps)
        act = (finite * found.energy).sum((1, 2)) - gain * visited + price * pull
        by_gamma = (free - act) / gamma
    coupling = found.coupling if want_coupling and found.coupling is not None else energy.new_zeros((0, 0, 0))
    return tuple(t.to(narrow) for t in (found.energy, by_warp, by_gamma, coupling))


@_operator(f"({GRID}) -> (Tensor, Tensor)")
def gpu_transitions(*grid) -> tuple[Tensor, Tensor]:
    """(3, B, N, M): from where a path came to a cell; and (B, N, M): the probability that it ends there."""
    pairs = _grid(*grid)
    count, rows, columns = pairs.shape
    shares = torch.zeros((3, count, rows, columns), dtype=pairs.main.dtype, device=pairs.main.device)
    sums, _, probability = launch.forward(pairs, shares=shares)
    _checked(sums[:, 0])
    n, m = pairs.lengths
    each = torch.arange(count, device=n.device)
    ends = torch.zeros_like(shares[0])
    if pairs.relax is None:
        ends[each, n - 1, m - 1] = 1.0
    else:
        ends[each, n - 1] = probability[:, :columns]
        ends[each, :, m - 1] += probability[:, columns:]
    return shares, ends


@_operator(f"({GRID}, bool with_choice) -> (Tensor, Tensor, Tensor)")
def gpu_least(*args) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) least path energies, the cells (2, B) where they end, and (B, N, M) choices if asked for."""
    *grid, with_choice = args
    value, last, choice = launch.least(_grid(*grid), with_choice)
    return _checked(value), last, choice


@_operator(f"({LOSS}, float weight, bool means, bool keep) -> ({', '.join(['Tensor'] * (3 + N_KEPT))})")
def gpu_loss(*args) -> tuple[Tensor, ...]:
    """Return the free energy, or with ``means`` E[C] + weight·E[field] and these two, (B,) each; then `Kept`."""
    *described, weight, means, keep = args
    pairs = pairs_of_loss(*described)
    weights = _weights(pairs.gamma, 1.0, weight) if means else None
    sums, kept, _ = launch.forward(pairs, weights, keep)
    if not means:
        return _checked(sums[:, 0].clone()), sums.new_zeros(len(sums)), sums.new_zeros(len(sums)), *kept
    _checked(sums)
    return torch.add(sums[:, 1], sums[:, 2], alpha=weight), sums[:, 1].clone(), sums[:, 2].clone(), *kept


@_operator(
    f"(Tensor by_first, Tensor by_second, {KEPT}, {LOSS}, float weight, bool means, bool fresh) -> "
    f"({', '.join(['Tensor'] * 8)})"
)
def gpu_loss_grads(by_first: Tensor, by_second: Tensor, *args) -> tuple[Tensor, ...]:
    """Gradients of by_first·F or, with ``means``, of by_first·E[C] + by_second·E[field], in `LOSS_GRADS`.

    With ``fresh`` nothing is taken from `Kept`; without, by_second is weight·by_first.
    """
    kept, described, (weight, means, fresh) = Kept(*args[:N_KEPT]), args[N_KEPT:-3], args[-3:]
    pairs = pairs_of_loss(*described)
    amount, weights = by_first.contiguous(), _weights(pairs.gamma, 1.0, weight) if means else None
    if fresh:
        if means:
            amount = torch.ones_like(pairs.gamma)
            weights = Weights(by_first.contiguous(), by_second.contiguous(), torch.zeros_like(amount))
        _, kept, _ = launch.forward(pairs, weights, keep=True)
    of_field = means and pairs.x is None and pairs.field is not None
    found = launch.backward(pairs, kept, weights, amount, coupling=of_field)
    warps, pull, visits, logs = found.totals.unbind(1)
    by_var_x, by_var_y = found.var_x, found.var_y
    by_beta = None
    if pairs.beta is not None and pairs.var_x is not None and pairs.var_y is not None:
        assert by_var_x is not None, "of sequences with variances"
        assert by_var_y is not None, "of sequences with variances"
        n, m = pairs.lengths
        excess = visits - 0.5 * (n + m)
        by_beta = amount * (logs - kept.level * excess)
        by_level = -amount * pairs.beta * excess
        by_var_x = by_var_x + _of_level(pairs.var_x, n, by_level)
        by_var_y = by_var_y + _of_level(pairs.var_y, m, by_level)
    by_warp = None
    if pairs.warp is not None:
        by_warp = amount * (warps + pull) if not means else amount * (weights.energy * warps + pull)  # type: ignore[union-attr]
    by_field = None
    if of_field and found.coupling is not None:
        by_field = (amount * weights.field)[:, None, None] * found.coupling  # type: ignore[union-attr]
    results = (found.energy, by_field, found.x, found.y, by_var_x, by_var_y, by_beta, by_warp)
    return tuple(pairs.main.new_zeros(0) if t is None else t for t in results)


def _of_level(variance: Tensor, length: Tensor, by_level: Tensor) -> Tensor:
    """Return the part of a gradient in variances (B, T) that comes by the level ``log r``."""
    inside = torch.arange(variance.shape[1], device=variance.device) < length[:, None]
    return torch.where(inside, (0.5 * by_level / length)[:, None] / variance, 0)


@_fake("gpu_sums")
def _(energy, gamma, warp, lengths, relax, fields, wanted):
    return energy.new_empty((energy.shape[0], 1 + len(wanted)))


@_fake("gpu_coupling")
def _(energy, *rest):
    return energy.new_empty(energy.shape)


@_fake("gpu_gradients")
def _(factors, field, energy, gamma, warp, lengths, relax, means, want_gamma, want_coupling):
    count = energy.shape[0]
    return (
        energy.new_empty(energy.shape),
        energy.new_empty((count,)),
        energy.new_empty((count if want_gamma else 0,)),
        energy.new_empty(energy.shape if want_coupling else (0, 0, 0)),
    )


@_fake("gpu_transitions")
def _(energy, *rest):
    return energy.new_empty((3, *energy.shape)), energy.new_empty(energy.shape)


@_fake("gpu_least")
def _(energy, gamma, warp, lengths, relax, with_choice):
    choice = energy.new_empty(energy.shape if with_choice else (0, 0, 0), dtype=torch.uint8)
    return energy.new_empty((energy.shape[0],)), lengths.new_empty(lengths.shape), choice


@_fake("gpu_loss")
def _(*args):
    *described, _, means, keep = args
    pairs = pairs_of_loss(*described)
    cut, main, count = launch.cut_of(pairs, means), pairs.main, pairs.shape[0]
    places = cut.row_states, cut.column_states
    ends = (count, sum(pairs.shape[1:]), 2) if pairs.relax is not None else (0,)
    return (
        *(main.new_empty((count,)) for _ in range(3)),
        main.new_empty((cut.table_size(4 if means else 2) if keep and not cut.several else 0,)),
        *(
            main.new_empty(shape, dtype=dtype)
            for place in places
            for shape, dtype in (((place, 3), main.dtype), ((place,), torch.int32))
        ),
        main.new_empty(ends),
        main.new_empty((count if pairs.beta is not None else 0,)),
    )


@_fake("gpu_loss_grads")
def _(by_first, by_second, *args):
    described, means = args[N_KEPT:-3], args[-2]
    pairs = pairs_of_loss(*described)
    data = [pairs.energy, pairs.field if means and pairs.x is None else None, pairs.x, pairs.y]
    data += [pairs.var_x, pairs.var_y, pairs.beta, pairs.warp]
    return tuple(pairs.main.new_empty((0,) if t is None else t.shape) for t in data)
