"""Numbers below every DTW or uDTW distance, much cheaper than it, so that a search leaves most distances out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from udtw.inputs import SeriesSet
from udtw.pair_block import PairBlock

SLACK = 1e-4
"""Share by which bounds are lowered, so that the rounding of float32 distances cannot exclude a true neighbour."""


@dataclass(frozen=True)
class Bounds:
    """``quick`` (n, m) for all pairs; ``tighter``: (pairs,) for blocks of pairs, each at a higher cost."""

    quick: np.ndarray
    tighter: list[Callable[[PairBlock], np.ndarray]] = field(default_factory=list)


def dtw_bounds(
    x: SeriesSet, y: SeriesSet, *, normalize: str | None, warp_penalty: float = 0.0, **_: object
) -> Bounds | None:
    """Lower bounds of DTW, in O(T) per pair; they hold with a warp penalty that is not negative."""
    if warp_penalty < 0:
        return None
    cost = cost_bounds(x, y, normalize)
    return Bounds(_lowered(cost, np.zeros_like(cost)))


def udtw_bounds(x: SeriesSet, y: SeriesSet, *, beta: float, band: object, **params: Any) -> Bounds | None:
    """Lower bounds of ``d² + βΩ + λΩ'``; None if there are none for these parameters."""
    normalize = params["normalize"]
    if normalize == "path" or params["lam"] < 0 or params["weighting"] != "precision" or params["warp_penalty"] != 0:
        return None
    rest = regularizer_bounds(x, y, beta, normalize)

    def hard(block: PairBlock) -> np.ndarray:
        """d² ≥ DTW(C), at a fraction of the cost of d²."""
        cost = block.least_costs(band)
        size = block.lengths.max(0) if normalize == "length" else 1
        return _lowered(cost / size, rest[block.i, block.j])

    return Bounds(_lowered(cost_bounds(x, y, normalize), rest), [hard])


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


def regularizer_bounds(x: SeriesSet, y: SeriesSet, beta: float, normalize: str | None) -> np.ndarray:
    """(n, m): lower bounds of βΩ from the extremes of variance and path length; normalised like the distance."""
    if x.variances is None or y.variances is None:
        return np.zeros((len(x), len(y)))

    def extreme(series: SeriesSet, largest: bool) -> np.ndarray:
        inside = np.arange(series.values.shape[1]) < series.lengths[:, None]
        assert series.variances is not None, "checked above"
        filled = np.where(inside, series.variances, 0 if largest else np.inf)
        return filled.max(1) if largest else filled.min(1)

    largest = beta < 0
    log = np.log(0.5 * (extreme(x, largest)[:, None] + extreme(y, largest)[None, :]))
    shortest = np.maximum(x.lengths[:, None], y.lengths[None, :])
    longest = x.lengths[:, None] + y.lengths[None, :] - 1
    each = beta * log
    return np.where(each < 0, each * longest, each * shortest) / _size(x, y, normalize)
