"""Correctness before speed: our values and gradients against every library that is timed, on the timed data.

A mismatch raises `Mismatch` and nothing is timed. Conventions differ and are translated here: tslearn's and
dtaidistance's DTW are roots of the summed squared cost, aeon's is the sum; aeon's soft-DTW is the absolute value, and
plain DTW for equal series, so its diagonal is left out.
"""

import itertools
from typing import Any

import numpy as np
import torch

import udtw
from benchmarks import peers, plain_torch
from benchmarks.data import Batch, variances, walks

EXACT = 1e-9  # float64 against float64
SINGLE = 1e-4  # one side in float32 (tslearn keeps its tables in float32 even for float64 input)


class Mismatch(RuntimeError):
    """Our result and a peer's differ."""


def _same(what: str, ours: object, theirs: object, tolerance: float) -> str:
    a, b = (np.asarray(value.detach() if isinstance(value, torch.Tensor) else value, float) for value in (ours, theirs))
    if a.shape != b.shape:
        raise Mismatch(f"{what}: our shape {a.shape} is not the peer's {b.shape}.")
    error = float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-300))
    if not error <= tolerance:
        raise Mismatch(f"{what}: largest difference {error:.2e} of the largest value, allowed {tolerance:.0e}.")
    return f"{what}: {error:.1e}"


def _gradients(loss: torch.Tensor, *leaves: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(loss.sum(), leaves)


def against_plain_torch(seed: int) -> list[str]:
    """uDTW distance, regularizer, soft-min and all gradients, float64, and float32 within its floor."""
    report = []
    for (variant, plain_udtw), dim in itertools.product(peers.PLAIN_VARIANTS.items(), (1, 3, 64)):
        batch = Batch.make(4, 40, seed, dim, torch.float64)
        ours, plain = udtw.align(*batch.leaves, weighting="precision"), plain_udtw(*batch.leaves)
        soft_min = udtw.align(*batch.leaves, weighting="precision", distance="soft_min").distance
        expected = _gradients(plain.loss, *batch.leaves)
        name = f"{variant}, d={dim}"
        report += [
            _same(f"{name}, distance", ours.distance, plain.distance, EXACT),
            _same(f"{name}, regularizer", ours.regularizer, plain.regularizer, EXACT),
            _same(f"{name}, soft-min", soft_min, plain.soft_min, EXACT),
        ]
        narrow = Batch.make(4, 40, seed, dim, torch.float32)
        found = _gradients(ours.loss, *batch.leaves)
        found32 = _gradients(udtw.align(*narrow.leaves, weighting="precision").loss, *narrow.leaves)
        for leaf, one, single, other in zip(("x", "y", "var_x", "var_y"), found, found32, expected, strict=True):
            report.append(_same(f"{name}, gradient of {leaf}", one, other, EXACT))
            report.append(_same(f"{name}, gradient of {leaf}, float32", single, other, SINGLE))
    return report


def likelihood_against_plain_torch(seed: int) -> list[str]:
    """Check the free energy and its gradients with the timed priors, in float64, and in float32 within its floor."""
    report = []
    priors: dict[str, dict[str, Any]] = {
        "without": {},
        "ω": {"warp_penalty": peers.WARP_PENALTY},
        "relaxed ends": {"relax": peers.RELAX},
        "both": {"warp_penalty": peers.WARP_PENALTY, "relax": peers.RELAX},
    }
    for (name, options), dim in itertools.product(priors.items(), (1, 3)):
        batches = [Batch.make(4, 40, seed, dim, dtype) for dtype in (torch.float64, torch.float32)]
        wide, narrow = (udtw.align(*b.leaves, weighting="likelihood", **options).loss for b in batches)
        plain = plain_torch.free_energy(*batches[0].leaves, **options)
        what = f"plain torch, likelihood, prior {name}, d={dim}"
        report += [_same(what, wide, plain, EXACT), _same(f"{what}, float32", narrow, plain, SINGLE)]
        expected = _gradients(plain, *batches[0].leaves)
        for kind, loss, batch, floor in (("", wide, batches[0], EXACT), (", float32", narrow, batches[1], SINGLE)):
            found = zip(("x", "y", "var_x", "var_y"), _gradients(loss, *batch.leaves), expected, strict=True)
            report += [_same(f"{what}, gradient of {leaf}{kind}", one, other, floor) for leaf, one, other in found]
    return report


def against_tslearn(seed: int) -> list[str]:
    """Soft-DTW value and gradient of the loss that is timed."""
    from tslearn.metrics import SoftDTWLossPyTorch

    batch = Batch.make(4, 128, seed, 1, torch.float64)
    ours, theirs = udtw.soft_dtw(batch.x, batch.y, gamma=1.0), SoftDTWLossPyTorch(gamma=1.0)(batch.x, batch.y)
    report = [_same("tslearn, soft-DTW", ours, theirs, SINGLE)]
    pairs = zip("xy", _gradients(ours, batch.x, batch.y), _gradients(theirs, batch.x, batch.y), strict=True)
    return report + [_same(f"tslearn, soft-DTW gradient of {leaf}", a, b, SINGLE) for leaf, a, b in pairs]


def all_pairs(seed: int) -> list[str]:
    """Check the timed matrices of soft-DTW, DTW, ADTW, uDTW and free energies, on the first series."""
    series = walks(100, 128, seed)[:20, :, 0]
    name, soft = peers.soft_pairs_aeon(series)
    beside = ~np.eye(len(series), dtype=bool)
    report = [
        _same(f"{name}, soft-DTW matrix", np.abs(peers.soft_pairs_ours(series)())[beside], soft()[beside], SINGLE)
    ]
    for what, band in (("DTW matrix", None), (f"DTW matrix, radius {peers.RADIUS}", peers.RADIUS)):
        ours = peers.dtw_pairs_ours(series, band)()
        for name, call in peers.dtw_pairs_peers(series, band).items():
            theirs = np.asarray(call())
            report.append(_same(f"{name}, {what}", ours, theirs if name.startswith("aeon") else theirs**2, SINGLE))
    for length in (50, 128):
        one = {name: call() for name, call in peers.dtw_of_one(length, seed).items()}
        report += [
            _same(f"{name}, DTW of one pair of {length}", one[peers.OURS], value ** (1 if name == "aeon" else 2), EXACT)
            for name, value in one.items()
            if name != peers.OURS
        ]
    amerced = peers.adtw_pairs_ours(series)()
    report += [_same(f"{n}, ADTW matrix", amerced, call(), SINGLE) for n, call in peers.adtw_pairs_aeon(series).items()]
    var_x, var_y = variances(20, 128, seed + 1), variances(20, 128, seed + 2)
    distance, omega = peers.uncertain_pairs_ours(series, var_x, var_y)()
    tensors = [torch.from_numpy(array.astype(np.float64)) for array in (series[:, :, None], var_x, var_y)]
    left, right = (index.flatten() for index in torch.meshgrid(torch.arange(20), torch.arange(20), indexing="ij"))
    pairs = tensors[0][left], tensors[0][right], tensors[1][left], tensors[2][right]
    plain, free = plain_torch.udtw(*pairs), peers.free_energy_pairs_ours(series, var_x, var_y)()
    return [
        *report,
        _same("plain torch, uDTW matrix, distance", distance.ravel(), plain.distance, SINGLE),
        _same("plain torch, uDTW matrix, regularizer", omega.ravel(), plain.regularizer, SINGLE),
        _same("plain torch, free energy matrix", free.ravel(), plain_torch.free_energy(*pairs), SINGLE),
    ]


def all_checks(seed: int) -> list[str]:
    """Run everything; one line a check with the error found."""
    checks = against_plain_torch, likelihood_against_plain_torch, against_tslearn, all_pairs
    return [line for check in checks for line in check(seed)]
