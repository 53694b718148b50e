"""Data sets with a file for each clip that is named by numbers: UTD-MHAD, Northwestern-UCLA and MSR Action3D.

All three have 20 joints of a Kinect v1. The files are in a folder, at any depth, or in a zip file.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from udtw._io.items import Skipped
from udtw._io.mat5 import read_array
from udtw.errors import DataError
from udtw.skeleton.datasets.clip import Recording
from udtw.skeleton.datasets.files import ClipFile, numbered_files, parse_json
from udtw.skeleton.datasets.skeleton_set import Entry, Source

JOINTS, MAX_FRAMES = 20, 10_000
MAX_BYTES = 16 * 2**20
"""A quarter of an hour of twenty joints fits into this; a larger file does not belong to these sets."""
FARTHEST = 1000.0  # meters; a larger coordinate is a damaged number
LARGEST = 1e5  # pixels or meters


@dataclass(frozen=True)
class NumberedSet:
    """A data set of numbered files; call it with a folder or a zip file to get its `Source`.

    Parameters
    ----------
    name, title, graph : str
    example : str
        The name of a file, for messages.
    patterns : tuple of re.Pattern
        Of the names of files; the first with a match is used. Groups: ``stem``, the name of the clip, then the numbers
        of its action, subject, trial and perhaps view.
    actions : mapping
        Number to name; files of other actions are ignored.
    parse : callable
        ``parse(content, where)`` returns the recording in the bytes of a file; ``where`` names it in errors.
    left_out : mapping
        Name of a clip to the reason why it is skipped.
    """

    name: str
    title: str
    graph: str
    example: str
    patterns: tuple[re.Pattern, ...]
    actions: Mapping[int, str]
    parse: Callable[[bytes, str], Recording]
    left_out: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, path: Path) -> Source:
        labels = {action: label for label, action in enumerate(self.actions)}
        for pattern in self.patterns:
            clips: list[tuple[Entry, ClipFile]] = []
            skipped = []
            for name, file in sorted(numbered_files(path, pattern, MAX_BYTES).items()):
                match = pattern.fullmatch(name)
                assert match is not None, "chosen by the pattern"
                action, subject, _, *view = (int(number) for number in match.groups()[1:])
                stem = match["stem"].lower()
                if stem in self.left_out:
                    skipped.append(Skipped(stem, self.left_out[stem]))
                elif action in labels:
                    camera = view[0] if view else -1
                    clips.append((Entry(stem, labels[action], subject, camera, file.stamp, file.size), file))
            if clips:
                return self._source(clips, skipped)
        raise DataError(
            f"{path} holds no {self.title}: expected files such as {self.example}, or the zip file with them."
        )

    def _source(self, clips: list[tuple[Entry, ClipFile]], skipped: list[Skipped]) -> Source:
        clips.sort(key=lambda one: (one[0].label, one[0].subject, one[0].name))

        def read(index: int) -> Recording:
            file = clips[index][1]
            return self.parse(file.read(), file.where)

        entries = tuple(entry for entry, _ in clips)
        return Source(self.name, self.graph, tuple(self.actions.values()), entries, read, tuple(skipped))


def _numbered(*names: str) -> dict[int, str]:
    return dict(enumerate(names, start=1))


def read_mat(content: bytes, where: str) -> np.ndarray:
    """Parse frames (T, 1, 20, 3), float32, of a `.mat` file with an array ``d_skel`` (20, 3, T)."""
    try:
        joints = read_array(content, "d_skel", MAX_BYTES)
    except ValueError as error:
        raise DataError(f"{where} is not a .mat file with an array d_skel: {error}. Get it again.") from error
    if joints.ndim != 3 or joints.shape[:2] != (JOINTS, 3) or not joints.shape[2]:
        raise DataError(f"{where}: d_skel must be ({JOINTS}, 3, T); got {joints.shape}. Get the file again.")
    with np.errstate(over="ignore", invalid="ignore"):
        frames = np.ascontiguousarray(joints.transpose(2, 0, 1)[:, None], dtype=np.float32)
    frames[~np.isfinite(frames).all(-1)] = np.nan
    return frames


UTD_MHAD = NumberedSet(
    "utd-mhad", "UTD-MHAD", "kinect20", "a1_s1_t1_skeleton.mat",
    (re.compile(r"(?P<stem>a(\d{1,2})_s(\d)_t(\d))_skeleton\.mat", re.IGNORECASE),),
    _numbered(
        "swipe left", "swipe right", "wave", "clap", "throw", "cross arms", "basketball shoot", "draw x",
        "draw circle clockwise", "draw circle counter-clockwise", "draw triangle", "bowl", "box", "baseball swing",
        "tennis swing", "arm curl", "tennis serve", "push", "knock", "catch", "pick up and throw", "jog", "walk",
        "sit to stand", "stand to sit", "lunge", "squat",
    ),
    read_mat,
)  # fmt: skip
"""UTD-MHAD (Chen et al. 2015): 27 actions, 8 subjects, 4 trials."""


def read_json(content: bytes, where: str) -> np.ndarray:
    """Parse frames (T, 1, 20, 3), float32 in meters, of ``{"skeletons": [...]}``.

    NaN where x, y and z are all 0, or one is beyond `FARTHEST`.
    """
    recording = parse_json(content, where)
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


SINGLE_FRAMES = ("a02_s09_e04_v02", "a02_s09_e04_v03")
"""Published recordings of one frame, which show no movement."""
NW_UCLA = NumberedSet(
    "nw-ucla", "Northwestern-UCLA", "kinect-sdk20", "a01_s01_e00_v01.json",
    (re.compile(r"(?P<stem>a(\d{2})_s(\d{2})_e(\d{2})_v(\d{2}))\.json", re.IGNORECASE),),
    {
        1: "pick up with one hand", 2: "pick up with two hands", 3: "drop trash", 4: "walk around", 5: "sit down",
        6: "stand up", 8: "donning", 9: "doffing", 11: "throw", 12: "carry",
    },
    read_json,
    dict.fromkeys(SINGLE_FRAMES, "the published recording has one frame only"),
)  # fmt: skip
"""Northwestern-UCLA (Wang et al. 2014): 10 actions (there are no actions 7 and 10), 10 people, 3 Kinects at once."""


def read_text(content: bytes, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Parse frames (T, 1, 20, 3) and confidence (T, 1, 20), float32, of a line per joint: x, y, z and the confidence.

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
    return frames.astype(np.float32), confidence.astype(np.float32)


MSR_ACTION3D = NumberedSet(
    "msr-action3d", "MSR Action3D", "msr20", "a01_s01_e01_skeleton3D.txt",
    tuple(
        re.compile(rf"(?P<stem>a(\d{{2}})_s(\d{{2}})_e(\d{{2}}))_{end}\.txt", re.IGNORECASE)
        for end in ("skeleton3D", "skeleton")
    ),
    _numbered(
        "high arm wave", "horizontal arm wave", "hammer", "hand catch", "forward punch", "high throw", "draw x",
        "draw tick", "draw circle", "hand clap", "two hand wave", "side boxing", "bend", "forward kick", "side kick",
        "jogging", "tennis swing", "tennis serve", "golf swing", "pick up and throw",
    ),
    read_text,
)  # fmt: skip
"""MSR Action3D (Li et al. 2010): 20 actions, 10 people. Files that end in `_skeleton.txt` hold x and y in pixels; they
are read if there are none that end in `_skeleton3D.txt`."""
