"""Sums over the rows of π* from which the matches of each step follow, so that π* itself is never kept."""

import numpy as np
from numba import njit

from udtw._kernels.cpu.pack import rows_inside
from udtw._kernels.cpu.rows import INNER

TOTAL, MOMENT, BEST, BEST_INDEX, ENTERED, REACHED, LOW, HIGH = range(8)
MATCH_COLUMNS = 8
ROUNDING = 1e-9
"""Probabilities that differ by less are taken for equal."""


@njit(**INNER)
def collect_matches(w, d, coupling, to_left, length, match, tail):
    """Sum over the rows of π, from the last column to the first.

    Without a ``tail``: TOTAL, MOMENT (of the column), the largest entry and its first column, ENTERED (the probability
    that the row is visited at all). With one, and with these totals: the first columns at which the share of the row
    that has been reached, counted from the left, is at least ``tail`` (LOW) and ``1 − tail`` (HIGH).
    """
    for p in range(d.pack):
        start, stop = rows_inside(d, length, p)
        for i in range(start, stop):
            j, t = d.k - i, (i + 1) * d.pack + p
            share = np.float64(w[coupling + t])
            if share == 0:  # as far from the likely paths: nothing below would change
                continue
            sums = match[d.first + p, i]
            if tail == 0:
                sums[TOTAL] += share
                sums[MOMENT] += share * j
                sums[ENTERED] += share * (1 - w[to_left + t])
                if share >= sums[BEST] * (1 - ROUNDING):
                    sums[BEST], sums[BEST_INDEX] = max(share, sums[BEST]), j
            elif sums[TOTAL] > 0:
                reached = 1 - sums[REACHED] / sums[TOTAL]
                if reached >= tail + ROUNDING:
                    sums[LOW] = j
                if reached >= 1 - tail - ROUNDING:
                    sums[HIGH] = j
                sums[REACHED] += share
