"""Sums over the rows of π* from which the matches of each step follow, so that π* itself is never kept."""

import numpy as np
from numba import njit

from udtw._kernels.cpu.pack import rows_inside
from udtw._kernels.cpu.rows import INNER, SHARED, copy_row
from udtw._kernels.cpu.simd import lanes

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


@njit(**INNER)
def keep_cells(w, d, coupling, to_left, grids, rows, columns):
    """Copy π, and the probabilities of arriving from the left, to two grids (rows, columns, pack) of `sum_rows`."""
    beyond = rows * columns * d.pack
    for i in range(d.low, d.high):
        cell, t = grids + (i * columns + d.k - i) * d.pack, (i + 1) * d.pack
        if d.pack >= lanes(w):
            copy_row(w, 0, d.pack, coupling + t, cell)
            copy_row(w, 0, d.pack, to_left + t, beyond + cell)
        else:
            for p in range(d.pack):
                w[cell + p] = w[coupling + t + p]
                w[beyond + cell + p] = w[to_left + t + p]


@njit(**SHARED)
def sum_rows(w, grids, length, match, first, pack, rows, columns, tail):
    """Compute what two calls of `collect_matches` for every diagonal sum up, with the same bits, row by row."""
    beyond = rows * columns * pack
    for p in range(pack):
        last = length[1, first + p] - 1
        for i in range(length[0, first + p]):
            start = grids + i * columns * pack + p
            total, moment, best, best_index, entered = 0.0, 0.0, 0.0, 0, 0.0
            for j in range(last, -1, -1):
                t = start + j * pack
                share = np.float64(w[t])
                if share != 0:
                    total += share
                    moment += share * j
                    entered += share * (1 - w[beyond + t])
                    if share >= best * (1 - ROUNDING):
                        best, best_index = max(share, best), j
            sums = match[first + p, i]
            sums[TOTAL], sums[MOMENT], sums[BEST], sums[BEST_INDEX], sums[ENTERED] = (
                total, moment, best, best_index, entered
            )  # fmt: skip
            passed = 0.0
            for j in range(last, -1, -1):
                t = start + j * pack
                share = np.float64(w[t])
                if share != 0:
                    reached = 1 - passed / total
                    if reached < tail + ROUNDING:
                        break
                    sums[LOW] = j
                    if reached >= 1 - tail - ROUNDING:
                        sums[HIGH] = j
                    passed += share
