"""Tables in users' files: CSV and its relatives, Excel, Parquet, JSON, NumPy; plain or gzipped, or standard input.

pandas parses them. What is decided here is which of its readers to use, and what the first row is: names of columns or
values. Cells keep their text, so that `udtw.data.table_cells` can say which one is not a number.
"""

import csv
import gzip
import io
import re
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from udtw.data import strict_json
from udtw.data.npy import read_npy
from udtw.data.table_cells import FAULT, is_missing, is_number, is_row_number, is_time
from udtw.data.zip_members import ArchiveError, open_zip, read_member
from udtw.errors import DataError

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".xlsx", ".json", ".npy", ".npz")
SEPARATORS = ("\t", ";", "|", ",")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+")
"""A line that is two numbers, or one with a decimal comma."""
STANDARD_INPUT = "-"
MAX_UNPACKED = 4 * 2**30
"""Bytes that a gzipped or zipped file may have after unpacking."""


@dataclass
class Table:
    """The cells of a file, without its header."""

    where: str
    """Name of the file, for messages."""
    cells: Any
    """A pandas data frame with the columns 0, 1, …"""
    names: list[str] | None = None
    lines: list[int] | None = None
    """The line of each row in the file, counted from 1."""
    widths: dict[int, int] = field(default_factory=dict)
    """Number of cells of the rows that are shorter than the first."""
    separator: str | None = None
    notes: list[str] = field(default_factory=list)
    """What the user should know about the reading."""
    array: np.ndarray | None = None
    """An array (n, T, d) of a file that is no table."""
    chosen: bool = False
    """Whether the names of columns that the user gave have chosen this array already."""

    def place(self, row: int) -> str:
        """Where a row is: "a.csv, line 3"."""
        return f"{self.where}, line {self.lines[row]}" if self.lines else f"{self.where}, row {row + 1}"

    def column(self, number: int) -> str:
        """How messages call a column: by its name, or by its number counted from 1."""
        name = self.names[number] if self.names else ""
        return f"column {name!r}" if name else f"value {number + 1}"


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
    return _of_text(text, where, decimal, transpose, named)


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
    return _finished(table, decimal, transpose, named)


def _of_arrays(arrays: dict[str, np.ndarray], where: str, transpose: bool, named: Sequence[str]) -> Table:
    import pandas

    chosen = {name: array for name, array in arrays.items() if name in named} or arrays
    if len(chosen) == 1:
        table = _of_array(next(iter(chosen.values())), where, transpose)
        table.chosen = len(arrays) > 1
        return table
    if all(one.ndim == 1 for one in chosen.values()) and len({len(one) for one in chosen.values()}) == 1:
        return _framed(pandas.DataFrame(chosen), where, transpose)
    shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
    raise DataError(
        f"{where} holds several arrays ({shapes}). Choose one with --columns, as in --columns {next(iter(arrays))}."
    )


def _is_json(where: str, text: str) -> bool:
    if where.lower().removesuffix(".gz").endswith(".json"):
        return True
    return text.lstrip()[:1] in ("[", "{")


def _of_json(text: str, where: str, decimal: str | None, transpose: bool, named: Sequence[str]) -> Table:
    import pandas

    advice = "Use a list of numbers, a list of rows, a list of records, or an object of columns."
    try:
        value = strict_json.loads(text)
    except ValueError as error:
        raise DataError(f"{where} is not JSON: {error}.") from error
    if isinstance(value, dict):
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
    return _finished(table, decimal, transpose, named)


def _of_text(text: str, where: str, decimal: str | None, transpose: bool, named: Sequence[str]) -> Table:
    import pandas

    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    filled = [at for at, line in enumerate(lines) if line.strip()]
    kept = [at for at in filled if not lines[at].lstrip().startswith("#")]
    if not kept:
        raise DataError(f"{where} holds no numbers.")
    separator = _separator([lines[at] for at in kept[:200]], decimal)
    above = filled.index(kept[0]) - 1
    if above >= 0 and separator is not None:  # `# time,value`, as numpy.savetxt writes names
        comment = lines[filled[above]].lstrip()
        kept = _with_names_in_comment(lines, kept, filled[above], comment, separator, decimal)
    width = max(_fields(lines[at], separator) for at in kept)
    try:
        cells = pandas.read_csv(
            io.StringIO("\n".join(lines[at] for at in kept)), sep=separator or r"\s+", header=None,
            names=range(width), dtype=object, na_filter=False, skipinitialspace=True, skip_blank_lines=False,
        )  # fmt: skip
    except pandas.errors.ParserError as error:
        row = re.search(r"starting at row (\d+)", str(error))
        place = f"{where}, line {kept[int(row[1])] + 1}" if row and int(row[1]) < len(kept) else where
        raise DataError(f"{place}: a quote is opened and not closed.") from error
    table = Table(where, cells, separator=separator)
    if len(cells) == len(kept):  # otherwise a quoted cell has several lines
        table.lines = [at + 1 for at in kept]
        table.widths = _short_rows(cells, [lines[at] for at in kept], separator)
    if decimal is None and separator == "," and all(COMMA_NUMBER.fullmatch(lines[at].strip()) for at in kept):
        table.notes.append("two columns, separated by a comma (if it is a decimal comma: --decimal ',')")
    return _finished(table, decimal, transpose, named)


def _with_names_in_comment(
    lines: list[str], kept: list[int], above: int, comment: str, separator: str, decimal: str | None
) -> list[int]:
    """``kept`` with the comment right above the table, if it has a name for each column and the table has none."""
    names, first = ([cell.strip() for cell in one.split(separator)] for one in (comment.lstrip("# "), lines[kept[0]]))
    if len(names) != len(first) or len(names) < 2 or not any(is_number(cell, decimal) for cell in first):
        return kept
    if any(is_number(name, decimal) or not name for name in names):
        return kept
    lines[above] = separator.join(names)
    return [above, *kept]


def _separator(lines: list[str], decimal: str | None) -> str | None:
    """The separator that the most lines contain outside of quotes; None for blanks."""
    bare = [re.sub(r'"[^"]*"', "", line) for line in lines]
    counts = {one: sum(one in line for line in bare) for one in SEPARATORS if one != decimal}
    best = max(counts, key=lambda one: (counts[one], -SEPARATORS.index(one)))
    return best if counts[best] * 2 >= len(lines) else None


def _fields(line: str, separator: str | None) -> int:
    """At least as many cells as the line has."""
    return len(line.split()) if separator is None else line.count(separator) + 1


def _short_rows(cells: Any, lines: list[str], separator: str | None) -> dict[int, int]:
    """The number of cells of rows that have fewer than the table is wide."""
    last = cells.columns[-1]
    suspects = np.flatnonzero((cells[last] == "").to_numpy())
    if separator is None:
        found = {int(at): len(lines[at].split()) for at in suspects}
    else:
        found = {int(at): len(next(csv.reader([lines[at]], delimiter=separator))) for at in suspects}
    width = max([*found.values()], default=0) if len(suspects) == len(cells) else len(cells.columns)
    return {at: count for at, count in found.items() if count < width}


def _finished(table: Table, decimal: str | None, transpose: bool, named: Sequence[str]) -> Table:
    """The table without empty columns at its right end, transposed if so wanted, and its header taken off."""
    cells = table.cells
    width = len(cells.columns)
    while width > 1 and all(is_missing(cell) for cell in cells[width - 1]):
        width -= 1
    table.cells = cells = cells.iloc[:, :width]
    table.widths = {at: count for at, count in table.widths.items() if count < width}
    if transpose:
        if table.widths:
            at = min(table.widths)
            raise DataError(
                f"{table.place(at)}: {table.widths[at]} value(s) instead of {width}; --transpose needs all."
            )
        table.cells = cells = cells.T.reset_index(drop=True).set_axis(range(len(cells)), axis=1)
        table.lines = None
    first = cells.iloc[0].tolist()
    if _is_header(first, cells, decimal, named):
        if len(cells) == 1:
            raise DataError(f"{table.where} holds no numbers.")
        counts = [table.widths.get(row, cells.shape[1]) for row in range(len(cells))]
        if counts[0] not in counts[1:]:
            raise DataError(
                f"{table.place(0)}: {counts[0]} name(s), but the next line has {counts[1]} value(s). A header is one "
                "line with a name for each column; delete lines above it, or begin them with #. Decimal commas need "
                "--decimal ','."
            )
        table.names = [str(cell).strip() if isinstance(cell, str) or not is_missing(cell) else "" for cell in first]
        table.names = ["" if re.fullmatch(r"Unnamed: \d+", name) else name for name in table.names]
        table.cells = cells.iloc[1:].reset_index(drop=True)
        table.lines = table.lines[1:] if table.lines else None
        table.widths = {at - 1: count for at, count in table.widths.items() if at}
    return table


def _is_header(first: list[Any], cells: Any, decimal: str | None, named: Sequence[str]) -> bool:
    """Whether the first row holds names of columns instead of values."""
    written = [cell.strip() for cell in first if isinstance(cell, str) and cell.strip()]
    if named and set(named) & set(written) and not all(is_number(cell, decimal) for cell in named):
        return True
    words = [cell for cell in written if not is_number(cell, decimal)]
    if any(FAULT.fullmatch(cell) or is_time(cell) for cell in words):
        return False
    names = [cell for cell in words if not is_missing(cell)]
    counted = [float(cell) for cell in written if re.fullmatch(r"\d+", cell)]
    counts = len(counted) > 0 and counted == list(np.arange(len(counted)) + counted[0])
    if not counted and len(words) == len(written):
        return bool(names)
    if len(counted) + len(words) < len(written) or not counts:
        return False
    if names:  # `label, 0, 1, 2, …`
        return len(counted) >= 3
    index = [float(cell) if is_number(cell, None) else np.nan for cell in cells[0].iloc[1:4]]
    unnamed = is_missing(first[0]) and counted[0] == 0  # `, 0, 1, 2`: an index that pandas wrote
    return unnamed and (is_row_number(np.array(index)) or index[:2] == [0, 1])
