"""Series in users' files: the rows of a table are steps of one series or of several, or a series each."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from udtw.data.columns import ID_NAME, Columns, listed, order_by_names, steps_of
from udtw.data.labelled import stack_if_equal
from udtw.data.table import ReadOptions, Table
from udtw.data.table_cells import SURELY_TIME, cell_text, describe_axis, is_time
from udtw.data.table_files import read_table
from udtw.errors import DataError, LengthError, NonFiniteError, OptionError


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
    id: str = ""
    """Name of the series in its file."""
    label: str | int | None = None
    notes: list[str] = field(default_factory=list)
    """What was decided in reading it."""

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: np.ndarray) -> "Series":
        """Return the series of some of the steps, by their numbers."""
        return replace(
            self,
            values=self.values[rows],
            steps=self.steps[rows],
            time=None if self.time is None else self.time[rows],
            time_text=None if self.time_text is None else [self.time_text[row] for row in rows],
        )


@dataclass(frozen=True)
class SeriesTable:
    """Several series, of a file or of a data set."""

    series: list[Series]
    notes: list[str] = field(default_factory=list)
    step_names: list[str] | None = None
    """Names of the steps of a wide table."""

    def __len__(self) -> int:
        return len(self.series)

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return self.series[0].names

    @property
    def ids(self) -> list[str]:
        """Names of the series."""
        return [one.id for one in self.series]

    @property
    def labels(self) -> np.ndarray | None:
        """(n,) labels of the series, or None."""
        return None if self.series[0].label is None else np.array([one.label for one in self.series])

    @property
    def values(self) -> np.ndarray | list[np.ndarray]:
        """(n, T) or (n, T, d) if all are equally long, else a list of (T_i,) or (T_i, d)."""
        return stack_if_equal([one.values[:, 0] if one.values.shape[1] == 1 else one.values for one in self.series])


def read_series(source: str | Path, options: ReadOptions = ReadOptions(), content: bytes | None = None) -> Series:  # noqa: B008
    """Read a file whose rows are steps and columns features; one row of many numbers is a series too."""
    table = read_table(source, options, content)
    if table.array is not None:
        raise DataError(f"{table.where} holds an array of shape {table.array.shape}; one series is (T,) or (T, d).")
    table.join_clock(options)
    columns = Columns(table, options)
    time = columns.time_column()
    chosen = columns.features(exclude=() if time is None else (time,))
    if not chosen:
        raise DataError(f"{table.where} holds no numbers.")
    if len(table.cells) == 1 and len(chosen) > 1:
        values = columns.values(chosen).T
        notes = [*table.notes, f"one row of {len(values)} numbers, read as a series of {len(values)} steps"]
        series = Series(values, ["value"], steps=np.arange(len(values)), notes=notes)
        rows = np.zeros(len(values), int)
        return without_missing(series, options, table, rows, lambda step, _: table.column(chosen[step]))
    table.refuse_short_rows()
    series = _of_steps(columns, chosen, time)
    if table.names or len(chosen) > 1 or time is not None or columns.left_out:
        table.notes.append(columns.describe(chosen, time))
    series = replace(series, notes=table.notes)
    _refuse_totals(table, series.time_text, len(series) - 1)
    if series.time is not None and (row := _first_back(series.time)) is not None:
        raise DataError(
            f"{table.place(row)}: the time goes back. Sort the rows by time, or choose another --time-column "
            "or, if it is a measurement, --columns."
        )
    if series.time is not None and series.time_text is not None:
        series = replace(series, notes=[*series.notes, *describe_axis(series.time, series.time_text)])
    return without_missing(series, options, table, series.steps, _value_names(table, series.names))


def read_series_table(
    source: str | Path,
    options: ReadOptions = ReadOptions(),  # noqa: B008
    *,
    labels: bool = False,
    labels_optional: bool = False,
    content: bytes | None = None,
) -> SeriesTable:
    """Read several series: one per row (wide) or, if names in the id column repeat, one step per row (long).

    With ``labels`` a column that is named like one holds the labels. With ``labels_optional`` a file may lack the label
    column of the options, if its columns have names.
    """
    table = read_table(source, options, content)
    if table.array is not None:
        return _of_array(table, options)
    table.join_clock(options)
    columns = Columns(table, options)
    label = columns.label_column(labels, labels_optional)
    ids = None if options.id_column is None else columns.find(options.id_column, "--id-column")
    if ids is None:
        return _wide(columns, None, None, label)
    if ids == label:
        raise OptionError(f"--id-column and --label-column are the same column, {columns.title(ids)!r}.")
    names = columns.ids(ids)
    if len(set(names)) < len(names) or options.time_column is not None:
        _refuse_steps_as_rows(columns, names, ids, label)
        return _long(columns, names, ids, label)
    return _wide(columns, names, ids, label)


def _of_array(table: Table, options: ReadOptions) -> SeriesTable:
    if table.array is None or table.array.ndim != 3:
        raise DataError(f"{table.where} holds no array (n, T) or (n, T, d).")
    if options.named:
        raise OptionError(f"{table.where} is an array of series and has no columns; {options.named[0]!r} is none.")
    names = [str(number + 1) for number in range(table.array.shape[2])]
    every = [Series(one, names, steps=np.arange(len(one)), id=str(number)) for number, one in enumerate(table.array)]
    series = [without_missing(one, options, table, one.steps, _value_names(table, names)) for one in every]
    note = f"{len(series)} series of {table.array.shape[1]} steps and {len(names)} feature(s)"
    return SeriesTable(series, [*table.notes, note])


def _wide(columns: Columns, names: list[str] | None, ids: int | None, label: int | None) -> SeriesTable:
    """Return the series of a table with one per row."""
    table, options = columns.table, columns.options
    if options.time_column is not None:
        raise OptionError("--time-column belongs to tables with one row per step, which need --id-column as well.")
    steps = columns.features(exclude=tuple(one for one in (ids, label) if one is not None))
    order = ""
    if options.columns is None:
        _refuse_rows_as_steps(columns)
        steps = [number for number in steps if not columns.is_row_index(number)]
        steps, order = _only_steps(columns, steps)
    if len(steps) < 2:
        raise LengthError(
            f"{table.where}: {len(steps)} column(s) of numbers, but a row should be a series. If a row is a step, name "
            "the series with --id-column; if a column is a series, use --transpose."
        )
    labels = None if label is None else columns.labels(label)
    series = []
    for row, values in enumerate(columns.values(steps)):
        present = np.flatnonzero(~np.isnan(values))
        if not len(present):
            raise LengthError(f"{table.place(row)}: the series is empty.")
        length = int(present[-1]) + 1  # missing cells at the end: a shorter series
        one = Series(
            values[:length, None], ["value"], steps=np.arange(length), id=names[row] if names else str(row),
            label=labels[row] if labels else None,
        )  # fmt: skip
        series.append(
            without_missing(one, options, table, np.full(length, row), lambda step, _: table.column(steps[step]))
        )
    omitted = [note for one in series for note in one.notes]
    notes = [*table.notes, f"{_sizes(series)}, one per row{_roles(columns, ids, label, labels)}{order}"]
    if omitted:
        notes.append(f"{len(omitted)} series with missing values: {omitted[0]}" + (" …" if len(omitted) > 1 else ""))
    return SeriesTable(series, notes, [columns.title(one) for one in steps] if table.names else None)


def _only_steps(columns: Columns, numbers: list[int]) -> tuple[list[int], str]:
    """Return the columns of numbers that are steps, in the order of the numbers in their names, and a note on it."""
    if columns.table.names is None:
        return numbers, ""
    names = [columns.title(number) for number in numbers]
    try:
        found = steps_of(names)
    except DataError as error:
        raise DataError(f"{columns.table.where}: {error}") from None
    if found is None:
        kept = [number for number, name in zip(numbers, names, strict=True) if not ID_NAME.fullmatch(name)]
        columns.left_out += [f"{name} (an id)" for name in names if ID_NAME.fullmatch(name)]
        return kept, f"; steps {listed([columns.title(number) for number in kept])}"
    steps, others = found
    columns.left_out += [f"{names[at]} (not a step)" for at in others]
    ordered = "" if steps == sorted(steps) else f"; steps in the order {listed([names[at] for at in steps])}"
    return [numbers[at] for at in steps], ordered


def match_tables(table: SeriesTable, file: str, other: SeriesTable | tuple[list[str], list[str] | None]) -> SeriesTable:
    """Return a table with features and steps in the order of another one, matched by their names.

    ``other`` is the table of training, or the names of its features and of its steps.
    """
    features, steps = (other.names, other.step_names) if isinstance(other, SeriesTable) else other
    order = order_by_names(table.names, features, file, "the training")
    if order != list(range(len(table.names))):
        some = [replace(one, values=one.values[:, order], names=list(features)) for one in table.series]
        table = replace(table, series=some)
    own = table.step_names
    if own is None or steps is None:
        return table
    if steps_of(own) and steps_of(steps):
        _refuse_lost_steps(own, steps, file)
        return table
    if own[: len(steps)] == steps[: len(own)]:  # shorter or longer series
        return table
    places = order_by_names(own, steps, file, "the training")
    if any(len(one) <= max(places) for one in table.series):
        raise DataError(f"{file}: a series lacks steps at its end, and the steps have another order than in training.")
    return replace(table, series=[one.take(np.array(places)) for one in table.series], step_names=list(steps))


def _refuse_lost_steps(own: list[str], steps: list[str], file: str) -> None:
    """Raise `DataError` if a table lacks a step of the training between two others; it may end or begin elsewhere."""
    found, sought = ([one.casefold() for one in some] for some in (own, steps))
    if not set(found) <= set(sought):
        return
    between = range(sought.index(found[0]), sought.index(found[-1]))
    lost = [steps[at] for at in between if sought[at] not in found]
    if lost:
        raise DataError(f"{file} has no column {listed(lost)}, a step in the training. Add it, or train without it.")


def _refuse_rows_as_steps(columns: Columns) -> None:
    """Raise `DataError` if a row of a table without an id column seems to be a step, or a column has words."""
    table = columns.table
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


def _refuse_steps_as_rows(columns: Columns, names: list[str], ids: int, label: int | None) -> None:
    """Raise `DataError` if ids repeat in a table whose columns are numbered and more than the rows of an id."""
    if columns.options.columns is not None or columns.options.time_column is not None:
        return
    titles = [columns.title(number) for number in range(columns.width) if number not in (ids, label)]
    numbered = steps_of(titles)
    found = [one for one in titles if is_time(one)] if numbered is None else [titles[at] for at in numbered[0]]
    rows = len(names) / len(set(names))
    if len(found) > max(4, 2 * rows):
        raise DataError(
            f"{columns.table.where}: the id column {columns.title(ids)!r} repeats, which makes a row a step; but the "
            f"{len(found)} columns {listed(found)} look like steps. If a row is "
            "a series, leave --id-column out; if it is a step, name its features with --columns."
        )


def _long(columns: Columns, names: list[str], ids: int, label: int | None) -> SeriesTable:
    """Return the series of a table with one row per step; ``names`` are those of the series of each row."""
    table, options = columns.table, columns.options
    table.refuse_short_rows()
    groups: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        groups.setdefault(name, []).append(row)
    rows = {name: np.array(own) for name, own in groups.items()}
    time = columns.time_column(list(rows.values()), (ids, label))
    roles = tuple(one for one in (ids, label, time) if one is not None)
    chosen = columns.features(exclude=roles)
    if options.columns is None and 0 in chosen and columns.name(0) == "":
        chosen.remove(0)  # the index of a data frame
        columns.left_out.append("1 (unnamed)")
    if not chosen:
        raise DataError(f"{table.where} holds no numbers beside {listed([columns.title(one) for one in roles])}.")
    every = _of_steps(columns, chosen, time)
    labels = None if label is None else columns.labels(label)
    series, omitted, irregular = [], 0, []
    for name, own in rows.items():
        kinds = sorted({labels[row] for row in own}) if labels else []
        if len(kinds) > 1:
            raise DataError(f"{table.where}: series {name!r} has the labels {listed(kinds)}; it must have one.")
        one = replace(every.take(own), steps=np.arange(len(own)), id=name, label=kinds[0] if kinds else None)
        _refuse_totals(table, one.time_text, int(own[-1]))
        if one.time is not None and (late := _first_back(one.time)) is not None:
            raise DataError(
                f"{table.place(int(own[late]))}: the time of series {name!r} goes back. Sort the rows by time."
            )
        if one.time is not None and one.time_text is not None:
            irregular += [f"series {name}: {note}" for note in describe_axis(one.time, one.time_text)]
        series.append(without_missing(one, options, table, own, _value_names(table, one.names)))
        omitted += len(own) - len(series[-1])
    shape = f"{_sizes(series)}, one row per step, of columns {listed(series[0].names)}"
    shape += "" if time is None else f"; time column {columns.title(time)}"
    notes = [*table.notes, shape + _roles(columns, ids, label, labels)]
    if irregular:
        notes.append(irregular[0] + (f"; and {len(irregular) - 1} more such notes" if len(irregular) > 1 else ""))
    if omitted:
        notes.append(f"left out {omitted} steps with missing values")
    return SeriesTable(series, notes)


def _of_steps(columns: Columns, chosen: list[int], time: int | None) -> Series:
    """Return a table whose rows are steps as one series."""
    values = columns.values(chosen)
    series = Series(values, [columns.title(number) for number in chosen], steps=np.arange(len(values)))
    if time is None:
        return series
    text = [cell_text(cell) for cell in columns.table.cells[time]]
    return replace(series, time=columns.seconds(time), time_text=text, time_name=columns.title(time))


def _refuse_totals(table: Table, time_text: list[str] | None, row: int) -> None:
    """Raise `DataError` if the last step, at this row, has no time while others do: a row of totals."""
    if time_text and not time_text[-1] and any(time_text):
        raise DataError(
            f"{table.place(row)}: the time is empty in the last row. Delete it if it is a row of totals or a remark; "
            "otherwise fill in the time, or choose the features with --columns."
        )


def _first_back(time: np.ndarray) -> int | None:
    """Return the first step that is earlier than the one before it, if there is one."""
    known = np.flatnonzero(np.isfinite(time))
    back = np.flatnonzero(np.diff(time[known]) < 0)
    return int(known[back[0] + 1]) if len(back) else None


def _value_names(table: Table, names: list[str]) -> Callable[[int, int], str]:
    return lambda _, feature: names[feature] if table.names else f"value {names[feature]}"


def _roles(columns: Columns, ids: int | None, label: int | None, labels: list[str] | None) -> str:
    text = f"; id column {columns.title(ids)}" if ids is not None else ""
    if label is not None and labels is not None:
        text += f"; label column {columns.title(label)} ({len(set(labels))} classes)"
    return text + columns.describe_left_out()


def _sizes(series: list[Series]) -> str:
    low, high = (pick(len(one) for one in series) for pick in (min, max))
    return f"{len(series)} series of {low} steps" if low == high else f"{len(series)} series of {low} to {high} steps"


def without_missing(
    series: Series, options: ReadOptions, table: Table, rows: np.ndarray, column: Callable[[int, int], str]
) -> Series:
    """Return the series without missing values, following ``options.missing``.

    ``rows`` (T,) of the table hold the steps; ``column(step, feature)`` is what a message calls the column of a value.
    """
    empty = np.isnan(series.values)
    gaps = empty.any(1)
    if not gaps.any():
        return series
    if options.missing == "raise":
        first = int(np.argmax(gaps))
        name = column(first, int(np.argmax(empty[first])))
        raise NonFiniteError(
            f"{table.place(int(rows[first]))}: {name} is empty or missing; {int(empty.sum())} cell(s) of {table.where} "
            "are. Leave out such steps with --missing omit, or fill them with --missing interpolate."
        )
    if options.missing == "omit":
        kept = ~gaps
        if not kept.any():
            raise LengthError(f"{table.where}: every step has a missing value, so that --missing omit leaves none.")
        note = f"left out {int(gaps.sum())} of {len(gaps)} steps with missing values"
        return replace(series.take(np.flatnonzero(kept)), notes=[*series.notes, note])
    axis = series.time if series.time is not None and np.isfinite(series.time).all() else series.steps.astype(float)
    values, ends = series.values.copy(), 0
    for feature, missing in enumerate(empty.T):
        if missing.all():
            raise LengthError(f"{table.where}: column {series.names[feature]!r} has no value to interpolate from.")
        inside = np.flatnonzero(~missing)
        ends += int(missing[: inside[0]].sum() + missing[inside[-1] :].sum())
        values[missing, feature] = np.interp(axis[missing], axis[~missing], series.values[~missing, feature])
    note = f"interpolated {int(empty.sum())} missing value(s)"
    if ends:
        note += f", {ends} of them at an end, where they repeat the nearest value"
    return replace(series, values=values, notes=[*series.notes, note])
