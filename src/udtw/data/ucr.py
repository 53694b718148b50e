"""Data sets of the UCR archive: found in a local folder, read in any of its formats, cached as `.npz`."""

import difflib
import io
import math
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from udtw._io.atomic import write_atomically
from udtw._io.npy import read_npy
from udtw._io.zip_members import open_zip, read_member
from udtw.data.folder import data_root, read_lines
from udtw.data.labelled import LabelledSeries, UCRData, labels_as_array, stack_if_equal, without_padding
from udtw.errors import DataError

PARTS = ("train", "test")
SUFFIXES = (".tsv", ".txt", ".ts")
MAX_RATIO, RATIO_FROM = 200, 64 * 2**20
"""Real series compress less than this ratio; a larger file that expands more was made to exhaust the memory."""


def load_ucr(name: str, data_dir: str | os.PathLike | None = None) -> UCRData:
    """Load the data set ``name`` with its published split.

    ``data_dir`` (by default the environment variable UDTW_DATA) is the archive's folder, one above it that holds it as
    ``ucr``, or the data set's own folder. It reads NAME.npz (see `save_npz`), unless it is older than the other files,
    or NAME_TRAIN and NAME_TEST as .tsv, .txt or .ts.

    NaN at the end of a series is padding and is cut off, after which lengths may differ; other NaN stays.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.data import load_ucr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "Toy_TRAIN.tsv").write_text("1\\t0.5\\t1.5\\n2\\t3\\t4\\n")
    ...     _ = Path(folder, "Toy_TEST.tsv").write_text("2\\t6\\t7\\n")
    ...     data = load_ucr("Toy", folder)
    >>> data.train.X.tolist(), data.train.y.tolist()
    ([[0.5, 1.5], [3.0, 4.0]], [1, 2])
    """
    _check_name(name)
    root = _root(data_dir)
    for folder in _folders(root, name):
        if (data := _read_from(folder, name)) is not None:
            return data
    raise DataError(_not_found(name, root))


def available_ucr(data_dir: str | os.PathLike | None = None) -> list[str]:
    """List the data sets that `load_ucr` finds, in alphabetical order.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.data import available_ucr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "Toy_TRAIN.tsv").touch()
    ...     available_ucr(folder)
    ['Toy']
    """
    return sorted(set(_names(_root(data_dir))))


def _check_name(name: str) -> None:
    # A name may come from a command line or a table: it must not point outside the data folder.
    if not re.fullmatch(r"\w[\w.+ -]*", name) or ".." in name:
        raise DataError(f"{name!r} is not the name of a data set: letters, digits, '_', '-' and single dots only.")


def _root(data_dir: str | os.PathLike | None) -> Path:
    root = data_root(data_dir)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder.")
    return root


def _folders(root: Path, name: str) -> list[Path]:
    return [root, root / name, root / "ucr" / name, root / "ucr"]


def _read_from(folder: Path, name: str) -> UCRData | None:
    files = {split: _split_file(folder, name, split) for split in ("TRAIN", "TEST")}
    there = [file for file in files.values() if file]
    cache = folder / f"{name}.npz"
    if cache.is_file() and all(cache.stat().st_mtime >= file.stat().st_mtime for file in there):
        return _read_npz(cache, name)
    if not there:
        return None
    for split, file in files.items():
        if file is None:
            raise DataError(f"{there[0]} is there, but {name}_{split} is not. Put both splits into {folder}.")
    train, test = (_read_ts(file) if file.suffix == ".ts" else _read_table(file) for file in there)
    _check_features(there, [*train[0], *test[0]], len(train[0]))
    # Together, so that the labels of both splits have one type.
    y = labels_as_array([*train[1], *test[1]])
    n = len(train[1])
    return UCRData(
        name, LabelledSeries(stack_if_equal(train[0]), y[:n]), LabelledSeries(stack_if_equal(test[0]), y[n:])
    )


def _split_file(folder: Path, name: str, split: str) -> Path | None:
    candidates = (folder / f"{name}_{split}{suffix}" for suffix in SUFFIXES)
    return next((file for file in candidates if file.is_file()), None)


def _check_features(files: list[Path], series: list[np.ndarray], n_train: int) -> None:
    train, test = (1 if series[i].ndim == 1 else series[i].shape[1] for i in (0, n_train))
    if train != test:
        raise DataError(
            f"{files[0]} has {train} feature(s), but {files[1]} has {test}. They are not from one data set."
        )


def _names(root: Path) -> Iterator[str]:
    suffixes = "|".join(re.escape(suffix) for suffix in SUFFIXES)
    pattern = re.compile(rf"(.+?)(?:_TRAIN(?:{suffixes})|\.npz)")
    for archive in (root, root / "ucr"):
        for entry in archive.iterdir() if archive.is_dir() else ():
            if entry.is_dir():
                ends = (".npz", *(f"_TRAIN{suffix}" for suffix in SUFFIXES))
                if any((entry / f"{entry.name}{end}").is_file() for end in ends):
                    yield entry.name
            elif match := pattern.fullmatch(entry.name):
                yield match[1]


def _not_found(name: str, root: Path) -> str:
    known = {known.lower(): known for known in available_ucr(root)}
    close = [known[key] for key in difflib.get_close_matches(name.lower(), known)]
    looked = ", ".join(str(folder) for folder in _folders(root, name))
    hint = f" Did you mean {' or '.join(close)}?" if close else f" Data sets found there: {len(known)}."
    wanted = f"{name}.npz, {name}_TRAIN and {name}_TEST (.tsv, .txt, .ts)"
    return f"No data set {name!r}: looked for {wanted} in {looked}.{hint}"


def save_npz(data: UCRData, path: str | os.PathLike) -> Path:
    """Write a data set as an `.npz` file, which `load_ucr` finds if it is called NAME.npz, and return its path.

    It is written in full or not at all. For each part it holds ``values`` (all steps of all series, d), ``lengths``
    (n,) and ``labels`` (n,).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.data import UCRData, cylinder_bell_funnel, load_ucr, save_npz
    >>> data = UCRData("CBF", cylinder_bell_funnel(2, random_state=0), cylinder_bell_funnel(5, random_state=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_npz(data, Path(folder, "CBF.npz"))
    ...     load_ucr("CBF", folder).test.X.shape
    (15, 128)
    """
    arrays = {}
    for part in PARTS:
        labelled: LabelledSeries = getattr(data, part)
        series = [np.asarray(steps, np.float64) for steps in labelled.X]
        arrays[f"{part}_values"] = np.concatenate([s[:, None] if s.ndim == 1 else s for s in series])
        arrays[f"{part}_lengths"] = labelled.lengths
        arrays[f"{part}_labels"] = labelled.y
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    path = Path(path)
    write_atomically(path, buffer.getvalue())
    return path


def _read_npz(path: Path, name: str) -> UCRData:
    """Read the data set that `save_npz` wrote."""
    try:
        content = path.read_bytes()
        limit = max(RATIO_FROM, MAX_RATIO * len(content))
        with open_zip(content) as archive:
            return UCRData(name, *(_part(archive, part, limit) for part in PARTS))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a cache that udtw wrote, or it is damaged ({error}). Delete it.") from error


def _part(archive: zipfile.ZipFile, part: str, limit: int) -> LabelledSeries:
    values, lengths, labels = (
        read_npy(io.BytesIO(read_member(archive, f"{part}_{key}.npy", limit)))
        for key in ("values", "lengths", "labels")
    )
    fits = values.ndim == 2 and lengths.ndim == 1 and lengths.shape == labels.shape and lengths.dtype.kind == "i"
    if not fits or values.dtype != np.float64 or labels.dtype.kind not in "iU" or not len(lengths):
        raise ValueError(f"{part}: arrays of unexpected shape or type")
    if lengths.min() < 1 or lengths.sum() != len(values):
        raise ValueError(f"{part}: the lengths do not add up to the number of steps")
    if np.isinf(values).any():
        raise ValueError(f"{part}: an infinite value")
    values = values[:, 0] if values.shape[1] == 1 else values
    return LabelledSeries(stack_if_equal(np.split(values, np.cumsum(lengths)[:-1])), labels)


def _read_table(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Read series (T_i,) float64 without their padding, and labels as written. A line has a label and one series."""
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


def _read_ts(path: Path) -> tuple[list[np.ndarray], list[str]]:
    """Read series (T_i,) or (T_i, d) float64 of a `.ts` file, without their padding, and labels as written."""
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
    """Return the header as {key: words}, and rows of line number and fields (the channels and the label)."""
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
