"""Numbers below every DTW or uDTW distance, much cheaper than it, so that a search leaves most distances out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import lgamma, log
from typing import Any

import numpy as np

from udtw._engine.pair_block import PairBlock
from udtw._engine.series_set import SeriesSet

SLACK = 1e-4
"""Share by which bounds are lowered, so that the rounding of float32 distances cannot exclude a true neighbor."""


@dataclass(frozen=True)
class Bounds:
    """``quick`` (n, m) for all pairs; ``tighter``: (pairs,) for blocks of pairs, each at a higher cost."""

    quick: np.ndarray
    tighter: list[Callable[[PairBlock], np.ndarray]] = field(default_factory=list)


def dtw_bounds(
    x: SeriesSet, y: SeriesSet, *, normalize: str | None, warp_penalty: float, relax: object, **_: object
) -> Bounds | None:
    """Lower bounds of DTW, in O(T) per pair; they need every step to be matched and ω ≥ 0."""
    if _least_price(warp_penalty) < 0 or relax is not None:
        return None
    cost = cost_bounds(x, y, normalize)
    return Bounds(_lowered(cost, np.zeros_like(cost)))


def udtw_bounds(
    x: SeriesSet, y: SeriesSet, *, gamma: float, beta: float, weighting: str, normalize: str | None, **params: Any
) -> Bounds | None:
    """Lower bounds of the free energy, or of ``d² + βΩ + λΩ'``; None if there are none for these parameters.

    A free energy is at least the least energy less ``γ log(number of paths)``.
    """
    warp_penalty, relax, lam = params["warp_penalty"], params["relax"], params.pop("lam")
    order, *_ = (params.pop(name) for name in ("order", "shape", "reach"))
    if order != "path" or params["gap_penalty"] is not None:
        return None  # a step need not pay for a match, or pays for one anywhere
    if params.pop("debias") or normalize == "path" or lam < 0 or relax is not None:
        return None
    warp_penalty = _least_price(warp_penalty)
    if warp_penalty < 0:
        return None
    if x.variances is not None and x.variances.ndim == 3:
        return None  # the bounds below take one variance per step
    likely = weighting == "likelihood"
    if not likely and params["warp_penalty"] != 0:
        return None  # d² is an expectation of C alone, under paths that the penalty has moved
    level = _log_level(x, y) if likely else np.zeros((len(x), len(y)))
    rest = regularizer_bounds(x, y, beta, normalize, level)
    entropy = np.zeros_like(level)
    if likely:
        steps = x.lengths[:, None] + y.lengths[None, :]
        entropy = -gamma * _log_paths(x, y) / _size(x, y, normalize)
        rest = rest + 0.5 * beta * level * steps / _size(x, y, normalize) + entropy

    def hard(block: PairBlock) -> np.ndarray:
        """Return the least energy of a path, at a fraction of the cost of the value."""
        least = block.least_costs(beta=beta if likely else None, **params)
        size = block.lengths.max(0) if normalize == "length" else 1
        return _lowered(least / size, (entropy if likely else rest)[block.i, block.j])

    return Bounds(_lowered(cost_bounds(x, y, normalize), rest), [hard])


def _least_price(warp_penalty: float | tuple[float, float]) -> float:
    return min(warp_penalty) if isinstance(warp_penalty, tuple) else warp_penalty


@cache
def log_delannoy(rows: int, columns: int) -> float:
    """Logarithm of the number of paths through a grid: ``Σ_k C(N−1, k) C(M−1, k) 2^k``.

    >>> from udtw._engine.lower_bounds import log_delannoy
    >>> round(np.exp(log_delannoy(3, 3)))
    13
    """
    n, m = rows - 1, columns - 1
    terms = [
        lgamma(n + 1) - 2 * lgamma(k + 1) + lgamma(m + 1) - lgamma(n - k + 1) - lgamma(m - k + 1) + k * log(2)
        for k in range(min(n, m) + 1)
    ]
    return float(np.logaddexp.reduce(terms))


def _log_paths(x: SeriesSet, y: SeriesSet) -> np.ndarray:
    """(n, m): `log_delannoy` of the lengths of each pair."""
    table = np.empty((len(x), len(y)))
    for rows in np.unique(x.lengths):
        for columns in np.unique(y.lengths):
            table[np.ix_(x.lengths == rows, y.lengths == columns)] = log_delannoy(int(rows), int(columns))
    return table


def _log_level(x: SeriesSet, y: SeriesSet) -> np.ndarray:
    """(n, m): ``log r`` of each pair, see `udtw._engine.likelihood.log_level`."""
    if x.variances is None or y.variances is None:
        return np.zeros((len(x), len(y)))
    of_x, of_y = (np.array([np.log(row).mean() for row in s.variance_rows() or []]) for s in (x, y))
    return 0.5 * (of_x[:, None] + of_y[None, :])


def cost_bounds(x: SeriesSet, y: SeriesSet, normalize: str | None) -> np.ndarray:
    """(n, m) with ``cost_bounds ≤ DTW(C) ≤ d²``.

    Every path pays for its two corner cells, and in every row between them for a match at best as near as the range of
    the other series: ``D_mn ≥ dist(x_m, [min y, max y])²``, ``Σ_mn ≤ ½[σ²(x_m) + max σ²(y)]``. The same from the
    columns; the larger counts.
    """
    return np.maximum(_from_rows(x, y), _from_rows(y, x).T) / _size(x, y, normalize)


def _lowered(cost: np.ndarray, regularizer: np.ndarray) -> np.ndarray:
    """Their sum, less what rounding may have added."""
    return cost + regularizer - SLACK * (np.abs(cost) + np.abs(regularizer))


def _size(x: SeriesSet, y: SeriesSet, normalize: str | None) -> np.ndarray | float:
    return np.maximum(x.lengths[:, None], y.lengths[None, :]) if normalize == "length" else 1.0


def _from_rows(x: SeriesSet, y: SeriesSet) -> np.ndarray:
    inside = np.arange(y.values.shape[1]) < y.lengths[:, None]
    low = np.where(inside[..., None], y.values, np.inf).min(1).astype(float)
    high = np.where(inside[..., None], y.values, -np.inf).max(1).astype(float)
    first, last = y.values[:, 0], y.values[np.arange(len(y)), y.lengths - 1]
    noise = None if y.variances is None else np.where(inside, y.variances, 0).max(1)
    out = np.empty((len(x), len(y)))
    for i, length in enumerate(x.lengths):
        steps = x.values[i, :length].astype(float)
        inner = steps[1:-1, None, :]
        gap = np.maximum(0, np.maximum(inner - high, low - inner))
        row = np.square(gap).sum(2)  # (steps, m)
        ends = [np.square(steps[0] - first).sum(1), np.square(steps[-1] - last).sum(1)]
        if x.variances is not None and y.variances is not None and noise is not None:
            own = x.variances[i, :length].astype(float)
            row = row / (0.5 * (own[1:-1, None] + noise))
            ends[0] = ends[0] / (0.5 * (own[0] + y.variances[:, 0]))
            ends[1] = ends[1] / (0.5 * (own[-1] + y.variances[np.arange(len(y)), y.lengths - 1]))
        # A pair of single steps has one cell, which is both corners.
        one_cell = (length == 1) & (y.lengths == 1)
        out[i] = row.sum(0) + ends[0] + np.where(one_cell, 0, ends[1])
    return out


def regularizer_bounds(x: SeriesSet, y: SeriesSet, beta: float, normalize: str | None, level: np.ndarray) -> np.ndarray:
    """(n, m): lower bounds of ``β Σ (log Σ − level)`` along a path, from the extremes of variance and path length."""
    if x.variances is None or y.variances is None:
        return np.zeros((len(x), len(y)))

    def extreme(series: SeriesSet, largest: bool) -> np.ndarray:
        inside = np.arange(series.values.shape[1]) < series.lengths[:, None]
        assert series.variances is not None, "checked above"
        filled = np.where(inside, series.variances, 0 if largest else np.inf)
        return filled.max(1) if largest else filled.min(1)

    largest = beta < 0
    extremes = np.log(0.5 * (extreme(x, largest)[:, None] + extreme(y, largest)[None, :]))
    shortest = np.maximum(x.lengths[:, None], y.lengths[None, :])
    longest = x.lengths[:, None] + y.lengths[None, :] - 1
    each = beta * (extremes - level)
    return np.where(each < 0, each * longest, each * shortest) / _size(x, y, normalize)
