"""UTD-MHAD (Chen et al. 2015): 27 actions, 8 subjects, 4 trials, 20 joints of a Kinect: `aA_sS_tT_skeleton.mat`."""

import re
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from udtw.data.mat5 import read_array
from udtw.data.zip_members import ArchiveError, open_zip, read_member
from udtw.errors import DataError
from udtw.skeleton.datasets.skeleton_set import Entry, Source

NAME, GRAPH = "utd-mhad", "kinect20"
FILE = re.compile(r"a(\d{1,2})_s(\d)_t(\d)_skeleton\.mat", re.IGNORECASE)
# A quarter of an hour of twenty joints fits into this; a larger file is not one of this set.
MAX_BYTES, MAX_ARCHIVE = 16 * 2**20, 512 * 2**20

CLASSES = (
    "swipe left", "swipe right", "wave", "clap", "throw", "cross arms", "basketball shoot", "draw x",
    "draw circle clockwise", "draw circle counter-clockwise", "draw triangle", "bowl", "box", "baseball swing",
    "tennis swing", "arm curl", "tennis serve", "push", "knock", "catch", "pick up and throw", "jog", "walk",
    "sit to stand", "stand to sit", "lunge", "squat",
)  # fmt: skip

Found = tuple[Entry, Callable[[], np.ndarray]]


def utd_mhad_source(path: Path) -> Source:
    """The clips of the published zip file ``path``, or of a folder with it or with the `.mat` files (at any depth).

    Files with other names are ignored. Clips are ordered by action, subject and trial.
    """
    if path.is_file():
        found = _in_zip(path)
    else:
        found = _in_folder(path) or next((clips for zips in sorted(path.glob("*.zip")) if (clips := _in_zip(zips))), [])
    if not found:
        raise DataError(
            f"{path} holds no UTD-MHAD: expected files such as a1_s1_t1_skeleton.mat, or the zip file with them."
        )
    found.sort(key=lambda one: (one[0].label, one[0].subject, one[0].name))
    readers = [read for _, read in found]
    return Source(NAME, GRAPH, CLASSES, tuple(entry for entry, _ in found), lambda index: readers[index]())


def read_mat(content: bytes, where: str) -> np.ndarray:
    """Frames (T, 1, 20, 3) float32 of a `.mat` file with an array ``d_skel`` (20, 3, T)."""
    try:
        joints = read_array(content, "d_skel", MAX_BYTES)
    except ValueError as error:
        raise DataError(f"{where} is not a .mat file with an array d_skel: {error}. Get it again.") from error
    if joints.ndim != 3 or joints.shape[:2] != (20, 3) or not joints.shape[2]:
        raise DataError(f"{where}: d_skel must be (20, 3, T); got {joints.shape}. Get the file again.")
    with np.errstate(over="ignore", invalid="ignore"):
        frames = np.ascontiguousarray(joints.transpose(2, 0, 1)[:, None], dtype=np.float32)
    frames[~np.isfinite(frames).all(-1)] = np.nan
    return frames


def _entry(file: str, stamp: str, size: int) -> Entry | None:
    match = FILE.fullmatch(file)
    if not match:
        return None
    action, subject, _ = (int(group) for group in match.groups())
    if not 1 <= action <= len(CLASSES):
        return None
    return Entry(file.removesuffix(".mat").removesuffix("_skeleton"), action - 1, subject, -1, stamp, size)


def _in_folder(folder: Path) -> list[Found]:
    found: list[Found] = []
    for name, file in {file.name: file for file in sorted(folder.rglob("*.mat"))}.items():
        info = file.stat()
        if entry := _entry(name, f"{info.st_size} {info.st_mtime_ns}", info.st_size):
            found.append((entry, partial(_read_file, file)))
    return found


def _read_file(file: Path) -> np.ndarray:
    try:
        size = file.stat().st_size
        if size > MAX_BYTES:
            raise DataError(f"{file} has {size} bytes, more than a clip of this set can have. Get it again.")
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    return read_mat(content, str(file))


def _in_zip(archive: Path) -> list[Found]:
    found: dict[str, Found] = {}
    try:
        size = archive.stat().st_size
        # As bytes: the directory is read once, and no file stays open while clips are read.
        members = open_zip(archive.read_bytes()) if size <= MAX_ARCHIVE else None
    except OSError as error:
        raise DataError(f"{archive} cannot be read: {error.strerror}.") from error
    except ArchiveError as error:
        raise DataError(f"{archive} is not a complete zip file ({error}). Get it again.") from error
    if members is None:
        raise DataError(f"{archive} has {size} bytes, more than this data set has. Unpack it into a folder first.")
    for info in members.infolist():
        name = PurePosixPath(info.filename).name
        if entry := _entry(name, f"{info.file_size} {info.CRC:08x}", info.file_size):
            if name in found:
                raise DataError(f"{archive} is refused: it holds {name} twice. Get the file again.")
            found[name] = (entry, partial(_read_member, members, info, f"{archive}, member {info.filename}"))
    return list(found.values())


def _read_member(members: zipfile.ZipFile, info: zipfile.ZipInfo, where: str) -> np.ndarray:
    try:
        content = read_member(members, info, MAX_BYTES)
    except ArchiveError as error:
        raise DataError(f"{where} is damaged: {error}. Get the file again.") from error
    return read_mat(content, where)
