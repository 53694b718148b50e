"""The best candidates of a search of which no two overlap."""

import numpy as np

BLOCK = 1024
"""Candidates per block; the least cost of each block is kept, so that a search reads one block and all minima."""


class Candidates:
    """One candidate per end: the interval [starts[j], j] at ``costs[j]``, for ends j = 0, 1, ... (M,).

    ``starts`` must not fall. Those of least paths do not: of two paths, one that begins earlier and ends later shares a
    cell with the other, and from there back both are the same path.
    """

    def __init__(self, costs: np.ndarray, starts: np.ndarray) -> None:
        blocks = -(-len(costs) // BLOCK)
        self.starts = starts
        self.costs = np.full((blocks, BLOCK), np.inf)
        self.costs.reshape(-1)[: len(costs)] = costs
        self.least = self.costs.min(axis=1)

    def best(self) -> tuple[float, int]:
        """The least cost and its end, the earliest of equals; +inf if no candidate is left."""
        block = int(self.least.argmin())
        return float(self.least[block]), block * BLOCK + int(self.costs[block].argmin())

    def exclude(self, begin: int, end: int) -> None:
        """Drop all candidates that overlap [begin, end]: they end from ``begin`` on and begin up to ``end``."""
        stop = int(np.searchsorted(self.starts, end, side="right"))
        self.costs.reshape(-1)[begin:stop] = np.inf
        blocks = slice(begin // BLOCK, -(-stop // BLOCK))
        self.least[blocks] = self.costs[blocks].min(axis=1)


def best_disjoint(candidates: list[Candidates], k: int) -> list[tuple[int, int, int, float]]:
    """Up to ``k`` intervals as (which of the candidates, begin, end, cost), greedily by cost; no two overlap.

    Equal costs go to the earlier end, then to the earlier of the candidates. What overlaps the result is excluded from
    the candidates.
    """
    found: list[tuple[int, int, int, float]] = []
    while len(found) < k:
        best = [own.best() for own in candidates]
        number = min(range(len(best)), key=lambda n: best[n])
        cost, end = best[number]
        if cost == np.inf:
            break
        begin = int(candidates[number].starts[end])
        found.append((number, begin, end, cost))
        for own in candidates:
            own.exclude(begin, end)
    return found
