"""DTW barycenter averaging: match every series to the mean by its least path, then average what was matched."""

from typing import Any

import numpy as np
import torch

from udtw import likelihood
from udtw.align import dtw
from udtw.inputs import SeriesSet


def dba(
    series: SeriesSet, share: np.ndarray, start: np.ndarray, *, band: Any, max_iter: int, tol: float
) -> tuple[np.ndarray, list[float], bool]:
    """(mean (L, d), trace of ``Σ_i w_i DTW(x_i, μ)``, whether it stopped by itself).

    Each iteration replaces μ_n by the weighted average of all x_i,m matched with it, which is the minimum over μ for
    the paths held fixed; so the objective never rises.
    """
    mean = start.copy()
    trace: list[float] = []
    for _ in range(max_iter + 1):
        value, total, count = _matched(series, share, mean, band)
        if trace and value >= trace[-1] * (1 - tol):
            return mean, trace, True
        trace.append(value)
        best = mean
        mean = np.where(count[:, None] > 0, total / np.maximum(count[:, None], np.finfo(float).tiny), mean)
    return best, trace, False


def _matched(series: SeriesSet, share: np.ndarray, mean: np.ndarray, band: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """The objective, and for each step of the mean the weighted sum (L, d) and weight (L,) of what is matched to it."""
    x, lengths = torch.from_numpy(series.values), torch.from_numpy(series.lengths)
    centre = torch.from_numpy(mean).expand(len(series), -1, -1)
    cost = likelihood.squared_distances(x, centre).requires_grad_()
    value = torch.from_numpy(share) @ dtw(None, None, cost=cost, lengths_x=lengths, band=band)
    # The gradient of DTW in its cost is the indicator of the least path.
    [matched] = torch.autograd.grad(value, [cost])
    total = torch.einsum("nml,nmd->ld", matched, x)
    return float(value.detach()), total.numpy(), matched.sum((0, 1)).numpy()
