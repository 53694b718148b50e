"""`.ts` files of the time series classification archive, read by aeon; the checks around it name the line."""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from udtw.data.labelled import without_padding
from udtw.data.tables import read_lines
from udtw.errors import DataError


def read_ts(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Series (T_i,) or (T_i, d) float64 without their padding, and labels as written."""
    header, rows = _parts(path)
    _check_header(path, header)
    _check_rows(path, header, rows)
    load = _loader()
    try:
        X, _ = load(str(path))
    except (OSError, ValueError, IndexError) as error:
        raise DataError(f"{path}: {error}") from error
    series = []
    for (number, _), channels in zip(rows, X, strict=True):
        steps = without_padding(np.ascontiguousarray(np.asarray(channels, np.float64).T))
        if not len(steps):
            raise DataError(f"{path}, line {number}: the series has no value. Remove the line.")
        series.append(steps[:, 0] if steps.shape[1] == 1 else steps)
    # aeon writes labels in lower case, so that they would differ from those of the same set as a table.
    return series, [fields[-1] for _, fields in rows]


def _loader():
    try:
        from aeon.datasets import load_from_ts_file
    except ModuleNotFoundError as error:
        if error.name != "aeon":
            raise
        raise ImportError("udtw reads .ts files with aeon; install it with: pip install 'udtw[ucr]'") from error
    return load_from_ts_file


def _parts(path: Path) -> tuple[dict[str, list[str]], list[tuple[int, list[str]]]]:
    """The header as {key: words}, and the rows as (line number, fields: the channels and the label)."""
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


def _check_rows(path: Path, header: dict[str, list[str]], rows: list[tuple[int, list[str]]]) -> None:
    classes = {label.lower() for label in header.get("classlabel", [])[1:]}
    first, n_fields = rows[0][0], len(rows[0][1])
    length = rows[0][1][0].count(",") + 1 if _flag(header, "equallength", True) else None
    for number, fields in rows:
        where = f"{path}, line {number}"
        *channels, label = fields
        if not channels or not label or "," in label or (classes and label.lower() not in classes):
            expected = f" Labels by the header: {sorted(classes)}." if classes else ""
            raise DataError(f"{where}: no class label behind the last ':'. End the line with one.{expected}")
        if len(fields) != n_fields:
            raise DataError(f"{where}: {len(channels)} channel(s), but line {first} has {n_fields - 1}.")
        lengths = {channel.count(",") + 1 for channel in channels}
        if len(lengths) > 1 or (length is not None and lengths != {length}):
            raise DataError(
                f"{where}: channels of {sorted(lengths)} values; expected {length or 'one length in a line'}. "
                "If series differ in length, the header needs '@equalLength false'."
            )
        _check_values(where, channels)


def _check_values(where: str, channels: list[str]) -> None:
    for c, channel in enumerate(channels, start=1):
        for field in channel.split(","):
            value = field.strip()
            try:
                bad = value != "?" and math.isinf(float(value))
            except ValueError:
                bad = True
            if bad:
                raise DataError(f"{where}: {value!r} in channel {c} is not a finite number. Write missing ones as NaN.")
