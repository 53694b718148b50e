"""The methods that are compared: `udtw.match`, and what one would use without it.

A method takes a pair and returns its `Estimate`, or several by the parameter that is chosen afterwards.
"""

import contextlib
import importlib.util
import io
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import udtw
from experiments.alignments.cores import Core
from experiments.alignments.pairs import LEVEL, Estimate, Pair
from udtw.errors import OptionError

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95)
MATCH_LEVELS = (0.5, LEVEL)
"""Levels of `udtw.match`, which rehearses each of them anew: a call per level."""
GAMMAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Temperatures of soft-DTW; its series have variance 1, or length 1 in every frame (chroma)."""
MCMC_STEPS = 20_000

ONLY = ""
"""Key of the estimate of a method without a parameter to choose."""
Method = Callable[[Pair], dict[str, Estimate]]


def without_unmatched(values: NDArray, index: NDArray) -> NDArray:
    """Return floats with NaN at the steps that have no partner."""
    return np.where(np.asarray(index) < 0, np.nan, np.asarray(values, float))


def of_matches(found: udtw.Matches) -> tuple[NDArray, tuple[NDArray, NDArray]]:
    """Return the expected positions and the interval."""
    low, high = (without_unmatched(one, found.index) for one in (found.low, found.high))
    return without_unmatched(found.expected, found.index), (low, high)


def estimate_of(found: udtw.Alignment) -> Estimate:
    """Return the matches of an alignment at all levels."""
    by_level = {level: of_matches(found.matches(level=level)) for level in LEVELS}
    return Estimate(by_level[LEVEL][0], {level: band for level, (_, band) in by_level.items()})


def match(pair: Pair) -> dict[str, Estimate]:
    """Call `udtw.match` with its defaults."""
    by_level = {level: udtw.match(pair.x, pair.y, level=level) for level in MATCH_LEVELS}
    bands = {level: of_matches(found)[1] for level, found in by_level.items()}
    found = by_level[LEVEL]
    return {ONLY: Estimate(of_matches(found)[0], bands, found.trust.verdict, found.trust.coverage)}


def estimated_noise(pair: Pair) -> dict[str, Estimate]:
    """Call `udtw.align` with the noise that each series shows by itself and γ = 4."""
    return {ONLY: estimate_of(udtw.align(pair.x, pair.y, "estimate", "estimate", gamma="auto"))}


def standardized(pair: Pair) -> tuple[NDArray, NDArray]:
    """Return single features with mean 0 and variance 1; several, such as chroma, as they are."""
    if pair.x.ndim > 1:
        return pair.x, pair.y
    return tuple((one - one.mean()) / max(one.std(), 1e-12) for one in (pair.x, pair.y))


def partners_on_path(path: NDArray) -> NDArray:
    """Return the mean partner of every step of x on a path (L, 2) of steps of x and y."""
    return np.bincount(path[:, 0], path[:, 1]) / np.bincount(path[:, 0])


def dtw(pair: Pair) -> dict[str, Estimate]:
    """Take the path of least cost between standardized series; it has no intervals."""
    path = udtw.align(*standardized(pair)).paths.mode()
    return {ONLY: Estimate(partners_on_path(np.asarray(path)), {})}


def soft_dtw(pair: Pair) -> dict[str, Estimate]:
    """Take the posterior of soft-DTW between standardized series at every one of `GAMMAS`."""
    x, y = standardized(pair)
    return {f"{gamma:g}": estimate_of(udtw.align(x, y, gamma=gamma)) for gamma in GAMMAS}


def librosa_dtw(pair: Pair) -> dict[str, Estimate]:
    """Call `librosa.sequence.dtw`, with the cosine distance for chroma, as in its own examples."""
    from librosa.sequence import dtw as align

    x, y = (np.atleast_2d(one.T) for one in standardized(pair))
    if len(x) > 1:  # silence has no direction
        x, y = x + 1e-6, y + 1e-6
    _, path = align(x, y, metric="cosine" if len(x) > 1 else "euclidean")
    return {ONLY: Estimate(partners_on_path(path[::-1]), {})}


def fdasrsf_bayes(pair: Pair) -> dict[str, Estimate]:
    """Call `fdasrsf.pairwise_align_bayes` (2.7.3) with its own filter; series of equal length."""
    from fdasrsf import pairwise_align_bayes
    from fdasrsf.utility_functions import smooth_data

    np.random.seed(0)  # noqa: NPY002 (fdasrsf draws from NumPy's global generator)
    options = {
        "iter": MCMC_STEPS, "burnin": MCMC_STEPS // 4, "alpha0": 0.1, "beta0": 0.1, "propvar": 1,
        "initcoef": np.repeat(0, 20), "npoints": 200, "extrainfo": True,
        "zpcn": {"betas": np.array([0.5, 0.5, 0.005, 0.0001]), "probs": np.array([0.1, 0.1, 0.7, 0.1])},
    }  # fmt: skip
    x, y = smooth_data(np.stack([pair.x, pair.y], 1), 25).T
    steps = len(x)
    # It warps its second argument onto the first, y∘γ ≈ x, on the unit interval: γ is the match of a step of x.
    with contextlib.redirect_stderr(io.StringIO()):  # a progress bar for each pair
        warps = (steps - 1) * pairwise_align_bayes(x, y, np.arange(float(steps)), options).gamma_mat
    bands = {level: tuple(np.quantile(np.rint(warps), [(1 - level) / 2, (1 + level) / 2], axis=1)) for level in LEVELS}
    return {ONLY: Estimate(warps.mean(1), bands)}


def bigmacs(pair: Pair) -> dict[str, Estimate]:
    """Read the ages that BIGMACS published, with 95 % bands scaled to the other levels as if they were normal."""
    from scipy.stats import norm

    if not isinstance(pair, Core):
        raise OptionError(f"BIGMACS published ages of cores only; got {pair.name}.")
    band = pair.published
    age, low, high = (
        (np.interp(pair.depth, band.depth, one) - pair.age[0]) / pair.step for one in (band.age, band.low, band.high)
    )
    scales = {level: norm.ppf(0.5 + level / 2) / norm.ppf(0.975) for level in LEVELS}
    # Not of whole steps, so nothing is to be widened: the half step that `score` adds is taken off first.
    bands = {level: (age - k * (age - low) + 0.5, age + k * (high - age) - 0.5) for level, k in scales.items()}
    return {ONLY: Estimate(age, bands)}


METHODS: dict[str, Method] = {
    "udtw.match": match,
    "align (estimated noise)": estimated_noise,
    "DTW": dtw,
    "soft-DTW": soft_dtw,
    "librosa": librosa_dtw,
    "fdasrsf": fdasrsf_bayes,
    "BIGMACS": bigmacs,
}
"""Name in tables to function."""
PEERS = {"librosa": "librosa", "fdasrsf": "fdasrsf"}
"""Methods that need a package that is not among the extras."""


def available(method: str) -> bool:
    """Tell whether the package that a method needs is installed."""
    return method not in PEERS or importlib.util.find_spec(PEERS[method]) is not None
