"""Series in files of the user's: CSV, TSV or NumPy's .npy. What is wrong with one is said in one line."""

import math
from pathlib import Path

import numpy as np

from udtw.data.npy import read_npy
from udtw.data.tables import read_lines
from udtw.errors import DataError

SUFFIXES = (".csv", ".tsv", ".txt", ".npy")


def read_series(path: Path) -> np.ndarray:
    """One series (T, d): a row a time step, a column a feature. A first line of names is skipped."""
    _check_there(path)
    if path.suffix.lower() == ".npy":
        array = _load_npy(path)
        if array.ndim not in (1, 2):
            raise DataError(f"{path} holds an array of shape {array.shape}; one series is (T,) or (T, d).")
        return array[:, None] if array.ndim == 1 else array
    numbered = _numbers(path)
    width = len(numbered[0][1])
    for line, fields in numbered:
        if len(fields) != width:
            raise DataError(f"{path}, line {line}: {len(fields)} value(s), but line {numbered[0][0]} has {width}.")
    return np.array([fields for _, fields in numbered])


def read_series_set(path: Path) -> np.ndarray | list[np.ndarray]:
    """Several series: a row a series, of its own length; or (n, T) or (n, T, d) in a .npy file."""
    _check_there(path)
    if path.suffix.lower() == ".npy":
        array = _load_npy(path)
        if array.ndim not in (2, 3):
            raise DataError(f"{path} holds an array of shape {array.shape}; a set of series is (n, T) or (n, T, d).")
        return array
    rows = [np.array(fields) for _, fields in _numbers(path)]
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


def _numbers(path: Path) -> list[tuple[int, list[float]]]:
    """The lines with their numbers (from 1) as lists of values; blank lines, comments and a header are left out."""
    found: list[tuple[int, list[float]]] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = _split(line)
        if not found and not any(_is_number(field) for field in fields):
            continue  # names of the columns
        found.append((number, [_value(f"{path}, line {number}", i, field) for i, field in enumerate(fields)]))
    if not found:
        raise DataError(f"{path} holds no numbers.")
    return found


def _split(line: str) -> list[str]:
    for separator in ("\t", ";", ","):
        if separator in line:
            return [field.strip().strip('"') for field in line.strip("\r\n").split(separator)]
    return line.split()


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _value(where: str, index: int, field: str) -> float:
    if not field:
        raise DataError(f"{where}: value {index + 1} is empty. Missing values must be filled in or left out first.")
    if not _is_number(field):
        raise DataError(f"{where}: value {index + 1} is {field!r}, not a number.")
    value = float(field)
    if not math.isfinite(value):
        raise DataError(f"{where}: value {index + 1} is {field!r}. Missing values must be filled in or left out first.")
    return value


def write_columns(path: Path, names: list[str], columns: list[np.ndarray]) -> None:
    """A CSV file with a line of names, a row a step."""
    from udtw.data.atomic import write_atomically

    lines = [",".join(names), *(",".join(repr(float(value)) for value in row) for row in zip(*columns, strict=True))]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("\n".join(lines) + "\n").encode())
