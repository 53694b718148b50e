"""`Table`: the cells of a file, and which of them are names of columns; `ReadOptions`: how it is to be read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from udtw.data.table_cells import CLOCK, DATE, FAULT, cell_text, is_missing, is_number, is_row_number, is_time
from udtw.errors import DataError, OptionError

MISSING_POLICIES = ("raise", "omit", "interpolate")


@dataclass(frozen=True)
class ReadOptions:
    """How the user wants a file to be read."""

    columns: tuple[str, ...] | None = None
    """Columns that are features (or, in a wide table, steps), by name or number counted from 1."""
    time_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    transpose: bool = False
    missing: str = "raise"
    decimal: str | None = None
    skip_rows: int = 0
    """Lines above the table, such as titles and metadata."""
    encoding: str | None = None
    """Of text files; by default UTF-8, or UTF-16 with its mark."""

    def __post_init__(self) -> None:
        if self.missing not in MISSING_POLICIES:
            raise OptionError(f"--missing must be one of {', '.join(MISSING_POLICIES)}; got {self.missing!r}.")
        if self.decimal not in (None, ".", ","):
            raise OptionError(f"--decimal must be a point or a comma; got {self.decimal!r}.")
        if not isinstance(self.skip_rows, int) or self.skip_rows < 0:
            raise OptionError(f"--skip-rows must be a number of lines; got {self.skip_rows!r}.")

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are given by the user."""
        single = (self.time_column, self.label_column, self.id_column)
        return (*(self.columns or ()), *(one for one in single if one is not None))


AS_IT_IS = ReadOptions()
"""The default options."""


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
    """What was decided in reading it, for the user."""
    array: np.ndarray | None = None
    """An array (n, T, d), of a file that does not hold a table."""
    chosen: bool = False
    """Whether the columns that the user named have already chosen this array."""

    def place(self, row: int) -> str:
        """Return where a row is: "a.csv, line 3"."""
        return f"{self.where}, line {self.lines[row]}" if self.lines else f"{self.where}, row {row + 1}"

    def column(self, number: int) -> str:
        """Return what messages call a column: its name, or its number counted from 1."""
        name = self.names[number] if self.names else ""
        return f"column {name!r}" if name else f"value {number + 1}"

    def refuse_short_rows(self) -> None:
        """Raise `DataError` for rows with fewer cells than the others, whose missing cells are not known."""
        if self.widths:
            row = min(self.widths)
            full = next(at for at in range(len(self.cells)) if at not in self.widths)
            raise DataError(
                f"{self.place(row)}: {self.widths[row]} value(s), but {self.place(full).rpartition(', ')[2]} has "
                f"{self.cells.shape[1]}. Rows of a series have one value for each column; an empty cell keeps its "
                "separator."
            )

    def join_clock(self, options: ReadOptions) -> None:
        """Make one column of a date and a time of day in two, unless the user named them or numbered columns."""
        if self.widths or any(one.isdigit() for one in options.named):
            return
        hits: dict[re.Pattern[str], list[int]] = {DATE: [], CLOCK: []}
        for number in self.cells.columns:
            first = _moment(self.cells[number].iloc[0])
            for pattern, columns in hits.items():
                if pattern.fullmatch(first) and not is_number(first, options.decimal):
                    columns.append(number)
        if [len(columns) for columns in hits.values()] != [1, 1]:
            return
        (date,), (clock,) = hits.values()
        days, hours = ([_moment(cell) for cell in self.cells[number]] for number in (date, clock))
        names = self.names or [str(number + 1) for number in self.cells.columns]
        if any(":" in day for day in days) or not all(CLOCK.fullmatch(hour) for hour in hours):
            return
        if {names[date], names[clock]} & set(options.named):
            return
        self.cells[date] = [f"{day} {hour}" for day, hour in zip(days, hours, strict=True)]
        self.cells = self.cells.drop(columns=clock).set_axis(range(self.cells.shape[1] - 1), axis=1)
        names[date] = f"{names[date]} {names[clock]}".strip()
        self.names = [name for number, name in enumerate(names) if number != clock]


def with_header(table: Table, options: ReadOptions) -> Table:
    """Return the table without empty columns at its right end, transposed if wanted, with its header as names."""
    cells = table.cells
    width = len(cells.columns)
    while width > 1 and all(is_missing(cell) for cell in cells[width - 1]):
        width -= 1
    table.cells = cells = cells.iloc[:, :width]
    table.widths = {at: count for at, count in table.widths.items() if count < width}
    if options.transpose:
        if table.widths:
            at = min(table.widths)
            raise DataError(
                f"{table.place(at)}: {table.widths[at]} value(s) instead of {width}; --transpose needs all."
            )
        table.cells = cells = cells.T.reset_index(drop=True).set_axis(range(len(cells)), axis=1)
        table.lines = None
    first = cells.iloc[0].tolist()
    counting = _counts_columns(table, first)
    if counting == "names" or (counting and not options.named):
        written = f"{first[0]}, {first[1]}" + ", …" * (len(first) > 2)
        table.notes.append(
            f"the first row, {written}, is read as "
            + ("names of columns" if counting == "names" else "values; delete it if it names the columns")
        )
    if counting == "names" or _is_header(first, cells, options.decimal, options.named):
        if len(cells) == 1:
            raise DataError(f"{table.where} holds no numbers.")
        counts = [table.widths.get(row, cells.shape[1]) for row in range(len(cells))]
        if counts[0] not in counts[1:]:
            raise DataError(
                f"{table.place(0)}: {counts[0]} name(s), but the next line has {counts[1]} value(s). A header is one "
                "line with a name for each column; lines above it are left out with --skip-rows N. Decimal commas need "
                "--decimal ','."
            )
        table.names = [str(cell).strip() if isinstance(cell, str) or not is_missing(cell) else "" for cell in first]
        table.names = ["" if re.fullmatch(r"Unnamed: \d+", name) else name for name in table.names]
        table.cells = cells.iloc[1:].reset_index(drop=True)
        table.lines = table.lines[1:] if table.lines else None
        table.widths = {at - 1: count for at, count in table.widths.items() if at}
    return table


def _counts_columns(table: Table, first: list[Any]) -> str:
    """Return whether the first row is 0, 1, 2, … as pandas names columns, or years: "names", "perhaps", or "" (no)."""
    written = [str(cell).strip() for cell in first]
    if table.lines is None or len(table.cells) < 2 or len(first) < 2:
        return ""
    start = int(written[0]) if re.fullmatch(r"[01]|19\d\d|20\d\d", written[0]) else -1
    if written != [str(number) for number in range(start, start + len(first))]:
        return ""
    rows = table.cells.iloc[1:4].to_numpy(object)
    fractions = all(any(re.search(r"\d[.,]\d|[eE]", str(cell)) for cell in row) for row in rows)
    if start != 1 and len(first) > 2 and fractions:
        return "names"
    return "perhaps" if start != 1 or fractions else ""


def _is_header(first: list[Any], cells: Any, decimal: str | None, named: Sequence[str]) -> bool:
    """Return whether the first row holds names of columns instead of values."""
    # Cells of spreadsheets and JSON can be numbers already.
    written = [str(cell).strip() for cell in first if (isinstance(cell, str) and cell.strip()) or not is_missing(cell)]
    if named and set(named) & set(written) and not all(is_number(cell, decimal) for cell in named):
        return True
    words = [cell for cell in written if not is_number(cell, decimal)]
    if len(cells) == 1 and len(words) < len(written):
        return False
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
    starts = [str(cell).strip() for cell in cells[0].iloc[1:4]]
    index = [int(cell) if re.fullmatch(r"\d{1,15}", cell) else -1 for cell in starts]
    unnamed = is_missing(first[0]) and counted[0] == 0  # `, 0, 1, 2`: an index that pandas wrote
    return unnamed and (is_row_number(np.array(index)) or index[:2] == [0, 1])


def _moment(cell: Any) -> str:
    return cell_text(cell).removesuffix("T00:00:00")
