"""The ``numba`` backend: NumPy arrays in, NumPy arrays out, no checks of shape, no torch.

It decides how many pairs to interleave, how to split the work over threads and how much scratch memory to keep; the
arithmetic is in `cpu_rows` and `cpu_gradient_rows`, the sweeps in `cpu_forward`, `cpu_backward` and `cpu_hard`.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from udtw.kernels.cpu_backward import backward
from udtw.kernels.cpu_forward import BAD_VALUE, forward
from udtw.kernels.cpu_forward import transitions as forward_transitions
from udtw.kernels.cpu_hard import hard, mark_paths
from udtw.kernels.cpu_layout import FACTORS, Gradients
from udtw.kernels.cpu_pack import Pairs
from udtw.kernels.threads import clear_scratch, parallel_for, scratch

UNREACHABLE = {np.dtype(np.float32): 1e37, np.dtype(np.float64): 1e300}
"""What stands for an infinite cost. Sums of costs, and of costs over γ, must stay below."""
LAYOUT: tuple[Literal["C"], Literal["W"]] = ("C", "W")
"""Contiguous and writeable: the only kind of array that the kernels are compiled for."""
SERIAL_CELLS = 150_000
"""Below this many cells a second thread costs more than it saves."""
PIECE_CELLS = 50_000
"""Work is cut finer than one piece per thread, up to eight, only where pieces stay larger than this: a thread that
starts late, because its core was busy, then does less of it."""
TABLE_CELLS = 2**20
"""Backward sweeps keep tables of at most about this many cells per thread."""


Kernel = Callable[[int, int, int, np.ndarray, np.ndarray], int]
"""``kernel(begin, end, pack_size, work, limits)`` returns a status, see `cpu_forward`."""


class ValueOutOfRange(Exception):
    """A kernel met NaN, infinity, a variance that is not positive, or costs too large for its dtype."""


def make_pairs(
    *,
    gamma: np.ndarray,
    length: np.ndarray,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    cost: np.ndarray | None = None,
    var_x: np.ndarray | None = None,
    var_y: np.ndarray | None = None,
    variance: np.ndarray | None = None,
    fields: np.ndarray | None = None,
    index: np.ndarray | None = None,
    band: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> Pairs:
    """`Pairs` with empty arrays for what is absent, each of the memory layout that the kernels are compiled for."""
    dtype = np.dtype((x if x is not None else cost).dtype)  # type: ignore[union-attr]
    count = gamma.shape[0]

    def floats(array: np.ndarray | None, absent: tuple[int, ...]) -> np.ndarray:
        return np.zeros(absent, dtype) if array is None else np.require(array, dtype, LAYOUT)

    return Pairs(
        x=floats(x, (0, 0, 0)),
        y=floats(y, (0, 0, 0)),
        cost=floats(cost, (0, 0, 0)),
        var_x=floats(None if var_x is None else var_x[..., None], (0, 0, 1)),
        var_y=floats(None if var_y is None else var_y[..., None], (0, 0, 1)),
        variance=floats(variance, (0, 0, 0)),
        fields=floats(fields, (0, 0, 0, 0)),
        index=np.arange(2 * count).reshape(2, count) % count if index is None else np.require(index, np.int64, LAYOUT),
        length=np.require(length, np.int64, LAYOUT),
        gamma=np.require(gamma, np.float64, LAYOUT),
        band=np.zeros((2, 0, 0), np.int64) if band is None else np.require(band, np.int64, LAYOUT),
        mask=np.zeros((0, 0, 0), np.bool_) if mask is None else np.require(mask, np.bool_, LAYOUT),
    )


def _shape(pairs: Pairs) -> tuple[int, int, int]:
    rows = max(pairs.x.shape[1], pairs.cost.shape[1])
    columns = max(pairs.y.shape[1], pairs.cost.shape[2])
    return pairs.gamma.shape[0], rows, columns


def _pack_size(pairs: Pairs, n_threads: int) -> int:
    """Interleave more pairs the shorter they are: a diagonal should fill a few dozen vectors.

    Multiples of eight keep all rows aligned with cache lines.
    """
    count, rows, columns = _shape(pairs)
    if pairs.band.shape[1] > 0:
        return 1  # every pair has its own diagonals
    size = min(16, 1024 // max(rows, columns, 1))
    return max(1, min(size - size % 8 if size > 8 else size, -(-count // n_threads)))


_compiled: set[tuple[str, np.dtype]] = set()
_compiling = threading.Lock()


def _compile_first(call: Kernel, dtype: np.dtype) -> None:
    """Let one thread compile (or load from the cache) a kernel before many call it: an empty run does nothing else."""
    key = (call.__qualname__, dtype)
    if key not in _compiled:
        with _compiling:
            call(0, 0, 1, scratch("work", 1, dtype), np.zeros((5, 1), np.int64))
            _compiled.add(key)


def _run(pairs: Pairs, n_threads: int, call: Kernel) -> None:
    """``call(begin, end, pack_size, work, limits)`` over all pairs, with scratch memory as it asks for."""
    count, rows, columns = _shape(pairs)
    if count == 0:
        return
    if count * rows * columns < SERIAL_CELLS:
        n_threads = 1
    pack = _pack_size(pairs, n_threads)
    dtype = pairs.x.dtype
    diagonals = rows + columns - 1

    def task(begin: int, end: int) -> None:
        work = scratch("work", 1, dtype)
        limits = scratch("limits", 5 * diagonals, np.dtype(np.int64))[: 5 * diagonals].reshape(5, diagonals)
        status = call(begin, end, pack, work, limits)
        if status > 0:
            status = call(begin, end, pack, scratch("work", status, dtype), limits)
        if status == BAD_VALUE:
            clear_scratch()
            raise ValueOutOfRange

    _compile_first(call, dtype)
    pieces = n_threads * min(8, 1 + count * rows * columns // (n_threads * PIECE_CELLS)) if n_threads > 1 else 1
    parallel_for(task, count, pack * -(-count // (pack * pieces)), n_threads)


def sums_and_slopes(pairs: Pairs, direction: Sequence[float], n_threads: int) -> tuple[np.ndarray, Gradients]:
    """soft_min, E[C] and E[log Σ], and the gradients of ``Σ direction·(these)``, from one sweep each way."""
    dtype = pairs.x.dtype
    out = np.zeros((pairs.gamma.shape[0], 3), dtype)
    factors = np.zeros((FACTORS, pairs.gamma.shape[0]), dtype)
    factors[: len(direction)] = np.array(direction, dtype)[:, None]
    return out, gradients(pairs, factors, want_gamma=False, want_coupling=False, n_threads=n_threads, sums=out)


def sums(pairs: Pairs, wanted: Sequence[int], n_threads: int) -> np.ndarray:
    """(B, 1 + len(wanted)): soft_min and the expectations of the ``wanted`` fields."""
    dtype = pairs.x.dtype
    out = np.zeros((pairs.gamma.shape[0], 1 + len(wanted)), dtype)
    numbers = np.array(wanted, np.int64)
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max

    def call(begin: int, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        return forward(pairs, begin, end, pack, numbers, unreachable, largest, work, limits, out)

    _run(pairs, n_threads, call)
    return out


def gradients(
    pairs: Pairs,
    factors: np.ndarray,
    want_gamma: bool,
    want_coupling: bool,
    n_threads: int,
    sums: np.ndarray | None = None,
) -> Gradients:
    """Gradients of the loss whose derivatives in soft_min, E[C], E[log Σ], E[(Σ − 1)²], E[1] are ``factors`` (5, B).

    ``pairs.fields`` may hold one more field with factor one. Where a factor is not finite, that pair's gradients are
    NaN. ``sums`` (B, 3), if given, is filled with soft_min, E[C] and, if only E[C] and E[log Σ] have factors, E[log Σ].
    """
    count, rows, columns = _shape(pairs)
    dtype = pairs.x.dtype
    broken = ~np.isfinite(factors).all(axis=0)
    used_fields = pairs.fields
    if used_fields.size:
        unusable = ~np.isfinite(used_fields).all(axis=(0, 2, 3))
        if unusable.any():
            used_fields = np.where(unusable[None, :, None, None], 0, used_fields).astype(dtype)
            broken |= unusable
    factors = np.require(np.where(broken, 0, factors), dtype, LAYOUT)
    pairs = pairs._replace(fields=used_fields)
    by_sequence, by_matrix = pairs.x.shape[2] > 0, (count, rows, columns)
    wanted = Gradients(
        x=np.zeros_like(pairs.x),
        y=np.zeros_like(pairs.y),
        cost=np.zeros((0, 0, 0) if by_sequence else by_matrix, dtype),
        var_x=np.zeros_like(pairs.var_x),
        var_y=np.zeros_like(pairs.var_y),
        variance=np.zeros_like(pairs.variance),
        gamma=np.zeros(count if want_gamma else 0, np.float64),
        coupling=np.zeros(by_matrix if want_coupling else (0, 0, 0), dtype),
    )
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max
    out = np.zeros((0, 0), dtype) if sums is None else sums

    def call(begin: int, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        segment = rows + columns - 1
        if pack * rows * columns > TABLE_CELLS:
            segment = max(32, int(1.5 * segment**0.5))
        return backward(pairs, begin, end, pack, segment, factors, unreachable, largest, work, limits, wanted, out)

    _run(pairs, n_threads, call)
    if broken.any():
        for array in wanted[:-1]:
            if array.shape[0] == count:
                array[broken] = np.nan
    return wanted


def coupling(pairs: Pairs, n_threads: int) -> np.ndarray:
    """(B, N, M): π*."""
    nothing = np.zeros((FACTORS, pairs.gamma.shape[0]), pairs.x.dtype)
    checked = np.zeros((pairs.gamma.shape[0], 3), pairs.x.dtype)  # asking for sums makes the kernel check values
    return gradients(pairs, nothing, want_gamma=False, want_coupling=True, n_threads=n_threads, sums=checked).coupling


def least_cost(pairs: Pairs, with_choice: bool, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """(B,) classical DTW values and, on request, (B, N, M) uint8 choices (see `cpu_hard`)."""
    dtype = pairs.x.dtype
    out = np.zeros(pairs.gamma.shape[0], dtype)
    choice = np.zeros(_shape(pairs) if with_choice else (0, 0, 0), np.uint8)
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max

    def call(begin: int, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        return hard(pairs, begin, end, pack, unreachable, largest, work, limits, out, choice)

    _run(pairs, n_threads, call)
    return out, choice


def transitions(pairs: Pairs, n_threads: int) -> np.ndarray:
    """(3, B, N, M): probability that a path through a cell came from the corner, from above, from the left."""
    dtype = pairs.x.dtype
    out = np.zeros((3, *_shape(pairs)), dtype)
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max

    def call(begin: int, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        return forward_transitions(pairs, begin, end, pack, unreachable, largest, work, limits, out)

    _run(pairs, n_threads, call)
    return out


def least_path(pairs: Pairs, n_threads: int) -> np.ndarray:
    """(B, N, M): one along the least-cost path, zero elsewhere."""
    _, choice = least_cost(pairs, True, n_threads)
    out = np.zeros(_shape(pairs), pairs.x.dtype)
    mark_paths(choice, pairs.length, out)
    return out
