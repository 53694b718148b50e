"""About how many bytes an answer takes at its peak, from the sizes alone, and its refusal if too many.

Counted are arrays of the size of the grid, (B, N, M), beside those that the user made; each backend says how many it
needs (`Backend.bytes_needed`). Their numbers were measured with `python -m benchmarks.memory`.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from udtw._engine import likelihood
from udtw._engine.problem import Problem
from udtw._io import memory

SMALL_CELLS = 2**17
"""Grids of fewer cells are not estimated: nothing takes more than two kilobytes per cell."""
ADVICE = (
    "Align in parts (smaller batches), shorten or resample the sequences, use float32, or ask only for distances of "
    "sequences with at most {dim} features: backend='numba' then keeps no matrix."
)


def worth_estimating(problem: Problem) -> bool:
    """Whether the problem is large and its numbers are in this machine's memory."""
    if torch.compiler.is_compiling():
        return False
    count, rows, columns = problem.shape
    return count * rows * columns >= SMALL_CELLS and _in_memory(problem.main)


def refuse(bytes_needed: int, problem: Problem, question: str) -> None:
    """Raise `SizeError` if ``bytes_needed`` to answer ``question`` do not fit into memory."""
    if bytes_needed < memory.UNCHECKED_BYTES:
        return
    count, rows, columns = problem.shape
    what = f"Aligning {count:,} pair(s) of {rows:,} × {columns:,} steps ({question.replace('_', ' ')})"
    memory.refuse_if_too_large(bytes_needed, what, ADVICE.format(dim=likelihood.MAX_DIRECT_DIM))


def refuse_cost_matrix(problem: Problem) -> None:
    """Raise `SizeError` if ``C = D / Σ`` (B, N, M) cannot be made from the sequences of the problem."""
    if worth_estimating(problem):
        refuse(cost_matrix(problem), problem, "cost matrix")


def refuse_copies(problem: Problem) -> None:
    """Raise `SizeError` if the matrices that the user gave cannot be copied, together with a mask of their size."""
    if worth_estimating(problem):
        count, rows, columns = problem.shape
        bytes_each = 1 + sum(t.element_size() for t in (problem.cost, problem.variance) if t is not None)
        refuse(bytes_each * count * rows * columns, problem, "padded matrices")


def cost_matrix(problem: Problem) -> int:
    """Bytes at the peak of ``C = D / Σ`` made in plain torch, with what its gradient keeps."""
    count, rows, columns = problem.shape
    tables = 0
    if problem.x is not None:
        dim = problem.x.shape[2]
        kept = dim if gradient_expected(problem) and problem.few_features else 0
        tables += kept + (min(dim, 2) + 1 if problem.few_features else 4)
    if problem.uncertain:
        tables += 2
    return tables * count * rows * columns * problem.main.element_size()


def gradient_expected(problem: Problem, fields: Sequence[Tensor] = ()) -> bool:
    """Whether a gradient is to be expected, in γ or in ``fields`` too."""
    if torch.is_grad_enabled() and problem.gamma.requires_grad:
        return True
    return problem.wants_gradient or any(field.requires_grad for field in fields)


def _in_memory(tensor: Tensor) -> bool:
    """Whether the tensor is a plain one on the CPU: not on a GPU, and not a tracer's or vmap's stand-in."""
    if type(tensor) not in (Tensor, Parameter) or tensor.device.type != "cpu":
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
