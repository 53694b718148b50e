"""Every call that is timed, ours and theirs, each in the way its library is fastest.

A step is a closure without arguments, ready for `timing.interleave`. All steps of a comparison share the same data.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import udtw
from benchmarks import plain_torch, plain_torch_tables
from benchmarks.data import Batch, walks
from benchmarks.machine import CORES
from benchmarks.timing import Call, fastest

# aeon indexes with an unsigned loop variable; Numba mentions it once while compiling.
warnings.filterwarnings("ignore", message="unsafe cast from uint64 to int64")

OURS = "udtw"
TSLEARN = "tslearn"
PLAIN = "plain torch"
PLAIN_VARIANTS: dict[str, Callable[..., plain_torch.Sums]] = {
    "plain torch, tables (as torchwarp)": plain_torch_tables.udtw,
    "plain torch, skewed: the fastest plain variant we found": plain_torch.udtw,
}
TABLES, SKEWED = PLAIN_VARIANTS
WARP_PENALTY = 0.1
TWO_PENALTIES = (0.1, 0.5)
RELAX = (8, 8, 8, 8)


def train_ours(batch: Batch, weighting: str, **options: Any) -> Call:
    """Return uDTW forward and backward, gradients for sequences and variances; ``options`` of `udtw.align`."""

    def step() -> None:
        batch.clear()
        udtw.align(*batch.leaves, gamma=1.0, weighting=weighting, **options).loss.sum().backward()

    return step


def train_tslearn(batch: Batch) -> Call:
    """Return tslearn's soft-DTW loss forward and backward: less work, without variances and expectations."""
    from tslearn.metrics import SoftDTWLossPyTorch

    loss = SoftDTWLossPyTorch(gamma=1.0)

    def step() -> None:
        batch.clear()
        loss(batch.x, batch.y).sum().backward()

    return step


def train_plain(batch: Batch, threads: int | None = None, variant: str = SKEWED) -> Call:
    """Return plain-torch uDTW forward and backward, on ``threads`` torch threads (None: the current number)."""
    udtw_plain = PLAIN_VARIANTS[variant]

    def step() -> None:
        batch.clear()
        before = torch.get_num_threads()
        torch.set_num_threads(threads or before)
        try:
            udtw_plain(*batch.leaves).loss.sum().backward()
        finally:
            torch.set_num_threads(before)

    return step


def train_plain_best(batch: Batch, variant: str = SKEWED) -> tuple[str, Call]:
    """Return plain torch with one or two threads, whichever is faster here: two can be slower on small diagonals."""
    calls = {
        f"{variant}, {n} thread{'s' * (n > 1)}": train_plain(batch, n, variant)
        for n in range(1, torch.get_num_threads() + 1)
    }
    name = fastest(calls)
    return name, calls[name]


def soft_pairs_aeon(series: np.ndarray) -> tuple[str, Call]:
    """Return aeon's soft-DTW matrix of X against X, in its faster dtype, found on a quarter of the series."""
    from aeon.distances import soft_dtw_pairwise_distance

    # aeon computes one triangle if it is given X alone; given twice, it computes all pairs, as ours does.
    def call(values: np.ndarray) -> Call:
        return lambda: soft_dtw_pairwise_distance(values, values, gamma=1.0, n_jobs=CORES)

    channels_first = {f"aeon, {kind}": series[:, None, :].astype(kind) for kind in ("float64", "float32")}
    name = fastest({name: call(values[: len(values) // 4]) for name, values in channels_first.items()})
    return name, call(channels_first[name])


def soft_pairs_ours(series: np.ndarray) -> Call:
    """Return our soft-DTW matrix, all pairs."""
    return lambda: udtw.pairwise(series, series, metric="soft_dtw", gamma=1.0, n_jobs=CORES)


def uncertain_pairs_ours(series: np.ndarray, var_x: np.ndarray, var_y: np.ndarray) -> Call:
    """Return our uDTW distances and regularizers by the paper's weighting, all pairs."""
    return lambda: udtw.pairwise(
        series,
        series,
        metric="udtw",
        gamma=1.0,
        weighting="precision",
        var_x=var_x,
        var_y=var_y,
        return_parts=True,
        n_jobs=CORES,
    )


def free_energy_pairs_ours(series: np.ndarray, var_x: np.ndarray, var_y: np.ndarray) -> Call:
    """Return our free energies of the likelihood, all pairs."""
    return lambda: udtw.pairwise(
        series, series, metric="udtw", gamma=1.0, weighting="likelihood", var_x=var_x, var_y=var_y, n_jobs=CORES
    )


RADIUS = 13
"""Of the band: 10 % of 128 steps, rounded up."""


def dtw_pairs_ours(series: np.ndarray, band: int | None = None) -> Call:
    """Return our call of the symmetric DTW matrix, one triangle computed."""
    return lambda: udtw.pairwise(series, metric="dtw", band=band, n_jobs=CORES)


def dtw_pairs_peers(series: np.ndarray, band: int | None = None) -> dict[str, Call]:
    """Return calls of the symmetric DTW matrix by the peers; all compute one triangle and mirror it.

    A ``band`` is a radius in steps; aeon takes a fraction of the length, and dtaidistance the least forbidden distance.
    """
    from aeon.distances import dtw_pairwise_distance
    from dtaidistance import dtw
    from tslearn.metrics import cdist_dtw

    wide = series.astype(np.float64)  # dtaidistance's C code takes nothing else
    channels_first, narrow = wide[:, None, :], series[:, None, :]
    share, window = (None, None) if band is None else (band / series.shape[1], band + 1)
    calls: dict[str, Call] = {
        "aeon, float64": lambda: dtw_pairwise_distance(channels_first, window=share, n_jobs=CORES),
        "aeon, float32": lambda: dtw_pairwise_distance(narrow, window=share, n_jobs=CORES),
    }
    if band is None:
        calls["tslearn"] = lambda: cdist_dtw(wide, n_jobs=CORES)
    if dtw.try_import_c():
        calls["dtaidistance C, parallel"] = lambda: dtw.distance_matrix_fast(wide, window=window, parallel=True)
        calls["dtaidistance C, serial"] = lambda: dtw.distance_matrix_fast(wide, window=window, parallel=False)
    return calls


def dtw_of_one(length: int, seed: int) -> dict[str, Call]:
    """Return calls of the DTW of one pair of series, float64: ours, aeon's and dtaidistance's."""
    from aeon.distances import dtw_distance
    from dtaidistance import dtw

    x, y = walks(2, length, seed)[:, :, 0].astype(np.float64)
    calls: dict[str, Call] = {OURS: lambda: udtw.dtw(x, y), "aeon": lambda: dtw_distance(x, y)}
    if dtw.try_import_c():
        calls["dtaidistance C"] = lambda: dtw.distance_fast(x, y)
    return calls


def adtw_pairs_ours(series: np.ndarray) -> Call:
    """Return our symmetric ADTW matrix, one triangle computed."""
    return lambda: udtw.pairwise(series, metric="dtw", warp_penalty=WARP_PENALTY, n_jobs=CORES)


def adtw_pairs_aeon(series: np.ndarray) -> dict[str, Call]:
    """Return aeon's symmetric ADTW matrix, one triangle computed, in both dtypes."""
    from aeon.distances import adtw_pairwise_distance

    def call(values: np.ndarray) -> Call:
        return lambda: adtw_pairwise_distance(values, warp_penalty=WARP_PENALTY, n_jobs=CORES)

    return {f"aeon, {kind}": call(series[:, None, :].astype(kind)) for kind in ("float64", "float32")}


def product_baseline(batch: Batch) -> Call:
    """Return ``x yᵀ`` and, with the product as upstream gradient, the gradients in x and y."""
    x, y = batch.x.detach(), batch.y.detach()

    def step() -> None:
        product = x @ y.mT
        _ = product @ y, product.mT @ x

    return step


def tokens_baseline(batch: Batch) -> dict[str, Call]:
    """Build the matrix of squared distances and back-propagate a fixed gradient through it, in three ways."""
    upstream = torch.rand(batch.x.shape[0], batch.x.shape[1], batch.y.shape[1])

    def by_product() -> torch.Tensor:
        return plain_torch.squared_distances(batch.x, batch.y)

    def by_sum() -> torch.Tensor:
        norms = batch.x.square().sum(2)[:, :, None] + batch.y.square().sum(2)[:, None, :]
        return norms - 2 * (batch.x @ batch.y.transpose(1, 2))

    def by_cdist() -> torch.Tensor:
        return torch.cdist(batch.x, batch.y, compute_mode="use_mm_for_euclid_dist").square()

    def step(build) -> Call:
        def run() -> None:
            batch.clear()
            build().backward(upstream)

        return run

    return {"D by baddbmm": step(by_product), "D by matmul": step(by_sum), "D by cdist": step(by_cdist)}
