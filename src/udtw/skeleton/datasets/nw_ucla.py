"""Northwestern-UCLA (Wang et al. 2014): 10 actions, 10 people, 3 Kinects at once, 20 joints: `aAA_sSS_eEE_vVV.json`."""

import re
from pathlib import Path

import numpy as np

from udtw._io import strict_json
from udtw._io.items import Skipped
from udtw.errors import DataError
from udtw.skeleton.datasets.files import numbered_files
from udtw.skeleton.datasets.skeleton_set import Entry, Source

NAME, GRAPH = "nw-ucla", "kinect-sdk20"
FILE = re.compile(r"a(\d{2})_s(\d{2})_e(\d{2})_v(\d{2})\.json", re.IGNORECASE)
JOINTS, MAX_FRAMES, MAX_BYTES = 20, 10_000, 16 * 2**20
FARTHEST = 1000.0  # meters; a larger coordinate is a damaged number
ACTIONS = {
    1: "pick up with one hand", 2: "pick up with two hands", 3: "drop trash", 4: "walk around", 5: "sit down",
    6: "stand up", 8: "donning", 9: "doffing", 11: "throw", 12: "carry",
}  # fmt: skip
"""Number in the names of files to name; the set has no actions 7 and 10."""
SINGLE_FRAMES = ("a02_s09_e04_v02", "a02_s09_e04_v03")
"""Published recordings of one frame, which show no movement."""


def nw_ucla_source(path: Path) -> Source:
    """Find the clips in the zip file ``path``, or in a folder with it or with the `.json` files (at any depth).

    Files with other names are ignored. The camera of a clip is its view, 1 to 3.
    """
    found = numbered_files(path, FILE, MAX_BYTES)
    labels = {action: label for label, action in enumerate(ACTIONS)}
    entries, readers, skipped = [], [], []
    for name, file in sorted(found.items()):
        action, subject, _, view = (int(number) for number in FILE.fullmatch(name).groups())  # type: ignore[union-attr]
        stem = name[: -len(".json")].lower()
        if action not in labels:
            continue
        if stem in SINGLE_FRAMES:
            skipped.append(Skipped(stem, "the published recording has one frame only"))
            continue
        entries.append(Entry(stem, labels[action], subject, view, file.stamp, file.size))
        readers.append(file)
    if not entries:
        raise DataError(
            f"{path} holds no Northwestern-UCLA: expected files such as a01_s01_e00_v01.json, or the zip file."
        )

    def read(index: int) -> np.ndarray:
        return read_json(readers[index].read(), readers[index].where)

    return Source(NAME, GRAPH, tuple(ACTIONS.values()), tuple(entries), read, tuple(skipped))


def read_json(content: bytes, where: str) -> np.ndarray:
    """Parse frames (T, 1, 20, 3), float32 in meters, of ``{"skeletons": [...]}``.

    NaN where x, y and z are all 0, or one is beyond `FARTHEST`.
    """
    try:
        recording = strict_json.loads(content)
    except ValueError as error:
        raise DataError(f"{where} is not JSON: {error}. Get the file again, or skip it.") from error
    steps = recording.get("skeletons") if isinstance(recording, dict) else None
    if not isinstance(steps, list) or not 1 <= len(steps) <= MAX_FRAMES:
        raise DataError(f'{where}: expected {{"skeletons": [...]}} with 1 to {MAX_FRAMES} frames. Get the file again.')
    for number, joints in enumerate(steps, start=1):
        fits = isinstance(joints, list) and len(joints) == JOINTS
        if not fits or not all(isinstance(j, list) and len(j) == 3 and _are_numbers(j) for j in joints):
            raise DataError(f"{where}, frame {number}: expected {JOINTS} joints of three numbers. Get the file again.")
    values = np.array(steps, dtype=np.float64)
    # The camera is at the origin: a joint exactly there was not detected.
    values[~(np.abs(values) <= FARTHEST).all(-1) | (values == 0).all(-1)] = np.nan
    return values[:, None].astype(np.float32)


def _are_numbers(values: list) -> bool:
    return all(type(value) in (int, float) for value in values)
