"""Exact nearest neighbours that compute a distance only where a lower bound does not exclude it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from udtw._engine.metrics import BLOCK_CELLS, Metric
from udtw._engine.pair_block import PairBlock, matched
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet
from udtw._io import joblib_tasks
from udtw._io.memory import refuse_if_too_large

FIRST_ROUND = 4
"""Candidates a query in the first round beyond the k it needs; every round doubles them."""
SEARCH_TABLES = 7
"""(queries, candidates) tables of eight bytes: bounds, their order, exact values, and copies of them."""


@dataclass(frozen=True)
class Neighbours:
    """``distances`` and ``indices`` (n, k), nearest first, ties by index; ``saved``: share not computed."""

    distances: np.ndarray
    indices: np.ndarray
    saved: float

    def first(self, k: int) -> "Neighbours":
        """Only the k nearest."""
        return Neighbours(self.distances[:, :k], self.indices[:, :k], self.saved)


def nearest(x: SeriesSet, train: SeriesSet, k: int, metric: Metric, n_jobs: int | None = None) -> Neighbours:
    """The k nearest of ``train`` to each of ``x``; the same as from the full table.

    With ``n_jobs`` threads, or by the workers of the joblib backend that is active (see `udtw.pairwise`).
    """
    if metric.lower_bound is None:
        return _best(distances(x, train, metric, n_jobs), k, 0.0)
    if joblib_tasks.chosen():
        return _nearest_elsewhere(x, train, k, metric)
    if not metric.uncertain:
        x, train = x.with_variances(None), train.with_variances(None)
    x, train = matched(x, train)
    refuse_if_too_large(
        SEARCH_TABLES * 8 * len(x) * len(train),
        f"Searching {len(train):,} series for the neighbours of {len(x):,}",
        "Search for fewer series at a time, for example search(X[:1000]).",
    )
    bounds = metric.bounds(x, train)
    if bounds is None:
        return _best(distances(x, train, metric, n_jobs), k, 0.0)
    n_threads = joblib_tasks.threads_of(n_jobs)

    def of_pairs(value: Callable[[PairBlock], np.ndarray]) -> PairValues:
        return lambda i, j: value(PairBlock(x, train, i, j, n_threads=n_threads))

    cells = x.values.shape[1] * train.values.shape[1]
    exact = of_pairs(lambda block: metric.values(block)[0])
    tighter = [of_pairs(bound) for bound in bounds.tighter]
    table, computed = _search(bounds.quick, k, tighter, exact, max(1, BLOCK_CELLS // cells))
    return _best(table, k, 1 - computed / table.size)


def _nearest_elsewhere(x: SeriesSet, train: SeriesSet, k: int, metric: Metric) -> Neighbours:
    shares = joblib_tasks.shares(len(x))
    tasks = [(x[np.asarray(share)], train, k, metric) for share in shares]
    found = dict(joblib_tasks.spread(nearest, tasks))
    parts = [found[number] for number in range(len(shares))]
    return Neighbours(
        np.concatenate([part.distances for part in parts]),
        np.concatenate([part.indices for part in parts]),
        float(np.average([part.saved for part in parts], weights=[len(share) for share in shares])),
    )


PairValues = Callable[[np.ndarray, np.ndarray], np.ndarray]


def _search(
    quick: np.ndarray, k: int, bounds: list[PairValues], exact: PairValues, chunk: int
) -> tuple[np.ndarray, int]:
    """(queries, candidates) exact values where needed and +inf elsewhere, and how many were computed.

    Each query goes through its candidates in the order of the ``quick`` bound, in rounds that double; a round of all
    queries is evaluated together. A candidate whose bound exceeds the k-th best value so far is left out, and by the
    order so are all after it.
    """
    queries, candidates = quick.shape
    order = np.argsort(quick, axis=1, kind="stable")
    ranked = np.take_along_axis(quick, order, axis=1)
    table = np.full((queries, candidates), np.inf)
    worst = np.full(queries, np.inf)
    active, start, size, computed = np.arange(queries), 0, k + FIRST_ROUND, 0
    while active.size and start < candidates:
        stop = min(candidates, start + size)
        rows, columns = np.nonzero(ranked[active, start:stop] <= worst[active, None])
        i, j = active[rows], order[active[rows], start + columns]
        for bound in bounds:
            keep = _in_chunks(bound, i, j, chunk) <= worst[i]
            i, j = i[keep], j[keep]
        table[i, j] = _in_chunks(exact, i, j, chunk)
        computed += len(i)
        worst[active] = np.partition(table[active], k - 1, axis=1)[:, k - 1]
        start, size = stop, 2 * size
        if start < candidates:
            active = active[ranked[active, start] <= worst[active]]
    return table, computed


def _in_chunks(values: PairValues, i: np.ndarray, j: np.ndarray, chunk: int) -> np.ndarray:
    parts = [values(i[s : s + chunk], j[s : s + chunk]) for s in range(0, len(i), chunk)]
    return np.concatenate(parts) if parts else np.empty(0)


def _best(table: np.ndarray, k: int, saved: float) -> Neighbours:
    indices = np.argsort(table, axis=1, kind="stable")[:, :k]
    return Neighbours(np.take_along_axis(table, indices, axis=1), indices, saved)
