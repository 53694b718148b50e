"""A data set of skeletons by its name: in its prepared form if that is there, else from its original files."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from udtw.data.folder import data_root
from udtw.data.skipping import check_on_error
from udtw.errors import DataError, OptionError, SizeError
from udtw.skeleton.datasets.kinetics import kinetics_source
from udtw.skeleton.datasets.natops import natops_source
from udtw.skeleton.datasets.ntu import ntu_source
from udtw.skeleton.datasets.skeleton_set import SkeletonSet
from udtw.skeleton.datasets.source import Source, read_all
from udtw.skeleton.datasets.store import is_prepared, open_prepared
from udtw.skeleton.datasets.synthetic import make_actions
from udtw.skeleton.datasets.utd_mhad import utd_mhad_source

NTU: dict[str, Callable[..., Source]] = {f"ntu{n}": partial(ntu_source, n_classes=n) for n in (60, 120)}
SOURCES: dict[str, Callable[..., Source]] = {
    **NTU,
    "kinetics": kinetics_source,
    "kinetics-3d": partial(kinetics_source, lifted=True),
    "utd-mhad": utd_mhad_source,
    "natops": natops_source,
}
GENERATED = "synthetic"
# Folders that hold a set under another name than its own.
ALSO_IN = {"ntu60": ("ntu120", "ntu"), "ntu120": ("ntu",), "kinetics-3d": ("kinetics",)}
# Text and JSON take several times the space of the frames in them.
MAX_IN_MEMORY = 2 * 2**30


def load_skeletons(
    name: str,
    data_dir: str | os.PathLike | None = None,
    *,
    on_error: str = "raise",
    ignore: str | os.PathLike | None = None,
    progress: bool = False,
) -> SkeletonSet:
    """Load "ntu60", "ntu120", "kinetics", "kinetics-3d", "utd-mhad", "natops", or "synthetic" (which needs no data).

    ``data_dir`` (by default the environment variable UDTW_DATA) is the folder of the data set, or one above it that
    holds it as NAME or skeleton/NAME. Its prepared form (see `prepare`) is read from the disk as clips are asked for;
    original files are read into memory at once, up to 2 GiB of them. ``on_error``: "raise" stops at a file that cannot
    be read, "skip" leaves it out; those left out are in ``skipped`` of the set. ``ignore`` (NTU): a file with names of
    samples to leave out.
    """
    check_name(name)
    check_on_error(on_error)
    if name == GENERATED:
        return make_actions()
    for folder in _folders(name, data_dir):
        if is_prepared(folder):
            skeletons = open_prepared(folder)
            if skeletons.name != name:
                raise DataError(f"{folder} holds the prepared data set {skeletons.name!r}, not {name!r}.")
            return skeletons
    source = find_source(name, data_dir, ignore=ignore)
    size = sum(entry.size for entry in source.entries)
    if size > MAX_IN_MEMORY:
        root = data_root(data_dir)
        raise SizeError(
            f"{name} in {root} has {size / 2**30:.1f} GiB of original files (if archives say the truth), too much to "
            f"read into memory. Parse it once with: udtw skeleton prepare {name} --data-dir {root} --out DIR, and load "
            "it from DIR."
        )
    return read_all(source, on_error, progress=progress)


def find_source(
    name: str, data_dir: str | os.PathLike | None = None, *, ignore: str | os.PathLike | None = None
) -> Source:
    """The original files of ``name``, found but not read."""
    check_name(name)
    if name == GENERATED:
        raise OptionError(f"{name} is generated: it has no files, and nothing to prepare.")
    if ignore is not None and name not in NTU:
        raise OptionError(f"ignore is a list of samples of NTU RGB+D; {name} has none.")
    find = partial(SOURCES[name], ignore=Path(ignore)) if ignore is not None else SOURCES[name]
    reasons = []
    for folder in _folders(name, data_dir):
        try:
            return find(folder)
        except DataError as error:
            reasons.append(error)
    raise reasons[0]


def check_name(name: str) -> None:
    if name not in (*SOURCES, GENERATED):
        raise OptionError(f"There is no skeleton data set {name!r}; choose one of {', '.join((*SOURCES, GENERATED))}.")


def _folders(name: str, data_dir: str | os.PathLike | None) -> list[Path]:
    """Where the set may be, the likeliest place first."""
    root = data_root(data_dir)
    names = (name, *ALSO_IN.get(name, ()))
    inner = [above / one for one in names for above in (root / "skeleton", root)]
    return [folder for folder in inner if folder.is_dir()] or [root]
