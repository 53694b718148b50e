"""Text tables of the UCR archive: a series a line, its label first, separated by tabs or blanks."""

import math
from pathlib import Path

import numpy as np

from udtw.data.labelled import without_padding
from udtw.errors import DataError


def read_table(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Series (T_i,) float64 without their padding, and labels as written."""
    series: list[np.ndarray] = []
    labels: list[str] = []
    width, first = 0, 0
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        label, *fields = _split(line)
        if not series:
            width, first = len(fields), number
        where = f"{path}, line {number}"
        _check_label(where, label)
        if len(fields) != width:
            raise DataError(
                f"{where}: {len(fields)} values, but line {first} has {width}. Pad shorter series with NaN at the end."
            )
        steps = without_padding(np.array([_number(where, i, field) for i, field in enumerate(fields)]))
        if not len(steps):
            raise DataError(f"{where}: the series has no value after its label. Remove the line.")
        series.append(steps)
        labels.append(label)
    if not series:
        raise DataError(f"{path} is empty. Each line must hold a label and the values of one series.")
    return series, labels


def read_lines(path: Path) -> list[str]:
    try:
        # Not splitlines(): it also breaks at characters that no editor counts as a line.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file: {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _split(line: str) -> list[str]:
    # Splitting tabs as blanks would hide an empty field and move all values behind it.
    return [field.strip() for field in line.rstrip().split("\t")] if "\t" in line else line.split()


def _check_label(where: str, label: str) -> None:
    try:
        number = float(label or "nan")
    except ValueError:
        return
    if not number.is_integer():
        raise DataError(
            f"{where}: the first column is {label!r} where the class label belongs. "
            "Labels are whole numbers or words; put one before the values."
        )


def _number(where: str, index: int, field: str) -> float:
    try:
        number = float(field)
    except ValueError:
        number = math.inf
    if math.isinf(number):
        raise DataError(f"{where}: value {index + 1} is {field!r}, not a finite number. Write missing values as NaN.")
    return number
