"""The ``numba`` backend: NumPy arrays in, NumPy arrays out, no checks of shape, no torch.

It decides how many pairs to interleave, how to split the work over threads and how much scratch memory to keep; the
arithmetic is in `rows` and `gradient_rows`, the sweeps in `forward`, `backward` and `hard`.
"""

import threading
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from udtw._kernels.cpu.backward import backward
from udtw._kernels.cpu.forward import forward
from udtw._kernels.cpu.forward import transitions as forward_transitions
from udtw._kernels.cpu.hard import hard, list_cells
from udtw._kernels.cpu.layout import BY_COST, BY_LOG, BY_SOFT_MIN, FACTORS, Gradients
from udtw._kernels.cpu.match_sums import MATCH_COLUMNS
from udtw._kernels.cpu.pack import OWN_LIMITS, Pairs
from udtw._kernels.cpu.rows import MOST_PAIRS
from udtw._kernels.cpu.threads import clear_scratch, compiling, scratch, share
from udtw._kernels.cpu.work_queue import BAD, BAD_VALUE, new_queue

UNREACHABLE: dict[Any, float] = {np.dtype(np.float32): 1e37, np.dtype(np.float64): 1e300}
"""What stands for an infinite cost. Sums of costs, and of costs over γ, must stay below."""
INTEGER, DOUBLE, BOOL = np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.bool_)
SERIAL_CELLS = 75_000
"""Below this many cells a second thread costs more than it saves."""
ROUND_CELLS = 50_000_000
"""About this many cells a round: only between rounds can the user interrupt."""
PACK_CELLS = 400_000
"""Pairs are interleaved only up to this many cells: larger tables would leave the caches."""
TABLE_CELLS = 2**20
"""Backward sweeps keep tables of at most about this many cells per thread."""


class Wanted(NamedTuple):
    """What a backward sweep returns beside the gradients in the data."""

    gamma: bool = False
    prices: bool = False  # the gradients in β and ω
    coupling: bool = False
    match: bool = False  # see `backward.collect_matches`


NOTHING = Wanted()

Kernel = Callable[[np.ndarray, int, int, np.ndarray, np.ndarray], int]
"""``kernel(queue, end, pack_size, work, limits)`` returns a status, see `work_queue`."""


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
    beta: np.ndarray | None = None,
    warp: np.ndarray | None = None,
    relax: np.ndarray | None = None,
    band: np.ndarray | None = None,
    band_of: np.ndarray | None = None,
    mask: np.ndarray | None = None,
) -> Pairs:
    """`Pairs` with empty arrays for what is absent, each of the memory layout that the kernels are compiled for."""
    dtype = (x if x is not None else cost).dtype  # type: ignore[union-attr]
    matrix, steps = _absent((0, 0, 0), dtype), _absent((0, 0, 1), dtype)
    return Pairs(
        x=matrix if x is None else _laid_out(x, dtype),
        y=matrix if y is None else _laid_out(y, dtype),
        cost=matrix if cost is None else _laid_out(cost, dtype),
        var_x=steps if var_x is None else _laid_out(var_x if var_x.ndim == 3 else var_x[..., None], dtype),
        var_y=steps if var_y is None else _laid_out(var_y if var_y.ndim == 3 else var_y[..., None], dtype),
        variance=matrix if variance is None else _laid_out(variance, dtype),
        fields=_absent((0, 0, 0, 0), dtype) if fields is None else _laid_out(fields, dtype),
        index=_every_pair(gamma.shape[0]) if index is None else _laid_out(index, INTEGER),
        length=_laid_out(length, INTEGER),
        gamma=_laid_out(gamma, DOUBLE),
        beta=_absent((0,), DOUBLE) if beta is None else _laid_out(beta, DOUBLE),
        warp=_absent((0,), DOUBLE) if warp is None else _laid_out(warp, DOUBLE),
        relax=_absent((5, 0), INTEGER) if relax is None else _with_last_start(relax),
        band=_absent((2, 0, 0), INTEGER) if band is None else _laid_out(band, INTEGER),
        band_of=_absent((0,), INTEGER) if band_of is None else _laid_out(band_of, INTEGER),
        mask=_absent((0, 0, 0), BOOL) if mask is None else _laid_out(mask, BOOL),
    )


@njit(nogil=True, cache=True)
def usable(length: np.ndarray, gamma: np.ndarray, rows: int, columns: int) -> bool:
    """Whether all lengths (2, B) lie between one and the padded sizes and every γ is a positive finite number."""
    good = True
    for b in range(length.shape[1]):
        good &= 1 <= length[0, b] <= rows and 1 <= length[1, b] <= columns
    for b in range(gamma.shape[0]):
        good &= 0 < gamma[b] < np.inf
    return good


@njit(nogil=True, cache=True)
def band_of_mask(mask: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, int, bool]:
    """Return the rows that contain every path through a mask (1 or U, N, M), for the lengths (2, U).

    (2, U, N) first and one past the last column of each row, the number of the first pair that has no path (−1: all
    have one), and whether the mask forbids a cell in between. Columns before the first one of an earlier row, or after
    the last one of a later row, are on no path.
    """
    count, rows, columns = length.shape[1], mask.shape[1], mask.shape[2]
    band = np.zeros((2, count, rows), np.int64)
    holes = False
    for u in range(count):
        own, n, m = mask[u if mask.shape[0] > 1 else 0], length[0, u], length[1, u]
        reached = np.zeros(columns, np.bool_)  # of the row above
        first, last = 0, 0
        for i in range(n):
            row = own[i]
            beside, corner, found = i == 0, False, False
            for j in range(m):
                above = reached[j]
                beside = row[j] and (beside or above or corner)
                reached[j], corner = beside, above
                if row[j]:
                    last = j + 1
                    if not found and j >= first:
                        first, found = j, True
            band[0, u, i], band[1, u, i] = first, last
        if not reached[m - 1]:
            return band, u, holes
        for i in range(n - 1, -1, -1):
            last = min(last, band[1, u, i])
            band[1, u, i] = last
            for j in range(band[0, u, i], last):
                holes |= not own[i, j]
    return band, -1, holes


def _laid_out(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the array, or if need be a copy, contiguous and writeable.

    The only kind that the kernels are compiled for.
    """
    if array.dtype == dtype and array.flags.carray:
        return array
    return np.array(array, dtype, order="C")


def _with_last_start(relax: np.ndarray) -> np.ndarray:
    """(5, B): the relaxation (4, B), and the last diagonal on which any pair may start."""
    last = np.full((1, relax.shape[1]), relax[[0, 2]].max(initial=0))
    return np.concatenate([relax, last])


@cache
def _absent(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Return an array of size zero; as nothing can be written to it, all may share one."""
    return np.zeros(shape, dtype)


@lru_cache(maxsize=8)
def _every_pair(count: int) -> np.ndarray:
    """(2, B) index of a batch in which pair b compares sequence b with sequence b. Kernels do not write to it."""
    return np.tile(np.arange(count), (2, 1))


def _shape(pairs: Pairs) -> tuple[int, int, int]:
    rows = max(pairs.x.shape[1], pairs.cost.shape[1])
    columns = max(pairs.y.shape[1], pairs.cost.shape[2])
    return pairs.gamma.shape[0], rows, columns


def pack_for(rows: int, columns: int, widest: int | None = None) -> int:
    """How many pairs to interleave: more the shorter they are, as a diagonal should fill a few dozen vectors.

    A power of two (see `rows`); from eight on all rows are aligned with cache lines. ``widest`` is the number of rows
    of a band's longest diagonal.
    """
    longest = max(rows, columns)
    width = longest if widest is None else 2 * widest
    size = MOST_PAIRS
    while (size > 8 and size * width > 1024) or (size > 1 and size * min(width * longest, rows * columns) > PACK_CELLS):
        size //= 2
    return size


def segment_for(pack: int, rows: int, columns: int, widest: int | None = None) -> int:
    """How many diagonals of the backward sweep have tables at a time: all, or about √(N + M) of them for long pairs."""
    diagonals = rows + columns - 1
    cells = rows * columns if widest is None else min(rows * columns, diagonals * widest)
    if pack * cells <= TABLE_CELLS:
        return diagonals
    return min(diagonals, max(32, int(1.5 * diagonals**0.5)))


def _widest(pairs: Pairs) -> int | None:
    """Rows of the longest diagonal of the pairs' band; None without a band, or where packs may hold several."""
    if pairs.band.shape[1] != 1:
        return None
    n = int(pairs.length[0, 0])
    row = np.arange(n)
    entered, left = pairs.band[:, 0, :n] + row
    return int((row + 1 - np.searchsorted(left, entered, "right")).max())


def _pack_size(pairs: Pairs, n_threads: int) -> int:
    """`pack_for` the pairs, but no more than a thread's share of them."""
    count, rows, columns = _shape(pairs)
    size = pack_for(rows, columns, _widest(pairs))
    while size > 1 and size > -(-count // n_threads):
        size //= 2
    return size


_compiled: set[tuple[str, np.dtype]] = set()
_compiling = threading.Lock()


def _compile_first(call: Kernel, dtype: np.dtype) -> None:
    """Let one thread compile (or load from the cache) a kernel before many call it: an empty run does nothing else."""
    key = (call.__qualname__, dtype)
    if key not in _compiled:
        with _compiling, compiling():
            call(new_queue(0), 0, 1, scratch("work", 1, dtype), np.zeros((3, 1), np.int64))
            _compiled.add(key)


def _run(pairs: Pairs, n_threads: int, call: Kernel) -> None:
    """``call(queue, end, pack_size, work, limits)`` over all pairs, with scratch memory as it asks for."""
    count, rows, columns = _shape(pairs)
    if count == 0:
        return
    if count * rows * columns < SERIAL_CELLS:
        n_threads = 1
    pack = _pack_size(pairs, n_threads)
    dtype = pairs.x.dtype
    diagonals = rows + columns - 1
    sides = OWN_LIMITS + 2 * pack if pairs.band.shape[1] > 1 else OWN_LIMITS

    def task(queue: np.ndarray, end: int) -> None:
        work = scratch("work", 1, dtype)
        limits = scratch("limits", sides * diagonals, INTEGER)[: sides * diagonals].reshape(sides, diagonals)
        status = call(queue, end, pack, work, limits)
        if status > 0:
            status = call(queue, end, pack, scratch("work", status, dtype), limits)
        if status == BAD_VALUE:
            clear_scratch()

    _compile_first(call, dtype)
    helpers = min(n_threads, -(-count // pack)) - 1
    pairs_a_round = pack * max(n_threads, ROUND_CELLS // (pack * rows * columns))
    for begin in range(0, count, pairs_a_round):
        if share(task, begin, min(begin + pairs_a_round, count), helpers)[BAD]:
            raise ValueOutOfRange


def sums_and_grads(pairs: Pairs, beta: float, n_threads: int) -> tuple[np.ndarray, Gradients]:
    """(3, B) soft_min, E[C] and E[log Σ], and the gradients of ``E[C] + β E[log Σ]``, from one sweep each way."""
    factors = np.zeros((FACTORS, pairs.gamma.shape[0]), pairs.x.dtype)
    factors[BY_COST] = 1
    factors[BY_LOG] = beta
    return _values_and_grads(pairs, factors, NOTHING, n_threads)


def energy_and_grads(pairs: Pairs, wanted: Wanted, n_threads: int) -> tuple[np.ndarray, Gradients]:
    """(B,) free energy and its gradients, from one sweep each way and without an adjoint."""
    factors = np.zeros((FACTORS, pairs.gamma.shape[0]), pairs.x.dtype)
    factors[BY_SOFT_MIN] = 1
    values, grads = _values_and_grads(pairs, factors, wanted, n_threads)
    return values[0], grads


def _values_and_grads(
    pairs: Pairs, factors: np.ndarray, wanted: Wanted, n_threads: int
) -> tuple[np.ndarray, Gradients]:
    out = np.zeros((3, pairs.gamma.shape[0]), pairs.x.dtype)
    return out, _sweep_back(pairs, factors, wanted, n_threads, out)


def sums(pairs: Pairs, wanted: Sequence[int], n_threads: int) -> np.ndarray:
    """(B, 1 + len(wanted)): soft_min and the expectations of the ``wanted`` fields."""
    dtype = pairs.x.dtype
    out = np.zeros((pairs.gamma.shape[0], 1 + len(wanted)), dtype)
    numbers = np.array(wanted, np.int64)
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max

    def call(queue: np.ndarray, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        return forward(pairs, queue, end, pack, numbers, unreachable, largest, work, limits, out)

    _run(pairs, n_threads, call)
    return out


def gradients(pairs: Pairs, factors: np.ndarray, wanted: Wanted, n_threads: int) -> Gradients:
    """Gradients of the loss whose derivatives in soft_min and in E of the built-in fields are ``factors`` (6, B).

    ``pairs.fields`` may hold one more field with factor one. Where a factor is not finite, that pair's gradients are
    NaN.
    """
    count, dtype = pairs.gamma.shape[0], pairs.x.dtype
    broken = ~np.isfinite(factors).all(axis=0)
    used_fields = pairs.fields
    if used_fields.size:
        unusable = ~np.isfinite(used_fields).all(axis=(0, 2, 3))
        if unusable.any():
            used_fields = np.where(unusable[None, :, None, None], 0, used_fields).astype(dtype)
            broken |= unusable
    factors = _laid_out(np.where(broken, 0, factors), dtype)
    found = _sweep_back(pairs._replace(fields=used_fields), factors, wanted, n_threads, _absent((0, 0), dtype))
    if broken.any():
        for array in found[:-2]:
            if array.shape[0] == count:
                array[broken] = np.nan
    return found


def _sweep_back(
    pairs: Pairs, factors: np.ndarray, wanted: Wanted, n_threads: int, sums: np.ndarray, tail: float = 0.0
) -> Gradients:
    """`gradients` for finite factors and fields.

    ``sums`` (3, B), if not empty, is filled with soft_min, E[C] and, if only E[C] and E[log Σ] have factors, E[log Σ].
    ``tail`` is for `match_sums.collect_matches`.
    """
    count, rows, columns = _shape(pairs)
    dtype = pairs.x.dtype
    by_sequence, by_matrix = pairs.x.shape[2] > 0, (count, rows, columns)
    found = Gradients(
        x=np.zeros(pairs.x.shape, dtype),
        y=np.zeros(pairs.y.shape, dtype),
        cost=np.zeros((0, 0, 0) if by_sequence else by_matrix, dtype),
        var_x=np.zeros(pairs.var_x.shape, dtype),
        var_y=np.zeros(pairs.var_y.shape, dtype),
        variance=np.zeros(pairs.variance.shape, dtype),
        gamma=np.zeros(count if wanted.gamma else 0, np.float64),
        beta=np.zeros(count if wanted.prices and pairs.beta.size else 0, np.float64),
        warp=np.zeros(count if wanted.prices and pairs.warp.size else 0, np.float64),
        coupling=np.zeros(by_matrix if wanted.coupling else (0, 0, 0), dtype),
        match=np.zeros((count, rows, MATCH_COLUMNS) if wanted.match else (0, 0, MATCH_COLUMNS)),
    )
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max
    of_band = _widest(pairs)
    widest = min(rows, columns) if of_band is None else of_band

    def call(queue: np.ndarray, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        segment = segment_for(pack, rows, columns, of_band)
        return backward(
            pairs, queue, end, pack, segment, widest, factors, unreachable, largest, work, limits, found, sums, tail
        )

    _run(pairs, n_threads, call)
    return found


def _checked(pairs: Pairs, wanted: Wanted, n_threads: int, tail: float = 0.0) -> Gradients:
    """Return a sweep without factors: π alone."""
    nothing = np.zeros((FACTORS, pairs.gamma.shape[0]), pairs.x.dtype)
    sums = np.zeros((3, pairs.gamma.shape[0]), pairs.x.dtype)  # asking for sums makes the kernel check values
    return _sweep_back(pairs, nothing, wanted, n_threads, sums, tail)


def coupling(pairs: Pairs, n_threads: int) -> np.ndarray:
    """(B, N, M): π*."""
    return _checked(pairs, Wanted(coupling=True), n_threads).coupling


def match(pairs: Pairs, tail: float, n_threads: int) -> np.ndarray:
    """(B, N, MATCH_COLUMNS): sums over the rows of π*, which is never kept; see `backward.collect_matches`."""
    return _checked(pairs, Wanted(match=True), n_threads, tail).match


def least_cost(pairs: Pairs, with_choice: bool, n_threads: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(B,) least path energies, the cells (2, B) in which their paths end and, on request, choices (see `hard`)."""
    dtype = pairs.x.dtype
    out, last = np.zeros(pairs.gamma.shape[0], dtype), np.zeros((2, pairs.gamma.shape[0]), np.int64)
    choice = np.zeros(_shape(pairs) if with_choice else (0, 0, 0), np.uint8)
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max

    def call(queue: np.ndarray, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        return hard(pairs, queue, end, pack, unreachable, largest, work, limits, out, last, choice)

    _run(pairs, n_threads, call)
    return out, last, choice


def transitions(pairs: Pairs, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """(3, B, N, M): probability that a path through a cell came from the corner, from above, from the left.

    And (B, 2, N + M − 1): that it ends in the last column, or in the last row before it, of each diagonal.
    """
    dtype = pairs.x.dtype
    count, rows, columns = _shape(pairs)
    out, ends = np.zeros((3, count, rows, columns), dtype), np.zeros((count, 2, rows + columns - 1))
    unreachable, largest = dtype.type(UNREACHABLE[dtype]), np.finfo(dtype).max

    def call(queue: np.ndarray, end: int, pack: int, work: np.ndarray, limits: np.ndarray) -> int:
        return forward_transitions(pairs, queue, end, pack, unreachable, largest, work, limits, out, ends)

    _run(pairs, n_threads, call)
    return out, ends


def least_cells(pairs: Pairs, n_threads: int) -> tuple[np.ndarray, np.ndarray]:
    """(B,) least path energies, and (3, K) pair, row and column of the cells of these paths."""
    count, rows, columns = _shape(pairs)
    values, last, choice = least_cost(pairs, True, n_threads)
    cells = np.empty((3, count * (rows + columns - 1)), np.int64)
    return values, cells[:, : list_cells(choice, last, cells)]


def least_path(pairs: Pairs, n_threads: int) -> np.ndarray:
    """(B, N, M): one along the least-cost path, zero elsewhere."""
    out = np.zeros(_shape(pairs), pairs.x.dtype)
    out[tuple(least_cells(pairs, n_threads)[1])] = 1
    return out
