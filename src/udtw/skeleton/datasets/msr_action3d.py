"""MSR Action3D (Li et al. 2010): 20 actions, 10 people, 20 joints with confidence: `aAA_sSS_eEE_skeleton3D.txt`.

A file has one line per joint, 20 lines per frame: x, y, z and the confidence of the sensor. Files of the same format
that end in `_skeleton.txt` hold x and y in pixels; they are read if the others are not there.
"""

import re
from functools import partial
from pathlib import Path

import numpy as np

from udtw.errors import DataError
from udtw.skeleton.datasets.files import ClipFile, numbered_files
from udtw.skeleton.datasets.skeleton_set import Entry, Source

NAME, GRAPH = "msr-action3d", "msr20"
FILES = tuple(
    re.compile(rf"a(\d{{2}})_s(\d{{2}})_e(\d{{2}})_{end}\.txt", re.IGNORECASE) for end in ("skeleton3D", "skeleton")
)
JOINTS, MAX_FRAMES, MAX_BYTES = 20, 10_000, 16 * 2**20
LARGEST = 1e5  # pixels or meters
CLASSES = (
    "high arm wave", "horizontal arm wave", "hammer", "hand catch", "forward punch", "high throw", "draw x",
    "draw tick", "draw circle", "hand clap", "two hand wave", "side boxing", "bend", "forward kick", "side kick",
    "jogging", "tennis swing", "tennis serve", "golf swing", "pick up and throw",
)  # fmt: skip


def msr_action3d_source(path: Path) -> Source:
    """Find the clips in the zip file ``path``, or in a folder with it or with the `.txt` files (at any depth).

    Files with other names are ignored.
    """
    for pattern in FILES:
        entries, files = [], []
        for name, file in sorted(numbered_files(path, pattern, MAX_BYTES).items()):
            action, subject, _ = (int(number) for number in pattern.fullmatch(name).groups())  # type: ignore[union-attr]
            if 1 <= action <= len(CLASSES):
                entries.append(Entry(name[:11].lower(), action - 1, subject, -1, file.stamp, file.size))
                files.append(file)
        if files:
            return Source(NAME, GRAPH, CLASSES, tuple(entries), partial(_read, files))
    raise DataError(
        f"{path} holds no MSR Action3D: expected files such as a01_s01_e01_skeleton3D.txt, or the zip file with them."
    )


def _read(files: list[ClipFile], index: int) -> tuple[np.ndarray, np.ndarray]:
    return read_text(files[index].read(), files[index].where)


def read_text(content: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Parse frames (T, 1, 20, 3) and confidence (T, 1, 20), float32.

    A joint with all coordinates 0, or with one beyond `LARGEST`, is missing; a confidence outside [0, 1] is 0. A
    column of zeros states no confidence.
    """
    lines = [line.split() for line in content.splitlines() if line.strip()]
    if not lines or len(lines) % JOINTS or len(lines) > JOINTS * MAX_FRAMES:
        raise DataError(
            f"{where}: expected {JOINTS} lines for each of up to {MAX_FRAMES} frames; got {len(lines)} lines. "
            "Get the file again, or skip it."
        )
    for number, fields in enumerate(lines, start=1):
        if len(fields) != 4:
            raise DataError(f"{where}, line {number}: found {len(fields)} values where x, y, z and confidence belong.")
    try:
        values = np.array([[float(field) for field in fields] for fields in lines]).reshape(-1, 1, JOINTS, 4)
    except ValueError as error:
        raise DataError(f"{where}: {error}. Get the file again, or skip it.") from error
    frames, confidence = values[..., :3], values[..., 3]
    missing = ~(np.abs(frames) <= LARGEST).all(-1) | (frames == 0).all(-1)
    frames[missing], confidence[missing | ~((confidence >= 0) & (confidence <= 1))] = np.nan, 0
    if not confidence.any():  # the file states none
        confidence[~missing] = 1
    frames, confidence = frames.astype(np.float32), confidence.astype(np.float32)
    return frames, confidence
