"""NATOPS (Song et al. 2011): six aircraft handling signals, eight points of the arms, 360 clips of 51 steps."""

import hashlib
from pathlib import Path

import numpy as np

from udtw.data import load_ucr
from udtw.errors import DataError
from udtw.skeleton.datasets.skeleton_set import Entry, Source

NAME, GRAPH = "natops", "upperbody8"
# The order of the channels, three coordinates each.
JOINTS = (
    "left hand tip", "right hand tip", "left elbow", "right elbow", "left wrist", "right wrist", "left thumb",
    "right thumb",
)  # fmt: skip
CLASSES = ("I have command", "all clear", "not clear", "spread wings", "fold wings", "lock wings")


def natops_source(path: Path) -> Source:
    """Read the clips train-001, …, test-180 of the folder ``path`` with NATOPS_TRAIN and NATOPS_TEST (.ts)."""
    data = load_ucr("NATOPS", path)
    entries, clips = [], []
    for part, labelled in (("train", data.train), ("test", data.test)):
        for number, (steps, label) in enumerate(zip(labelled.X, labelled.y, strict=True), start=1):
            if np.ndim(steps) != 2 or np.shape(steps)[1] != 3 * len(JOINTS):
                raise DataError(f"{path}: NATOPS must have {3 * len(JOINTS)} channels; got shape {np.shape(steps)}.")
            if data.train.y.dtype.kind != "i" or not 1 <= label <= len(CLASSES):
                raise DataError(f"{path}: labels of NATOPS must be from 1 to {len(CLASSES)}; got {label}.")
            with np.errstate(over="ignore", invalid="ignore"):
                frames = np.asarray(steps, np.float32).reshape(-1, 1, len(JOINTS), 3)
            frames = np.where(np.isfinite(frames).all(-1, keepdims=True), frames, np.float32(np.nan))
            stamp = hashlib.sha256(frames.tobytes()).hexdigest()
            entries.append(Entry(f"{part}-{number:03d}", int(label) - 1, stamp=stamp, size=frames.nbytes))
            clips.append(frames)
    return Source(NAME, GRAPH, CLASSES, tuple(entries), clips.__getitem__)
