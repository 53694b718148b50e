"""The tools on top of the engine against the same tools of others: means, nearest neighbors, a forecaster's step."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from benchmarks import peers, plain_torch
from benchmarks.cases import Found, Setting, raw
from benchmarks.data import walks
from benchmarks.machine import CORES
from benchmarks.rows import Faster
from benchmarks.timing import Call, interleave
from benchmarks.verify import Mismatch
from udtw.nn import SigmaNet, UDTWLoss
from udtw.timeseries import KNeighborsTimeSeriesClassifier, barycenter

ITERATIONS = 50


def mean_of_ten(setting: Setting) -> Found:
    """Time the soft-DTW mean of 10 series of 128, 50 iterations of L-BFGS from the same start, γ = 1."""
    from tslearn.barycenters import softdtw_barycenter

    series = walks(10, 128, setting.seed)[:, :, 0].astype(np.float64)
    start = series.mean(0)

    def ours() -> np.ndarray:
        return barycenter(series, "soft_dtw", gamma=1.0, init=start, max_iter=ITERATIONS, tol=0.0).mean

    def theirs() -> np.ndarray:
        options = {"gamma": 1.0, "max_iter": ITERATIONS, "tol": 0.0}
        return softdtw_barycenter(series[:, :, None], init=start[:, None], **options)[:, 0]

    difference = float(np.abs(ours() - theirs()).max())
    spread = float(series.std())
    if not difference < 0.1 * spread:
        raise Mismatch(f"soft-DTW means differ by {difference:.2e}, where the series spread by {spread:.2e}.")
    t = interleave({peers.OURS: ours, peers.TSLEARN: theirs}, setting.effort)
    work = "soft-DTW mean of 10 series of 128, 50 iterations"
    return Found([Faster(work, t[peers.OURS], t[peers.TSLEARN], "tslearn", 3)], raw(t) | {"difference": difference})


def nearest_of_500(setting: Setting) -> Found:
    """1-NN DTW: 250 series of 128 classified by 250 others (a set of 500 halved)."""
    from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier as AeonKNN

    series = walks(500, 128, setting.seed)[:, :, 0].astype(np.float64)
    labels = np.arange(500) % 5
    train, test = slice(None, 250), slice(250, None)
    mine = KNeighborsTimeSeriesClassifier(1, metric="dtw", n_jobs=CORES).fit(series[train], labels[train])
    aeon = AeonKNN(distance="dtw", n_neighbors=1, n_jobs=CORES).fit(series[train][:, None, :], labels[train])

    def ours() -> np.ndarray:
        return mine.predict(series[test])

    def theirs() -> np.ndarray:
        return aeon.predict(series[test][:, None, :])

    differing = int((ours() != theirs()).sum())
    if differing:
        raise Mismatch(f"1-NN DTW: {differing} of 250 predictions differ from aeon's.")
    t = interleave({peers.OURS: ours, "aeon": theirs}, setting.effort)
    work = "1-NN DTW, 250 series of 128 against 250"
    saved = mine.search(series[test]).saved
    return Found([Faster(work, t[peers.OURS], t["aeon"], "aeon", 2)], raw(t) | {"distances not computed": saved})


def forecast_step(setting: Setting) -> Found:
    """Time a training step of a forecaster (84 steps in, 56 out, batch 50): network, SigmaNet, uDTW loss and Adam."""
    generator = torch.Generator().manual_seed(setting.seed)
    data = torch.randn(50, 140, generator=generator).cumsum(1)
    observed, future = data[:, :84], data[:, 84:, None]

    def step(plain: Callable[..., plain_torch.Sums] | None = None) -> Call:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            model = nn.Sequential(nn.Linear(84, 256), nn.ReLU(), nn.Linear(256, 56))
            loss = UDTWLoss(SigmaNet(1, context=9), gamma=1.0, beta=0.1, weighting="precision")
        optimizer = torch.optim.Adam([*model.parameters(), *loss.parameters()], lr=1e-3)
        assert loss.sigma is not None, "given above"
        sigma = loss.sigma

        def run() -> torch.Tensor:
            guess = model(observed)[..., None]
            if plain is None:
                value = loss(guess, future)
            else:
                found = plain(guess, future, sigma(guess), sigma(future))
                value = (found.distance + 0.1 * found.regularizer).mean()
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            return value.detach()

        return run

    ours = step()
    theirs = {name: step(plain) for name, plain in peers.PLAIN_VARIANTS.items()}
    for number in range(3):
        a = float(ours())
        for name, call in theirs.items():
            b = float(call())
            if not abs(a - b) <= 1e-3 * abs(b):
                raise Mismatch(f"Forecaster: the losses of step {number} are {a} and, by {name}, {b}.")
    t = interleave({peers.OURS: ours} | theirs, setting.effort)
    work = "uDTW training step of a forecaster, 50 × 56 × 56"
    bounds = {peers.TABLES: 20, peers.SKEWED: None}
    return Found([Faster(work, t[peers.OURS], t[name], name, bound) for name, bound in bounds.items()], raw(t))


CASES = {"mean": mean_of_ten, "nearest": nearest_of_500, "forecast": forecast_step}
