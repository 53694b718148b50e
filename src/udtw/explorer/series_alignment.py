"""Settings and the alignment of two series: what the first tab computes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from udtw._engine import likelihood
from udtw._engine.align import align, dtw, euclidean
from udtw._engine.alignment import Alignment
from udtw._engine.matches import Matches
from udtw.data import znormalize
from udtw.errors import DataError, OptionError, ShapeError
from udtw.explorer.control_values import AlignmentSettings, ControlValues, choice, interval, number, whole
from udtw.explorer.series_choices import ChosenSeries, true_match

LOG_GAMMA = (-3.0, 2.0)
MAX_NOISE, MAX_PATHS, MAX_SEED = 3.0, 50, 999
LEVEL = 0.9
VARIANCES = {
    "estimate": "Estimated from the roughness of each series",
    "known": "Known: that of the noise in generated series",
    "none": "None: σ = 1 everywhere",
}
SIDES = {"x": "x", "y": "y", "both": "both"}
VIEWS = {"lines": "Match lines", "matrix": "Matrix of probabilities"}


@dataclass(frozen=True)
class SeriesSettings(AlignmentSettings):
    """What the controls say; ``stretch`` is the noisy part of a series, from and to in percent."""

    gamma: float = 4.0
    noise: float = 0.0
    stretch: tuple[float, float] = (40.0, 60.0)
    side: str = "x"
    variance: str = "estimate"
    znormalize: bool = False
    paths: int = 20
    seed: int = 0
    view: str = "lines"

    @classmethod
    def of(cls, values: ControlValues) -> "SeriesSettings":
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
    """``x`` (N, d) and ``y`` (M, d) as they are aligned, and σ² of their steps, "estimate", or None for σ = 1."""

    x: np.ndarray
    y: np.ndarray
    var_x: Any
    var_y: Any
    times: tuple[list[str] | None, list[str] | None] = (None, None)
    truth: np.ndarray | None = None
    """(N,): the true partners of the steps of x, if they are known."""


@dataclass(frozen=True)
class ComparedDistance:
    """One distance: ``value`` (None if it does not exist), ``matrix`` (N, M) of matches, and ``path`` (L, 2)."""

    name: str
    value: float | None
    matrix: np.ndarray | None
    path: np.ndarray | None


@dataclass(frozen=True)
class SeriesResult:
    """The alignment of `PreparedSeries`, its paths, and the other distances."""

    prepared: PreparedSeries
    alignment: Alignment
    matches: Matches
    coupling: np.ndarray
    variance: np.ndarray
    mode: np.ndarray
    samples: list[np.ndarray]
    compared: list[ComparedDistance]

    @property
    def path_length(self) -> float:
        """``E[1] = Σ π*``."""
        return float(self.coupling.sum())

    @property
    def step_variances(self) -> tuple[Any, Any]:
        """σ² of the steps of x (N,) and y (M,); None for σ = 1."""
        return self.alignment.step_variances

    @property
    def dtw_partners(self) -> np.ndarray:
        """(N,): the mean partner of each step of x on the path of DTW."""
        path = next(one.path for one in self.compared if one.name == "DTW")
        assert path is not None, "DTW has a path"
        return np.bincount(path[:, 0], path[:, 1]) / np.bincount(path[:, 0])

    def error(self, partners: np.ndarray) -> float | None:
        """How many steps the ``partners`` (N,) of x are off on average, if the truth is known."""
        truth = self.prepared.truth
        return None if truth is None else float(np.abs(partners - truth).mean())


def prepare_series(x: ChosenSeries, y: ChosenSeries, settings: SeriesSettings) -> PreparedSeries:
    """Both series normalised if wanted, with noise in a part of generated ones, and the variance of each step."""
    first, second = x.values, y.values
    if first.shape[1] != second.shape[1]:
        raise ShapeError(
            f"x has {first.shape[1]} feature(s), but y has {second.shape[1]}; choose series with equally many."
        )
    if settings.znormalize:
        first, second = znormalize([first, second])
    rng = np.random.default_rng(settings.seed)
    sides = []
    for name, chosen, clean in (("x", x, first), ("y", y, second)):
        series = clean
        variance: Any = None
        if settings.variance == "estimate":
            variance = "estimate"
            if not (series.std(0) > 0).any():
                raise DataError(f"{chosen.label} is constant, so that its σ cannot be estimated: choose σ = 1.")
        elif settings.variance == "known":
            if chosen.own:
                raise OptionError(f"The noise of {chosen.label} is not known: choose an estimated σ, or σ = 1.")
            variance = np.ones(len(series)) if chosen.variance is None else chosen.variance.copy()
        if settings.noise and not chosen.own and settings.side in (name, "both"):
            begin, end = (round(share / 100 * len(series)) for share in settings.stretch)
            series = series.copy()
            series[begin:end] += settings.noise * rng.standard_normal(series[begin:end].shape)
            if settings.variance == "known":
                variance[begin:end] += settings.noise**2
        sides.append((series, variance))
    (first, var_x), (second, var_y) = sides
    return PreparedSeries(first, second, var_x, var_y, (x.times, y.times), true_match(x, y))


def roughness(series: np.ndarray) -> np.ndarray:
    """(T,): `udtw._engine.likelihood.roughness` of an array (T, d)."""
    return likelihood.roughness(torch.from_numpy(series)).numpy()


def align_series(prepared: PreparedSeries, settings: SeriesSettings) -> SeriesResult:
    """The alignment with uncertainty, and other distances for comparison."""
    x, y = prepared.x, prepared.y
    found = align(x, y, prepared.var_x, prepared.var_y, **settings.options)
    mode = found.paths.mode()
    matches = found.matches(LEVEL)
    plain = found if prepared.var_x is None else align(x, y, **settings.options)
    best = mode if plain is found else plain.paths.mode()  # whatever γ is, the least-cost path
    compared = [
        _euclidean(x, y),
        ComparedDistance("DTW", float(dtw(x, y, band=settings.band)), None, best),
        ComparedDistance("soft-DTW", float(plain.paths.soft_min), plain.coupling, best),
        ComparedDistance("uDTW", float(found.distance), found.coupling, mode),
    ]
    return SeriesResult(
        prepared=prepared,
        alignment=found,
        matches=matches,
        coupling=found.coupling,
        variance=found.variance,
        mode=mode,
        samples=found.paths.sample(settings.paths, settings.seed) if settings.paths else [],
        compared=compared,
    )


def _euclidean(x: np.ndarray, y: np.ndarray) -> ComparedDistance:
    if len(x) != len(y):
        return ComparedDistance("Euclidean", None, None, None)
    step = np.arange(len(x))
    return ComparedDistance("Euclidean", float(euclidean(x, y)), None, np.stack([step, step], 1))
