"""The text of an NTU RGB+D `.skeleton` file.

    number of frames
    for each frame:         number of bodies
        for each body:      10 values: its id, clipped edges, the state of the hands, its lean
                            number of joints, 25
            for each joint: 12 values, of which the first three are x, y, z in metres

No count in the file decides how much memory is taken: lines are, and their number is bounded.
"""

from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from udtw.errors import DataError

JOINTS, BODY_VALUES, JOINT_VALUES = 25, 10, 12
# A Kinect follows six people; the longest recording of the set has 300 frames and 3 MB.
MAX_BODIES, MAX_FRAMES, MAX_BYTES = 6, 10_000, 16 * 2**20
FARTHEST = 1000.0  # metres; what is farther away is a damaged number


@dataclass(frozen=True, eq=False)
class Body:
    """``frames`` (k,): where it was seen, ascending. ``joints`` (k, 25, 3) float32, NaN where a joint is missing."""

    frames: np.ndarray
    joints: np.ndarray


def parse(content: bytes, where: str) -> tuple[int, list[Body]]:
    """The number of frames and the bodies in the order in which they appear. ``where`` names the file in errors."""
    if len(content) > MAX_BYTES:
        raise DataError(f"{where} has {len(content)} bytes, more than a recording of this set. Get it again.")
    return _Lines(content, where).read()


class _Lines:
    def __init__(self, content: bytes, where: str) -> None:
        self.lines = content.split(b"\n")
        while self.lines and not self.lines[-1].strip():
            self.lines.pop()
        self.where, self.at = where, 0

    def read(self) -> tuple[int, list[Body]]:
        if not self.lines:
            raise DataError(f"{self.where} is empty. Get the file again, or skip it.")
        n_frames = self.count("the number of frames", MAX_FRAMES)
        seen: dict[bytes, list[int]] = {}  # the frames of each body
        starts: dict[bytes, list[int]] = {}  # its first joint line in each of them
        for frame in range(n_frames):
            for _ in range(self.count(f"the number of bodies in frame {frame + 1}", MAX_BODIES)):
                name = self.body_header(frame)
                frames = seen.setdefault(name, [])
                if frames and frames[-1] == frame:
                    self.refuse(self.at - 2, f"body {_shown(name)} for the second time in frame {frame + 1}")
                frames.append(frame)
                starts.setdefault(name, []).append(self.at)
                self.at += JOINTS
        if self.at < len(self.lines):
            self.refuse(self.at, f"{_shown(self.lines[self.at])} after the last of {n_frames} frames")
        return n_frames, [Body(np.array(seen[name]), self.joints(starts[name])) for name in seen]

    def count(self, what: str, most: int) -> int:
        line = self.line(what).strip()
        if not line.isdigit() or len(line) > 9 or int(line) > most:
            self.refuse(self.at - 1, f"{_shown(line)} where {what} belongs, a whole number up to {most}")
        return int(line)

    def body_header(self, frame: int) -> bytes:
        """The body's id; afterwards its joint lines come next, and are there."""
        values = self.line(f"a body of frame {frame + 1}").split()
        if len(values) != BODY_VALUES:
            self.refuse(self.at - 1, f"{len(values)} values where the {BODY_VALUES} of a body belong")
        if self.count("the number of joints", JOINTS) != JOINTS:
            self.refuse(self.at - 1, f"{_shown(self.lines[self.at - 1])} joints instead of {JOINTS}")
        if self.at + JOINTS > len(self.lines):
            self.end(f"the joints of frame {frame + 1}")
        return values[0]

    def joints(self, starts: list[int]) -> np.ndarray:
        """(k, 25, 3) from the lines that begin at ``starts``."""
        values: list[float] = []
        for start in starts:
            for number in range(start, start + JOINTS):
                fields = self.lines[number].split()
                if len(fields) != JOINT_VALUES:
                    self.refuse(number, f"{len(fields)} values where the {JOINT_VALUES} of a joint belong")
                try:
                    values += (float(fields[0]), float(fields[1]), float(fields[2]))
                except ValueError:
                    self.refuse(number, f"{_shown(b' '.join(fields[:3]))} where x, y and z belong")
        joints = np.array(values).reshape(-1, JOINTS, 3)
        far = np.argwhere((np.abs(joints) > FARTHEST) & np.isfinite(joints))
        if len(far):
            body, joint, _ = far[0]
            self.refuse(starts[body] + joint, f"{joints[tuple(far[0])]:.4g} as a coordinate in metres")
        # The camera itself is at the origin: a joint exactly there was not seen.
        missing = ~np.isfinite(joints).all(-1) | (joints == 0).all(-1)
        joints[missing] = np.nan
        return joints.astype(np.float32)

    def line(self, what: str) -> bytes:
        if self.at >= len(self.lines):
            self.end(what)
        self.at += 1
        return self.lines[self.at - 1]

    def end(self, what: str) -> NoReturn:
        raise DataError(
            f"{self.where}, line {len(self.lines)}: the file ends where {what} should follow. "
            "It was cut off: get it again, or skip it."
        )

    def refuse(self, index: int, found: str) -> NoReturn:
        raise DataError(f"{self.where}, line {index + 1}: found {found}. Get the file again, or skip it.")


def _shown(text: bytes) -> str:
    text = text.strip()
    return repr(text[:40])[1:] + ("…" if len(text) > 40 else "")
