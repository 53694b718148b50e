"""Files that commands read and write: the user's series, data sets by name, tables of results."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from udtw.cli.output import note
from udtw.data import LabelledSeries, cylinder_bell_funnel, load_ucr, series_files, synthetic_control, znormalize
from udtw.data.columns import listed, order_by_names
from udtw.data.series_files import Series, SeriesTable, match_tables
from udtw.data.table import ReadOptions, Table
from udtw.data.table_cells import cell_text, numbers
from udtw.data.table_files import is_file_name, read_table
from udtw.errors import FileFormatError, OptionError, ShapeError, VarianceError

GENERATED = ("cbf", "synthetic-control")
TRAIN_PER_CLASS, TEST_PER_CLASS = 15, 50


def saved_form(table: SeriesTable, reading: ReadOptions) -> dict[str, Any]:
    """Return how the series of training were read and what their columns are called, to be saved with a model."""
    return {"reading": vars(reading), "names": table.names, "steps": table.step_names}


def saved_reading(saved: dict[str, Any]) -> ReadOptions:
    """Return the `ReadOptions` that were saved with a model."""
    try:
        columns = saved.get("columns")
        return ReadOptions(**saved | {"columns": None if columns is None else tuple(columns)})
    except (TypeError, AttributeError) as error:
        raise FileFormatError(f"Unrecognized reading options in model file: {error}.") from error


def read_series(source: Path, options: ReadOptions = ReadOptions()) -> Series:  # noqa: B008
    """Read one series; print as a message which columns are used, and what else was decided."""
    series = series_files.read_series(source, options)
    _print_notes(source, series.notes)
    return series


def read_series_table(
    source: Path, options: ReadOptions, *, labels: bool = False, labels_optional: bool = False
) -> SeriesTable:
    """Read several series, one per row or (long format) per id; with messages as `read_series`."""
    table = series_files.read_series_table(source, options, labels=labels, labels_optional=labels_optional)
    _print_notes(source, table.notes)
    return table


def _print_notes(source: Path, notes: list[str]) -> None:
    if notes:
        note(f"{'standard input' if str(source) == '-' else source.name}: {'; '.join(notes)}")


def read_any(
    source: str, options: ReadOptions, data_dir: Path | None, seed: int, *, labels: bool = False
) -> SeriesTable:
    """Read the series of a file, or the training series of the data set of that name."""
    if is_file_name(source):
        return read_series_table(Path(source), options, labels=labels)
    return load_dataset(source, data_dir, seed)[0]


def load_dataset(name: str, data_dir: Path | None, seed: int) -> tuple[SeriesTable, SeriesTable]:
    """Return training and test series of a UCR data set, or of one that is generated from the seed."""
    if name.lower() not in GENERATED:
        data = load_ucr(name, data_dir)
        return _as_table(data.train), _as_table(data.test)
    draw = cylinder_bell_funnel if name.lower() == "cbf" else synthetic_control
    train, test = (
        _as_table(draw(count, random_state=np.random.default_rng([seed, part])))
        for part, count in enumerate((TRAIN_PER_CLASS, TEST_PER_CLASS))
    )
    return train, test


def dataset_name(name: str) -> str:
    """Return the name of a data set as it is printed."""
    return name.lower() if name.lower() in GENERATED else name


def _as_table(data: LabelledSeries) -> SeriesTable:
    rows = [np.asarray(row).reshape(len(row), -1) for row in data.X]
    names = ["value"] if rows[0].shape[1] == 1 else [str(number + 1) for number in range(rows[0].shape[1])]
    return SeriesTable(
        [
            Series(row, names, steps=np.arange(len(row)), id=str(number), label=label)
            for number, (row, label) in enumerate(zip(rows, data.y.tolist(), strict=True))
        ]
    )


def scaled(table: SeriesTable, normalize: bool) -> Any:
    """Return the values of a table, (n, T), (n, T, d) or a list; with mean 0 and std 1 if ``normalize``."""
    return znormalize(table.values) if normalize else table.values


def read_pair(
    a: Path, b: Path, options: ReadOptions, *, with_sigma: bool = False, znormalized: bool = False
) -> tuple[Series, Series, tuple[Any, Any]]:
    """Read two series with the same features, and the variances of their steps if the last column is σ."""
    if str(a) == str(b) == "-":
        raise OptionError("Only one of the two series can come from standard input.")
    if with_sigma and znormalized:
        raise OptionError("--znormalize changes the units of the values, so that --sigma column no longer fits them.")
    x, y = read_series(a, options), read_series(b, options)
    variances: tuple[Any, Any] = (None, None)
    if with_sigma:
        variances = _last_as_variance(a, x), _last_as_variance(b, y)
        x, y = _without_sigma(x), _without_sigma(y)
    y = _in_order_of(x, y, a, b)
    if znormalized:
        x, y = (
            replace(one, values=values) for one, values in zip((x, y), znormalize([x.values, y.values]), strict=True)
        )
    return x, y, variances


def read_many(files: list[Path], options: ReadOptions, *, znormalized: bool = False) -> list[Series]:
    """Read several series with the same features, their columns in the order of the first."""
    if sum(str(one) == "-" for one in files) > 1:
        raise OptionError("Only one of the series can come from standard input.")
    first, *rest = (read_series(one, options) for one in files)
    series = [first, *(_in_order_of(first, one, files[0], file) for one, file in zip(rest, files[1:], strict=True))]
    if znormalized:
        scaled = znormalize([one.values for one in series])
        series = [replace(one, values=values) for one, values in zip(series, scaled, strict=True)]
    return series


def _in_order_of(x: Series, y: Series, a: Path, b: Path) -> Series:
    """Return y, of file b, with its columns in the order of x, of file a."""
    if x.values.shape[1] != y.values.shape[1]:
        raise ShapeError(
            f"{a} has {x.values.shape[1]} feature(s) ({', '.join(x.names)}), but {b} has {y.values.shape[1]} "
            f"({', '.join(y.names)}); they must be the same. Choose some with --columns."
        )
    if x.names != y.names and {one.casefold() for one in x.names} & {one.casefold() for one in y.names}:
        order = order_by_names(y.names, x.names, b.name, a.name)
        if order != list(range(len(order))):
            y = replace(y, values=y.values[:, order], names=x.names)
            note(f"{b.name}: columns in the order of {a.name}: {', '.join(x.names)}")
    elif x.names != y.names and len(x.names) > 1:
        pairs = ", ".join(f"{one} with {other}" for one, other in zip(x.names, y.names, strict=True))
        note(f"columns are compared in their order: {pairs}")
    return y


def read_ties(path: Path, decimal: str | None, x: Series, y: Series) -> list[tuple[int, int, float | None]]:
    """Read tie points: the columns i, j and sd of a table, or its first two or three.

    Steps are counted as in the files of x and y; they are returned as steps of the series that were read.
    """
    table = read_table(path, ReadOptions(decimal=decimal))
    names = [name.strip().lower() for name in table.names or []]
    named = {"i", "j"} & set(names)
    every = list(range(table.cells.shape[1]))
    chosen = [names.index(name) for name in ("i", "j", "sd") if name in names] if named else every
    if len(named) == 1 or len(chosen) not in (2, 3):
        raise FileFormatError(
            f"{path} must hold the columns i, j and sd of tie points, or i and j for exact ones; got "
            f"{', '.join(table.names or [f'{table.cells.shape[1]} columns'])}."
        )
    read = [numbers(table.cells[column], decimal) for column in chosen]
    bad = np.logical_or.reduce([one.bad for one in read]) | read[0].missing | read[1].missing
    if bad.any():
        row = int(np.argmax(bad))
        raise FileFormatError(
            f"{table.place(row)}: a tie point has a step i of A, a step j of B and a standard deviation in steps of B "
            f"(empty or 0: exact); got {', '.join(cell_text(table.cells[column].iloc[row]) for column in chosen)}."
        )
    deviations = read[2].values if len(read) == 3 else np.full(len(bad), np.nan)
    places = [_places(table, one.values, series, side) for one, series, side in zip(read, (x, y), "AB", strict=False)]
    return [(int(i), int(j), None if np.isnan(sd) else float(sd)) for i, j, sd in zip(*places, deviations, strict=True)]


def _places(table: Table, steps: np.ndarray, series: Series, side: str) -> np.ndarray:
    """Return where the steps of a file are in the series that was read from it."""
    held = series.steps if len(series.steps) else np.arange(len(series))
    at = np.searchsorted(held, steps).clip(max=len(held) - 1)
    wrong = held[at] != steps
    if wrong.any():
        row = int(np.argmax(wrong))
        raise FileFormatError(
            f"{table.place(row)}: {side} has no step {steps[row]:g}; its steps are counted from 0 to {held[-1]}."
        )
    return at


def like_training(
    table: SeriesTable, file: Path, names: list[str], steps: list[str] | None, given: Mapping[str, Any]
) -> SeriesTable:
    """Return a table with its columns matched by name with those of training, unless ``given`` flags name columns."""
    if "columns" in given and len(table.names) == len(names):
        return table
    matched = match_tables(table, file.name, (names, steps))
    if matched.names != table.names or matched.step_names != table.step_names:
        note(f"{file.name}: columns in the order of training: {listed(matched.step_names or matched.names)}")
    return matched


def _last_as_variance(path: Path, series: Series) -> np.ndarray:
    """Return the last column, σ, as variances (T,)."""
    if series.values.shape[1] < 2:
        raise ShapeError(f"{path} has one column of numbers; --sigma column needs the values followed by σ.")
    sigma = series.values[:, -1]
    if not (sigma > 0).all():
        raise VarianceError(f"{path}: every σ in the last column must be positive; the smallest is {sigma.min()}.")
    return sigma**2


def _without_sigma(series: Series) -> Series:
    return replace(series, values=series.values[:, :-1], names=series.names[:-1])
