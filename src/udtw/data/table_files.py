"""Tables in users' files: CSV and its relatives, Excel, Parquet, JSON, NumPy; plain or gzipped, or standard input.

pandas parses them; which of its readers is used follows from the content. Cells keep their text, so that an error can
quote the one that is not a number.
"""

import csv
import gzip
import io
import re
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from udtw._io import strict_json
from udtw._io.npy import read_npy
from udtw._io.zip_members import ArchiveError, open_zip, read_member
from udtw.data.table import ReadOptions, Table, with_header
from udtw.data.table_cells import is_number
from udtw.errors import DataError, OptionError

SUFFIXES = (".csv", ".tsv", ".txt", ".dat", ".parquet", ".xlsx", ".json", ".jsonl", ".npy", ".npz")
STANDARD_INPUT = "-"
MAX_UNPACKED = 4 * 2**30
"""Bytes that a gzipped or zipped file may have after unpacking."""
SEPARATORS = ("\t", ";", "|", ",")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+")
"""A line that is two numbers, or one with a decimal comma."""


def is_file_name(text: str) -> bool:
    """Return whether the text names a file that can be read, rather than a data set."""
    path = Path(text)
    endings = path.suffixes[-2:-1] if path.suffix.lower() == ".gz" else path.suffixes[-1:]
    return text == STANDARD_INPUT or path.is_file() or (bool(endings) and endings[0].lower() in SUFFIXES)


def read_bytes(source: str | Path) -> bytes:
    """Return the content of a file, or of standard input for "-"."""
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


def read_table(source: str | Path, options: ReadOptions, content: bytes | None = None) -> Table:
    """Read the `Table` in a file, or in its ``content``."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise ImportError("Files are read by pandas; install it with: pip install 'udtw[cli]'") from error
    where = "standard input" if str(source) == STANDARD_INPUT else str(source)
    content = _unpacked(read_bytes(source) if content is None else content, where)
    if not content.strip():
        raise DataError(f"{where} is empty.")
    if content.startswith(b"PAR1"):
        return _framed(_parsed(where, "Parquet", lambda: pandas.read_parquet(io.BytesIO(content))), where, options)
    if content.startswith(b"\x93NUMPY"):
        return _of_array(_array(content, where), where, options)
    if content.startswith(b"PK"):
        return _zipped(content, where, options)
    if content.startswith(b"\xd0\xcf\x11\xe0"):
        raise DataError(f"{where} is an Excel file of the old format .xls. Save it as .xlsx or CSV.")
    text = _decoded(content, where, options.encoding)
    if _is_json(where, text):
        return _of_json(text, where, options)
    return _of_text(text, where, options)


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


def _decoded(content: bytes, where: str, encoding: str | None) -> str:
    wide = content.startswith((b"\xff\xfe", b"\xfe\xff"))  # "Unicode text" of spreadsheets
    if b"\0" in content and not wide and encoding is None:
        raise DataError(f"{where} is not a text file, nor one of the formats {', '.join(SUFFIXES)}.")
    try:
        return content.decode(encoding or ("utf-16" if wide else "utf-8-sig"))
    except LookupError:
        raise OptionError(f"--encoding {encoding} is not known; use a name such as latin-1, cp1252 or utf-8.") from None
    except UnicodeError as error:
        at = f" ({error.reason} at byte {error.start})" if isinstance(error, UnicodeDecodeError) else ""
        raise DataError(
            f"{where} is not a text file in {encoding or 'UTF-8'}{at}. Name its encoding, as in --encoding latin-1; or "
            "save it as UTF-8, in a spreadsheet as “CSV UTF-8”."
        ) from error


def _parsed(where: str, kind: str, read: Any) -> Any:
    """Return what ``read()`` returns; turn errors of the library that reads the format into a `DataError`."""
    try:
        return read()
    except ImportError:
        raise
    except Exception as error:  # the readers of these formats raise many kinds on damaged files
        raise DataError(f"{where} cannot be read as {kind}: {type(error).__name__}: {error}.") from error


def _framed(frame: Any, where: str, options: ReadOptions) -> Table:
    """Return the table of a format that has names of columns."""
    import pandas

    if not isinstance(frame.index, pandas.RangeIndex):
        named = [str(one or "index") for one in frame.index.names]
        frame = frame.reset_index(names=named)
    names = ["" if re.fullmatch(r"Unnamed: \d+|__index_level_\d+__", str(one)) else str(one) for one in frame.columns]
    frame = frame.set_axis(range(frame.shape[1]), axis=1)
    if options.transpose:
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


def _of_array(array: np.ndarray, where: str, options: ReadOptions) -> Table:
    import pandas

    if array.ndim == 3:
        return Table(where, pandas.DataFrame(), array=array)
    if array.ndim not in (1, 2):
        raise DataError(f"{where} holds an array of shape {array.shape}; use (T,), (T, d), (n, T) or (n, T, d).")
    cells = array[:, None] if array.ndim == 1 else array
    return Table(where, pandas.DataFrame(cells.T if options.transpose else cells))


def _zipped(content: bytes, where: str, options: ReadOptions) -> Table:
    import pandas

    try:
        archive = open_zip(content)
        members = [one for one in archive.namelist() if one.endswith(".npy")]
        if members:
            arrays = {one[:-4]: _array(read_member(archive, one, MAX_UNPACKED), f"{where}, {one}") for one in members}
            return _of_arrays(arrays, where, options)
    except ArchiveError as error:
        raise DataError(f"{where} is a damaged archive ({error}).") from error
    if "[Content_Types].xml" not in archive.namelist():
        raise DataError(f"{where} is a zip archive. Unpack it, and give the file inside.")
    if sum(one.file_size for one in archive.infolist()) > MAX_UNPACKED:
        raise DataError(f"{where} has more than {MAX_UNPACKED:,} bytes after unpacking.")
    sheets = _parsed(
        where, "Excel", lambda: pandas.read_excel(io.BytesIO(content), sheet_name=None, header=None, dtype=object)
    )
    sheets = {name: sheet.iloc[options.skip_rows :].dropna(how="all") for name, sheet in sheets.items()}
    filled = {name: sheet for name, sheet in sheets.items() if not sheet.empty}
    if not filled:
        raise DataError(f"{where} is empty{_below(options)}.")
    name, sheet = next(iter(filled.items()))
    table = Table(where, sheet.reset_index(drop=True), lines=[int(row) + 1 for row in sheet.index])
    if len(filled) > 1:
        table.notes.append(f"the first of {len(filled)} sheets, {name!r}")
    return with_header(table, options)


def _of_arrays(arrays: dict[str, np.ndarray], where: str, options: ReadOptions) -> Table:
    import pandas

    if all(one.ndim == 1 for one in arrays.values()) and len({len(one) for one in arrays.values()}) == 1:
        return _framed(pandas.DataFrame(arrays), where, options)
    chosen = {name: array for name, array in arrays.items() if name in options.named} or arrays
    if len(chosen) == 1:
        table = _of_array(next(iter(chosen.values())), where, options)
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
    """Return the value of a JSON text, or a list of the values of its lines if each line is a record."""
    try:
        return strict_json.loads(text)
    except ValueError:
        lines = [line for line in text.splitlines() if line.strip()]
        if len(lines) < 2 or not all(line.strip().startswith("{") and line.strip().endswith("}") for line in lines):
            raise
    return [strict_json.loads(line) for line in lines]


def _of_pandas(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object of columns from what `to_json` of pandas wrote of a Series or a data frame, also as "split"."""
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


def _of_json(text: str, where: str, options: ReadOptions) -> Table:
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
        return _framed(pandas.DataFrame(value, dtype=object), where, options)
    if not isinstance(value, list) or not value:
        raise DataError(f"{where} holds {type(value).__name__} instead of a list of values. {advice}")
    kinds = {type(one) for one in value}
    if kinds == {dict}:
        return _framed(pandas.DataFrame(value, dtype=object), where, options)
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
    return with_header(table, options)


def _of_text(text: str, where: str, options: ReadOptions) -> Table:
    """Return the table in a text, by its separator, comments and quotes; pandas splits the lines."""
    import pandas

    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    filled = [at for at, line in enumerate(lines) if line.strip() and at >= options.skip_rows]
    kept = [at for at in filled if not _is_comment(lines[at])]
    stated = re.fullmatch(r'"?sep=(.)"?', lines[kept[0]].strip(" "), re.IGNORECASE) if kept else None
    kept = kept[1:] if stated else kept  # the first line of a file for Excel
    if not kept:
        raise DataError(f"{where} holds no numbers{_below(options)}.")
    separator = stated[1] if stated else _separator([lines[at] for at in kept[:200]], options.decimal)
    above = filled.index(kept[0]) - 1
    if above >= 0 and separator is not None:  # `# time,value`, as numpy.savetxt writes names
        comment = lines[filled[above]].lstrip()
        kept = _with_names_in_comment(lines, kept, filled[above], comment, separator, options.decimal)
    width = max(_fields(lines[at], separator) for at in kept)
    try:
        cells = pandas.read_csv(
            io.StringIO("\n".join(lines[at] for at in kept)), sep=separator or r"\s+", header=None,
            names=range(width), dtype=object, na_filter=False, skipinitialspace=True, skip_blank_lines=False,
        )  # fmt: skip
    except ValueError as error:  # pandas.errors.ParserError and EmptyDataError among them
        row = re.search(r"starting at row (\d+)", str(error))
        place = f"{where}, line {kept[int(row[1])] + 1}" if row and int(row[1]) < len(kept) else where
        if row is None:
            raise DataError(f"{where} cannot be read as a table: {error}.") from error
        raise DataError(f"{place}: a quote is opened and not closed.") from error
    table = Table(where, cells, separator=separator)
    skipped = [at for at in filled if kept[0] < at and _is_comment(lines[at])]
    if skipped:
        table.notes.append(f"skipped {len(skipped)} line(s) that begin with #, the first is line {skipped[0] + 1}")
    if len(cells) == len(kept):  # otherwise a quoted cell has several lines
        table.lines = [at + 1 for at in kept]
        table.widths = _short_rows(cells, [lines[at] for at in kept], separator)
    if options.decimal is None and separator == "," and all(COMMA_NUMBER.fullmatch(lines[at].strip()) for at in kept):
        table.notes.append("two columns, separated by a comma (if it is a decimal comma: --decimal ',')")
    return with_header(table, options)


def _below(options: ReadOptions) -> str:
    return f" below its first {options.skip_rows} line(s)" if options.skip_rows else ""


def _is_comment(line: str) -> bool:
    """Return whether a line begins with # and is not the error value of a spreadsheet, such as #N/A."""
    text = line.strip()
    return text.startswith("#") and not re.match(r"#(N/A|VALUE!|DIV/0!|REF!|NAME\?|NUM!|NULL!)", text, re.IGNORECASE)


def _with_names_in_comment(
    lines: list[str], kept: list[int], above: int, comment: str, separator: str, decimal: str | None
) -> list[int]:
    """Add the comment right above the table to ``kept``, if it has a name for each column and the table has none."""
    names, first = ([cell.strip() for cell in one.split(separator)] for one in (comment.lstrip("# "), lines[kept[0]]))
    if len(names) != len(first) or len(names) < 2 or not any(is_number(cell, decimal) for cell in first):
        return kept
    if any(is_number(name, decimal) or not name for name in names):
        return kept
    lines[above] = separator.join(names)
    return [above, *kept]


def _separator(lines: list[str], decimal: str | None) -> str | None:
    """Return the separator that the most lines contain outside of quotes; None for blanks."""
    bare = [re.sub(r'"[^"]*"', "", line) for line in lines]
    counts = {one: sum(one in line for line in bare) for one in SEPARATORS if one != decimal}
    best = max(counts, key=lambda one: (counts[one], -SEPARATORS.index(one)))
    return best if counts[best] * 2 >= len(lines) else None


def _fields(line: str, separator: str | None) -> int:
    """Return an upper bound on the number of cells of a line."""
    return len(line.split()) if separator is None else line.count(separator) + 1


def _short_rows(cells: Any, lines: list[str], separator: str | None) -> dict[int, int]:
    """Return the number of cells of each row that has fewer than the table is wide."""
    last = cells.columns[-1]
    suspects = np.flatnonzero((cells[last] == "").to_numpy())
    if separator is None:
        found = {int(at): len(lines[at].split()) for at in suspects}
    else:
        found = {int(at): len(next(csv.reader([lines[at]], delimiter=separator))) for at in suspects}
    width = max([*found.values()], default=0) if len(suspects) == len(cells) else len(cells.columns)
    return {at: count for at, count in found.items() if count < width}
