"""The data sets of skeletons by name, and how they are loaded: prepared if possible, else from the original files."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from udtw._io.items import check_on_error
from udtw.data.folder import data_root
from udtw.errors import DataError, OptionError, SizeError
from udtw.skeleton.datasets import kinetics, natops, ntu, own_folder, synthetic
from udtw.skeleton.datasets.class_splits import (
    ClassSplit,
    by_thirds,
    kinetics_classes,
    natops_classes,
    ntu_classes,
    nw_ucla_classes,
    synthetic_classes,
    utd_mhad_classes,
)
from udtw.skeleton.datasets.numbered_sets import MSR_ACTION3D, NW_UCLA, UTD_MHAD
from udtw.skeleton.datasets.skeleton_set import SkeletonSet, Source, read_all
from udtw.skeleton.datasets.store import is_prepared, open_prepared

# Text and JSON take several times the space of the frames in them.
MAX_IN_MEMORY = 2 * 2**30


@dataclass(frozen=True)
class Dataset:
    """One data set: its files, its joints, its classes.

    ``files``: which files it needs, a line for the documentation. ``graph``: the layout of its joints, empty if the
    files decide it. ``split``: the `ClassSplit` for a number of classes. ``find`` finds the original files in a folder;
    a set that is generated has ``make`` instead. ``folders``: folders that may hold the set besides the one with its
    own name. ``ignorable``: whether ``find`` takes a list of samples to leave out.
    """

    files: str
    graph: str
    split: Callable[[int], ClassSplit]
    find: Callable[..., Source] | None = None
    folders: tuple[str, ...] = ()
    ignorable: bool = False
    make: Callable[[], SkeletonSet] | None = None


_LISTS = "kinetics_train_label.json, kinetics_val_label.json and their folders"
DATASETS = {
    "ntu60": Dataset(
        "the `.skeleton` files, in any folders", ntu.GRAPH, ntu_classes,
        partial(ntu.ntu_source, n_classes=60), ("ntu120", "ntu"), ignorable=True,
    ),
    "ntu120": Dataset(
        "the `.skeleton` files, in any folders", ntu.GRAPH, ntu_classes,
        partial(ntu.ntu_source, n_classes=120), ("ntu",), ignorable=True,
    ),
    "kinetics": Dataset(
        f"{_LISTS} of JSON files", kinetics.GRAPH, kinetics_classes, kinetics.kinetics_source,
    ),
    "kinetics-3d": Dataset(
        f"{_LISTS} of `.npz` files (array `frames`, T × people × 18 × 3)", kinetics.GRAPH, kinetics_classes,
        partial(kinetics.kinetics_source, lifted=True), ("kinetics",),
    ),
    "utd-mhad": Dataset(
        "the `.mat` files of the skeletons, or the zip file with them", UTD_MHAD.graph, utd_mhad_classes, UTD_MHAD,
    ),
    "nw-ucla": Dataset(
        "the `.json` files of the skeletons, or the zip file with them", NW_UCLA.graph, nw_ucla_classes, NW_UCLA,
    ),
    "msr-action3d": Dataset(
        "the `.txt` files of the skeletons, or the zip file with them", MSR_ACTION3D.graph, utd_mhad_classes,
        MSR_ACTION3D,
    ),
    "natops": Dataset("NATOPS_TRAIN.ts and NATOPS_TEST.ts", natops.GRAPH, natops_classes, natops.natops_source),
    "folder": Dataset(
        "a subfolder for each class with `.npy` or `.json` files of your own", "", by_thirds, own_folder.folder_source,
    ),
    "synthetic": Dataset("none: it is generated", synthetic.GRAPH, synthetic_classes, make=synthetic.make_actions),
}  # fmt: skip
"""All data sets by name. To add one, write its ``find`` and add an entry here."""


def load_skeletons(
    name: str,
    data_dir: str | os.PathLike | None = None,
    *,
    on_error: str = "raise",
    ignore: str | os.PathLike | None = None,
    progress: bool = False,
) -> SkeletonSet:
    """Load the data set ``name``, one of `DATASETS`, such as "utd-mhad"; "synthetic" is generated and needs no files.

    Parameters
    ----------
    name : str
    data_dir : path, optional
        The folder of the data set, or one above it that holds it as NAME or skeleton/NAME; by default the environment
        variable UDTW_DATA. Clips of the prepared form (see `prepare`) are read from disk on demand; original files
        are read into memory at once, up to 2 GiB of them.
    on_error : "raise" or "skip"
        Stop at a file that cannot be read, or leave it out and list it in ``skipped`` of the set.
    ignore : path, optional
        NTU only: a file with names of samples to leave out.
    progress : bool
        Show a progress bar.

    Examples
    --------
    >>> from udtw.skeleton import load_skeletons
    >>> load_skeletons("synthetic")
    SkeletonSet('synthetic', 120 clips, 12 of 12 classes, kinect20)
    """
    dataset = _dataset(name)
    check_on_error(on_error)
    if dataset.make is not None:
        return dataset.make()
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
            f"{name} in {root} has {size / 2**30:.1f} GiB of original files (if the sizes in archives are true), "
            f"too much to read into memory. Parse it once with: udtw skeleton prepare {name} --data-dir {root} "
            "--out DIR, and load it from DIR."
        )
    return read_all(source, on_error, progress=progress)


def find_source(
    name: str, data_dir: str | os.PathLike | None = None, *, ignore: str | os.PathLike | None = None
) -> Source:
    """Find the original files of the data set ``name`` without reading them; arguments as for `load_skeletons`."""
    dataset = _dataset(name)
    find = dataset.find
    if find is None:
        raise OptionError(f"{name} is generated: it has no files, and nothing to prepare.")
    if ignore is not None:
        if not dataset.ignorable:
            raise OptionError(f"ignore is a list of samples of NTU RGB+D; {name} has none.")
        find = partial(find, ignore=Path(ignore))
    reasons = []
    for folder in _folders(name, data_dir):
        try:
            return find(folder)
        except DataError as error:
            reasons.append(error)
    raise reasons[0]


def _dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise OptionError(f"There is no skeleton data set {name!r}; choose one of {', '.join(DATASETS)}.")
    return DATASETS[name]


def _folders(name: str, data_dir: str | os.PathLike | None) -> list[Path]:
    """Return folders that may hold the set, the most likely first."""
    root = data_root(data_dir)
    inner = [above / one for one in (name, *DATASETS[name].folders) for above in (root / "skeleton", root)]
    return [folder for folder in inner if folder.is_dir()] or [root]
