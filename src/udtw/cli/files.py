"""Files that commands read and write: the user's series, data sets by name, tables of results."""

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udtw.cli.options import parse_list
from udtw.cli.output import note
from udtw.errors import OptionError

if TYPE_CHECKING:
    from udtw.data import UCRData
    from udtw.data.series_files import ReadOptions, Series
    from udtw.data.series_tables import SeriesTable

GENERATED = ("cbf", "synthetic-control")
TRAIN_PER_CLASS, TEST_PER_CLASS = 15, 50


def read_options(columns: str | None = None, missing: str = "raise", **given: Any) -> "ReadOptions":
    """What the flags of a command say about a file."""
    from udtw.data.series_files import ReadOptions

    named = parse_list(columns)
    return ReadOptions(columns=None if named is None else tuple(named), missing=str(missing), **given)


def saved_reading(saved: dict[str, Any]) -> "ReadOptions":
    """The `ReadOptions` that were saved with a model."""
    from udtw.data.series_files import ReadOptions
    from udtw.errors import FileFormatError

    try:
        columns = saved.get("columns")
        return ReadOptions(**saved | {"columns": None if columns is None else tuple(columns)})
    except (TypeError, AttributeError) as error:
        raise FileFormatError(f"The model says in a way that is not known how its files are read: {error}.") from error


def read_series(source: Path, options: "ReadOptions | None" = None) -> "Series":
    """The series in a file. Which columns are used, and what else was decided, is printed as a message."""
    from udtw.data.series_files import ReadOptions
    from udtw.data.series_files import read_series as read

    found = read(source, options or ReadOptions())
    _say(source, found.notes)
    return found


def read_series_table(
    source: Path, options: "ReadOptions | None" = None, *, labels: bool = False, labels_optional: bool = False
) -> "SeriesTable":
    """The series in a file, one per row or (long format) per id; with messages as `read_series`."""
    from udtw.data.series_files import ReadOptions
    from udtw.data.series_tables import read_series_table as read

    found = read(source, options or ReadOptions(), labels=labels, labels_optional=labels_optional)
    _say(source, found.notes)
    return found


def _say(source: Path, notes: list[str]) -> None:
    if notes:
        note(f"{'standard input' if str(source) == '-' else source.name}: {'; '.join(notes)}")


SEPARATORS = {".csv": ",", ".tsv": "\t"}


def check_table_name(path: Path) -> None:
    """Raise `OptionError` unless `write_table` can write a file of that name."""
    if path.suffix.lower() not in (*SEPARATORS, ".json"):
        raise OptionError(f"--out {path.name}: use a name that ends in .csv, .tsv or .json.")


def write_table(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows with the same names atomically, as CSV, TSV or JSON by the ending; None is an empty cell or null."""
    from udtw._io.atomic import write_atomically

    check_table_name(path)
    kind = path.suffix.lower()
    if kind == ".json":
        text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    else:
        written = io.StringIO()
        writer = csv.writer(written, delimiter=SEPARATORS[kind], lineterminator="\n")
        writer.writerows([list(rows[0]), *(row.values() for row in rows)])
        text = written.getvalue()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, text.encode())
    note(f"wrote {path}")


def load_dataset(name: str, data_dir: Path | None, *, seed: int = 0, normalize: bool = True) -> "UCRData":
    """Training and test series of a UCR data set, or generated from the seed; with mean 0, std 1 if ``normalize``."""
    from udtw.data import LabelledSeries, UCRData, cylinder_bell_funnel, load_ucr, synthetic_control, znormalize

    if name.lower() in GENERATED:
        draw = cylinder_bell_funnel if name.lower() == "cbf" else synthetic_control
        train, test = (
            draw(count, random_state=np.random.default_rng([seed, part]))
            for part, count in enumerate((TRAIN_PER_CLASS, TEST_PER_CLASS))
        )
        data = UCRData(name.lower(), train, test)
    else:
        data = load_ucr(name, data_dir)
    if not normalize:
        return data
    train, test = (LabelledSeries(znormalize(part.X), part.y) for part in (data.train, data.test))
    return UCRData(data.name, train, test)
