"""UTD-MHAD (Chen et al. 2015): 27 actions, 8 subjects, 4 trials, 20 joints of a Kinect: `aA_sS_tT_skeleton.mat`."""

import re
from pathlib import Path

import numpy as np

from udtw._io.mat5 import read_array
from udtw.errors import DataError
from udtw.skeleton.datasets.files import numbered_files
from udtw.skeleton.datasets.skeleton_set import Entry, Source

NAME, GRAPH = "utd-mhad", "kinect20"
FILE = re.compile(r"a(\d{1,2})_s(\d)_t(\d)_skeleton\.mat", re.IGNORECASE)
# A quarter of an hour of twenty joints fits into this; a larger file is not one of this set.
MAX_BYTES = 16 * 2**20

CLASSES = (
    "swipe left", "swipe right", "wave", "clap", "throw", "cross arms", "basketball shoot", "draw x",
    "draw circle clockwise", "draw circle counter-clockwise", "draw triangle", "bowl", "box", "baseball swing",
    "tennis swing", "arm curl", "tennis serve", "push", "knock", "catch", "pick up and throw", "jog", "walk",
    "sit to stand", "stand to sit", "lunge", "squat",
)  # fmt: skip


def utd_mhad_source(path: Path) -> Source:
    """Find the clips in the published zip file ``path``, or in a folder with it or with the `.mat` files (at any
    depth).

    Files with other names are ignored. Clips are ordered by action, subject and trial.
    """
    found = [
        (entry, file)
        for name, file in numbered_files(path, FILE, MAX_BYTES).items()
        if (entry := _entry(name, file.stamp, file.size))
    ]
    if not found:
        raise DataError(
            f"{path} holds no UTD-MHAD: expected files such as a1_s1_t1_skeleton.mat, or the zip file with them."
        )
    found.sort(key=lambda one: (one[0].label, one[0].subject, one[0].name))

    def read(index: int) -> np.ndarray:
        return read_mat(found[index][1].read(), found[index][1].where)

    return Source(NAME, GRAPH, CLASSES, tuple(entry for entry, _ in found), read)


def read_mat(content: bytes, where: str) -> np.ndarray:
    """Parse frames (T, 1, 20, 3), float32, of a `.mat` file with an array ``d_skel`` (20, 3, T)."""
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
