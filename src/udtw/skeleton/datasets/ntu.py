"""NTU RGB+D 60 and 120 (Shahroudy et al. 2016, Liu et al. 2020): `.skeleton` files of a Kinect v2, 25 joints.

The text of such a file:

    number of frames
    for each frame:         number of bodies
        for each body:      10 values: its id, clipped edges, the state of the hands, its lean
                            number of joints, 25
            for each joint: 12 values, of which the first three are x, y, z in meters, and the last is the state of
                            tracking: 0 not tracked, 1 inferred, 2 tracked

Counts in the file never decide how much memory is used; the number of lines does, and it is bounded.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from udtw._io.items import Skipped
from udtw.data.folder import read_lines
from udtw.errors import DataError
from udtw.skeleton.datasets.files import read_file
from udtw.skeleton.datasets.skeleton_set import Entry, Source

GRAPH = "ntu25"
SAMPLE = re.compile(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})")
SHORTEST = 12  # frames in which a body must be seen
WIDE, MOSTLY = 0.8, 0.69754
JOINTS, BODY_VALUES, JOINT_VALUES = 25, 10, 12
# A Kinect tracks six people; the longest recording of the set has 300 frames and 3 MB.
MAX_BODIES, MAX_FRAMES, MAX_BYTES = 6, 10_000, 16 * 2**20
CONFIDENCE = {b"0": 0.0, b"1": 0.5, b"2": 1.0}
"""Confidence by state of tracking; an inferred position comes from the neighboring joints."""
FARTHEST = 1000.0  # meters; a larger coordinate is a damaged number

# The 120 actions, A1 first, with the names that the authors list; the first 60 are those of NTU RGB+D 60.
CLASSES = (
    "drink water", "eat meal/snack", "brushing teeth", "brushing hair", "drop", "pickup", "throw", "sitting down",
    "standing up (from sitting position)", "clapping", "reading", "writing", "tear up paper", "wear jacket",
    "take off jacket", "wear a shoe", "take off a shoe", "wear on glasses", "take off glasses", "put on a hat/cap",
    "take off a hat/cap", "cheer up", "hand waving", "kicking something", "reach into pocket",
    "hopping (one foot jumping)", "jump up", "make a phone call/answer phone", "playing with phone/tablet",
    "typing on a keyboard", "pointing to something with finger", "taking a selfie", "check time (from watch)",
    "rub two hands together", "nod head/bow", "shake head", "wipe face", "salute", "put the palms together",
    "cross hands in front (say stop)", "sneeze/cough", "staggering", "falling", "touch head (headache)",
    "touch chest (stomachache/heart pain)", "touch back (backache)", "touch neck (neckache)",
    "nausea or vomiting condition", "use a fan (with hand or paper)/feeling warm", "punching/slapping other person",
    "kicking other person", "pushing other person", "pat on back of other person", "point finger at the other person",
    "hugging other person", "giving something to other person", "touch other person's pocket", "handshaking",
    "walking towards each other", "walking apart from each other", "put on headphone", "take off headphone",
    "shoot at the basket", "bounce ball", "tennis bat swing", "juggling table tennis balls", "hush", "flick hair",
    "thumb up", "thumb down", "make ok sign", "make victory sign", "staple book", "counting money", "cutting nails",
    "cutting paper (using scissors)", "snapping fingers", "open bottle", "sniff (smell)", "squat down", "toss a coin",
    "fold paper", "ball up paper", "play magic cube", "apply cream on face", "apply cream on hand back", "put on bag",
    "take off bag", "put something into a bag", "take something out of a bag", "open a box", "move heavy objects",
    "shake fist", "throw up cap/hat", "hands up (both hands)", "cross arms", "arm circles", "arm swings",
    "running on the spot", "butt kicks (kick backward)", "cross toe touch", "side kick", "yawn", "stretch oneself",
    "blow nose", "hit other person with something", "wield knife towards other person",
    "knock over other person (hit with body)", "grab other person's stuff", "shoot at other person with a gun",
    "step on foot", "high-five", "cheers and drink", "carry something with other person",
    "take a photo of other person", "follow other person", "whisper in other person's ear",
    "exchange things with other person", "support somebody with hand",
    "finger-guessing game (playing rock-paper-scissors)",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Body:
    """A tracked body: ``frames`` (k,) in which it was seen, ascending, ``joints`` (k, 25, 3), NaN if missing, and
    ``confidence`` (k, 25)."""

    frames: np.ndarray
    joints: np.ndarray
    confidence: np.ndarray


def ntu_source(path: Path, n_classes: int, ignore: Path | None = None) -> Source:
    """Find the `.skeleton` files in the folder ``path`` and below; ``n_classes`` is 60 or 120.

    ``ignore``: a text file with names of samples to leave out, such as the published lists of samples with missing
    skeletons; other lines are ignored. NTU-60 takes actions 1 to 60 only, so that one folder of all files serves
    both sets.
    """
    unwanted = _ignored(ignore) if ignore else frozenset()
    clips: dict[str, tuple[Entry, Path]] = {}
    skipped = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        for file in files:
            stem, ending = os.path.splitext(file)
            match = SAMPLE.fullmatch(stem)
            if ending != ".skeleton" or not match or not 1 <= int(match[5]) <= n_classes or stem in clips:
                continue
            if stem in unwanted:
                skipped.append(Skipped(stem, f"listed in {ignore}"))
                continue
            place = Path(folder, file)
            info = place.stat()
            stamp = f"{info.st_size} {info.st_mtime_ns}"
            entry = Entry(stem, int(match[5]) - 1, int(match[3]), int(match[2]), stamp, info.st_size)
            clips[stem] = entry, place
    if not clips:
        raise DataError(f"{path} holds no NTU RGB+D: expected files such as S001C001P001R001A001.skeleton in it.")
    names = sorted(clips)
    places = [clips[name][1] for name in names]
    return Source(
        f"ntu{n_classes}",
        GRAPH,
        CLASSES[:n_classes],
        tuple(clips[name][0] for name in names),
        lambda index: read_skeleton(places[index]),
        tuple(sorted(skipped, key=lambda one: one.name)),
    )


def read_skeleton(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read frames (T, P, 25, 3) and confidence (T, P, 25), float32, of one file; see `choose_people`."""
    n_frames, bodies = parse(read_file(path, MAX_BYTES), str(path))
    if not bodies:
        raise DataError(
            f"{path}: no body in any of its {n_frames} frames. It is one of the samples with missing skeletons: "
            "leave it out by their published list (ignore), or skip it."
        )
    return choose_people(bodies, n_frames)


def choose_people(bodies: list[Body], n_frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose the one or two bodies that are people, the one with the largest motion first.

    Return their frames (T, P, 25, 3) and confidence (T, P, 25).

    The usual rule against false detections (chairs, reflections, fragments), applied while other bodies remain:

    1. a body seen in 11 frames or fewer is noise;
    2. so is a body that is wider than 0.8 of its height (range of x and of y) in 69.754 % of its frames or more;
    3. the two with the largest motion stay: the variance of x, y and z over all joints and frames of a body.

    Frames in which none of them was seen are dropped.
    """
    people = [body for body in bodies if len(body.frames) >= SHORTEST] or [max(bodies, key=lambda b: len(b.frames))]
    people = [body for body in people if not _is_wide(body)] or [max(people, key=_motion)]
    people = sorted(people, key=_motion, reverse=True)[:2]
    frames = np.full((n_frames, len(people), *people[0].joints.shape[1:]), np.nan, np.float32)
    confidence = np.zeros(frames.shape[:3], np.float32)
    for slot, body in enumerate(people):
        frames[body.frames, slot], confidence[body.frames, slot] = body.joints, body.confidence
    kept = np.unique(np.concatenate([body.frames for body in people]))
    return frames[kept], confidence[kept]


def _is_wide(body: Body) -> bool:
    # fmax and fmin ignore missing joints (NaN); a frame without any joint counts as wide.
    plane = body.joints[..., :2]
    width, height = (np.fmax.reduce(plane, axis=1) - np.fmin.reduce(plane, axis=1)).T
    return bool(np.mean(~(width <= WIDE * height)) >= MOSTLY)


def _motion(body: Body) -> float:
    seen = body.joints[~np.isnan(body.joints).any(-1)].astype(np.float64)
    return float(seen.var(axis=0).sum()) if len(seen) else 0.0


def _ignored(path: Path) -> frozenset[str]:
    names = frozenset(line.strip().removesuffix(".skeleton") for line in read_lines(path))
    samples = frozenset(name for name in names if SAMPLE.fullmatch(name))
    if not samples:
        raise DataError(f"{path} names no samples: expected lines such as S001C002P005R002A008.")
    return samples


def parse(content: bytes, where: str) -> tuple[int, list[Body]]:
    """Parse the number of frames, and the bodies in order of appearance; ``where`` names the file in errors."""
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
        seen: dict[bytes, list[int]] = {}  # frames of each body
        starts: dict[bytes, list[int]] = {}  # first joint line of each body in each of these frames
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
        return n_frames, [Body(np.array(seen[name]), *self.joints(starts[name])) for name in seen]

    def count(self, what: str, most: int) -> int:
        line = self.line(what).strip()
        if not line.isdigit() or len(line) > 9 or int(line) > most:
            self.refuse(self.at - 1, f"{_shown(line)} where {what} belongs, a whole number up to {most}")
        return int(line)

    def body_header(self, frame: int) -> bytes:
        """Read the body's id; check that its joint lines follow."""
        values = self.line(f"a body of frame {frame + 1}").split()
        if len(values) != BODY_VALUES:
            self.refuse(self.at - 1, f"{len(values)} values where the {BODY_VALUES} of a body belong")
        if self.count("the number of joints", JOINTS) != JOINTS:
            self.refuse(self.at - 1, f"{_shown(self.lines[self.at - 1])} joints instead of {JOINTS}")
        if self.at + JOINTS > len(self.lines):
            self.end(f"the joints of frame {frame + 1}")
        return values[0]

    def joints(self, starts: list[int]) -> tuple[np.ndarray, np.ndarray]:
        """Parse positions (k, 25, 3) and confidence (k, 25) from the lines that begin at ``starts``."""
        values: list[float] = []
        states: list[float] = []
        for start in starts:
            for number in range(start, start + JOINTS):
                fields = self.lines[number].split()
                if len(fields) != JOINT_VALUES:
                    self.refuse(number, f"{len(fields)} values where the {JOINT_VALUES} of a joint belong")
                try:
                    values += (float(fields[0]), float(fields[1]), float(fields[2]))
                except ValueError:
                    self.refuse(number, f"{_shown(b' '.join(fields[:3]))} where x, y and z belong")
                states.append(CONFIDENCE.get(fields[-1], np.nan))
        joints = np.array(values).reshape(-1, JOINTS, 3)
        confidence = np.array(states).reshape(-1, JOINTS)
        for body, joint in np.argwhere(np.isnan(confidence))[:1]:
            number = starts[body] + joint
            state = self.lines[number].split()[-1]
            self.refuse(number, f"{_shown(state)} where the state of tracking belongs, 0, 1 or 2")
        # The camera is at the origin: a joint exactly there was not detected.
        missing = ~(np.abs(joints) <= FARTHEST).all(-1) | (joints == 0).all(-1)
        joints[missing] = np.nan
        confidence[missing] = 0
        return joints.astype(np.float32), confidence.astype(np.float32)

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
