"""The ``triton`` backend: exact sweeps on GPUs, for float32 and float64."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from udtw._engine.checks import FLOATS, can_read, check_gamma, check_lengths
from udtw._kernels import memory_estimate
from udtw._kernels.base import Backend, refuse_gaps, with_skew
from udtw._kernels.gpu.availability import interpreted, missing
from udtw.errors import BackendError, RangeError, SizeError

if (_reason := missing()) is not None:
    raise BackendError(_reason)

from udtw._engine.prior import MASK, NONE, Prior, admissible, check_mask
from udtw._engine.problem import COST, LOG_VARIANCE, WARPS, Problem
from udtw._kernels.gpu import autograd, operators
from udtw._kernels.reference.torch_backends import clean, match_sums

MAX_FUSED_DIM = 3
"""Sequences of more features have their costs made by torch: more do not fit the registers."""
GRIDS = {"expectations": 3.0, "coupling": 6.0, "transitions": 7.0, "matches": 12.0, "choices": 4.0, "least_cost": 3.0}
"""Grids of the cost's type at the peak, energies included; a gradient adds those of `GRADIENT_GRIDS`."""
GRADIENT_GRIDS = 8.0


QUESTIONS = {"coupling": "coupling", "transitions": "transitions", "least_cost": "choices", "dtw": "choices"}
"""What a method asks, as in `Backend.bytes_needed`; the others ask for expectations."""


DEVICE_ERRORS = (torch.AcceleratorError,) if hasattr(torch, "AcceleratorError") else ()
"""What torch raises for a device that fails or is gone; before 2.8 it had no name."""


def _named_errors(method: Callable) -> Callable:
    """Raise an error that names the value that a kernel cannot use, or the memory that is missing."""

    @wraps(method)
    def call(self, problem: Problem, *args, **options) -> Any:
        try:
            return method(self, problem, *args, **options)
        except RangeError:
            if can_read(problem.main, problem.gamma, problem.lengths):
                _explain(problem, args[0] if method.__name__ == "expectations" else ())
            raise
        except torch.OutOfMemoryError as error:
            raise _too_large(
                problem, self.bytes_needed(problem, QUESTIONS.get(method.__name__, "expectations"))
            ) from error
        except DEVICE_ERRORS as error:
            reason = str(error).partition("\n")[0]
            raise BackendError(
                f"The device {problem.main.device} failed: {reason}. If it is gone, start a new process; otherwise use "
                "backend='portable', or the CPU."
            ) from error

    return call


def _explain(problem: Problem, fields: Sequence[Tensor]) -> None:
    """Raise the named error for the first unusable value, if there is one."""
    check_lengths(problem.lengths, *problem.shape[1:])
    check_gamma(problem.gamma)
    band, relax = problem.prior.band, problem.prior.relax
    if band.kind == MASK and band.mask is not None:
        reach = None if relax is None else relax.cpu().numpy()
        check_mask(band.mask.cpu().numpy(), problem.lengths.cpu().numpy(), reach)
    problem.check_values(fields)


def _too_large(problem: Problem, needed: int) -> SizeError:
    count, rows, columns = problem.shape
    return SizeError(
        f"Aligning {count:,} pair(s) of {rows:,} × {columns:,} steps takes about {needed / 1e9:.2g} GB on "
        f"{problem.main.device}, which has not as much free memory. Align in parts (smaller batches), shorten or "
        f"resample the sequences, or use float32; with at most {MAX_FUSED_DIM} features and no band no matrix is kept."
    )


class TritonBackend(Backend):
    """Asks the operators of `autograd`, about sequences of few features directly, else about a matrix of energies."""

    name = "triton"
    needs_check = True

    def misfit(self, main: Tensor) -> str | None:
        kind = "cpu" if interpreted() else "cuda"
        if main.device.type != kind:
            return f"it runs on CUDA and ROCm devices, and the data is on {main.device}"
        return None if main.dtype in FLOATS else f"it computes in float32 and float64, and the data is {main.dtype}"

    def refusal(self, prior: Prior) -> str | None:
        return refuse_gaps(prior)

    @_named_errors
    def sums(self, problem: Problem, wanted: Sequence[int]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", len(wanted))
        if (
            problem.plain
            and set(wanted) <= {COST, LOG_VARIANCE}
            and wanted
            and not problem.gamma.requires_grad
            and fusable(problem)
        ):
            _, cost, log = autograd.loss(*_of_sequences(problem), 0.0, True, False)[:3]
            # The free energy is asked for with these means only where it is not needed.
            means = {COST: cost, LOG_VARIANCE: log}
            return torch.stack([self.free_energy(problem), *(means[which] for which in wanted)], 1)
        problem = clean(problem)
        energy = _energy(problem)
        fields: list[Tensor] = []
        numbers: list[int] = []
        for which in wanted:
            if which == WARPS:
                numbers.append(operators.WARPS)
            elif which == COST and problem.plain:
                numbers.append(operators.ENERGY)
            else:
                numbers.append(len(fields))
                fields.append(problem.field(which))
        stacked = torch.stack(fields) if fields else energy.new_zeros((0, *energy.shape))
        found = autograd.sums(energy, *_rest(problem), stacked, numbers)
        constant = problem.constant_energy()
        return with_skew(problem, torch.cat([(found[:, :1] + constant[:, None]), found[:, 1:]], 1))

    @_named_errors
    def free_energy(self, problem: Problem) -> Tensor:
        if problem.gamma.requires_grad and torch.is_grad_enabled():
            return self.sums(problem, [])[:, 0]
        self._refuse_if_too_large(problem, "expectations")
        keep = _gradient_expected(problem)
        if fusable(problem):
            return with_skew(problem, autograd.loss(*_of_sequences(problem), 0.0, False, keep)[0])
        problem = clean(problem)
        gamma, warp, lengths, relax = _rest(problem)
        described = (_energy(problem), *[None] * 5, gamma, None, warp, lengths, relax)
        return with_skew(problem, autograd.loss(*described, 0.0, False, keep)[0] + problem.constant_energy())

    @_named_errors
    def loss_terms(self, problem: Problem, beta: float) -> tuple[Tensor, Tensor, Tensor] | None:
        if not problem.plain or problem.gamma.requires_grad or not _gradient_expected(problem):
            return None
        self._refuse_if_too_large(problem, "expectations")
        weight = beta if problem.uncertain else 0.0
        if fusable(problem):
            found = autograd.loss(*_of_sequences(problem), weight, True, True)
            return found[0], found[1], found[2]
        problem = clean(problem)
        gamma, warp, lengths, relax = _rest(problem)
        field = problem.log_variance()
        described = (_energy(problem), field, *[None] * 4, gamma, None, warp, lengths, relax)
        found = autograd.loss(*described, weight, True, True)
        return found[0], found[1], found[2]

    @_named_errors
    def expectations(self, problem: Problem, fields: Sequence[Tensor]) -> Tensor:
        self._refuse_if_too_large(problem, "expectations", fields=fields)
        problem = clean(problem)
        stacked = torch.stack(list(fields))
        return autograd.sums(_energy(problem), *_rest(problem), stacked, list(range(len(fields))))[:, 1:]

    @_named_errors
    def coupling(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "coupling")
        problem = clean(problem)
        return autograd.coupling(_energy(problem), *_rest(problem))

    @torch.no_grad()
    @_named_errors
    def transitions(self, problem: Problem) -> tuple[Tensor, Tensor]:
        self._refuse_if_too_large(problem, "transitions")
        problem = clean(problem)
        return operators.gpu_transitions(_energy(problem), *_rest(problem))

    @torch.no_grad()
    def match_sums(self, problem: Problem, tail: float) -> Tensor:
        self._refuse_if_too_large(problem, "matches")
        return match_sums(self.coupling(problem), self.transitions(problem)[0], tail)

    @torch.no_grad()
    @_named_errors
    def least_cost(self, problem: Problem, with_choice: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        self._refuse_if_too_large(problem, "choices" if with_choice else "least_cost")
        problem = clean(problem)
        value, last, choice = operators.gpu_least(_energy(problem), *_rest(problem), with_choice)
        return with_skew(problem, value + problem.constant_energy()), last, choice

    @_named_errors
    def dtw(self, problem: Problem) -> Tensor:
        self._refuse_if_too_large(problem, "least_cost")
        problem = clean(problem)
        energy, rest = _energy(problem), _rest(problem)
        penalty = problem.prior.warp_penalty
        if not _gradient_expected(problem):
            return with_skew(problem, operators.gpu_least(energy, *rest, False)[0] + problem.constant_energy())
        with torch.no_grad():
            fixed = (None if t is None else t.detach() for t in (energy, *rest))
            _, last, choice = operators.gpu_least(*fixed, True)
            path = walked(choice, last, energy.dtype)
        value = with_skew(problem, (torch.where(path > 0, energy, 0)).sum((1, 2)) + problem.constant_energy())
        if penalty is None:
            return value
        return value + penalty * (2 * path.sum((1, 2)) - path.amax(1).sum(1) - path.amax(2).sum(1))

    def bytes_needed(self, problem: Problem, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
        count, rows, columns = problem.shape
        gradient = memory_estimate.gradient_expected(problem, fields)
        grids = GRIDS[question] + GRADIENT_GRIDS * gradient + (2 + 2 * gradient) * (built_in + len(fields))
        return int(grids * count * rows * columns * problem.main.element_size())


def fusable(problem: Problem) -> bool:
    """Whether the kernels make the energies from the sequences: few features, one variance per step, no band."""
    if problem.x is None or problem.x.shape[2] > MAX_FUSED_DIM or problem.by_feature or problem.index is not None:
        return False
    return problem.variance is None and problem.prior.band.kind == NONE


def _of_sequences(problem: Problem) -> tuple:
    """Return the arguments `operators.LOSS` of a fusable problem."""
    beta = problem.beta if problem.uncertain else None
    data = (problem.x, problem.y, problem.var_x, problem.var_y)
    return None, None, *data, problem.gamma, beta, problem.prior.warp_penalty, problem.lengths, problem.prior.relax


def _gradient_expected(problem: Problem) -> bool:
    """Whether a gradient in anything but γ is to be expected."""
    prices = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in problem.prices[1:])
    return prices or problem.wants_gradient


def _energy(problem: Problem) -> Tensor:
    """(B, N, M) energies of a clean problem, the largest finite number where no path may go."""
    energy = problem.energy()
    if problem.prior.band.kind == NONE:
        return energy
    allowed = admissible(problem.prior.band, problem.lengths, *problem.shape[1:])
    return torch.where(allowed, energy, torch.finfo(energy.dtype).max)


def _rest(problem: Problem) -> tuple:
    """γ, ω, lengths and relaxed ends."""
    return problem.gamma, problem.prior.warp_penalty, problem.lengths, problem.prior.relax


def walked(choice: Tensor, last: Tensor, dtype: torch.dtype) -> Tensor:
    """(B, N, M): one along the path that ``choice`` leads back from the cells ``last`` (2, B), zero elsewhere."""
    count, rows, columns = choice.shape
    path = torch.zeros(choice.shape, dtype=dtype, device=choice.device)
    each, (i, j) = torch.arange(count, device=choice.device), last
    going = torch.ones(count, dtype=torch.bool, device=choice.device)
    for _ in range(rows + columns - 1):
        path[each, i, j] += going.to(dtype)
        way = choice[each, i, j]
        going = going & ~((way == 0) & ((i == 0) | (j == 0)))
        i, j = i - (going & (way != 2)).long(), j - (going & (way != 1)).long()
    return path


BACKENDS = {"triton": TritonBackend()}
