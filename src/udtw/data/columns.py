"""Text files of numbers as spreadsheets write them: separated by tabs, semicolons, commas or blanks."""

import math
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from udtw.errors import DataError

Rows = list[tuple[int, list[float]]]
"""Line number, counted from 1, and values of each line."""


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8."""
    try:
        # Not splitlines(): it also splits at characters that editors do not count as line ends.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file: {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def numbered_rows(lines: Iterable[str], where: str) -> Rows:
    """The values of every line except blank lines, comments and a header. ``where`` begins the messages."""
    found: Rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        fields = _split(line)
        if not found and not any(_is_number(field) for field in fields):
            continue  # names of the columns
        found.append((number, [_value(f"{where}, line {number}", i, field) for i, field in enumerate(fields)]))
    if not found:
        raise DataError(f"{where} holds no numbers.")
    return found


def one_width(rows: Rows, where: str) -> np.ndarray:
    """(T, d) values of lines, which must all have as many values as the first."""
    first, width = rows[0][0], len(rows[0][1])
    for line, fields in rows:
        if len(fields) != width:
            raise DataError(f"{where}, line {line}: {len(fields)} value(s), but line {first} has {width}.")
    return np.array([fields for _, fields in rows])


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
