"""Offer series to choose from: generated ones, data sets of the UCR archive, and uploads.

The browser sends the name of a set and a number. Only names on the server's own list lead to a file, so a path sent by
the browser is never opened.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from udtw.data import LabelledSeries, available_ucr, cylinder_bell_funnel, load_ucr, synthetic_control
from udtw.data.generators import TYPICAL_PAIR, known_warps
from udtw.errors import DataError, OptionError
from udtw.explorer.control_values import choice, whole
from udtw.explorer.uploads import (
    MAX_SERIES_BYTES,
    UPLOAD,
    UploadCache,
    UploadedSeries,
    check_series,
    decode_contents,
    file_name,
    read_upload,
)

PER_CLASS = 4
MAX_ITEMS = 500
"""Largest number of series offered per set."""

CBF = ("cylinder", "bell", "funnel")
CHARTS = ("normal", "cyclic", "increasing", "decreasing", "upward shift", "downward shift")


@dataclass(frozen=True)
class Generated:
    """Hold a generated set; ``code`` generates the same set in a script."""

    label: str
    code: str
    make: Callable[[], LabelledSeries]
    classes: tuple[str, ...]


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

WARPS = "warps"
"""Pairs of series with bursts of noise, one a warped copy of the other, so that their true alignment is known."""
WARP_NUMBERS, WARP_SEED = (TYPICAL_PAIR, *range(5)), 0
"""The pair nearest to the medians of 300, then the first ones, whatever they look like."""


@dataclass(frozen=True)
class ChosenSeries:
    """Hold a series (T, d), its label, and the Python code that creates it."""

    values: np.ndarray
    label: str
    code: str
    own: bool = False
    """Whether it was uploaded: noise is never added to it."""
    times: list[str] | None = None
    variance: np.ndarray | None = None
    """(T,): variance of its noise, if known."""
    variance_code: str | None = None
    pair: int | None = None
    """Number of its pair in `WARPS`."""


@cache
def warps() -> dict[str, np.ndarray]:
    """Generate `WARPS`: x, y, their variances, and the true partners of the steps of x; (pairs, steps) each."""
    return known_warps(max(WARP_NUMBERS) + 1, WARP_SEED)


def true_match(x: ChosenSeries, y: ChosenSeries) -> np.ndarray | None:
    """Return the true partners (N,) in y of the steps of x, or None unless both form one pair of `WARPS`."""
    if x.pair is None or x.pair != y.pair or (x.code, y.code) != (_warp_code(x.pair, "x"), _warp_code(x.pair, "y")):
        return None
    return warps()["match"][x.pair]


def _warp_code(pair: int, side: str) -> str:
    return f"known_warps({pair + 1}, {WARP_SEED})[{side!r}][{pair}]"


class SeriesChoices:
    """Offer the series of a server: generated ones, UCR data sets in ``data_dir``, and uploads."""

    def __init__(self, data_dir: str | os.PathLike | None = None) -> None:
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._archive = tuple(available_ucr(data_dir)) if data_dir is not None else ()
        self.uploads: UploadCache[UploadedSeries] = UploadCache()
        self._load = lru_cache(maxsize=8)(self._read_set)  # a set of the archive may be large

    @property
    def sets(self) -> dict[str, str]:
        """Return the labels of all sets by name."""
        made = {name: f"{one.label} (generated)" for name, one in GENERATED.items()}
        archive = {f"ucr-{name}": f"{name} (UCR)" for name in self._archive}
        return {WARPS: "A sensor fails (generated)"} | made | archive | {UPLOAD: "Your own file"}

    @property
    def sources(self) -> dict[str, dict[str, str]]:
        """Return the labels of the sets by name, for every source of data: "example", "ucr" and "mine"."""
        kinds = {"ucr": [name for name in self.sets if name.startswith("ucr-")], "mine": [UPLOAD]}
        kinds["example"] = [name for name in self.sets if name not in kinds["ucr"] and name != UPLOAD]
        return {kind: {name: self.sets[name] for name in kinds[kind]} for kind in ("example", "ucr", "mine")}

    def first(self, name: str, side: str) -> int:
        """Return the item of a set that x or y begins with: never the same for both."""
        return int((side == "x") == (name == WARPS))

    def items(self, name: Any) -> list[str]:
        """Return the labels of the series of a set, in order; none for uploads."""
        name = choice("The set", name, self.sets)
        if name == UPLOAD:
            return []
        if name == WARPS:
            names = ["Typical pair", *(f"Pair {number + 1}" for number in WARP_NUMBERS[1:])]
            return [f"{name}, {side}" for name in names for side in ("original", "warped copy")]
        y = self._load(name).y[:MAX_ITEMS]
        names = [GENERATED[name].classes[int(label) - 1] if name in GENERATED else f"class {label}" for label in y]
        return [f"No. {i + 1}: {label}" for i, label in enumerate(names)]

    def pick(self, name: Any, item: Any, upload: Any = None) -> ChosenSeries:
        """Return series number ``item`` of set ``name``, or the upload with the key ``upload``."""
        name = choice("The set", name, self.sets)
        if name == UPLOAD:
            if upload is None:
                raise DataError("Waiting for a second file: one row per time step, one column per feature.")
            label, kept = self.uploads.get(upload)
            return ChosenSeries(kept.values, label, f"np.array({kept.values.tolist()})", own=True, times=kept.times)
        labels = self.items(name)
        number = whole("The series", item, 0, len(labels) - 1)
        label = f"{self.sets[name]}, {labels[number]}"
        if name == WARPS:
            pair, side = WARP_NUMBERS[number // 2], "yx"[number % 2]
            values, variance = warps()[side][pair][:, None], warps()[f"var_{side}"][pair]
            code, variance_code = _warp_code(pair, side), _warp_code(pair, f"var_{side}")
            return ChosenSeries(values, label, code, variance=variance, variance_code=variance_code, pair=pair)
        values = np.asarray(self._load(name).X[number], dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        return ChosenSeries(check_series(values, label), label, f"{self._code(name)}.X[{number}]")

    def upload(self, contents: Any, name: Any, decimal: str | None = None) -> tuple[str, str]:
        """Store an uploaded file; return its key and description."""
        shown = file_name(name)
        content = decode_contents(contents, shown, MAX_SERIES_BYTES)
        series = read_upload(content, shown, decimal)
        steps, features = series.values.shape
        described = f"{shown}: {steps} steps" + (f", {features} features" if features > 1 else "")
        key = self.uploads.put(shown, content + (decimal or "").encode(), series)
        return key, "; ".join([described, *series.notes])

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
        # The script finds the folder by UDTW_DATA, so that the page does not show a path of this machine.
        return f"udtw.data.load_ucr({name.removeprefix('ucr-')!r}).train"
