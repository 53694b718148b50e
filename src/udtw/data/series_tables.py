"""Sets of series in users' files: wide tables (a row is a series) and long ones (a row is a step), with labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udtw.data.labelled import stack_if_equal
from udtw.data.series_files import Columns, ReadOptions, Series, listed, without_missing
from udtw.data.table import Table, join_clock
from udtw.data.table_cells import SURELY_TIME, TIME_NAME, cell_text, is_missing, is_row_number, times
from udtw.data.table_files import read_bytes, read_table
from udtw.errors import DataError, LengthError, OptionError

LABEL_NAMES = ("label", "labels", "class", "target", "y")


@dataclass(frozen=True)
class SeriesTable:
    """Several series of a file, with labels and names where it has them."""

    series: list[Series]
    labels: list[str] | None
    ids: list[str]
    layout: str
    """Whether a row of the file is a series ("wide") or a step of one ("long")."""
    notes: list[str]

    def __len__(self) -> int:
        return len(self.series)

    @property
    def values(self) -> np.ndarray | list[np.ndarray]:
        """(n, T) or (n, T, d) if all are equally long, else a list of (T_i,) or (T_i, d)."""
        return stack_if_equal([one.values[:, 0] if one.values.shape[1] == 1 else one.values for one in self.series])


def read_series_table(
    source: str | Path,
    options: ReadOptions = ReadOptions(),  # noqa: B008
    *,
    labels: bool = False,
    labels_optional: bool = False,
    content: bytes | None = None,
) -> SeriesTable:
    """The series in a file; with ``labels`` a column that is named like one is taken as such.

    With ``labels_optional`` a file may lack the label column of the options, if its columns have names.
    """
    where = "standard input" if str(source) == "-" else str(source)
    content = read_bytes(source) if content is None else content
    table = read_table(content, where, decimal=options.decimal, transpose=options.transpose, named=options.named)
    if table.array is not None:
        return _of_array(table, options)
    join_clock(table, options.named, options.decimal)
    columns = Columns(table, options)
    label = _label_column(columns, labels, labels_optional)
    names = None if options.id_column is None else columns.find(options.id_column, "--id-column")
    if names is not None and names == label:
        raise OptionError(f"--id-column and --label-column are the same column, {columns.title(names)!r}.")
    given = [] if names is None else [cell_text(cell) for cell in table.cells[names]]
    if "" in given:
        raise DataError(f"{table.place(given.index(''))}: the id ({columns.title(names or 0)!r}) is empty.")
    if len(set(given)) < len(given) or (names is not None and options.time_column is not None):
        return _long(columns, given, names or 0, label)
    return _wide(columns, given, names, label)


def _of_array(table: Table, options: ReadOptions) -> SeriesTable:
    if table.array is None or table.array.ndim != 3:
        raise DataError(f"{table.where} holds no array (n, T) or (n, T, d).")
    if options.named:
        raise OptionError(f"{table.where} is an array of series and has no columns; {options.named[0]!r} is none.")
    names = [str(number + 1) for number in range(table.array.shape[2])]
    series = [
        without_missing(Series(one, names, steps=np.arange(len(one))), options.missing, table) for one in table.array
    ]
    note = f"{len(series)} series of {table.array.shape[1]} steps and {len(names)} feature(s)"
    return SeriesTable(series, None, [str(number) for number in range(len(series))], "wide", [*table.notes, note])


def _label_column(columns: Columns, guess: bool, optional: bool) -> int | None:
    if columns.options.label_column is not None:
        wanted, lower = columns.options.label_column.lower(), [name.lower() for name in columns.table.names or ()]
        if optional and wanted not in lower and (lower or not wanted.isdigit()):
            return None
        return columns.find(columns.options.label_column, "--label-column")
    names = [name.lower() for name in columns.table.names or ()]
    hits = [number for number, name in enumerate(names) if name in LABEL_NAMES]
    return hits[0] if guess and len(hits) == 1 else None


def label_text(cell: Any) -> str:
    """A label as text; 2, "2" and "2.0" are one label."""
    text = cell_text(cell)
    try:
        number = float(text)
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() else text


def _labels(columns: Columns, number: int) -> list[str]:
    cells = columns.table.cells[number].tolist()
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise DataError(f"{columns.table.place(row)}: the label ({columns.title(number)!r}) is missing.")
    return [label_text(cell) for cell in cells]


def _roles(columns: Columns, ids: int | None, label: int | None, classes: list[str] | None) -> str:
    said = f"; id column {columns.title(ids)}" if ids is not None else ""
    if label is not None and classes is not None:
        said += f"; label column {columns.title(label)} ({len(set(classes))} classes)"
    return said + (f"; left out {', '.join(columns.left_out)}" if columns.left_out else "")


def _sizes(series: Sequence[Series]) -> str:
    low, high = (pick(len(one.values) for one in series) for pick in (min, max))
    return f"{len(series)} series of {low} steps" if low == high else f"{len(series)} series of {low} to {high} steps"


def _wide(columns: Columns, given: list[str], ids: int | None, label: int | None) -> SeriesTable:
    table, options = columns.table, columns.options
    if options.time_column is not None:
        raise OptionError("--time-column belongs to tables with one row per step, which need --id-column as well.")
    roles = tuple(one for one in (ids, label) if one is not None)
    steps = columns.features(exclude=roles)
    if options.columns is None:
        for name in table.names or ():
            if SURELY_TIME.fullmatch(name):
                raise DataError(
                    f"{table.where} has a column {name!r}, so that a row seems to be a step. Name the series with "
                    "--id-column; or, if a row is a series, choose its steps with --columns."
                )
        for name in columns.left_out:
            if name.endswith("(no numbers)"):
                raise DataError(
                    f"{table.where}: column {name.removesuffix(' (no numbers)')!r} holds no numbers. Is it the label "
                    "(--label-column), or the name of the series (--id-column)? Or choose the steps with --columns."
                )
        steps = [number for number in steps if not _is_index(columns, number)]
    if len(steps) < 2:
        raise LengthError(
            f"{table.where}: {len(steps)} column(s) of numbers, but a row should be a series. If a row is a step, name "
            "the series with --id-column; if a column is a series, use --transpose."
        )
    values = np.column_stack([columns.clean(number).values for number in steps])
    classes = None if label is None else _labels(columns, label)
    series = []
    for row, one in enumerate(values):
        present = np.flatnonzero(~np.isnan(one))
        if not len(present):
            raise LengthError(f"{table.place(row)}: the series is empty.")
        length = int(present[-1]) + 1  # missing cells at the end: a shorter series
        found = Series(one[:length, None], ["value"], steps=np.arange(length))
        series.append(without_missing(found, options.missing, table, np.array([row]), across=steps))
    omitted = [note for one in series for note in one.notes]
    notes = [*table.notes, f"{_sizes(series)}, one per row{_roles(columns, ids, label, classes)}"]
    if omitted:
        notes.append(f"{len(omitted)} series with missing values: {omitted[0]}" + (" …" if len(omitted) > 1 else ""))
    return SeriesTable(series, classes, given or [str(row) for row in range(len(series))], "wide", notes)


def _is_index(columns: Columns, number: int) -> bool:
    """Whether a column of a wide table numbers its rows; it is then left out, and that is said."""
    names = columns.table.names
    if number > 0 or (names and names[0] and not TIME_NAME.fullmatch(names[0]) and names[0].lower() != "id"):
        return False
    index = is_row_number(columns.clean(number).values)
    if index:
        columns.left_out.append(f"{columns.title(number)} (numbers the rows)")
    return index


def _long(columns: Columns, given: list[str], ids: int, label: int | None) -> SeriesTable:
    table, options = columns.table, columns.options
    columns.refuse_short_rows()
    members: dict[str, list[int]] = {}
    for row, name in enumerate(given):
        members.setdefault(name, []).append(row)
    rows = {name: np.array(own) for name, own in members.items()}
    time = _long_time(columns, list(rows.values()), {ids, label})
    roles = tuple(one for one in (ids, label, time) if one is not None)
    features = columns.features(exclude=roles)
    if options.columns is None and columns.table.names and 0 in features and not columns.table.names[0]:
        features.remove(0)  # the index of a data frame
        columns.left_out.append("1 (unnamed)")
    if not features:
        raise DataError(f"{table.where} holds no numbers beside {listed([columns.title(one) for one in roles])}.")
    values = np.column_stack([columns.clean(number).values for number in features])
    seconds = None if time is None else columns.seconds(time)
    written = None if time is None else [cell_text(cell) for cell in table.cells[time]]
    every = None if label is None else _labels(columns, label)
    titles = [columns.title(number) for number in features]
    series, classes, omitted = [], [], 0
    for name, own in rows.items():
        if seconds is not None and (np.diff(seconds[own]) < 0).any():
            late = own[1:][np.diff(seconds[own]) < 0][0]
            raise DataError(f"{table.place(int(late))}: the time of series {name!r} goes back. Sort the rows by time.")
        if every is not None:
            kinds = sorted({every[row] for row in own})
            if len(kinds) > 1:
                raise DataError(f"{table.where}: series {name!r} has the labels {listed(kinds)}; it must have one.")
            classes += kinds
        found = Series(
            values[own], titles, None if seconds is None else seconds[own],
            None if written is None else [written[row] for row in own],
            None if time is None else columns.title(time), np.arange(len(own)),
        )  # fmt: skip
        series.append(without_missing(found, options.missing, table, own))
        omitted += len(own) - len(series[-1].values)
    said = f"{_sizes(series)}, one row per step, of columns {listed(titles)}"
    said += "" if time is None else f"; time column {columns.title(time)}"
    notes = [*table.notes, said + _roles(columns, ids, label, classes or None)]
    if omitted:
        notes.append(f"left out {omitted} steps with missing values")
    return SeriesTable(series, classes if every is not None else None, list(rows), "long", notes)


def _long_time(columns: Columns, groups: list[np.ndarray], roles: set[int | None]) -> int | None:
    """The time axis of a long table: the one given, dates, or a column that is named so and rises in every series."""
    if columns.options.time_column is not None:
        return columns.find(columns.options.time_column, "--time-column")
    chosen = set(columns.given_features())
    for number in range(columns.table.cells.shape[1]):
        if number in roles or number in chosen:
            continue
        found = columns.numbers(number)
        if not found.clean:
            if times(columns.table.cells[number]) is not None:
                return number
            continue
        name = columns.table.names[number] if columns.table.names else None
        rises = all((np.diff(found.values[own]) > 0).all() for own in groups)
        counts = all(len(own) < 3 or is_row_number(found.values[own]) for own in groups) and len(groups) > 1
        if (rises and (counts or (name and TIME_NAME.fullmatch(name)))) or (name and SURELY_TIME.fullmatch(name)):
            return number  # `time` that goes back is refused later
    return None
