"""Cheap numbers that no uDTW or DTW distance can be below, so that most of a search need not be computed."""

import numpy as np

from udtw.series import SeriesSet
from udtw.timeseries.metric import Metric

SLACK = 1e-4
"""Share by which bounds are lowered, so that the rounding of float32 distances cannot exclude a true neighbour."""


def bounded(metric: Metric) -> bool:
    """Whether `lower_bounds` knows a bound for this metric."""
    return metric.name in ("dtw", "udtw") and metric.normalize in (None, "length") and metric.lam >= 0


def lower_bounds(x: SeriesSet, y: SeriesSet, metric: Metric) -> np.ndarray:
    """(n, m) with ``lower_bounds ≤ DTW(C) + (least βΩ) ≤ d² + βΩ (+ λΩ')``, in O(T) a pair.

    Every path pays for its two corner cells, and in every row between them for a match at best as near as the range of
    the other series: ``D_mn ≥ dist(x_m, [min y, max y])²``, ``Σ_mn ≤ ½[σ²(x_m) + max σ²(y)]``. The same from the
    columns; the larger counts.
    """
    cost = np.maximum(_from_rows(x, y), _from_rows(y, x).T)
    return lowered(cost / _size(x, y, metric), least_regularizer(x, y, metric))


def lowered(cost: np.ndarray, regularizer: np.ndarray) -> np.ndarray:
    """Their sum, less what rounding may have added."""
    return cost + regularizer - SLACK * (np.abs(cost) + np.abs(regularizer))


def _size(x: SeriesSet, y: SeriesSet, metric: Metric) -> np.ndarray | float:
    return np.maximum(x.lengths[:, None], y.lengths[None, :]) if metric.normalize == "length" else 1.0


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


def least_regularizer(x: SeriesSet, y: SeriesSet, metric: Metric) -> np.ndarray:
    """(n, m): what βΩ cannot be below, from the extremes of variance and path length; normalised as the distance is."""
    if metric.name != "udtw" or x.variances is None or y.variances is None:
        return np.zeros((len(x), len(y)))

    def extreme(series: SeriesSet, largest: bool) -> np.ndarray:
        inside = np.arange(series.values.shape[1]) < series.lengths[:, None]
        assert series.variances is not None, "checked above"
        filled = np.where(inside, series.variances, 0 if largest else np.inf)
        return filled.max(1) if largest else filled.min(1)

    largest = metric.beta < 0
    log = np.log(0.5 * (extreme(x, largest)[:, None] + extreme(y, largest)[None, :]))
    shortest = np.maximum(x.lengths[:, None], y.lengths[None, :])
    longest = x.lengths[:, None] + y.lengths[None, :] - 1
    each = metric.beta * log
    return np.where(each < 0, each * longest, each * shortest) / _size(x, y, metric)
