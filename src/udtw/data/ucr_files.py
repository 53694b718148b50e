"""Text files of the UCR archive: tables (`.tsv`, `.txt`) and `.ts` files. Errors name the line."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from udtw.data.labelled import without_padding
from udtw.data.text_lines import read_lines
from udtw.errors import DataError


def read_table(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Series (T_i,) float64 without their padding, and labels as written. A line holds a label and one series."""
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


def _split(line: str) -> list[str]:
    # Splitting at any blank would hide an empty field between tabs and shift all values after it.
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


def read_ts(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Series (T_i,) or (T_i, d) float64 of a `.ts` file, without their padding, and labels as written."""
    # Not aeon 1.6.0: it reads the label Banana as "baNaNa", takes labels that the header does not list, and infinities,
    # and its errors do not name the line.
    header, rows = _parts(path)
    _check_header(path, header)
    classes = {label.lower() for label in header.get("classlabel", [])[1:]}
    first, n_fields = rows[0][0], len(rows[0][1])
    length = rows[0][1][0].count(",") + 1 if _flag(header, "equallength", True) else None
    series, labels = [], []
    for number, fields in rows:
        where = f"{path}, line {number}"
        *channels, label = fields
        if not channels or not label or "," in label or (classes and label.lower() not in classes):
            expected = f" Labels by the header: {sorted(classes)}." if classes else ""
            raise DataError(f"{where}: no class label behind the last ':'. End the line with one.{expected}")
        if len(fields) != n_fields:
            raise DataError(f"{where}: {len(channels)} channel(s), but line {first} has {n_fields - 1}.")
        values = [_channel(where, c, channel) for c, channel in enumerate(channels, start=1)]
        lengths = {len(channel) for channel in values}
        if len(lengths) > 1 or (length is not None and lengths != {length}):
            raise DataError(
                f"{where}: channels of {sorted(lengths)} values; expected {length or 'one length per line'}. "
                "If series differ in length, the header needs '@equalLength false'."
            )
        steps = without_padding(np.array(values, np.float64).T)
        if not len(steps):
            raise DataError(f"{where}: the series has no value. Remove the line.")
        series.append(np.ascontiguousarray(steps[:, 0] if steps.shape[1] == 1 else steps))
        labels.append(label)
    return series, labels


def _parts(path: Path) -> tuple[dict[str, list[str]], list[tuple[int, list[str]]]]:
    """The header as {key: words}, and rows of line number and fields (the channels and the label)."""
    lines = iter(enumerate(read_lines(path), start=1))
    header = dict(_header(lines))
    rows = [(number, [field.strip() for field in line.split(":")]) for number, line in lines]
    if rows and rows[-1][1] == [""]:
        rows.pop()
    if not rows:
        raise DataError(f"{path} has no series: below a line '@data', each line must be values:label.")
    return header, rows


def _header(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[str, list[str]]]:
    for _, line in lines:
        words = line.split()
        if words and words[0].startswith("@"):
            key = words[0][1:].lower()
            if key == "data":
                return
            yield key, words[1:]


def _flag(header: dict[str, list[str]], key: str, default: bool) -> bool:
    words = header.get(key)
    return words[0].lower() == "true" if words else default


def _check_header(path: Path, header: dict[str, list[str]]) -> None:
    if _flag(header, "timestamps", False):
        raise DataError(f"{path} has time stamps, which udtw does not read. Store the values alone.")
    if _flag(header, "targetlabel", False) or not _flag(header, "classlabel", True):
        raise DataError(f"{path} has no class labels. Only classification sets can be loaded.")


def _channel(where: str, number: int, channel: str) -> list[float]:
    values = []
    for field in channel.split(","):
        text = field.strip()
        try:
            value = math.nan if text == "?" else float(text)
        except ValueError:
            value = math.inf
        if math.isinf(value):
            raise DataError(f"{where}: {text!r} in channel {number} is not a finite number. Write missing ones as NaN.")
        values.append(value)
    return values
