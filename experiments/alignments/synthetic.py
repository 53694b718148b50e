"""Generated pairs with known warps: what real pairs show, one at a time and in three strengths; and unrelated pairs.

Every pair has a smooth series y of unit variance and 100 steps, and x is y at warped times; then each regime spoils one
or both of them.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d, uniform_filter1d
from scipy.signal import lfilter

from experiments.alignments import cores, vienna
from experiments.alignments.pairs import Pair
from udtw.errors import OptionError

STEPS = 100
STRENGTHS = {"weaker": 0.5, "as given": 1.0, "stronger": 1.5}
"""Factor of the size of what a regime does: a gain of 1.3 becomes 1.15, 1.3 and 1.45."""
SMOOTH, WARP_SMOOTH, WARP = 4.0, 8.0, 0.6
"""Steps of the Gaussian that smooths a series, of the one that smooths the log speed, and the size of the latter."""
NOISE = 0.1


def smooth_series(rng: np.random.Generator, width: float = SMOOTH, steps: int = STEPS) -> NDArray:
    """Return a stationary Gaussian series of unit variance, whose correlation falls over ``width`` steps."""
    margin = int(6 * width)
    raw = gaussian_filter1d(rng.standard_normal(steps + 2 * margin), width, mode="wrap")
    return raw[margin : margin + steps] * np.sqrt(2 * np.sqrt(np.pi) * width)


def autoregressive(rng: np.random.Generator, correlation: float, deviation: float, steps: int = STEPS) -> NDArray:
    """Return noise of that deviation in which neighbors have that correlation."""
    innovations = deviation * np.sqrt(1 - correlation**2) * rng.standard_normal(steps + 100)
    return lfilter([1.0], [1.0, -correlation], innovations)[100:]


def warp(rng: np.random.Generator, size: float = WARP, steps: int = STEPS) -> NDArray:
    """Return increasing positions from 0 to ``steps`` − 1 whose log speed is smooth with deviation ``size``."""
    times = np.cumsum(np.exp(size * smooth_series(rng, WARP_SMOOTH, steps)))
    return (times - times[0]) / (times[-1] - times[0]) * (steps - 1)


Spoiled = tuple[NDArray, NDArray]
Regime = Callable[[np.random.Generator, NDArray, NDArray, float], Spoiled]


def white(deviation: float) -> Regime:
    """Add white noise to both."""
    return lambda rng, x, y, strength: (
        x + strength * deviation * rng.standard_normal(len(x)),
        y + strength * deviation * rng.standard_normal(len(y)),
    )


def _noisy(rng: np.random.Generator, x: NDArray, y: NDArray) -> Spoiled:
    return white(NOISE)(rng, x, y, 1.0)


def colored(correlation: float, deviation: float = 0.3) -> Regime:
    """Add autoregressive noise to both, and nothing else."""
    return lambda rng, x, y, strength: (
        x + autoregressive(rng, correlation, strength * deviation, len(x)),
        y + autoregressive(rng, correlation, strength * deviation, len(y)),
    )


def gain(rng: np.random.Generator, x: NDArray, y: NDArray, strength: float) -> Spoiled:
    """Make x 1.3 times as large."""
    return _noisy(rng, (1 + 0.3 * strength) * x, y)


def offset(rng: np.random.Generator, x: NDArray, y: NDArray, strength: float) -> Spoiled:
    """Raise x by half a standard deviation."""
    return _noisy(rng, x + 0.5 * strength, y)


def drift(rng: np.random.Generator, x: NDArray, y: NDArray, strength: float) -> Spoiled:
    """Let x rise by one standard deviation from end to end."""
    return _noisy(rng, x + strength * np.linspace(-0.5, 0.5, len(x)), y)


def shape(rng: np.random.Generator, x: NDArray, y: NDArray, strength: float) -> Spoiled:
    """Add to both smooth series of deviation 0.3, as smooth as the signal."""
    return _noisy(rng, *(one + 0.3 * strength * smooth_series(rng, SMOOTH, len(one)) for one in (x, y)))


def spikes(rng: np.random.Generator, x: NDArray, y: NDArray, strength: float) -> Spoiled:
    """Add noise of deviation 3 to five single steps of each."""
    spoiled = _noisy(rng, x, y)
    for one in spoiled:
        one[rng.choice(len(one), 5, replace=False)] += 3 * strength * rng.standard_normal(5)
    return spoiled


def bursts(rng: np.random.Generator, x: NDArray, y: NDArray, strength: float) -> Spoiled:
    """Add noise of deviation 2 to 15 neighboring steps of each."""
    spoiled = _noisy(rng, x, y)
    for one in spoiled:
        start = int(rng.integers(len(one) - 15))
        one[start : start + 15] += 2 * strength * rng.standard_normal(15)
    return spoiled


def moving_average(rng: np.random.Generator, x: NDArray, y: NDArray, strength: float) -> Spoiled:
    """Replace x, with its noise, by its moving average over 5 steps (3 and 7 if weaker and stronger)."""
    x, y = _noisy(rng, x, y)
    return uniform_filter1d(x, 2 * round(2 * strength) + 1, mode="nearest"), y


REGIMES: dict[str, Regime | None] = {
    "noiseless": white(1e-3),
    "white 0.1": white(0.1),
    "white 0.4": white(0.4),
    "colored 0.7": colored(0.7),
    "colored 0.9": colored(0.9),
    "gain 1.3": gain,
    "offset 0.5": offset,
    "drift 1": drift,
    "shape 0.3": shape,
    "spikes": spikes,
    "bursts": bursts,
    "lag 20": None,
    "moving average 5": moving_average,
}
"""Name to what it does; the numbers are those of strength 1. A lag has no warp: see `pair`."""


def pair(regime: str, strength: float = 1.0, seed: Any = 0) -> Pair:
    """Generate a pair; the same seed gives the same signal and warp in every regime with a warp.

    "noiseless" has stronger warps instead of stronger noise. "lag 20" shows two windows of one series: step m of x is
    step m + 20 of y (both with white noise, no warp), so the last 20 steps of x and the first 20 of y have no partner.
    """
    if regime not in REGIMES or not 0 < strength <= 3:
        raise OptionError(
            f"regime must be one of {', '.join(REGIMES)}, strength above 0 and at most 3; got {regime!r}, {strength!r}."
        )
    rng = np.random.default_rng(seed)
    spoil, name = REGIMES[regime], f"{regime} × {strength:g}"
    if spoil is None:
        lag = round(20 * strength)
        whole = smooth_series(rng, SMOOTH, STEPS + lag)
        x, y = _noisy(rng, whole[lag:], whole[:STEPS])
        truth = np.arange(STEPS, dtype=float) + lag
        return Pair(name, x, y, np.where(truth < STEPS, truth, np.nan))
    y = smooth_series(rng)
    truth = warp(rng, WARP * strength if regime == "noiseless" else WARP)
    x = smooth_between(y, truth)
    return Pair(name, *spoil(rng, x, y, 1.0 if regime == "noiseless" else strength), truth)


def smooth_between(y: NDArray, at: NDArray) -> NDArray:
    """Return y at positions between its steps, by linear interpolation."""
    return np.interp(at, np.arange(len(y)), y)


def pairs(regime: str, strength: float = 1.0, count: int = 40, seed: int = 0) -> list[Pair]:
    """Generate pairs with seeds of their own."""
    return [pair(regime, strength, [seed, i]) for i in range(count)]


UNRELATED = ("random walks", "smooth series", "other pieces", "other cores")


def unrelated_pair(kind: str, seed: Any = 0, data_dir: str | os.PathLike | None = None) -> Pair:
    """Generate two series that have nothing to do with one another; no step has a true partner.

    Two random walks, two smooth series, windows of 10 to 20 seconds of two piano pieces, or stretches of two cores of
    which one is reversed. Lengths of the generated ones are 60 to 300.
    """
    rng = np.random.default_rng(seed)
    if kind == "random walks":
        x, y = (np.cumsum(rng.standard_normal(int(rng.integers(60, 301)))) for _ in "xy")
    elif kind == "smooth series":
        width = rng.uniform(2.0, 8.0)
        x, y = (smooth_series(rng, width, int(rng.integers(60, 301))) for _ in "xy")
        x, y = _noisy(rng, x, y)
    elif kind == "other pieces":
        x, y = _other_pieces(rng, data_dir)
    elif kind == "other cores":
        x, y = (cores.load_core(str(one), data_dir).x for one in rng.choice(cores.CORES, 2, replace=False))
        x, y = _stretch(rng, x), _stretch(rng, y)[::-1].copy()
    else:
        raise OptionError(f"kind must be one of {', '.join(UNRELATED)}; got {kind!r}.")
    return Pair(kind, x, y, np.full(len(x), np.nan))


def _other_pieces(rng: np.random.Generator, data_dir: str | os.PathLike | None) -> Spoiled:
    rate, feature = int(rng.choice([8, 24])), str(rng.choice(vienna.FEATURES))
    found = []
    for piece in rng.choice(vienna.PIECES, 2, replace=False):
        notes = vienna.load_performance(str(piece), int(rng.integers(1, 23)), data_dir)
        whole = vienna.features(notes, rate, feature)
        length = min(len(whole), int(rate * rng.uniform(10, 20)))
        start = int(rng.integers(len(whole) - length + 1))
        found.append(whole[start : start + length])
    return found[0], found[1]


def _stretch(rng: np.random.Generator, x: NDArray) -> NDArray:
    length = int(len(x) * rng.uniform(0.6, 1.0))
    start = int(rng.integers(len(x) - length + 1))
    return x[start : start + length]


def unrelated_pairs(
    count: int = 500, seed: int = 0, data_dir: str | os.PathLike | None = None, kinds: tuple[str, ...] = UNRELATED
) -> Iterator[Pair]:
    """Generate unrelated pairs, the kinds in turn; the last two kinds read the data folder."""
    for i in range(count):
        yield unrelated_pair(kinds[i % len(kinds)], [seed, i], data_dir)
