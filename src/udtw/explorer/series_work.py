"""Two series and settings in, everything that the first tab shows out."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from udtw.align import Alignment, align, dtw, euclidean
from udtw.data import znormalize
from udtw.errors import ShapeError
from udtw.explorer.series_settings import SeriesSettings

WINDOW = 9
"""Steps over which roughness is averaged."""


@dataclass(frozen=True)
class Prepared:
    """What is aligned: ``x`` (N, d), ``y`` (M, d) with their noise, and σ² of their steps, or None for σ = 1."""

    x: np.ndarray
    y: np.ndarray
    var_x: np.ndarray | None
    var_y: np.ndarray | None


@dataclass(frozen=True)
class Compared:
    """One distance: its ``value`` (None where it does not exist), ``matrix`` (N, M) of matches, and ``path`` (L, 2)."""

    name: str
    value: float | None
    matrix: np.ndarray | None
    path: np.ndarray | None


@dataclass(frozen=True)
class SeriesResult:
    """The alignment of `Prepared` series, its paths, and the other distances."""

    prepared: Prepared
    alignment: Alignment
    coupling: np.ndarray
    variance: np.ndarray
    mode: np.ndarray
    samples: list[np.ndarray]
    entropy: float
    compared: list[Compared]

    @property
    def path_length(self) -> float:
        """``E[1] = Σ π*``."""
        return float(self.coupling.sum())


def prepare(x: np.ndarray, y: np.ndarray, settings: SeriesSettings) -> Prepared:
    """Scale, then add noise to a stretch, then say how far each step can be trusted."""
    if x.shape[1] != y.shape[1]:
        raise ShapeError(f"x has {x.shape[1]} feature(s), but y has {y.shape[1]}; choose two series of one kind.")
    if settings.znormalize:
        x, y = znormalize([x, y])
    rng = np.random.default_rng(settings.seed)
    sides = []
    for name, clean in (("x", x), ("y", y)):
        begin, end = (round(share / 100 * len(clean)) for share in settings.stretch)
        series, variance = clean.copy(), np.ones(len(clean))
        if settings.side in (name, "both"):
            series[begin:end] += settings.noise * rng.standard_normal(series[begin:end].shape)
            variance[begin:end] += settings.noise**2
        if settings.variance == "rough":
            variance = 1 + roughness(series)
        sides.append((series, None if settings.variance == "none" else variance))
    return Prepared(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def roughness(series: np.ndarray) -> np.ndarray:
    """(T,) an estimate of the variance of white noise on a smooth series (T, d).

    ``⅙(x_{t−1} − 2x_t + x_{t+1})²``, whose mean is the variance where the rest is straight, averaged over features and
    `WINDOW` steps.
    """
    bend = (np.diff(series, 2, axis=0) ** 2).mean(1) / 6
    # One value more at each end, where no second difference is.
    padded = np.pad(bend, 1 + WINDOW // 2, mode="edge")
    return np.convolve(padded, np.full(WINDOW, 1 / WINDOW), mode="valid")


def explore(prepared: Prepared, settings: SeriesSettings) -> SeriesResult:
    """Align with uncertainty, and by the other distances for comparison."""
    x, y = prepared.x, prepared.y
    options: dict[str, Any] = {"gamma": settings.gamma, "band": settings.band}
    found = align(x, y, prepared.var_x, prepared.var_y, beta=settings.beta, **options)
    mode = found.paths.mode()[0]
    plain = found if prepared.var_x is None else align(x, y, **options)
    best = mode if plain is found else plain.paths.mode()[0]
    compared = [
        _euclidean(x, y),
        Compared("DTW", float(dtw(x, y, band=settings.band)), None, best),
        Compared("soft-DTW", float(plain.paths.soft_min), plain.coupling, best),
        Compared("uDTW", float(found.distance), found.coupling, mode),
    ]
    return SeriesResult(
        prepared=prepared,
        alignment=found,
        coupling=found.coupling,
        variance=found.variance,
        mode=mode,
        samples=found.paths.sample(settings.paths, settings.seed) if settings.paths else [],
        entropy=max(float(found.paths.entropy), 0.0),
        compared=compared,
    )


def _euclidean(x: np.ndarray, y: np.ndarray) -> Compared:
    if len(x) != len(y):
        return Compared("Euclidean", None, None, None)
    step = np.arange(len(x))
    return Compared("Euclidean", float(euclidean(x, y)), None, np.stack([step, step], 1))
