"""Files of time series: the UCR archive, its cache, and the tables that the command line reads."""

import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np

from hardening.parsers import Parser, Read, Seed, demand, put, reader, zip_seeds

TABLE = b"1\t0.5\t-1.25\t3e-1\n2\t1\t2\tNaN\n1\t0\t0.125\t7\n"
TS = b"""# a comment
@problemName Toy
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength true
@seriesLength 3
@classLabel true a b
@data
0.5,1,2:3,4,5:a
1,?,-2e-1:0,0,1:b
"""
UNEQUAL = b"@univariate false\n@equalLength false\n@classLabel true 1 2\n@data\n0.5,1,2:1,2,3:1\n1,3:0,NaN:2\n"
CSV = b"time,value\n# comment\n0,1.5\n1,-2e3\n2,0.25\n"
OTHERS = (b"0\t1.5\n1\t2\n", b"1;2;3\n4;5;6\n", b'"1","2"\n"3","4"\n', b"1 2 3\n4 5 6\n")

UPLOADS = (
    b"time,value\n# comment\n0,1.5\n1,-2e3\n2,0.25\n",
    b"0\t1.5\n1\t2\n2\t3\n",
    b"1;2\n4;5\n7;8\n",
    b"1,2,3,4,5\n",
)


def _check_ucr(data: Any) -> None:
    for part in (data.train, data.test):
        demand(len(part.X) == len(part.y) >= 1, "as many labels as series, at least one")
        demand(part.y.dtype.kind in "iU", f"labels of type {part.y.dtype}")
        for series in part.X:
            demand(series.dtype == np.float64 and len(series) >= 1, "float64 series of at least one step")
            demand(not np.isinf(series).any(), "an infinite value")


def _ucr(suffix: str, *contents: bytes) -> Any:
    def prepare(folder: Path) -> tuple[list[Seed], Read]:
        from udtw.data import load_ucr

        for split in ("TRAIN", "TEST"):
            put(folder / f"Toy_{split}{suffix}", contents[0])
        read = reader(folder, lambda: load_ucr("Toy", folder), _check_ucr)
        return [Seed(content, "text", f"Toy_TRAIN{suffix}") for content in contents], read

    return prepare


def _ucr_cache(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.data import load_ucr, save_npz
    from udtw.data.labelled import LabelledSeries, UCRData

    part = LabelledSeries([np.arange(3.0), np.arange(2.0)], np.array([1, 2]))
    save_npz(UCRData("Toy", part, part), folder / "Toy.npz")
    with np.load(folder / "Toy.npz") as arrays:
        members = {f"{name}.npy": _npy(arrays[name]) for name in arrays.files}
    seeds = zip_seeds(members, "Toy.npz", ["train_values.npy", "train_lengths.npy", "train_labels.npy"])
    return seeds, reader(folder, lambda: load_ucr("Toy", folder), _check_ucr)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def _check_rows(found: tuple[np.ndarray, Any]) -> None:
    one, several = found
    demand(one.ndim == 2 and one.dtype == np.float64 and np.isfinite(one).all(), "a finite series (T, d)")
    for series in several:
        demand(series.dtype == np.float64 and np.isfinite(series).all(), "finite series")


def _both(path: Path) -> tuple[np.ndarray, list[np.ndarray]]:
    """Read a file as one series, and as a set of series if its rows allow it."""
    from udtw.data.series_files import read_series, read_series_table
    from udtw.errors import DataError, LengthError

    one = read_series(path).values
    try:
        return one, [series.values for series in read_series_table(path).series]
    except (DataError, LengthError):  # rows of one number, or a row is a step
        return one, []


def _csv(folder: Path) -> tuple[list[Seed], Read]:
    path = folder / "s.csv"
    read = reader(folder, lambda: _both(path), _check_rows)
    return [Seed(content, "text", path.name) for content in (CSV, *OTHERS)], read


def _npy_file(folder: Path) -> tuple[list[Seed], Read]:
    path = folder / "s.npy"
    arrays = (np.arange(6.0).reshape(3, 2), np.arange(4).reshape(2, 2), np.ones((2, 1), np.float16))
    read = reader(folder, lambda: _both(path), _check_rows)
    return [Seed(_npy(array), kind, path.name) for array in arrays for kind in ("binary", "text")], read


def _csv_upload(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.explorer.uploads import MAX_FEATURES, MAX_STEPS, MIN_STEPS, read_upload

    def read(file: str, content: bytes) -> None:
        series = read_upload(content, file).values
        demand(series.ndim == 2 and np.isfinite(series).all(), "finite numbers (T, d)")
        demand(MIN_STEPS <= len(series) <= MAX_STEPS and 1 <= series.shape[1] <= MAX_FEATURES, "the limits")

    seeds = [Seed(content, "text") for content in UPLOADS]
    seeds += [Seed(content, "text", pack=gzip.compress) for content in UPLOADS[:2]]
    return [*seeds, Seed(_npy(np.arange(6.0).reshape(3, 2))), *map(Seed, _tables())], read


def _tables() -> list[bytes]:
    """Write a spreadsheet and a Parquet file."""
    import pandas

    frame, found = pandas.DataFrame({"value": [1.5, 2.0, -3.0]}), (io.BytesIO(), io.BytesIO())
    frame.to_excel(found[0], index=False)
    frame.to_parquet(found[1])
    return [one.getvalue() for one in found]


def _url_upload(folder: Path) -> tuple[list[Seed], Read]:
    from udtw.explorer.uploads import MAX_SERIES_BYTES, decode_contents, file_name

    def read(file: str, content: bytes) -> None:
        text = content.decode("latin-1")
        demand("/" not in file_name(text) and file_name(text), "a name without folders")
        demand(len(decode_contents(text, file, MAX_SERIES_BYTES)) <= MAX_SERIES_BYTES, "no more bytes than are allowed")

    return [Seed(b"data:text/csv;base64,MSwyCjMsNAo1LDYK", "text")], read


PARSERS = [
    Parser("ucr-tsv", "`load_ucr`, .tsv and .txt tables", _ucr(".tsv", TABLE, TABLE.replace(b"\t", b"  "))),
    Parser("ucr-ts", "`load_ucr`, .ts files", _ucr(".ts", TS, UNEQUAL)),
    Parser("ucr-npz", "`load_ucr`, the .npz cache", _ucr_cache),
    Parser("csv", "`udtw align FILE`: .csv, .tsv, .txt", _csv),
    Parser("npy", "`udtw align FILE`: .npy", _npy_file),
    Parser("csv-upload", "a file sent to the explorer", _csv_upload),
    Parser("url-upload", "the data URL in which the browser sends a file", _url_upload),
]
