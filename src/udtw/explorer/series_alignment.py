"""Check the settings of the series tab and align two series."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from udtw._engine import likelihood
from udtw._engine.align import align, dtw, euclidean
from udtw._engine.alignment import Alignment
from udtw._engine.match import Match, match
from udtw._engine.matches import Matches
from udtw.data import znormalize
from udtw.errors import DataError, OptionError, ShapeError
from udtw.explorer.control_values import AlignmentSettings, ControlValues, choice, interval, number, whole
from udtw.explorer.series_choices import ChosenSeries, true_match

LOG_GAMMA = (-3.0, 2.0)
MAX_NOISE, MAX_PATHS, MAX_SEED = 3.0, 50, 999
LEVEL = 0.9
VARIANCES = {"none": "off", "match": "estimated", "known": "known"}
"""Off: σ = 1 everywhere. Estimated: `udtw.match`. Known: that of the noise in generated series."""
SEEDS = 20
"""Number of seeds of the added noise over which the errors of the chips are averaged."""
SIDES = {"x": "x", "y": "y", "both": "both"}
VIEWS = {"lines": "Match lines", "matrix": "Matrix of probabilities"}


@dataclass(frozen=True)
class SeriesSettings(AlignmentSettings):
    """Hold the settings of the tab; ``stretch`` is the noisy part of a series, from and to in percent."""

    gamma: float = 4.0
    noise: float = 0.0
    stretch: tuple[float, float] = (40.0, 60.0)
    side: str = "x"
    variance: str = "match"
    znormalize: bool = False
    paths: int = 20
    seed: int = 0
    view: str = "lines"

    @classmethod
    def of(cls, values: ControlValues) -> "SeriesSettings":
        """Check the values of the controls."""
        return cls(
            **cls.checked(values, LOG_GAMMA),
            noise=number("The noise", values["noise"], 0, MAX_NOISE),
            stretch=interval("The noisy part", values["stretch"], 0, 100),
            side=choice("The noisy series", values["side"], SIDES),
            variance=choice("The variance", values["variance"], VARIANCES),
            znormalize=values["scale"] == ["znormalize"],
            paths=whole("The number of sampled paths", values["paths"], 0, MAX_PATHS),
            seed=whole("The seed", values["seed"], 0, MAX_SEED),
            view=choice("The view", values["view"], VIEWS),
        )


@dataclass(frozen=True)
class PreparedSeries:
    """Hold ``x`` (N, d) and ``y`` (M, d) as aligned, with the σ² of their steps, how to find it, or None for σ = 1."""

    x: np.ndarray
    y: np.ndarray
    var_x: Any
    var_y: Any
    times: tuple[list[str] | None, list[str] | None] = (None, None)
    truth: np.ndarray | None = None
    """(N,): true partners of the steps of x, if known."""
    broken: tuple[float, ...] = ()
    """Added noise and its stretch, in percent of the series."""


@dataclass(frozen=True)
class ComparedDistance:
    """Hold one distance: ``value`` (None if undefined), ``matrix`` (N, M) of matches, and ``path`` (L, 2)."""

    name: str
    value: float | None
    matrix: np.ndarray | None
    path: np.ndarray | None


@dataclass(frozen=True)
class SeriesResult:
    """Hold the alignment of `PreparedSeries`, its paths, and the other distances.

    ``matches`` is a `Match` if the noise was found from the pair; steps that stand for no partner are left out of
    ``coupling``, ``variance`` and the paths. ``soft`` are the matches of soft-DTW.
    """

    prepared: PreparedSeries
    alignment: Alignment
    matches: Matches
    soft: Matches
    coupling: np.ndarray
    variance: np.ndarray
    mode: np.ndarray
    samples: list[np.ndarray]
    compared: list[ComparedDistance]

    @property
    def path_length(self) -> float:
        """Return ``E[1] = Σ π*``."""
        return float(self.coupling.sum())

    @property
    def step_variances(self) -> tuple[Any, Any]:
        """Return σ² of the steps of x (N,) and y (M,); None for σ = 1, and for several features with their own."""
        if not isinstance(self.matches, Match):
            return self.alignment.step_variances
        noise = self.matches.noise
        return (noise.var_x, noise.var_y) if self.prepared.x.shape[1] == 1 else (None, None)

    @property
    def related(self) -> bool:
        """Return whether the series match, as far as is known; if not, no matches are drawn."""
        return not isinstance(self.matches, Match) or self.matches.trust.verdict != "none"

    @property
    def dtw_path(self) -> np.ndarray:
        """Return the path (L, 2) of DTW."""
        path = next(one.path for one in self.compared if one.name == "DTW")
        assert path is not None, "DTW has a path"
        return path

    @property
    def dtw_partners(self) -> np.ndarray:
        """Return the mean partner (N,) of each step of x on the path of DTW."""
        steps, partners = self.dtw_path.T
        return np.bincount(steps, partners) / np.bincount(steps)

    @property
    def errors(self) -> tuple[float, ...] | None:
        """Return the mean errors of DTW, soft-DTW and uDTW in steps, or None if the truth is unknown."""
        truth = self.prepared.truth
        if truth is None:
            return None
        found = (self.dtw_partners, self.soft.expected, self.matches.expected)
        return tuple(float(np.nanmean(np.abs(partners - truth))) for partners in found)


def prepare_series(x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> PreparedSeries:
    """Normalize both series if set, add noise to a part of generated ones, and find the variance of each step."""
    first, second = x.values, y.values
    if first.shape[1] != second.shape[1]:
        raise ShapeError(
            f"x has {first.shape[1]} feature(s), but y has {second.shape[1]}; choose series with the same number."
        )
    if settings.znormalize:
        first, second = znormalize([first, second])
    rng = np.random.default_rng(settings.seed)
    sides = []
    for name, chosen, clean in (("x", x, first), ("y", y, second)):
        series = clean
        variance: Any = None
        if settings.variance == "match":
            variance = "match"
            if not (series.std(0) > 0).any():
                raise DataError(f"{chosen.label} is constant, so its σ cannot be estimated: choose σ = 1.")
        elif settings.variance == "known":
            if chosen.own:
                raise OptionError(f"The noise of {chosen.label} is unknown: choose an estimated σ, or σ = 1.")
            variance = np.ones(len(series)) if chosen.variance is None else chosen.variance.copy()
        if settings.noise and not chosen.own and settings.side in (name, "both"):
            begin, end = (round(share / 100 * len(series)) for share in settings.stretch)
            series = series.copy()
            series[begin:end] += settings.noise * rng.standard_normal(series[begin:end].shape)
            if settings.variance == "known":
                variance[begin:end] += settings.noise**2
        sides.append((series, variance))
    (first, var_x), (second, var_y) = sides
    return PreparedSeries(
        first, second, var_x, var_y, (x.times, y.times), true_match(x, y), (settings.noise, *settings.stretch)
    )


def roughness(series: np.ndarray) -> np.ndarray:
    """Estimate the noise variance (T,) of a series (T, d) from its second differences."""
    return likelihood.roughness(torch.from_numpy(series)).numpy()


def align_series(prepared: PreparedSeries, settings: SeriesSettings) -> SeriesResult:
    """Align with uncertainty, and compute other distances for comparison."""
    x, y = prepared.x, prepared.y
    if settings.variance == "match":
        matches = match(x, y, level=LEVEL, band=settings.band)
        alignment, ends = matches.alignment, int(matches.noise.open_ends)
    else:
        alignment, ends = align(x, y, prepared.var_x, prepared.var_y, **settings.options), 0
        matches = alignment.matches(LEVEL)
    inner = slice(ends, -ends or None)
    coupling, variance = alignment.coupling[inner, inner], alignment.variance
    variance = variance[inner, inner].mean(2) if variance.ndim == 3 else variance[inner, inner]
    samples = alignment.paths.sample(settings.paths, settings.seed) if settings.paths else []
    mode, *samples = (_within(path - ends, coupling.shape) for path in (alignment.paths.mode(), *samples))
    plain = alignment if prepared.var_x is None else align(x, y, **settings.options)
    best = mode if plain is alignment else plain.paths.mode()  # the least-cost path, for any γ
    compared = [
        _euclidean(x, y),
        ComparedDistance("DTW", float(dtw(x, y, band=settings.band)), None, best),
        ComparedDistance("soft-DTW", float(plain.paths.soft_min), plain.coupling, best),
        ComparedDistance("uDTW", float(alignment.distance), coupling, mode),
    ]
    return SeriesResult(
        prepared=prepared,
        alignment=alignment,
        matches=matches,
        soft=matches if plain is alignment else plain.matches(LEVEL),
        coupling=coupling,
        variance=variance,
        mode=mode,
        samples=samples,
        compared=compared,
    )


def mean_errors(
    x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings, wanted: Callable[[], bool] = lambda: True
) -> list[float] | None:
    """Return the mean errors of DTW, soft-DTW and uDTW over `SEEDS` seeds of the added noise.

    On one seed, more noise may help by chance. None as soon as ``wanted`` is false.
    """
    errors = []
    for seed in range(SEEDS if settings.noise else 1):
        if not wanted():
            return None
        one = replace(settings, seed=seed, paths=0)
        errors.append(align_series(prepare_series(x, y, one), one).errors or ())
    return np.mean(errors, 0).tolist()


def _within(path: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the part of a path (L, 2) that lies inside a matrix of that shape."""
    return path[((path >= 0) & (path < shape)).all(1)]


def _euclidean(x: np.ndarray, y: np.ndarray) -> ComparedDistance:
    if len(x) != len(y):
        return ComparedDistance("Euclidean", None, None, None)
    step = np.arange(len(x))
    return ComparedDistance("Euclidean", float(euclidean(x, y)), None, np.stack([step, step], 1))
