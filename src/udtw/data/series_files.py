"""Series in users' files: which columns are features, time, labels and names of series, and what missing cells mean.

Everything that a user did not say and that is decided here is told in ``notes``: which columns are used, which one is
the time, what was left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from udtw.data.table import Table, join_clock
from udtw.data.table_cells import Numbers, cell_text, compact_dates, is_time_axis, numbers, times
from udtw.data.table_files import read_bytes, read_table
from udtw.errors import DataError, LengthError, NonFiniteError, OptionError

MISSING_POLICIES = ("raise", "omit", "interpolate")
MANY = 100
"""Columns from which on all are parsed together, which is faster."""
NUMBER_LIKE = re.compile(r"\W*\d")
"""Begins as `$5`, `5 kg` or `1,5` do."""
LISTED = 12
"""Names of columns that a message lists."""


@dataclass(frozen=True)
class ReadOptions:
    """What the user said about a file."""

    columns: tuple[str, ...] | None = None
    """Columns that are features (or, in a wide table, steps), by name or number counted from 1."""
    time_column: str | None = None
    label_column: str | None = None
    id_column: str | None = None
    transpose: bool = False
    missing: str = "raise"
    decimal: str | None = None

    def __post_init__(self) -> None:
        if self.missing not in MISSING_POLICIES:
            raise OptionError(f"--missing must be one of {', '.join(MISSING_POLICIES)}; got {self.missing!r}.")
        if self.decimal not in (None, ".", ","):
            raise OptionError(f"--decimal must be a point or a comma; got {self.decimal!r}.")

    @property
    def named(self) -> tuple[str, ...]:
        """All columns that are given by the user."""
        single = (self.time_column, self.label_column, self.id_column)
        return (*(self.columns or ()), *(one for one in single if one is not None))


@dataclass(frozen=True)
class Series:
    """One series of a file."""

    values: np.ndarray
    """(T, d)"""
    names: list[str]
    """Of the d features."""
    time: np.ndarray | None = None
    """(T,): the time axis as numbers (seconds for dates)."""
    time_text: list[str] | None = None
    """The cells of the time axis as they are in the file."""
    time_name: str | None = None
    steps: np.ndarray = field(default_factory=lambda: np.zeros(0, int))
    """(T,): the steps of the file, counted from 0; some are missing if steps were left out."""
    notes: list[str] = field(default_factory=list)


def read_series(source: str | Path, options: ReadOptions = ReadOptions(), content: bytes | None = None) -> Series:  # noqa: B008
    """The series in a file: rows are steps, columns features; one row of many numbers is a series too."""
    where = "standard input" if str(source) == "-" else str(source)
    content = read_bytes(source) if content is None else content
    table = read_table(content, where, decimal=options.decimal, transpose=options.transpose, named=options.named)
    if table.array is not None:
        raise DataError(f"{where} holds an array of shape {table.array.shape}; one series is (T,) or (T, d).")
    return _series(table, options)


def _series(table: Table, options: ReadOptions) -> Series:
    join_clock(table, options.named, options.decimal)
    columns = Columns(table, options)
    time = columns.time_column()
    chosen = columns.features(exclude=() if time is None else (time,))
    if not chosen:
        raise DataError(f"{table.where} holds no numbers.")
    if len(table.cells) == 1 and len(chosen) > 1:
        return _one_row(columns, chosen)
    columns.refuse_short_rows()
    values = np.column_stack([columns.clean(number).values for number in chosen])
    seconds = None if time is None else columns.seconds(time)
    notes = list(table.notes)
    if table.names or len(chosen) > 1 or time is not None or columns.left_out:
        notes.append(columns.said(chosen, time))
    found = Series(
        values, [columns.title(number) for number in chosen], seconds,
        None if time is None else [cell_text(cell) for cell in table.cells[time]],
        None if time is None else columns.title(time), np.arange(len(values)), notes,
    )  # fmt: skip
    if seconds is not None:
        columns.check_order(seconds)
    return without_missing(found, options.missing, table)


def _one_row(columns: "Columns", chosen: list[int]) -> Series:
    """One row of numbers as a series of one feature."""
    values = np.array([columns.clean(number).values[0] for number in chosen])
    notes = [*columns.table.notes, f"one row of {len(values)} numbers, read as a series of {len(values)} steps"]
    found = Series(values[:, None], ["value"], steps=np.arange(len(values)), notes=notes)
    return without_missing(found, columns.options.missing, columns.table, across=chosen)


class Columns:
    """The columns of a table, parsed when they are first needed, and what is said about them."""

    def __init__(self, table: Table, options: ReadOptions) -> None:
        self.table = table
        self.options = replace(options, columns=None) if table.chosen else options
        self._numbers: dict[int, Numbers] = (
            _all_numbers(table, options.decimal) if len(table.cells.columns) > MANY else {}
        )
        self.left_out: list[str] = []

    def title(self, number: int) -> str:
        """The name of a column, or its number counted from 1."""
        name = self.table.names[number] if self.table.names else ""
        return name or str(number + 1)

    def find(self, wanted: str, flag: str) -> int:
        """The column that a user named, by name or by number counted from 1."""
        names = self.table.names or []
        hits = [number for number, name in enumerate(names) if name == wanted.strip()]
        hits = hits or [number for number, name in enumerate(names) if name.lower() == wanted.strip().lower()]
        if len(hits) > 1:
            raise OptionError(
                f"{flag} {wanted}: {self.table.where} has {len(hits)} columns of that name; give a number."
            )
        if hits:
            return hits[0]
        width = self.table.cells.shape[1]
        if wanted.strip().isdigit() and 1 <= int(wanted) <= width:
            return int(wanted) - 1
        known = listed([name or str(number + 1) for number, name in enumerate(names)]) if names else ""
        has = f"its columns are {known}" if known else f"it has no names, and {width} column(s), numbered from 1"
        raise OptionError(f"{flag} {wanted}: {self.table.where} has no such column; {has}.")

    def numbers(self, number: int) -> Numbers:
        if number not in self._numbers:
            found = numbers(self.table.cells[number], self.options.decimal)
            if found.doubtful.any():
                self._settle(number, found)
            self._numbers[number] = found
        return self._numbers[number]

    def _settle(self, number: int, found: Numbers) -> None:
        """Say how a comma is read if that is clear, or raise if it is not."""
        row = int(np.argmax(found.doubtful))
        cell = cell_text(self.table.cells[number].iloc[row])
        if self.table.separator != ",":
            raise DataError(
                f"{self.table.place(row)}: {self.table.column(number)} is {cell!r}, which may have a decimal comma or "
                "a thousands separator. Say which: --decimal ',' or --decimal '.'."
            )
        note = f"{cell} is read as {found.values[row]:g} (--decimal ',' reads decimal commas)"
        if note not in self.table.notes:
            self.table.notes.append(note)

    def clean(self, number: int) -> Numbers:
        """The numbers of a column, or an error that names the first cell that is none."""
        found = self.numbers(number)
        if found.clean:
            return found
        row = int(np.argmax(found.bad))
        cell = cell_text(self.table.cells[number].iloc[row])
        place = f"{self.table.place(row)}: {self.table.column(number)} is {cell!r:.60}"
        if cell.lower().lstrip("+-") in ("inf", "infinity"):
            raise DataError(f"{place}, not a finite number. Empty the cell, and use --missing omit or interpolate.")
        if self.options.decimal is None and numbers(self.table.cells[number].iloc[[row]], ",").clean:
            raise DataError(f"{place}, not a number with a decimal point. For decimal commas use --decimal ','.")
        raise DataError(
            f"{place}, not a number. Empty the cell and use --missing omit or interpolate, or choose other columns "
            "with --columns. A header has at most one line, with a name for each column."
        )

    def time_column(self) -> int | None:
        """The column of the time axis: the one given, or one that can be nothing else."""
        if self.options.time_column is not None:
            return self.find(self.options.time_column, "--time-column")
        taken = set(self.given_features())
        count = self.table.cells.shape[1]
        free = [number for number in range(count) if number not in taken]
        if count < 2 or len(self.table.cells) < 2:
            return None
        for number in free:
            # Numbers first: most columns are, and `12.05.24` is not one.
            if not self.numbers(number).clean and times(self.table.cells[number]) is not None:
                return number
        return next((number for number in free if self.is_axis(number)), None)

    def is_axis(self, number: int) -> bool:
        """Whether a column of numbers is an index or a time axis."""
        name = self.table.names[number] if self.table.names else None
        found = self.numbers(number)
        return found.clean and is_time_axis(found.values, name, number == 0)

    def seconds(self, number: int) -> np.ndarray:
        """The time axis as numbers."""
        found = self.numbers(number)
        if found.clean:
            days = compact_dates(found.values)
            return found.values if days is None else (days - days.min()).dt.total_seconds().to_numpy()
        stamps = times(self.table.cells[number])
        if stamps is None:
            row = int(np.argmax(found.bad))
            cell = cell_text(self.table.cells[number].iloc[row])
            raise DataError(
                f"{self.table.place(row)}: {self.table.column(number)} is {cell!r}, neither a time nor a number."
            )
        return stamps

    def check_order(self, seconds: np.ndarray) -> None:
        known = np.flatnonzero(np.isfinite(seconds))
        back = np.flatnonzero(np.diff(seconds[known]) < 0)
        if len(back):
            row = int(known[back[0] + 1])
            raise DataError(
                f"{self.table.place(row)}: the time goes back. Sort the rows by time, or choose another --time-column "
                "or, if it is a measurement, --columns."
            )

    def given_features(self) -> list[int]:
        """The columns that the user named, in that order; none if the user did not."""
        wanted = self.options.columns
        if wanted is None:
            return []
        width = self.table.cells.shape[1]
        if self.table.names is None and width == len(wanted) and not any(one.isdigit() for one in wanted):
            return list(range(width))  # a file of these columns alone, without names
        chosen = [self.find(one, "--columns") for one in wanted]
        if not chosen:
            raise OptionError("--columns names no column.")
        if len(set(chosen)) < len(chosen):
            raise OptionError(f"--columns names a column twice: {', '.join(wanted)}.")
        return chosen

    def features(self, exclude: Sequence[int] = ()) -> list[int]:
        """The columns that are features: those given, or all of numbers that have no other role."""
        if self.options.columns is not None:
            chosen = self.given_features()
            for number in set(chosen) & set(exclude):
                raise OptionError(f"--columns names {self.title(number)!r}, which has another role already.")
            return chosen
        chosen = []
        for number in range(self.table.cells.shape[1]):
            if number in exclude:
                continue
            found = self.numbers(number)
            if found.missing.all():
                self.left_out.append(f"{self.title(number)} (empty)")
            elif found.textual and self.table.names and self.table.names[number] and self._is_text(number):
                self.left_out.append(f"{self.title(number)} (no numbers)")
            elif exclude and self.is_axis(number):
                self.left_out.append(f"{self.title(number)} (an index)")
            else:
                chosen.append(number)
        return chosen

    def _is_text(self, number: int) -> bool:
        """Whether the cells of a column are words or dates, rather than numbers in a form that is not understood."""
        cells = self.table.cells[number]
        if times(cells) is not None:
            return True
        return not any(NUMBER_LIKE.match(cell_text(cell)) for cell in cells)

    def refuse_short_rows(self) -> None:
        """Raise for rows with fewer cells than the others: which of them are missing is not known."""
        if self.table.widths:
            row = min(self.table.widths)
            width = self.table.cells.shape[1]
            full = next(at for at in range(len(self.table.cells)) if at not in self.table.widths)
            other = self.table.place(full).rpartition(", ")[2]
            raise DataError(
                f"{self.table.place(row)}: {self.table.widths[row]} value(s), but {other} has {width}. Rows of a "
                "series have one value for each column; an empty cell keeps its separator."
            )

    def said(self, chosen: list[int], time: int | None) -> str:
        titles = listed([self.title(number) for number in chosen])
        text = f"using column{'s' * (len(chosen) > 1)} {titles}"
        if time is not None:
            unnamed = " (unnamed)" if self.table.names and not self.table.names[time] else ""
            text += f"; time column {self.title(time)}{unnamed}"
        return text + (f"; left out {', '.join(self.left_out)}" if self.left_out else "")


def _all_numbers(table: Table, decimal: str | None) -> dict[int, Numbers]:
    """The numbers of every column; a comma that can be read in two ways is left to `Columns.numbers`."""
    import pandas

    width, rows = len(table.cells.columns), len(table.cells)
    found = numbers(pandas.Series(table.cells.to_numpy(object).T.ravel(), dtype=object), decimal)
    if found.doubtful.any():
        return {}
    parts = (found.values, found.missing, found.bad, found.doubtful)
    return {at: Numbers(*(one.reshape(width, rows)[at] for one in parts)) for at in range(width)}


def listed(names: list[str]) -> str:
    """Names in one line, the middle ones left out if they are many."""
    return ", ".join(names) if len(names) <= LISTED else f"{', '.join(names[:3])}, …, {names[-1]} ({len(names)})"


def without_missing(
    found: Series, policy: str, table: Table, rows_of_table: np.ndarray | None = None, across: list[int] | None = None
) -> Series:
    """The series without missing values, as ``policy`` says.

    ``rows_of_table`` (T,): the rows of its steps, all by default; ``across``: columns that are the steps of a row.
    """
    empty = np.isnan(found.values)
    rows = empty.any(1)
    if not rows.any():
        return found
    first = int(np.argmax(rows))
    if across is not None:
        row = 0 if rows_of_table is None else int(rows_of_table[0])
        place, what = table.place(row), table.column(across[first])
    else:
        row = first if rows_of_table is None else int(rows_of_table[first])
        names = [name if table.names else f"value {name}" for name in found.names]
        place, what = table.place(row), names[int(np.argmax(empty[first]))]
    if policy == "raise":
        raise NonFiniteError(
            f"{place}: {what} is empty or missing; {int(empty.sum())} cell(s) of {table.where} are. Leave out such "
            "steps with --missing omit, or fill them with --missing interpolate."
        )
    if policy == "omit":
        kept = ~rows
        if not kept.any():
            raise LengthError(f"{table.where}: every step has a missing value, so that --missing omit leaves none.")
        return replace(
            found, values=found.values[kept], steps=found.steps[kept],
            time=None if found.time is None else found.time[kept],
            time_text=None if found.time_text is None else [t for t, k in zip(found.time_text, kept, strict=True) if k],
            notes=[*found.notes, f"left out {int(rows.sum())} of {len(rows)} steps with missing values"],
        )  # fmt: skip
    axis = found.time if found.time is not None and np.isfinite(found.time).all() else found.steps.astype(float)
    values = found.values.copy()
    ends = 0
    for feature, gaps in enumerate(empty.T):
        if gaps.all():
            raise LengthError(f"{table.where}: column {found.names[feature]!r} has no value to interpolate from.")
        inside = np.flatnonzero(~gaps)
        ends += int(gaps[: inside[0]].sum() + gaps[inside[-1] :].sum())
        values[gaps, feature] = np.interp(axis[gaps], axis[~gaps], found.values[~gaps, feature])
    note = f"interpolated {int(empty.sum())} missing value(s)"
    if ends:
        note += f", {ends} of them at an end, where they repeat the nearest value"
    return replace(found, values=values, notes=[*found.notes, note])
