"""All pairs of two collections of series, in parallel and in bounded memory."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import inputs, prior
from udtw._engine.metrics import BLOCK_CELLS, Metric, get_metric, udtw_parts
from udtw._engine.pair_block import PairBlock, matched
from udtw._engine.series_set import SeriesSet, feature_names, load_series
from udtw._io import joblib_tasks
from udtw._io.memory import refuse_if_too_large
from udtw._io.progress import progress_bar
from udtw._kernels.backends import choose
from udtw.errors import BackendError, OptionError

TILE_CELLS = 400_000_000
"""Cells of a tile, the work that is sent to another process at once: a second or two."""
PAIR_BYTES = 64
"""Bytes of the indices, lengths and values that a block holds for each of its pairs."""

Values = Callable[[PairBlock], np.ndarray]
"""(parts, pairs) values of a block."""


def pairwise(  # noqa: PLR0913 (the options that users type)
    X: Any,
    Y: Any = None,
    metric: str | Metric = "udtw",
    n_jobs: int | None = None,
    *,
    var_x: Any = None,
    var_y: Any = None,
    nan_policy: str = "raise",
    return_parts: bool = False,
    progress: bool = False,
    backend: str = "auto",
    **params: Any,
) -> Any:
    """Distances between every series of ``X`` and every series of ``Y``: (len(X), len(Y)). No gradients.

    "udtw" is a free energy: it can be negative, and a series has a distance from itself. Pass ``debias=True`` where a
    method expects a distance, zero for equal series, as the classifiers do.

    Parameters
    ----------
    X, Y : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
        NumPy (or torch; then a torch tensor is returned). Without ``Y``, X is compared with itself and only one
        triangle is computed. If X is a pandas data frame with a series in each row, a data frame is returned, with
        the labels of X as its index and those of Y as its columns.
    metric : str or Metric
        A metric name such as "euclidean", "dtw", "soft_dtw" or "udtw", or a `Metric` with its
        parameters set. "udtw" gives the free energy, or with ``weighting="precision"`` the paper's ``d² + βΩ + λΩ'``.
    n_jobs : int, optional
        Threads; None is 1, -1 all cores. Under ``joblib.parallel_config`` with a backend of processes or machines
        (loky, Dask) its workers compute the table instead, each with one thread: the same bits.
    var_x, var_y : one array of variances σ² per series, optional
        For "udtw". Without ``Y``, ``var_x`` serves both.
    nan_policy : "raise" or "omit"
        What to do about steps with NaN: a named error, or leave them out.
    return_parts : bool
        For "udtw": return ``(d², Ω)``, that is E[C] and E[log Σ], instead of the distance.
    progress : bool
        Show a progress bar (needs the package rich).
    backend : "auto", "numba" or "portable"
    **params
        Parameters of the metric: ``gamma, beta, lam, band, weighting, warp_penalty, relax, gap_penalty, gap_opening,
        order, shape, reach, normalize`` as in `udtw.align` (a band is a radius, a fraction or "itakura" here),
        ``squared=False`` for the root of "euclidean" and "dtw".

    Examples
    --------
    >>> import udtw
    >>> udtw.pairwise([[0.0, 1.0, 2.0], [0.0, 2.0]], metric="dtw").tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    chosen = get_metric(metric, **params)
    chosen.check()
    if isinstance(metric, Metric) and params:
        raise OptionError(f"A Metric brings its own parameters; set {sorted(params)} by metric.with_params.")
    if not chosen.uncertain and (var_x is not None or var_y is not None or return_parts):
        raise OptionError(
            f"var_x, var_y and return_parts belong to metrics with variances, such as 'udtw'; got {chosen.name!r}."
        )
    if (steps := inputs.read_names(X)) is not None and set(inputs.read_names(Y) or ()) == set(steps):
        Y = Y[steps]  # a series per row, the steps in the order of X
    left = load_series("X", X, var_x, nan_policy)
    if Y is None and var_y is not None:
        raise OptionError("var_y needs Y; without Y, var_x serves both sides.")
    right = None if Y is None else load_series("Y", Y, var_y, nan_policy, names=feature_names(X))
    table = Table.of(left, right, chosen, joblib_tasks.threads_of(n_jobs), backend)
    with progress_bar(f"pairwise {chosen.name}", table.total, progress) as advance:
        parts = table.parts(advance) if return_parts else [table.values(advance)]
    if isinstance(X, Tensor):
        return tuple(map(torch.from_numpy, parts)) if return_parts else torch.from_numpy(parts[0])
    if (rows := inputs.read_labels(X)) is not None:
        parts = [_labelled(part, rows, rows if Y is None else inputs.read_labels(Y)) for part in parts]
    return tuple(parts) if return_parts else parts[0]


def _labelled(table: np.ndarray, rows: Any, columns: Any) -> Any:
    import pandas

    return pandas.DataFrame(table, rows, columns)


def distances(left: SeriesSet, right: SeriesSet | None, metric: Metric, n_jobs: int | None = None) -> np.ndarray:
    """`pairwise` of collections that are already loaded; variances count only for a metric that takes them."""
    if not metric.uncertain:
        left, right = left.with_variances(None), None if right is None else right.with_variances(None)
    return Table.of(left, right, metric, joblib_tasks.threads_of(n_jobs)).values()


@dataclass(frozen=True)
class Table:
    """All pairs of ``left`` and ``right`` under a metric; only i ≤ j is computed if ``symmetric``."""

    left: SeriesSet
    right: SeriesSet
    symmetric: bool
    metric: Metric
    n_threads: int = 1
    backend: str = "auto"

    @classmethod
    def of(
        cls, left: SeriesSet, right: SeriesSet | None, metric: Metric, n_threads: int = 1, backend: str = "auto"
    ) -> "Table":
        """Return the table of two collections, or of ``left`` with itself; raises if a backend cannot compute it."""
        if not choose(backend, torch.zeros(1, device=left.device)).all_pairs:
            raise BackendError(f"pairwise does not run on backend={backend!r}, which is for single tiny pairs.")
        first, second = matched(left, left if right is None else right)
        same_prices = not isinstance(metric.params.get("warp_penalty"), tuple)
        one_triangle = right is None and same_prices and prior.symmetric(metric.params.get("relax"))
        return cls(first, second, one_triangle, metric, n_threads, backend)

    @property
    def total(self) -> int:
        """Pairs to compute."""
        n, m = len(self.left), len(self.right)
        return n * (n + 1) // 2 if self.symmetric else n * m

    @property
    def pair_cells(self) -> int:
        """Cells of the grid of a pair; steps, if the metric has no grid."""
        rows, columns = self.left.values.shape[1], self.right.values.shape[1]
        return rows * columns if self.metric.elastic else rows

    def values(self, advance: Callable[[int], None] = lambda pairs: None) -> np.ndarray:
        """(len(left), len(right)) distances."""
        base = self.metric.without_bias
        if base is None:
            self._refuse_if_too_large(1)
            return self.fill(1, self.metric.values, advance)[0]
        self._refuse_if_too_large(3)  # the sums of self-distances are spread out and subtracted in new tables
        plain = replace(self, metric=base)
        table = plain.fill(1, base.values, advance)[0]
        of_left = plain.self_distances(self.left)
        of_right = of_left if self.symmetric else plain.self_distances(self.right)
        table = table - 0.5 * (of_left[:, None] + of_right[None, :])
        if self.symmetric:
            np.fill_diagonal(table, 0)
        return table

    def parts(self, advance: Callable[[int], None] = lambda pairs: None) -> list[np.ndarray]:
        """d² and Ω, (len(left), len(right)) each."""
        self._refuse_if_too_large(2)
        return self.fill(2, partial(_parts, params=self.metric.params), advance)

    def fill(self, parts: int, value: Values, advance: Callable[[int], None]) -> list[np.ndarray]:
        """``parts`` tables (len(left), len(right)) from ``value(block)`` of shape (parts, pairs)."""
        out = np.empty((parts, len(self.left), len(self.right)), self.left.values.dtype)
        if joblib_tasks.chosen():
            self._fill_elsewhere(out, value, advance)
            return list(out)
        for block in self.blocks():
            result = value(block)
            out[:, block.i, block.j] = result
            if self.symmetric:
                out[:, block.j, block.i] = result
            advance(len(block))
        return list(out)

    def blocks(self) -> Iterator[PairBlock]:
        """Series of like length side by side, so that no short pair waits for a long one in its pack."""
        rows = np.argsort(self.left.lengths, kind="stable")
        columns = np.argsort(self.right.lengths, kind="stable")
        size = max(1, BLOCK_CELLS // self.pair_cells)
        at_once = max(1, size // len(columns))
        for start in range(0, len(rows), at_once):
            some = rows[start : start + at_once]
            i, j = np.repeat(some, len(columns)), np.tile(columns, len(some))
            if self.symmetric:
                keep = i <= j
                i, j = i[keep], j[keep]
            for part in range(0, len(i), size):
                yield self._block(self.left, self.right, i[part : part + size], j[part : part + size])

    def _block(self, left: SeriesSet, right: SeriesSet, i: np.ndarray, j: np.ndarray) -> PairBlock:
        return PairBlock(left, right, i, j, self.backend, self.n_threads)

    def self_distances(self, series: SeriesSet) -> np.ndarray:
        """(n,): the distance of each series to itself."""
        every = np.arange(len(series))
        return self.metric.values(replace(self._block(series, series, every, every), of_selves=True))[0]

    def _fill_elsewhere(self, out: np.ndarray, value: Values, advance: Callable[[int], None]) -> None:
        """Let the workers of joblib's backend fill tiles of the table; each is sent only the series it needs."""
        tiles = self.tiles()
        tasks = [(self._tile(rows, columns), len(out), value) for rows, columns in tiles]
        for number, result in joblib_tasks.spread(_filled, tasks):
            rows, columns = tiles[number]
            out[:, rows[:, None], columns] = result
            if self.symmetric:
                out[:, columns[:, None], rows] = np.swapaxes(result, 1, 2)
            advance(tasks[number][0].total)

    def tiles(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and columns of each tile; of a symmetric table only i ≤ j, as in `blocks`, so that the bits agree."""
        rows, columns = np.arange(len(self.left)), np.arange(len(self.right))
        least, most = (max(1, int((size / self.pair_cells) ** 0.5)) for size in (BLOCK_CELLS, TILE_CELLS))
        fair = int((self.total / len(joblib_tasks.shares(self.total))) ** 0.5)
        edge = min(most, max(least, fair))
        return [
            (rows[r : r + edge], columns[c : c + edge])
            for r in range(0, len(rows), edge)
            for c in range(r if self.symmetric else 0, len(columns), edge)
        ]

    def _tile(self, rows: np.ndarray, columns: np.ndarray) -> "Table":
        own = self.symmetric and rows[0] == columns[0]
        return replace(self, left=self.left[rows], right=self.right[columns], symmetric=own, n_threads=1)

    def workspace_bytes(self) -> int:
        """About how many bytes a block takes beside the tables that it fills."""
        if not self.metric.elastic:
            return self.right.values.nbytes
        pairs = max(BLOCK_CELLS // self.pair_cells, len(self.right))
        return PAIR_BYTES * min(pairs, len(self.left) * len(self.right))

    def _refuse_if_too_large(self, tables: int) -> None:
        needed = len(self.left) * len(self.right) * self.left.values.itemsize * tables + self.workspace_bytes()
        refuse_if_too_large(
            needed,
            f"{len(self.left):,} × {len(self.right):,} distances ({self.metric.name})",
            "Compare in parts, for example pairwise(X[:1000], Y), or pass float32 series.",
        )


def _filled(table: Table, parts: int, value: Values) -> np.ndarray:
    return np.stack(table.fill(parts, value, lambda pairs: None))


def _parts(block: PairBlock, params: Mapping[str, Any]) -> np.ndarray:
    return np.stack(udtw_parts(block, **params)[:2])
