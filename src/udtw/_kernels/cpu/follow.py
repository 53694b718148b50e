"""One more step of a stream: the row of log Z that it adds to the sweep against the reference.

Z[m, j] is the weight of all paths that end in cell (m, j). It needs the row before and its own left neighbor:
``log Z[m, j] = −E[m, j]/γ + log(Z[m−1, j−1] + e^{−ω_y/γ} Z[m−1, j] + e^{−ω_x/γ} Z[m, j−1])``.
Staying at a step of the reference has the price ω_y, passing another one ω_x.
"""

import numpy as np
from numba import njit

from udtw._kernels.cpu.work_queue import OUTER

FAR = 1e9
"""Energies are not larger, so that their differences exist."""


@njit(**OUTER)
def measure(x, reference, weight, energy):
    """Write ``Σ_f weight_f (x_f − reference_jf)²`` for every step j of the reference; return the least."""
    nearest = np.inf
    for j in range(len(reference)):
        total = 0.0
        for f in range(len(x)):
            difference = x[f] - reference[j, f]
            total += weight[f] * difference * difference
        energy[j] = min(total, FAR)
        nearest = min(nearest, energy[j])
    return nearest


@njit(**OUTER)
def predict(state, energy, nearest, wait, skip):
    """Return ``log Σ_j p_j e^{nearest − E_j}`` of the position predicted from the row before, and of any position.

    ``wait`` and ``skip`` are ω_y/γ and ω_x/γ.
    """
    stay, price, predicted, corner = np.exp(-wait), np.exp(-skip), 0.0, 0.0
    total, following, anywhere = 0.0, 0.0, 0.0
    for j in range(len(state)):
        before = np.exp(state[j])
        predicted = corner + stay * before + price * predicted
        corner = before
        likelihood = np.exp(nearest - energy[j])
        total += predicted
        following += predicted * likelihood
        anywhere += likelihood
    return np.log(following / total), np.log(anywhere / len(state))


@njit(**OUTER)
def advance(corners, above, energy, wait, skip, row):
    """Write the next row of log Z less its greatest value, from what precedes its cells on the diagonal and above.

    ``energy`` holds E/γ, and ``wait`` and ``skip`` are ω_y/γ and ω_x/γ.
    """
    left, greatest = -np.inf, -np.inf
    for j in range(len(row)):
        corner, up, beside = corners[j], above[j] - wait, left - skip
        most = max(corner, up, beside)
        left = -np.inf
        if most > -np.inf:
            left = most + np.log(np.exp(corner - most) + np.exp(up - most) + np.exp(beside - most)) - energy[j]
        row[j] = left
        greatest = max(greatest, left)
    for j in range(len(row)):
        row[j] -= greatest


@njit(**OUTER)
def look_back(energies, prices, later):
    """Write log of the weight of what follows each cell of the first of ``energies`` (L, N) until the end of the last.

    ``prices`` (L, 2) are ω_y/γ and ω_x/γ. A path may end in any cell of the last row. ``later`` (N,)
    is also the scratch row.
    """
    last, steps = len(energies) - 1, energies.shape[1]
    for m in range(last, -1, -1):
        right, opposite = -np.inf, -np.inf
        for j in range(steps - 1, -1, -1):
            stop = 0.0 if m == last else later[j] - energies[m + 1, j] - prices[m + 1, 0]
            most = max(stop, right, opposite)
            value = most + np.log(np.exp(stop - most) + np.exp(right - most) + np.exp(opposite - most))
            if m < last:
                opposite = later[j] - energies[m + 1, j]
            later[j] = value
            right = value - energies[m, j] - prices[m, 1]
