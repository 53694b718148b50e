"""Search with each window of the stream normalized by its own mean and standard deviation, exact and best first."""

from dataclasses import dataclass

import numpy as np

from udtw._engine.metrics import Metric
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet

LENGTHS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4)
"""Lengths of the windows as shares of the query's."""
LEAST_DEVIATION = 0.01
"""Windows whose deviation is a smaller share of the stream's are flat, and not compared."""
CHUNK_CELLS = 20_000_000
"""Cells of the pairs that are evaluated at once, those of the least bounds first."""


@dataclass(frozen=True)
class Windows:
    """Windows of one length in a stream: their means and standard deviations, (n, d) each."""

    length: int
    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, stream: np.ndarray, length: int) -> "Windows":
        """Compute the moments of all windows of a stream (M, d) by sums over it."""
        centered = stream - stream.mean(0)  # so that the sums lose no digits
        sums = [np.cumsum(np.vstack([np.zeros(stream.shape[1]), one]), 0) for one in (centered, centered**2)]
        mean, square = ((one[length:] - one[:-length]) / length for one in sums)
        std = np.sqrt(np.maximum(square - mean**2, 0))
        return cls(length, mean + stream.mean(0), std)

    def values(self, stream: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return normalized windows, (len(starts), length, d)."""
        steps = stream[starts[:, None] + np.arange(self.length)]
        std = self.std[starts]
        return (steps - self.mean[starts][:, None]) / np.where(std > 0, std, 1.0)[:, None]


def normalized(query: np.ndarray) -> np.ndarray:
    """Return a query (N, d) with mean 0 and standard deviation 1 of each feature."""
    std = query.std(0)
    return (query - query.mean(0)) / np.where(std > 0, std, 1.0)


def best_windows(
    queries: list[np.ndarray], stream: np.ndarray, k: int, metric: Metric
) -> list[tuple[int, int, int, float]]:
    """Return the k best disjoint windows (query, begin, end, distance) under a DTW metric, greedily.

    Queries are `normalized`. The candidates are all windows whose length is a share `LENGTHS` of a query's. Each has a
    lower bound of its distance; exact values are computed in the order of these until the least of all is exact, so
    that the result is that of comparing all of them.
    """
    flat = LEAST_DEVIATION * stream.std(0)
    kinds: list[tuple[int, Windows]] = []
    for number, query in enumerate(queries):
        sizes = sorted({max(2, round(share * len(query))) for share in LENGTHS})
        kinds += [(number, Windows.of(stream, size)) for size in sizes if size <= len(stream)]
    counts = [len(windows.mean) for _, windows in kinds]
    if not counts:
        return []
    begins = np.concatenate([np.arange(count) for count in counts])
    kind = np.repeat(np.arange(len(kinds)), counts)
    lengths = np.array([windows.length for _, windows in kinds])[kind]
    bounds = []
    for number, windows in kinds:
        ends = np.arange(len(windows.mean)) + windows.length - 1
        scale = np.where(windows.std > 0, windows.std, 1.0)
        first, last = ((stream[at] - windows.mean) / scale for at in (ends - windows.length + 1, ends))
        query = queries[number]
        bound = np.square(first - query[0]).sum(1) + np.square(last - query[-1]).sum(1)
        bound += abs(windows.length - len(query)) * float(metric.params.get("warp_penalty", 0.0))
        bounds.append(np.where((windows.std > flat).any(1), 0.999999 * bound, np.inf))
    value = np.concatenate(bounds)
    exact = np.zeros(len(value), bool)
    chunk = max(64, CHUNK_CELLS // max(len(one) ** 2 for one in queries))
    found: list[tuple[int, int, int, float]] = []
    while len(found) < k:
        best = int(value.argmin())
        if value[best] == np.inf:
            break
        if not exact[best]:
            open_ones = np.flatnonzero(~exact & (value < np.inf))
            few = open_ones[np.argpartition(value[open_ones], min(chunk, len(open_ones)) - 1)[:chunk]]
            for which in np.unique(kind[few]):
                number, windows = kinds[which]
                some = few[kind[few] == which]
                pairs = _as_set(windows.values(stream, begins[some]))
                value[some] = distances(_as_set(queries[number][None]), pairs, metric)[0]
            exact[few] = True
            continue
        begin, end = int(begins[best]), int(begins[best] + lengths[best] - 1)
        found.append((kinds[kind[best]][0], begin, end, float(value[best])))
        value[(begins <= end) & (begins + lengths > begin)] = np.inf
    return found


def _as_set(values: np.ndarray) -> SeriesSet:
    return SeriesSet(np.ascontiguousarray(values), np.full(len(values), values.shape[1]), None)
