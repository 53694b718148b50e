"""Series to choose from: generated ones, sets of the UCR archive in the server's own folder, and uploads.

The browser names a set and a number. Only names of this list lead to a file, so no path of the browser's ever does.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from udtw.data import LabelledSeries, available_ucr, cylinder_bell_funnel, load_ucr, synthetic_control
from udtw.errors import DataError, OptionError
from udtw.explorer.checks import choice, whole
from udtw.explorer.uploads import MAX_CSV_BYTES, Shelf, check_series, decode_contents, file_name, read_csv

PER_CLASS = 4
MAX_ITEMS = 500
"""Series of a set that are offered."""

UPLOAD = "upload"


@dataclass(frozen=True)
class Generated:
    """A set made by formula; ``code`` makes the same in a script."""

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
class Chosen:
    """A series (T, d), what it is called, and the Python that makes it."""

    values: np.ndarray
    label: str
    code: str


class Sources:
    """All series of a server. ``data_dir`` is the archive's folder, given when it was started."""

    def __init__(self, data_dir: str | os.PathLike | None = None) -> None:
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._archive = tuple(available_ucr(data_dir)) if data_dir is not None else ()
        self.uploads: Shelf[np.ndarray] = Shelf()
        self._load = lru_cache(maxsize=8)(self._read_set)  # a set of the archive may be large

    @property
    def sets(self) -> dict[str, str]:
        """Labels of all sets by name, for a list to choose from."""
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

    def series(self, name: Any, item: Any, upload: Any = None) -> Chosen:
        """Series ``item`` of set ``name``; for uploads the one with the key ``upload``."""
        name = choice("The set", name, self.sets)
        if name == UPLOAD:
            if upload is None:
                raise DataError("Choose a CSV file: a row a time step, a column a feature.")
            label, values = self.uploads.get(upload)
            return Chosen(values, label, f"np.array({values.tolist()})")
        labels = self.items(name)
        number = whole("The series", item, 0, len(labels) - 1)
        values = np.asarray(self._load(name).X[number], dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        label = f"{self.sets[name]}, {labels[number]}"
        return Chosen(check_series(values, label), label, f"{self._code(name)}.X[{number}]")

    def upload(self, contents: Any, name: Any) -> tuple[str, str]:
        """Key and description of an uploaded CSV file."""
        shown = file_name(name)
        content = decode_contents(contents, shown, MAX_CSV_BYTES)
        values = read_csv(content, shown)
        steps, features = values.shape
        described = f"{shown}: {steps} steps" + (f", {features} features" if features > 1 else "")
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
        # Without the folder: the script says it by UDTW_DATA, and the page shows no path of this machine.
        return f"udtw.data.load_ucr({name.removeprefix('ucr-')!r}).train"
