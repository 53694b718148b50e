"""The blocks of pairs that `pairwise` works through, and how a backend evaluates one block."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from udtw import inputs, joblib_tasks, likelihood
from udtw.kernels import backends
from udtw.kernels.problem import Problem
from udtw.prior import Band, intervals
from udtw.series import SeriesSet

BLOCK_CELLS = 20_000_000
"""Cells of a block: about a tenth of a second of work."""
TILE_CELLS = 400_000_000
"""Cells of a tile, the work that is sent to another process at once: a second or two."""
MATRIX_BYTES = 64 * 2**20
"""Bytes of cost matrices in flight where the kernel cannot build costs itself."""
PAIR_BYTES = 64
"""Bytes of the indices, lengths and values that a block holds for each of its pairs."""


@dataclass(frozen=True)
class Block:
    """Pairs (left[i], right[j]) for the index arrays ``i`` and ``j``."""

    left: SeriesSet
    right: SeriesSet
    i: np.ndarray
    j: np.ndarray
    band: Band
    gamma: float
    threads: int
    backend: str

    @property
    def lengths(self) -> np.ndarray:
        return np.stack([self.left.lengths[self.i], self.right.lengths[self.j]])

    @property
    def fused(self) -> bool:
        """Whether the kernel reads the series themselves, by index, without any copy."""
        return self.backend == "numba" and self.left.values.shape[2] <= likelihood.MAX_DIRECT_DIM


@dataclass(frozen=True)
class Request:
    """All pairs of ``left`` and ``right``; only i ≤ j if ``symmetric``."""

    left: SeriesSet
    right: SeriesSet
    symmetric: bool
    band: Band
    gamma: float
    threads: int
    backend: str

    @property
    def total(self) -> int:
        n, m = len(self.left), len(self.right)
        return n * (n + 1) // 2 if self.symmetric else n * m

    def _block(self, left: SeriesSet, right: SeriesSet, i: np.ndarray, j: np.ndarray) -> Block:
        return Block(left, right, i, j, self.band, self.gamma, self.threads, self.backend)

    def _blocks(self) -> Iterator[Block]:
        """Series of like length side by side, so that no short pair waits for a long one in its pack."""
        rows = np.argsort(self.left.lengths, kind="stable")
        columns = np.argsort(self.right.lengths, kind="stable")
        cells = self.left.values.shape[1] * self.right.values.shape[1]
        size = max(1, BLOCK_CELLS // cells)
        at_once = max(1, size // len(columns))
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            i, j = np.repeat(some, len(columns)), np.tile(columns, len(some))
            if self.symmetric:
                keep = i <= j
                i, j = i[keep], j[keep]
            for part in range(0, len(i), size):
                yield self._block(self.left, self.right, i[part : part + size], j[part : part + size])

    def fill(
        self, parts: int, value: Callable[[Block], np.ndarray], advance: Callable[[int], None]
    ) -> list[np.ndarray]:
        """``parts`` tables (len(left), len(right)) from ``value(block)`` of shape (parts, pairs)."""
        out = np.empty((parts, len(self.left), len(self.right)), self.left.values.dtype)
        if joblib_tasks.chosen():
            self._fill_elsewhere(out, value, advance)
            return list(out)
        for block in self._blocks():
            result = value(block)
            out[:, block.i, block.j] = result
            if self.symmetric:
                out[:, block.j, block.i] = result
            advance(len(block.i))
        return list(out)

    def _fill_elsewhere(self, out: np.ndarray, value: Callable[[Block], np.ndarray], advance: Callable[[int], None]):
        """Tiles of the table are filled by the workers of joblib's backend; each is sent only the series it needs."""
        tiles = self._tiles()
        tasks = [(self._tile(rows, columns), len(out), value) for rows, columns in tiles]
        for number, result in joblib_tasks.spread(_filled, tasks):
            rows, columns = tiles[number]
            out[:, rows[:, None], columns] = result
            if self.symmetric:
                out[:, columns[:, None], rows] = np.swapaxes(result, 1, 2)
            advance(tasks[number][0].total)

    def _tiles(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and columns of each tile; of a symmetric table only i ≤ j, as here, so that the bits are the same."""
        rows, columns = np.arange(len(self.left)), np.arange(len(self.right))
        cells = self.left.values.shape[1] * self.right.values.shape[1]
        least, most = (max(1, int((size / cells) ** 0.5)) for size in (BLOCK_CELLS, TILE_CELLS))
        fair = int((self.total / len(joblib_tasks.shares(self.total))) ** 0.5)
        edge = min(most, max(least, fair))
        return [
            (rows[r : r + edge], columns[c : c + edge])
            for r in range(0, len(rows), edge)
            for c in range(r if self.symmetric else 0, len(columns), edge)
        ]

    def _tile(self, rows: np.ndarray, columns: np.ndarray) -> "Request":
        own = self.symmetric and rows[0] == columns[0]
        return replace(self, left=self.left[rows], right=self.right[columns], symmetric=own, threads=1)

    def selves(self, series: SeriesSet, value: Callable[[Block], np.ndarray]) -> np.ndarray:
        """``value`` of each series with itself."""
        every = np.arange(len(series))
        return value(self._block(series, series, every, every))[0]


def _filled(request: Request, parts: int, value: Callable[[Block], np.ndarray]) -> np.ndarray:
    return np.stack(request.fill(parts, value, lambda pairs: None))


def blocks(
    left: SeriesSet, right: SeriesSet, symmetric: bool, band: Band, gamma: float, threads: int, backend: str
) -> Request:
    return Request(left, right, symmetric, band, gamma, threads, backend)


def workspace_bytes(left: SeriesSet, right: SeriesSet) -> int:
    """About how many bytes one block takes beside the tables that it fills."""
    cells = left.values.shape[1] * right.values.shape[1]
    pairs = max(BLOCK_CELLS // cells, len(right))
    return PAIR_BYTES * min(pairs, len(left) * len(right))


def path_sums(block: Block, wanted: Sequence[int]) -> np.ndarray:
    """(1 + len(wanted), pairs): soft_min and the expectations of built-in fields."""
    if block.fused:
        from udtw.kernels.cpu import launch

        return _run(launch.sums, block, list(wanted)).T
    return _by_problems(block, lambda problem: backends.sums(problem, wanted, block.backend)).T


def least_costs(block: Block) -> np.ndarray:
    """(pairs,): classical DTW."""
    if block.fused:
        from udtw.kernels.cpu import launch

        return _run(launch.least_cost, block, False)[0]
    return _by_problems(block, lambda problem: backends.least_cost(problem, block.backend)[0])


def _run(kernel, block: Block, *args):
    from udtw.kernels.cpu import launch

    lengths = block.lengths
    band = intervals(block.band.kind, block.band.value, torch.from_numpy(lengths), block.left.values.shape[1])
    pairs = launch.make_pairs(
        gamma=np.full(len(block.i), block.gamma),
        length=lengths,
        x=block.left.values,
        y=block.right.values,
        var_x=block.left.variances,
        var_y=block.right.variances,
        index=np.stack([block.i, block.j]),
        band=None if band is None else band.numpy(),
    )
    try:
        return kernel(pairs, *args, n_threads=block.threads)
    except launch.ValueOutOfRange:
        raise inputs.range_error(torch.from_numpy(block.left.values[:0]).dtype) from None


def _by_problems(block: Block, solve: Callable[[Problem], torch.Tensor]) -> np.ndarray:
    """Solve the block in slices whose cost matrices fit `MATRIX_BYTES`."""
    bytes_each = block.left.values.shape[1] * block.right.values.shape[1] * block.left.values.itemsize
    size = max(1, MATRIX_BYTES // bytes_each)
    results = []
    before = torch.get_num_threads()
    torch.set_num_threads(block.threads)
    try:
        with torch.no_grad():
            for start in range(0, len(block.i), size):
                part = slice(start, start + size)
                results.append(solve(_problem(block, block.i[part], block.j[part])).numpy())
    finally:
        torch.set_num_threads(before)
    return np.concatenate(results)


def _problem(block: Block, i: np.ndarray, j: np.ndarray) -> Problem:
    def pick(array: np.ndarray | None, index: np.ndarray) -> torch.Tensor | None:
        return None if array is None else torch.from_numpy(array[index])

    x, y = torch.from_numpy(block.left.values[i]), torch.from_numpy(block.right.values[j])
    return Problem(
        gamma=torch.full((len(i),), block.gamma, dtype=x.dtype),
        lengths=torch.from_numpy(np.stack([block.left.lengths[i], block.right.lengths[j]])),
        band=block.band,
        cost=likelihood.squared_distances(x, y),
        var_x=pick(block.left.variances, i),
        var_y=pick(block.right.variances, j),
    )
