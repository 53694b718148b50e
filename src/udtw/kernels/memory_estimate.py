"""About how many bytes an answer of the engine takes at its peak, from the sizes alone, and its refusal if too many.

Counted are arrays of the size of the grid, (B, N, M), beside those that the user made. The numbers per backend were
found by measuring (`python -m benchmarks.memory`).
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from udtw import likelihood, memory
from udtw.kernels.problem import Problem

NUMBA = {"expectations": 0.0, "coupling": 1.0, "transitions": 3.0, "choices": 2.0, "least_cost": 0.0}
"""Grids of the cost's type that the kernels make. "choices" are single bytes, in seven copies while walking a path."""
PORTABLE = {
    "expectations": (5.5, 18.0),
    "coupling": (8.5, 22.0),
    "transitions": (11.0, 11.0),
    "choices": (4.5, 4.5),
    "least_cost": (4.5, 5.0),
}
"""Skewed grids, (B, N, N + M) numbers of eight bytes, without and with a gradient."""
PER_FIELD = (3.0, 5.0)
"""The same for every field whose expectation is taken."""
SMALL_CELLS = 2**17
"""Grids of fewer cells are not estimated: nothing takes more than two kilobytes a cell."""
ADVICE = (
    "Align in parts (smaller batches), shorten or resample the sequences, use float32, or ask only for distances of "
    "sequences with at most {dim} features: backend='numba' then keeps no matrix."
)


def refuse(problem: Problem, backend: str, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> None:
    """Raise `SizeError` if the answer to ``question`` would not fit into memory. Only plain CPU tensors are looked at.

    Expectations are of so many ``built_in`` fields and of the user's ``fields``.
    """
    if _worth_a_look(problem):
        _refuse(needed(problem, backend, question, built_in, fields), problem, question)


def refuse_cost_matrix(problem: Problem) -> None:
    """Raise `SizeError` if ``C = D / Σ`` (B, N, M) cannot be made from the sequences of the problem."""
    if _worth_a_look(problem):
        _refuse(cost_matrix(problem), problem, "cost matrix")


def refuse_copies(problem: Problem) -> None:
    """Raise `SizeError` if the matrices that the user gave cannot be copied, together with a mask of their size."""
    if _worth_a_look(problem):
        count, rows, columns = problem.shape
        bytes_each = 1 + sum(t.element_size() for t in (problem.cost, problem.variance) if t is not None)
        _refuse(bytes_each * count * rows * columns, problem, "padded matrices")


def needed(problem: Problem, backend: str, question: str, built_in: int = 0, fields: Sequence[Tensor] = ()) -> int:
    """Bytes at the peak, of the answer and of its gradient if one is to be expected."""
    count, rows, columns = problem.shape
    cells = count * rows * columns
    gradient = gradient_expected(problem) or any(field.requires_grad for field in fields)
    if backend == "numba":
        if question == "least_cost" and gradient:
            return cost_matrix(problem) + 3 * cells * problem.main.element_size()
        matrices = [t for t in (problem.cost, problem.variance) if t is not None]
        tables = NUMBA[question] + sum(not t.is_contiguous() for t in matrices)
        tables += 2 * len(matrices) * gradient + len(fields) * (1 + 2 * gradient)
        bytes_each = problem.main.element_size()
        if gradient and problem.gamma.requires_grad:
            bytes_each += 8
        mask = cells if problem.band.mask is not None else 0
        return int(tables * cells * bytes_each) + mask + scratch(problem, question, gradient)
    skewed = 8 * count * rows * (rows + columns)
    tables = PORTABLE[question][gradient] + PER_FIELD[gradient] * (built_in + len(fields))
    return int(tables * skewed)


def cost_matrix(problem: Problem) -> int:
    """Bytes at the peak of ``C = D / Σ`` made in plain torch, with what its gradient keeps."""
    count, rows, columns = problem.shape
    tables = 0
    if problem.x is not None:
        dim = problem.x.shape[2]
        kept = dim if gradient_expected(problem) and dim <= likelihood.MAX_DIRECT_DIM else 0
        tables += kept + (min(dim, 2) + 1 if dim <= likelihood.MAX_DIRECT_DIM else 4)
    if problem.uncertain:
        tables += 2
    return tables * count * rows * columns * problem.main.element_size()


def scratch(problem: Problem, question: str, gradient: bool) -> int:
    """Bytes of the backward sweep's tables in all threads; they grow with N·√(N + M), see `backward`."""
    if question != "coupling" and not gradient:
        return 0
    from udtw.kernels.cpu import launch
    from udtw.kernels.cpu.layout import STATE_ROWS

    _, rows, columns = problem.shape
    diagonals, shortest = rows + columns - 1, min(rows, columns)
    pack = launch.pack_for(rows, columns)
    segment = diagonals
    if pack * rows * columns > launch.TABLE_CELLS:
        segment = min(diagonals, max(32, int(1.5 * math.sqrt(diagonals))))
    saves = (diagonals - 1) // segment
    numbers = pack * (6 * (segment + 2) * shortest + STATE_ROWS * saves * max(rows, columns))
    return numbers * problem.main.element_size() * min(torch.get_num_threads(), problem.shape[0])


def gradient_expected(problem: Problem) -> bool:
    p = problem
    tensors = (p.x, p.y, p.cost, p.var_x, p.var_y, p.variance, p.gamma)
    return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _worth_a_look(problem: Problem) -> bool:
    if torch.compiler.is_compiling():
        return False
    count, rows, columns = problem.shape
    return count * rows * columns >= SMALL_CELLS and _plain(problem.main)


def _plain(tensor: Tensor) -> bool:
    """Whether the numbers are in this machine's memory: not on a GPU, nor the shadows of torch's tracers."""
    if type(tensor) not in (Tensor, Parameter) or tensor.device.type != "cpu":
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def _refuse(bytes_needed: int, problem: Problem, question: str) -> None:
    if bytes_needed < memory.UNCHECKED_BYTES:
        return
    count, rows, columns = problem.shape
    what = f"Aligning {count:,} pair(s) of {rows:,} × {columns:,} steps ({question.replace('_', ' ')})"
    memory.refuse_if_too_large(bytes_needed, what, ADVICE.format(dim=likelihood.MAX_DIRECT_DIM))
