"""A data set of skeletons by its name: in its prepared form if that is there, else from its original files."""

import os
from collections.abc import Callable
from pathlib import Path

from udtw.errors import DataError, OptionError, SizeError
from udtw.skeleton.datasets.skeleton_set import SkeletonSet
from udtw.skeleton.datasets.source import Source, read_all
from udtw.skeleton.datasets.store import is_prepared, open_prepared
from udtw.skeleton.datasets.synthetic import make_actions
from udtw.skeleton.datasets.utd_mhad import utd_mhad_source

ENVIRONMENT_VARIABLE = "UDTW_DATA"
SOURCES: dict[str, Callable[[Path], Source]] = {"utd-mhad": utd_mhad_source}
GENERATED = "synthetic"
# Original text and JSON take a multiple of the space of the frames in them.
MAX_IN_MEMORY = 2 * 2**30


def load_skeletons(
    name: str, data_dir: str | os.PathLike | None = None, *, on_error: str = "raise", progress: bool = False
) -> SkeletonSet:
    """Load ``name``: one of "utd-mhad" or "synthetic" (which needs no data).

    ``data_dir`` (by default the environment variable UDTW_DATA) is the folder of the data set, or one above it that
    holds it as NAME or skeleton/NAME. Its prepared form (see `prepare`) is read from the disk as clips are asked for;
    original files are read into memory at once, up to 2 GiB of them. ``on_error``: "raise" stops at a file that cannot
    be read, "skip" leaves it out; those left out are in ``skipped`` of the set.
    """
    check_name(name)
    if name == GENERATED:
        return make_actions()
    folders = _folders(name, data_dir)
    for folder in folders:
        if is_prepared(folder):
            skeletons = open_prepared(folder)
            if skeletons.name == name:
                return skeletons
    source = find_source(name, data_dir)
    size = sum(entry.size for entry in source.entries)
    if size > MAX_IN_MEMORY:
        raise SizeError(
            f"{name} has {size / 2**30:.1f} GiB of original files, too much to read into memory. Parse it once with: "
            f"udtw skeleton prepare {name} --data-dir DATA --out DIR, and load it from DIR."
        )
    return read_all(source, on_error, progress=progress)


def find_source(name: str, data_dir: str | os.PathLike | None = None) -> Source:
    """The original files of ``name``, found but not read."""
    check_name(name)
    if name == GENERATED:
        raise OptionError(f"{name} is generated; it has no files.")
    reasons = []
    for folder in _folders(name, data_dir):
        try:
            return SOURCES[name](folder)
        except DataError as error:
            reasons.append(str(error))
    raise DataError(reasons[0])


def check_name(name: str) -> None:
    if name not in (*SOURCES, GENERATED):
        raise OptionError(f"There is no skeleton data set {name!r}; choose one of {', '.join((*SOURCES, GENERATED))}.")


def _folders(name: str, data_dir: str | os.PathLike | None) -> list[Path]:
    chosen = data_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    if not chosen:
        raise DataError(f"No data folder: pass data_dir, or set the environment variable {ENVIRONMENT_VARIABLE}.")
    root = Path(chosen).expanduser()
    if not root.exists():
        raise DataError(f"{root} does not exist.")
    inner = [root / "skeleton" / name, root / name]
    return [folder for folder in inner if folder.is_dir()] or [root]
