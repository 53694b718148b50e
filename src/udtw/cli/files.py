"""Series by file (CSV, TSV or NumPy's .npy) or by name of a data set. Errors in a file are reported in one line."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udtw.data.columns import numbered_rows, one_width, read_lines
from udtw.data.npy import read_npy
from udtw.errors import DataError, OptionError

if TYPE_CHECKING:
    from udtw.data import UCRData

SUFFIXES = (".csv", ".tsv", ".txt", ".npy")
GENERATED = ("cbf", "synthetic-control")
TRAIN_PER_CLASS, TEST_PER_CLASS = 15, 50


def read_series(path: Path) -> np.ndarray:
    """One series (T, d): rows are time steps, columns features. A first line of names is skipped."""
    _check_there(path)
    if path.suffix.lower() == ".npy":
        array = _load_npy(path)
        if array.ndim not in (1, 2):
            raise DataError(f"{path} holds an array of shape {array.shape}; one series is (T,) or (T, d).")
        return array[:, None] if array.ndim == 1 else array
    return one_width(numbered_rows(read_lines(path), str(path)), str(path))


def read_series_set(path: Path) -> np.ndarray | list[np.ndarray]:
    """Several series: one per row, each of its own length; or (n, T) or (n, T, d) in a .npy file."""
    _check_there(path)
    if path.suffix.lower() == ".npy":
        array = _load_npy(path)
        if array.ndim not in (2, 3):
            raise DataError(f"{path} holds an array of shape {array.shape}; a set of series is (n, T) or (n, T, d).")
        return array
    rows = [np.array(fields) for _, fields in numbered_rows(read_lines(path), str(path))]
    return np.stack(rows) if len({len(row) for row in rows}) == 1 else rows


def _check_there(path: Path) -> None:
    if not path.exists():
        raise DataError(f"{path}: no such file.")
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file.")


def _load_npy(path: Path) -> np.ndarray:
    try:
        with path.open("rb") as file:
            array = read_npy(file)
    except (ValueError, OSError) as error:
        raise DataError(f"{path} is not a .npy file of numbers ({error}).") from error
    if array.dtype.kind not in "fiub" or array.size == 0:
        raise DataError(f"{path} must hold real numbers, at least one; got {array.dtype} of shape {array.shape}.")
    values = array.astype(np.float64)
    if not np.isfinite(values).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise DataError(f"{path}: the value at {place} is {values[place]}, not a finite number.")
    return values


def write_columns(path: Path, names: list[str], columns: list[np.ndarray]) -> None:
    """Write a CSV file with a line of names and one row per step."""
    from udtw.data.atomic import write_atomically

    lines = [",".join(names), *(",".join(repr(float(value)) for value in row) for row in zip(*columns, strict=True))]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join(lines) + "\n").encode())


SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_table_name(path: Path) -> None:
    """Raise `OptionError` unless `write_table` can write a file of that name."""
    if path.suffix.lower() not in (*SEPARATORS, ".json"):
        raise OptionError(f"--out {path.name}: use a name that ends in .csv, .tsv or .json.")


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows with the same names atomically, as CSV, TSV or JSON by the ending; None is an empty cell or null."""
    from udtw.data.atomic import write_atomically

    check_table_name(path)
    kind = path.suffix.lower()
    if kind == ".json":
        text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    else:
        lines = [list(rows[0]), *([("" if cell is None else repr(cell)) for cell in row.values()] for row in rows)]
        text = "".join(SEPARATORS[kind].join(line) + "\n" for line in lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())


def load_dataset(name: str, data_dir: Path | None, *, seed: int = 0, normalize: bool = True) -> "UCRData":
    """Training and test series of a UCR data set, or generated from the seed; with mean 0, std 1 if ``normalize``."""
    from udtw.data import LabelledSeries, UCRData, cylinder_bell_funnel, load_ucr, synthetic_control, znormalize

    if name.lower() in GENERATED:
        draw = cylinder_bell_funnel if name.lower() == "cbf" else synthetic_control
        train, test = (
            draw(count, random_state=np.random.default_rng([seed, part]))
            for part, count in enumerate((TRAIN_PER_CLASS, TEST_PER_CLASS))
        )
        data = UCRData(name.lower(), train, test)
    else:
        data = load_ucr(name, data_dir)
    if not normalize:
        return data
    train, test = (LabelledSeries(znormalize(part.X), part.y) for part in (data.train, data.test))
    return UCRData(data.name, train, test)
