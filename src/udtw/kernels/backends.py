"""One registry of backends, and the five questions that any of them answers about a `Problem`.

The Numba modules are imported on first use, so that ``import udtw`` stays fast and works where Numba does not.
"""

import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from udtw.errors import BackendError
from udtw.inputs import FLOATS, check_gamma, check_lengths, range_error, visible
from udtw.kernels import memory_estimate
from udtw.kernels.problem import Problem
from udtw.kernels.reference import torch_backends
from udtw.prior import MASK, check_mask

NAMES = ("numba", "portable", "enumeration")


_UNKNOWN = "not tried yet"
_numba_state: list[str | None] = [_UNKNOWN]


def _numba_problem() -> str | None:
    """Why the Numba backend cannot run here; None if it can."""
    if _numba_state[0] is _UNKNOWN:
        _numba_state[0] = _try_numba()
    return _numba_state[0]


def _try_numba() -> str | None:
    if importlib.util.find_spec("numba") is None:
        return "the package numba is not installed (pip install numba)"
    try:
        import udtw.kernels.cpu.autograd
        import udtw.kernels.cpu.vmap  # noqa: F401
    except Exception as error:  # a broken LLVM or an incompatible NumPy raises whatever it likes
        return f"numba does not work here: {type(error).__name__}: {error}"
    return None


# torch.compile shall take the answer instead of tracing the import. This is what torch.compiler.assume_constant_result
# does, without its import of the whole compiler.
_numba_problem._dynamo_marked_constant = True  # type: ignore[attr-defined]


def available_backends() -> dict[str, str | None]:
    """Each backend's name, with None if it is available or else the reason why not."""
    return {"numba": _numba_problem(), "portable": None, "enumeration": None}


def choose(backend: str, main: Tensor) -> str:
    """The backend that will run: ``"auto"`` takes the fastest that fits dtype and device."""
    if backend == "auto":
        fits = main.device.type == "cpu" and main.dtype in FLOATS
        return "numba" if fits and _numba_problem() is None else "portable"
    if backend not in NAMES:
        raise BackendError(f"backend={backend!r} is not known; choose 'auto' or one of {NAMES}.")
    if backend == "numba":
        reason = _numba_problem()
        if reason is None and main.device.type != "cpu":
            reason = f"it runs on the CPU, and the data is on {main.device}"
        if reason is not None:
            raise BackendError(f"backend='numba' is not available: {reason}. Use backend='auto' or 'portable'.")
    return backend


def _spare_forked_child() -> None:
    """One thread for torch in a forked child: its OpenMP threads do not survive a fork, and waiting for them hangs."""
    if "udtw.kernels.cpu.operators" in sys.modules:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_spare_forked_child)


def _numba() -> ModuleType:
    from udtw.kernels.cpu import operators

    return operators


def _autograd() -> ModuleType:
    from udtw.kernels.cpu import autograd

    return autograd


def _band_args(problem: Problem):
    return problem.band.kind, problem.band.value, problem.band.mask


def _check(problem: Problem, backend: str, fields: Sequence[Tensor] = ()) -> None:
    """Values for the torch backends; the Numba operators check for themselves."""
    if backend == "numba" or not visible(problem.main, problem.gamma, problem.lengths):
        return
    check_lengths(problem.lengths, *problem.shape[1:])
    check_gamma(problem.gamma)
    if problem.band.kind == MASK and problem.band.mask is not None:
        check_mask(problem.band.mask.cpu().numpy(), problem.lengths.cpu().numpy())
    problem.check_values(fields)


def _check_result(problem: Problem, result: Tensor) -> Tensor:
    if visible(result) and not bool(torch.isfinite(result).all()):
        raise range_error(problem.main.dtype)
    return result


def sums(problem: Problem, wanted: Sequence[int], backend: str) -> Tensor:
    """(B, 1 + len(wanted)): soft_min, then the expectations of built-in fields (numbers as in `problem`)."""
    memory_estimate.refuse(problem, backend, "expectations", len(wanted))
    if backend == "numba":
        p = problem
        return _autograd().sums(
            p.x, p.y, p.cost, p.var_x, p.var_y, p.variance, p.gamma, p.lengths, *_band_args(p), list(wanted)
        )
    _check(problem, backend)
    soft_min, means = torch_backends.sums_and_expectations(problem, wanted, [], backend)
    return _check_result(problem, torch.stack([soft_min, *means], 1))


def loss_terms(problem: Problem, beta: float) -> tuple[Tensor, Tensor, Tensor]:
    """``E[C] + β E[log Σ]``, E[C] and E[log Σ], (B,) each, on the Numba backend, prepared for the first one's gradient.

    Any other gradient is as exact, but is computed when it is asked for. Without variances the last is zero.
    """
    memory_estimate.refuse(problem, "numba", "expectations")
    p = problem
    return _autograd().loss_terms(
        p.x, p.y, p.cost, p.var_x, p.var_y, p.variance, p.gamma, p.lengths, *_band_args(p), beta if p.uncertain else 0.0
    )[:3]


def expects_usual_gradient(problem: Problem, beta: float) -> bool:
    """Whether a gradient in the sequences, the cost or the variances, and none in γ, is likely to be asked for.

    E[log Σ] is read off a sum that is weighted by β, so β must be of an ordinary size.
    """
    p = problem
    tensors = (p.x, p.y, p.cost, p.var_x, p.var_y, p.variance)
    return (
        torch.is_grad_enabled()
        and not p.gamma.requires_grad
        and any(t is not None and t.requires_grad for t in tensors)
        and (not p.uncertain or 1e-6 <= abs(beta) <= 1e6)
    )


def expectations(problem: Problem, fields: Sequence[Tensor], backend: str) -> Tensor:
    """(B, K): expectations of K user fields (B, N, M) under the paths of ``problem.cost``."""
    memory_estimate.refuse(problem, backend, "expectations", fields=fields)
    if backend == "numba":
        return _autograd().expectations(
            torch.stack(list(fields)), problem.cost, problem.gamma, problem.lengths, *_band_args(problem)
        )
    _check(problem, backend, fields)
    return torch.stack(torch_backends.sums_and_expectations(problem, [], list(fields), backend)[1], 1)


def coupling(problem: Problem, backend: str) -> Tensor:
    """(B, N, M): π* of ``problem.cost``."""
    memory_estimate.refuse(problem, backend, "coupling")
    if backend == "numba":
        return _autograd().coupling(problem.cost, problem.gamma, problem.lengths, *_band_args(problem))
    _check(problem, backend)
    return torch_backends.coupling(problem, backend)


def transitions(problem: Problem, backend: str) -> Tensor:
    """(3, B, N, M): probability that a path through a cell came from the corner, from above, from the left.

    Not differentiable.
    """
    with torch.no_grad():
        memory_estimate.refuse(problem, backend, "transitions")
        if backend == "numba":
            ops = _numba()
            return torch.from_numpy(ops.run(problem, None, ops.launch.transitions))
        _check(problem, backend)
        return torch_backends.transitions(problem, backend)


def least_cost(problem: Problem, backend: str, with_choice: bool = False) -> tuple[Tensor, Tensor]:
    """(B,) least path costs; (B, N, M) uint8 0 corner, 1 up, 2 left if asked for. Not differentiable."""
    with torch.no_grad():
        memory_estimate.refuse(problem, backend, "choices" if with_choice else "least_cost")
        if backend == "numba":
            ops = _numba()
            values, choice = ops.run(problem, None, ops.launch.least_cost, with_choice)
            return torch.from_numpy(values), torch.from_numpy(choice)
        _check(problem, backend)
        return torch_backends.least_cost(problem, backend)


def dtw(problem: Problem, backend: str) -> Tensor:
    """(B,) least path costs, differentiable: the cost summed over the least path, which itself does not move."""
    p = problem
    tensors = (p.x, p.y, p.cost, p.var_x, p.var_y, p.variance)
    memory_estimate.refuse(problem, backend, "least_cost")
    if backend != "numba":
        _check(problem, backend)
        return torch_backends.least_cost(problem, backend)[0]
    if not (torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)):
        return _numba().path_least(*tensors, p.gamma, p.lengths, *_band_args(p))
    cost = p.weighted_cost()
    return (cost * _numba().path_least_mask(cost.detach(), p.gamma, p.lengths, *_band_args(p))).sum((1, 2))
