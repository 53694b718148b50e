"""A query in a long stream: the least energy of the paths that end in each step, and where the least path begins.

Rows are the steps of the query (N), columns those of the stream. A path may begin in any cell of the first row and end
in any of the last one, and pays ω for every non-diagonal step:

``V[0, j] = C[0, j] + min(0, V[0, j−1] + ω)``, ``V[i, j] = C[i, j] + min(V[i−1, j−1], min(V[i−1, j], V[i, j−1]) + ω)``.

Ties go to the diagonal step, then to the step along the query, as in `prior.STEPS`; a path begins rather than
coming from the left.

An anti-diagonal ``k = i + j`` has one cell per step of the query. Row i lies at position ``i + 1``; position 0 is a
virtual row −1 of zeros, from which every path comes. One more step of the stream is one more diagonal, so three rolling
rows are the whole state, and the last row of diagonal k belongs to column ``k − N + 1``. Columns that do not exist come
before all others, where they are unreachable (+inf), or after them, where no other cell reads them.

The first column of a cell's path travels with its value. It is a whole number relative to the current piece of the
stream, and its bits are kept in the floats, which the vectors select but never calculate with: in this way float32
holds numbers up to 2^31, not only up to 2^24.
"""

from collections import namedtuple
from typing import Self

import numpy as np
from numba import njit

from udtw._kernels.cpu.rows import INNER, rolling
from udtw._kernels.cpu.simd import borrow, fma, lanes, load, log, splat, store, where_greater
from udtw._kernels.cpu.threads import LINE
from udtw._kernels.cpu.work_queue import OUTER

PIECE = 4096
"""Columns per call of the kernel, which stay in the caches; between calls the user can interrupt."""
WHOLE: dict[np.dtype, np.dtype] = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}

Layout = namedtuple(
    "Layout", ["rows", "dim", "row", "span", "value", "first", "x", "half_var_x", "cost", "y", "half_var_y", "size"]
)
"""Offsets in scratch memory: ``value`` and ``first`` are three rows each, ``x`` one row per feature, ``y`` a span per
feature. The stream lies there newest step first, and behind the current piece the N − 1 steps before it."""
Energy = namedtuple("Energy", ["warp_penalty", "beta", "log_level", "uncertain"])
"""``C = D/Σ + β (log Σ − log_level)`` if uncertain, else ``C = D``."""


@njit(**INNER)
def cost_row(w, at, energy, shift):
    """C of one diagonal; the steps of the stream lie ``shift`` further on than those of the query."""
    end = at.rows + 1
    for t in range(1, end, lanes(w)):
        difference = load(w, at.x + t) - load(w, at.y + shift + t)
        store(w, at.cost + t, difference * difference)
    for f in range(1, at.dim):
        for t in range(1, end, lanes(w)):
            difference = load(w, at.x + f * at.row + t) - load(w, at.y + f * at.span + shift + t)
            store(w, at.cost + t, fma(difference, difference, load(w, at.cost + t)))
    if energy.uncertain:
        beta, level = splat(w, energy.beta), splat(w, energy.log_level)
        for t in range(1, end, lanes(w)):
            variance = load(w, at.half_var_x + t) + load(w, at.half_var_y + shift + t)
            store(w, at.cost + t, fma(beta, log(variance) - level, load(w, at.cost + t) / variance))


def _least_row(usual):
    """V and first columns of one diagonal; ``usual`` makes D of one feature in the same loop instead of reading C."""

    @njit(**INNER)
    def row(w, at, penalty, shift, value, first):
        for t in range(1, at.rows + 1, lanes(w)):
            if usual:
                difference = load(w, at.x + t) - load(w, at.y + shift + t)
                cost = difference * difference
            else:
                cost = load(w, at.cost + t)
            up, left, corner = load(w, value.near + t - 1), load(w, value.near + t), load(w, value.far + t - 1)
            aside = where_greater(up, left, left, up) + penalty
            begin = where_greater(up, left, load(w, first.near + t), load(w, first.near + t - 1))
            store(w, value.here + t, where_greater(corner, aside, aside, corner) + cost)
            store(w, first.here + t, where_greater(corner, aside, begin, load(w, first.far + t - 1)))

    return row


least_row, usual_row = _least_row(False), _least_row(True)


@njit(**OUTER)
def sweep(w, whole, at, energy, k, columns, value_out, first_out):
    """Diagonals [k, k + columns): V and the first column of each one's last row.

    ``whole`` is the same memory as ``w``, its bits read as whole numbers.
    """
    w, whole, value_out, first_out = borrow(w), borrow(whole), borrow(value_out), borrow(first_out)
    penalty = splat(w, energy.warp_penalty)
    for n in range(columns):
        value, first = rolling(at.value, at.row, k + n), rolling(at.first, at.row, k + n)
        shift = columns - 2 - n  # position i + 1 meets step k + n − i of the stream
        if at.dim == 1 and not energy.uncertain:
            usual_row(w, at, penalty, shift, value, first)
        else:
            cost_row(w, at, energy, shift)
            least_row(w, at, penalty, shift, value, first)
        whole[first.here] = n + 2  # two diagonals on, this virtual cell is the corner of column n + 2 of the first row
        value_out[n] = w[value.here + at.rows]
        first_out[n] = whole[first.here + at.rows]
    for begin in range(at.first, at.first + 3 * at.row, at.row):  # relative to the next piece
        for t in range(begin, begin + at.rows + 1):
            whole[t] -= columns


class StreamSweep:
    """The search for one query between pieces of the stream; its memory does not grow.

    Parameters
    ----------
    query : (N, d) array, float32 or float64
    warp_penalty : float
    var_query : (N,) array, optional
        With it the cost is ``D/Σ + β (log Σ − log_level)``, and the stream has variances too; without it, D.
    """

    def __init__(
        self,
        query: np.ndarray,
        warp_penalty: float = 0.0,
        var_query: np.ndarray | None = None,
        beta: float = 1.0,
        log_level: float = 0.0,
    ) -> None:
        dtype, (rows, dim) = query.dtype, query.shape
        self.seen = 0
        self.energy = Energy(dtype.type(warp_penalty), dtype.type(beta), dtype.type(log_level), var_query is not None)
        line = LINE // dtype.itemsize
        row, span = (-(-(size + 2 * line) // line) * line for size in (rows, PIECE + rows))
        sizes = [3 * row, 3 * row, dim * row, row, row, dim * span, span]
        offsets = np.cumsum([line - 1, *sizes])  # so that position 1 of every row begins a cache line
        self.at = at = Layout(rows, dim, row, span, *offsets.tolist())
        memory = np.zeros(at.size * dtype.itemsize + LINE, np.uint8)
        start = -memory.ctypes.data % LINE
        self.work = memory[start : start + at.size * dtype.itemsize].view(dtype)
        self._name_parts()
        self.work[at.value : at.first].reshape(3, row)[:, 1:] = np.inf
        self.whole[at.first + 2 * row] = 1  # the virtual cell of diagonal −1; that of −2 is zero
        self.work[at.x : at.half_var_x].reshape(dim, row)[:, 1 : rows + 1] = query.T
        self.work[at.half_var_x : at.cost] = self.stream[dim] = 0.5
        if var_query is not None:
            self.work[at.half_var_x + 1 : at.half_var_x + 1 + rows] = 0.5 * var_query

    def _name_parts(self) -> None:
        self.whole = self.work.view(WHOLE[self.work.dtype])
        self.stream = self.work[self.at.y : self.at.size].reshape(self.at.dim + 1, self.at.span)

    def update(self, steps: np.ndarray, variances: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Least energies and first columns of the paths that end in the columns that are now complete.

        ``steps`` (L, d) and ``variances`` (L,) continue the stream. A column is complete when N − 1 further ones are
        known: all results up to column ``seen − N`` have then been returned, each once; see `rest`.
        """
        values, firsts = np.empty(len(steps), self.work.dtype), np.empty(len(steps), np.int64)
        for begin in range(0, len(steps), PIECE):
            piece = slice(begin, min(begin + PIECE, len(steps)))
            self._advance(steps[piece], None if variances is None else variances[piece], values[piece], firsts[piece])
        missing = max(0, self.at.rows - 1 - (self.seen - len(steps)))
        return values[missing:], firsts[missing:]

    def _advance(self, steps: np.ndarray, variances: np.ndarray | None, values: np.ndarray, firsts: np.ndarray) -> None:
        count, before = len(steps), self.at.rows - 1
        self.stream[:, count : count + before] = self.stream[:, :before].copy()
        self.stream[:-1, :count] = steps[::-1].T
        if variances is not None:
            self.stream[-1, :count] = 0.5 * variances[::-1]
        sweep(self.work, self.whole, self.at, self.energy, self.seen, count, values, firsts)
        firsts += self.seen
        self.seen += count

    def rest(self) -> tuple[np.ndarray, np.ndarray]:
        """Energies and first columns of the last N − 1 columns, which `update` has not returned yet.

        The state is left as it is: the stream may go on.
        """
        ended = self.copy()
        return ended.update(np.zeros((self.at.rows - 1, self.at.dim), self.work.dtype))

    def copy(self) -> Self:
        """Return the same state, to be continued independently."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), work=self.work.copy())
        other._name_parts()
        return other
