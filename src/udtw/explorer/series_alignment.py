"""Series to choose from, settings, and the alignment of two series: what the first tab computes.

The browser sends the name of a set and a number. Only names on the server's own list lead to a file, so a path that the
browser sends is never opened.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from udtw import likelihood
from udtw.align import align, dtw, euclidean
from udtw.alignment import Alignment
from udtw.data import LabelledSeries, available_ucr, cylinder_bell_funnel, load_ucr, synthetic_control, znormalize
from udtw.errors import DataError, OptionError, ShapeError
from udtw.explorer.control_values import AlignmentSettings, ControlValues, choice, interval, number, whole
from udtw.explorer.uploads import (
    MAX_CSV_BYTES,
    UPLOAD,
    UploadCache,
    check_series,
    decode_contents,
    file_name,
    read_csv,
)

PER_CLASS = 4
MAX_ITEMS = 500
"""How many series of a set are offered."""

LOG_GAMMA = (-3.0, 2.0)
MAX_NOISE, MAX_PATHS, MAX_SEED = 3.0, 50, 999
VARIANCES = {
    "none": "None: σ = 1 everywhere",
    "known": "Known: 1 + noise² in the noisy part",
    "rough": "Estimated from local roughness",
}
SIDES = {"x": "x", "y": "y", "both": "both"}


@dataclass(frozen=True)
class Generated:
    """A generated set; ``code`` generates the same in a script."""

    label: str
    code: str
    make: Callable[[], LabelledSeries]
    classes: tuple[str, ...]


CBF = ("cylinder", "bell", "funnel")
CHARTS = ("normal", "cyclic", "increasing", "decreasing", "upward shift", "downward shift")


def _generated(draw: Callable[..., LabelledSeries], label: str, length: int, classes: tuple[str, ...]) -> Generated:
    def make() -> LabelledSeries:
        return draw(PER_CLASS, length, random_state=0)

    return Generated(
        f"{label}, {length} steps", f"udtw.data.{draw.__name__}({PER_CLASS}, {length}, random_state=0)", make, classes
    )


GENERATED = {
    "cbf-128": _generated(cylinder_bell_funnel, "Cylinder, bell, funnel", 128, CBF),
    "cbf-256": _generated(cylinder_bell_funnel, "Cylinder, bell, funnel", 256, CBF),
    "charts-60": _generated(synthetic_control, "Control charts", 60, CHARTS),
    "charts-256": _generated(synthetic_control, "Control charts", 256, CHARTS),
}


@dataclass(frozen=True)
class ChosenSeries:
    """A series (T, d), its label, and the Python code that makes it."""

    values: np.ndarray
    label: str
    code: str


class SeriesChoices:
    """All series of a server: generated ones, sets of the UCR archive in ``data_dir``, and uploads."""

    def __init__(self, data_dir: str | os.PathLike | None = None) -> None:
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._archive = tuple(available_ucr(data_dir)) if data_dir is not None else ()
        self.uploads: UploadCache[np.ndarray] = UploadCache()
        self._load = lru_cache(maxsize=8)(self._read_set)  # a set of the archive may be large

    @property
    def sets(self) -> dict[str, str]:
        """Labels of all sets by name."""
        made = {name: f"{one.label} (generated)" for name, one in GENERATED.items()}
        archive = {f"ucr-{name}": f"{name} (UCR)" for name in self._archive}
        return made | archive | {UPLOAD: "Your own CSV file"}

    def items(self, name: Any) -> list[str]:
        """Labels of the series of a set, in order; none for uploads."""
        name = choice("The set", name, self.sets)
        if name == UPLOAD:
            return []
        y = self._load(name).y[:MAX_ITEMS]
        names = [GENERATED[name].classes[int(label) - 1] if name in GENERATED else f"class {label}" for label in y]
        return [f"No. {i + 1}: {label}" for i, label in enumerate(names)]

    def pick(self, name: Any, item: Any, upload: Any = None) -> ChosenSeries:
        """Series number ``item`` of set ``name``, or the upload with the key ``upload``."""
        name = choice("The set", name, self.sets)
        if name == UPLOAD:
            if upload is None:
                raise DataError("Choose a CSV file with one row per time step and one column per feature.")
            label, values = self.uploads.get(upload)
            return ChosenSeries(values, label, f"np.array({values.tolist()})")
        labels = self.items(name)
        number = whole("The series", item, 0, len(labels) - 1)
        values = np.asarray(self._load(name).X[number], dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        label = f"{self.sets[name]}, {labels[number]}"
        return ChosenSeries(check_series(values, label), label, f"{self._code(name)}.X[{number}]")

    def upload(self, contents: Any, name: Any) -> tuple[str, str]:
        """Key and description of an uploaded CSV file."""
        shown = file_name(name)
        content = decode_contents(contents, shown, MAX_CSV_BYTES)
        values, notes = read_csv(content, shown)
        steps, features = values.shape
        described = f"{shown}: {steps} steps" + (f", {features} features" if features > 1 else "")
        described = "; ".join([described, *notes])
        return self.uploads.put(shown, content, values), described

    def _read_set(self, name: str) -> LabelledSeries:
        if name in GENERATED:
            return GENERATED[name].make()
        archive = name.removeprefix("ucr-")
        if archive not in self._archive:
            raise OptionError(f"There is no set {archive!r} in the server's folder.")
        return load_ucr(archive, self._data_dir).train

    @staticmethod
    def _code(name: str) -> str:
        if name in GENERATED:
            return GENERATED[name].code
        # The script finds the folder by UDTW_DATA, so that the page shows no path of this machine.
        return f"udtw.data.load_ucr({name.removeprefix('ucr-')!r}).train"


@dataclass(frozen=True)
class SeriesSettings(AlignmentSettings):
    """What the controls say; ``stretch`` is the noisy part of a series, from and to in percent."""

    noise: float = 0.0
    stretch: tuple[float, float] = (40.0, 60.0)
    side: str = "x"
    variance: str = "known"
    znormalize: bool = True
    paths: int = 20
    seed: int = 0

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
        )


@dataclass(frozen=True)
class PreparedSeries:
    """``x`` (N, d) and ``y`` (M, d) with their noise, and σ² of their steps, or None for σ = 1."""

    x: np.ndarray
    y: np.ndarray
    var_x: np.ndarray | None
    var_y: np.ndarray | None


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
    coupling: np.ndarray
    variance: np.ndarray
    mode: np.ndarray
    samples: list[np.ndarray]
    compared: list[ComparedDistance]

    @property
    def path_length(self) -> float:
        """``E[1] = Σ π*``."""
        return float(self.coupling.sum())


def prepare_series(x: np.ndarray, y: np.ndarray, settings: SeriesSettings) -> PreparedSeries:
    """Both series normalised if wanted, with noise in a part of them, and the variance of each step."""
    if x.shape[1] != y.shape[1]:
        raise ShapeError(f"x has {x.shape[1]} feature(s), but y has {y.shape[1]}; choose series with equally many.")
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
    return PreparedSeries(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def roughness(series: np.ndarray) -> np.ndarray:
    """(T,): `udtw.likelihood.roughness` of an array (T, d)."""
    return likelihood.roughness(torch.from_numpy(series)).numpy()


def align_series(prepared: PreparedSeries, settings: SeriesSettings) -> SeriesResult:
    """The alignment with uncertainty, and other distances for comparison."""
    x, y = prepared.x, prepared.y
    found = align(x, y, prepared.var_x, prepared.var_y, **settings.options)
    mode = found.paths.mode()
    plain = found if prepared.var_x is None else align(x, y, **settings.options)
    best = mode if plain is found else plain.paths.mode()
    compared = [
        _euclidean(x, y),
        ComparedDistance("DTW", float(dtw(x, y, band=settings.band)), None, best),
        ComparedDistance("soft-DTW", float(plain.paths.soft_min), plain.coupling, best),
        ComparedDistance("uDTW", float(found.distance), found.coupling, mode),
    ]
    return SeriesResult(
        prepared=prepared,
        alignment=found,
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
