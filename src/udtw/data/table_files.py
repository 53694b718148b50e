"""Tables in users' files: CSV and its relatives, Excel, Parquet, JSON, NumPy; plain or gzipped, or standard input.

pandas parses them. What is decided here is which of its readers to use, and what the first row is: names of columns or
values. Cells keep their text, so that `udtw.data.table_cells` can say which one is not a number.
"""

import gzip
import io
import re
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from udtw._io import strict_json
from udtw._io.npy import read_npy
from udtw._io.zip_members import ArchiveError, open_zip, read_member
from udtw.data.table import Table, finished
from udtw.data.table_text import parse_text
from udtw.errors import DataError

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".xlsx", ".json", ".jsonl", ".npy", ".npz")
STANDARD_INPUT = "-"
MAX_UNPACKED = 4 * 2**30
"""Bytes that a gzipped or zipped file may have after unpacking."""


def is_file_name(text: str) -> bool:
    """Whether the text names a file that can be read, rather than a data set."""
    path = Path(text)
    endings = path.suffixes[-2:-1] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    return text == STANDARD_INPUT or path.is_file() or (bool(endings) and endings[0].lower() in SUFFIXES)


def read_bytes(source: str | Path) -> bytes:
    """The content of a file, or of standard input for "-"."""
    if str(source) == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    path = Path(source)
    if path.is_dir():
        raise DataError(f"{path} is a folder, not a file.")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def read_table(
    content: bytes, where: str, *, decimal: str | None = None, transpose: bool = False, named: Sequence[str] = ()
) -> Table:
    """The `Table` in ``content``; the format follows from the content itself, ``where`` is its name.

    ``named`` are names of columns that the user gave: a first row with one of them is a header.
    """
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ImportError("Files are read by pandas; install it with: pip install 'udtw[cli]'") from error
    content = _unpacked(content, where)
    if not content.strip():
        raise DataError(f"{where} is empty.")
    if content.startswith(b"PAR1"):
        return _framed(_parsed(where, "Parquet", lambda: pandas.read_parquet(io.BytesIO(content))), where, transpose)
    if content.startswith(b"\x93NUMPY"):
        return _of_array(_array(content, where), where, transpose)
    if content.startswith(b"PK"):
        return _zipped(content, where, decimal, transpose, named)
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise DataError(f"{where} is an Excel file of the old format .xls. Save it as .xlsx or CSV.")
    text = _decoded(content, where)
    if _is_json(where, text):
        return _of_json(text, where, decimal, transpose, named)
    return parse_text(text, where, decimal, transpose, named)


def _unpacked(content: bytes, where: str) -> bytes:
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        with gzip.open(io.BytesIO(content)) as file:
            plain = file.read(MAX_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{where} is a damaged gzip file ({error}).") from error
    if len(plain) > MAX_UNPACKED:
        raise DataError(f"{where} has more than {MAX_UNPACKED:,} bytes after unpacking.")
    return plain


def _decoded(content: bytes, where: str) -> str:
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))  # "Unicode text" of spreadsheets
    if b"\0" in content and not wide:
        raise DataError(f"{where} is not a text file, nor one of the formats {', '.join(SUFFIXES)}.")
    try:
        return content.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{where} is not a text file in UTF-8 ({error.reason} at byte {error.start}). Save it as UTF-8; in a "
            "spreadsheet choose “CSV UTF-8”."
        ) from error


def _parsed(where: str, kind: str, read: Any) -> Any:
    """What ``read()`` returns; errors of the library that reads the format become a `DataError`."""
    try:
        return read()
    except ImportError:
        raise
    except Exception as error:  # the readers of these formats raise many kinds on damaged files
        raise DataError(f"{where} cannot be read as {kind}: {type(error).__name__}: {error}.") from error


def _framed(frame: Any, where: str, transpose: bool) -> Table:
    """A table whose format has names of columns."""
    import pandas

    if not isinstance(frame.index, pandas.RangeIndex):
        named = [str(one or "index") for one in frame.index.names]
        frame = frame.reset_index(names=named)
    names = ["" if re.fullmatch(r"Unnamed: \d+|__index_level_\d+__", str(one)) else str(one) for one in frame.columns]
    frame = frame.set_axis(range(frame.shape[1]), axis=1)
    if transpose:
        return Table(where, frame.T.reset_index(drop=True).set_axis(range(len(frame)), axis=1))
    return Table(where, frame, names)


def _array(content: bytes, where: str) -> np.ndarray:
    try:
        array = read_npy(io.BytesIO(content))
    except (ValueError, OSError) as error:
        raise DataError(f"{where} is not a .npy file of numbers ({error}).") from error
    if array.dtype.kind not in "fiub" or array.size == 0:
        raise DataError(f"{where} must hold real numbers, at least one; got {array.dtype} of shape {array.shape}.")
    return array.astype(np.float64)


def _of_array(array: np.ndarray, where: str, transpose: bool) -> Table:
    import pandas

    if array.ndim == 3:
        return Table(where, pandas.DataFrame(), array=array)
    if array.ndim not in (1, 2):
        raise DataError(f"{where} holds an array of shape {array.shape}; use (T,), (T, d), (n, T) or (n, T, d).")
    cells = array[:, None] if array.ndim == 1 else array
    return Table(where, pandas.DataFrame(cells.T if transpose else cells))


def _zipped(content: bytes, where: str, decimal: str | None, transpose: bool, named: Sequence[str]) -> Table:
    import pandas

    try:
        archive = open_zip(content)
        members = [one for one in archive.namelist() if one.endswith(".npy")]
        if members:
            arrays = {one[:-4]: _array(read_member(archive, one, MAX_UNPACKED), f"{where}, {one}") for one in members}
            return _of_arrays(arrays, where, transpose, named)
    except ArchiveError as error:
        raise DataError(f"{where} is a damaged archive ({error}).") from error
    if "[Content_Types].xml" not in archive.namelist():
        raise DataError(f"{where} is a zip archive. Unpack it, and give the file inside.")
    sheets = _parsed(
        where, "Excel", lambda: pandas.read_excel(io.BytesIO(content), sheet_name=None, header=None, dtype=object)
    )
    filled = {name: sheet.dropna(how="all") for name, sheet in sheets.items() if not sheet.dropna(how="all").empty}
    if not filled:
        raise DataError(f"{where} is empty.")
    name, sheet = next(iter(filled.items()))
    table = Table(where, sheet.reset_index(drop=True), lines=[int(row) + 1 for row in sheet.index])
    if len(filled) > 1:
        table.notes.append(f"the first of {len(filled)} sheets, {name!r}")
    return finished(table, decimal, transpose, named)


def _of_arrays(arrays: dict[str, np.ndarray], where: str, transpose: bool, named: Sequence[str]) -> Table:
    import pandas

    if all(one.ndim == 1 for one in arrays.values()) and len({len(one) for one in arrays.values()}) == 1:
        return _framed(pandas.DataFrame(arrays), where, transpose)
    chosen = {name: array for name, array in arrays.items() if name in named} or arrays
    if len(chosen) == 1:
        table = _of_array(next(iter(chosen.values())), where, transpose)
        table.chosen = len(arrays) > 1
        return table
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    raise DataError(
        f"{where} holds several arrays ({shapes}). Choose one with --columns, as in --columns {next(iter(arrays))}."
    )


def _is_json(where: str, text: str) -> bool:
    if where.lower().removesuffix(".gz").endswith(".json"):
        return True
    return text.lstrip()[:1] in ("[", "{")


def _json_value(text: str) -> Any:
    """The value of a JSON text, or a list of the values of its lines if each line is a record."""
    try:
        return strict_json.loads(text)
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not all(line.strip().startswith("{") and line.strip().endswith("}") for line in lines):
            raise
    return [strict_json.loads(line) for line in lines]


def _of_pandas(value: dict[str, Any]) -> dict[str, Any]:
    """An object of columns from what `to_json` of pandas writes of a Series or a data frame, or with "split"."""
    inner = list(value.values())
    if set(value) == {"columns", "index", "data"} and all(isinstance(one, list) for one in inner):
        names, rows = value["columns"], value["data"]
        if all(isinstance(row, list) and len(row) == len(names) for row in rows):
            return {"": value["index"], **{str(name): [row[at] for row in rows] for at, name in enumerate(names)}}
    if inner and all(isinstance(one, dict) for one in inner) and len({tuple(one) for one in inner}) == 1:
        return {"": list(inner[0]), **{name: list(one.values()) for name, one in value.items()}}
    if inner and all(isinstance(one, int | float | None) for one in inner):
        return {"": list(value), "value": inner}
    return value


def _of_json(text: str, where: str, decimal: str | None, transpose: bool, named: Sequence[str]) -> Table:
    import pandas

    advice = "Use a list of numbers, a list of rows, a list of records, or an object of columns."
    try:
        value = _json_value(text)
    except ValueError as error:
        raise DataError(f"{where} is not JSON: {error}.") from error
    if isinstance(value, dict):
        value = _of_pandas(value)
        if not value or not all(isinstance(one, list) for one in value.values()):
            raise DataError(f"{where} holds an object that is not one of columns. {advice}")
        if len({len(one) for one in value.values()}) > 1:
            sizes = ", ".join(f"{name} {len(one)}" for name, one in value.items())
            raise DataError(f"{where} has columns of different lengths: {sizes}.")
        return _framed(pandas.DataFrame(value, dtype=object), where, transpose)
    if not isinstance(value, list) or not value:
        raise DataError(f"{where} holds {type(value).__name__} instead of a list of values. {advice}")
    kinds = {type(one) for one in value}
    if kinds == {dict}:
        return _framed(pandas.DataFrame(value, dtype=object), where, transpose)
    if dict in kinds or (list in kinds and len(kinds) > 1):
        raise DataError(f"{where} mixes rows of different kinds. {advice}")
    rows = value if kinds == {list} else [[one] for one in value]
    if any(isinstance(one, list | dict) for row in rows for one in row):
        try:
            array = np.array(value, np.float64)
        except (ValueError, TypeError):
            raise DataError(f"{where} has lists inside of lists that form no array of numbers. {advice}") from None
        return Table(where, pandas.DataFrame(), array=array)
    width = max(len(row) for row in rows)
    table = Table(where, pandas.DataFrame([[*row, *[None] * (width - len(row))] for row in rows], dtype=object))
    table.widths = {at: len(row) for at, row in enumerate(rows) if len(row) < width}
    return finished(table, decimal, transpose, named)
