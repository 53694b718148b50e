"""Tables in text files: separator, comments and quotes of what spreadsheets and programs write; pandas splits lines."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from udtw.data.table import Table, finished
from udtw.data.table_cells import is_number
from udtw.errors import DataError

SEPARATORS = ("\t", ";", "|", ",")
COMMA_NUMBER = re.compile(r"[+-]?(\d+|[1-9]\d{0,2}(\.\d{3})+),\d+")
"""A line that is two numbers, or one with a decimal comma."""


def parse_text(text: str, where: str, decimal: str | None, transpose: bool, named: Sequence[str]) -> Table:
    """The `Table` in a text; arguments as in `udtw.data.table_files.read_table`."""
    import pandas

    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    filled = [at for at, line in enumerate(lines) if line.strip()]
    kept = [at for at in filled if not _is_comment(lines[at])]
    stated = re.fullmatch(r'"?sep=(.)"?', lines[kept[0]].strip(" "), re.IGNORECASE) if kept else None
    kept = kept[1:] if stated else kept  # the first line of a file for Excel
    if not kept:
        raise DataError(f"{where} holds no numbers.")
    separator = stated[1] if stated else _separator([lines[at] for at in kept[:200]], decimal)
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
    if decimal is None and separator == "," and all(COMMA_NUMBER.fullmatch(lines[at].strip()) for at in kept):
        table.notes.append("two columns, separated by a comma (if it is a decimal comma: --decimal ',')")
    return finished(table, decimal, transpose, named)


def _is_comment(line: str) -> bool:
    """Whether a line begins with # and that is not the error value of a spreadsheet, such as #N/A."""
    text = line.strip()
    return text.startswith("#") and not re.match(r"#(N/A|VALUE!|DIV/0!|REF!|NAME\?|NUM!|NULL!)", text, re.IGNORECASE)


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
