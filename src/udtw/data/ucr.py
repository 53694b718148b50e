"""Data sets of the UCR archive in a local folder, in any of its formats."""

import difflib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from udtw.data.cache import read_npz
from udtw.data.folder import data_root
from udtw.data.labelled import LabelledSeries, UCRData, labels_as_array, stack_if_equal
from udtw.data.ucr_files import read_table, read_ts
from udtw.errors import DataError

READERS = {".tsv": read_table, ".txt": read_table, ".ts": read_ts}


def load_ucr(name: str, data_dir: str | os.PathLike | None = None) -> UCRData:
    """The data set ``name`` with its published split.

    ``data_dir`` (by default the environment variable UDTW_DATA) is the archive's folder, one above it that holds it as
    ``ucr``, or the data set's own folder. It reads NAME.npz (see `save_npz`), unless it is older than the other files,
    or NAME_TRAIN and NAME_TEST as .tsv, .txt or .ts.

    NaN at the end of a series is padding and is cut off, after which lengths may differ; other NaN stays.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.data import load_ucr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "Toy_TRAIN.tsv").write_text("1\\t0.5\\t1.5\\n2\\t3\\t4\\n")
    ...     _ = Path(folder, "Toy_TEST.tsv").write_text("2\\t6\\t7\\n")
    ...     data = load_ucr("Toy", folder)
    >>> data.train.X.tolist(), data.train.y.tolist()
    ([[0.5, 1.5], [3.0, 4.0]], [1, 2])
    """
    _check_name(name)
    root = _root(data_dir)
    for folder in _folders(root, name):
        if (data := _read_from(folder, name)) is not None:
            return data
    raise DataError(_not_found(name, root))


def available_ucr(data_dir: str | os.PathLike | None = None) -> list[str]:
    """Names of the data sets that `load_ucr` finds, in alphabetical order.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.data import available_ucr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Path(folder, "Toy_TRAIN.tsv").touch()
    ...     available_ucr(folder)
    ['Toy']
    """
    return sorted(set(_names(_root(data_dir))))


def _check_name(name: str) -> None:
    # A name may come from a command line or a table: it must not point outside the data folder.
    if not re.fullmatch(r"\w[\w.+ -]*", name) or ".." in name:
        raise DataError(f"{name!r} is not the name of a data set: letters, digits, '_', '-' and single dots only.")


def _root(data_dir: str | os.PathLike | None) -> Path:
    root = data_root(data_dir)
    if not root.is_dir():
        raise DataError(f"{root} is not a folder.")
    return root


def _folders(root: Path, name: str) -> list[Path]:
    return [root, root / name, root / "ucr" / name, root / "ucr"]


def _read_from(folder: Path, name: str) -> UCRData | None:
    files = {split: _split_file(folder, name, split) for split in ("TRAIN", "TEST")}
    there = [file for file in files.values() if file]
    cache = folder / f"{name}.npz"
    if cache.is_file() and all(cache.stat().st_mtime >= file.stat().st_mtime for file in there):
        return read_npz(cache, name)
    if not there:
        return None
    for split, file in files.items():
        if file is None:
            raise DataError(f"{there[0]} is there, but {name}_{split} is not. Put both splits into {folder}.")
    train, test = (READERS[file.suffix](file) for file in there)
    _check_features(there, [*train[0], *test[0]], len(train[0]))
    # Together, so that the labels of both splits have one type.
    y = labels_as_array([*train[1], *test[1]])
    n = len(train[1])
    return UCRData(
        name, LabelledSeries(stack_if_equal(train[0]), y[:n]), LabelledSeries(stack_if_equal(test[0]), y[n:])
    )


def _split_file(folder: Path, name: str, split: str) -> Path | None:
    candidates = (folder / f"{name}_{split}{suffix}" for suffix in READERS)
    return next((file for file in candidates if file.is_file()), None)


def _check_features(files: list[Path], series: list[np.ndarray], n_train: int) -> None:
    train, test = (1 if series[i].ndim == 1 else series[i].shape[1] for i in (0, n_train))
    if train != test:
        raise DataError(
            f"{files[0]} has {train} feature(s), but {files[1]} has {test}. They are not from one data set."
        )


def _names(root: Path) -> Iterator[str]:
    suffixes = "|".join(re.escape(suffix) for suffix in READERS)
    pattern = re.compile(rf"(.+?)(?:_TRAIN(?:{suffixes})|\.npz)")
    for archive in (root, root / "ucr"):
        for entry in archive.iterdir() if archive.is_dir() else ():
            if entry.is_dir():
                if any((entry / f"{entry.name}{end}").is_file() for end in (".npz", *_train_ends())):
                    yield entry.name
            elif match := pattern.fullmatch(entry.name):
                yield match[1]


def _train_ends() -> list[str]:
    return [f"_TRAIN{suffix}" for suffix in READERS]


def _not_found(name: str, root: Path) -> str:
    known = {known.lower(): known for known in available_ucr(root)}
    close = [known[key] for key in difflib.get_close_matches(name.lower(), known)]
    looked = ", ".join(str(folder) for folder in _folders(root, name))
    hint = f" Did you mean {' or '.join(close)}?" if close else f" {len(known)} other data set(s) are there."
    wanted = f"{name}.npz, {name}_TRAIN and {name}_TEST (.tsv, .txt, .ts)"
    return f"No data set {name!r}: looked for {wanted} in {looked}.{hint}"
