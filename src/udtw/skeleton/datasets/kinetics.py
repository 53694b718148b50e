"""Kinetics-skeleton (Yan et al. 2018): people found by OpenPose in videos of 400 classes, one JSON file per clip.

"kinetics-3d" is the same set lifted to 3D by a method of the user's choice: one `.npz` file per clip, without pickles,
with an array ``frames`` (T, P, 18, 3), float32 or float64: time, one or two people, the joints of OpenPose, x, y, z;
NaN where a joint is missing; and if there is one, ``confidence`` (T, P, 18) from 0 to 1. Other arrays in the file are
ignored.
"""

import io
import math
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from udtw._io.items import Skipped
from udtw._io.npy import read_header, read_values
from udtw._io.zip_members import open_zip, read_member
from udtw.errors import DataError
from udtw.skeleton.datasets.clip import Recording
from udtw.skeleton.datasets.files import parse_json, read_file
from udtw.skeleton.datasets.skeleton_set import Entry, Source

GRAPH, JOINTS = "openpose18", 18
PARTS = ("train", "val")
MAX_CLASSES, MAX_FRAMES, MAX_PEOPLE, MAX_BYTES = 1000, 10_000, 200, 64 * 2**20
LARGEST = 1e5  # pixels; coordinates are usually fractions of the picture
LIFTED_ARRAY, LIFTED_CONFIDENCE = "frames.npy", "confidence.npy"


def kinetics_source(path: Path, lifted: bool = False) -> Source:
    """Find the clips in the folder ``path`` with kinetics_train_label.json, kinetics_val_label.json, or both.

    The clips of each are in kinetics_train/NAME.json and kinetics_val/NAME.json. With ``lifted`` they are 3D, in
    NAME.npz in the same folders. Clips without a skeleton according to a list, and missing clips, are in
    ``skipped``. Classes are numbered as in the lists.
    """
    lists = [(part, path / f"kinetics_{part}_label.json") for part in PARTS]
    if not any(file.is_file() for _, file in lists):
        raise DataError(f"{path} holds no Kinetics-skeleton: expected {lists[0][1].name} or {lists[1][1].name} in it.")
    classes: dict[int, str] = {}
    clips: dict[str, tuple[Entry, Path]] = {}
    skipped = []
    for part, file in lists:
        for name, known in _label_list(file).items() if file.is_file() else ():
            label = _label(f"{file}, {name!r}", known, classes)
            place = path / f"kinetics_{part}" / f"{name}{'.npz' if lifted else '.json'}"
            if known.get("has_skeleton") is False:
                skipped.append(Skipped(name, f"without skeleton according to {file.name}"))
            elif not place.is_file():
                skipped.append(Skipped(name, f"{place} is missing"))
            else:
                info = place.stat()
                stamp = f"{info.st_size} {info.st_mtime_ns}"
                clips[name] = Entry(name, label, stamp=stamp, size=info.st_size), place
    if not clips:
        raise DataError(f"{path} holds the lists of Kinetics-skeleton, but none of the {len(skipped)} listed clips.")
    names = sorted(clips)
    readers = [partial(_read, place, entry.label, lifted) for entry, place in (clips[name] for name in names)]
    return Source(
        "kinetics-3d" if lifted else "kinetics",
        GRAPH,
        tuple(classes.get(label, f"class {label}") for label in range(max(classes) + 1)),
        tuple(clips[name][0] for name in names),
        lambda index: readers[index](),
        tuple(skipped),
    )


def _read(path: Path, label: int, lifted: bool) -> Recording:
    content = read_file(path, MAX_BYTES)
    return read_lifted(content, str(path)) if lifted else read_clip(content, str(path), label)


def read_clip(content: bytes, where: str, label: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Parse frames (T, P, 18, 2) and confidence (T, P, 18), float32, from the text of a clip.

    x to the right and y down, NaN where the score is 0. The confidence is OpenPose's score, cut off at 1: it may exceed
    1 slightly.

    OpenPose does not track people from frame to frame: the one or two with the highest mean score in a frame are
    taken, the highest first, so that two people may change places. Frames without people are dropped.
    """
    clip = parse_json(content, where)
    steps = clip.get("data") if isinstance(clip, dict) else None
    if not isinstance(steps, list) or len(steps) > MAX_FRAMES:
        raise DataError(f'{where}: expected {{"data": [...]}} with up to {MAX_FRAMES} frames. Get the file again.')
    if label is not None and clip.get("label_index", label) != label:
        raise DataError(f"{where}: label_index is {clip['label_index']!r}, but in the list of labels it is {label}.")
    numbered: dict[int, list[tuple[np.ndarray, np.ndarray]]] = {}
    for position, step in enumerate(steps):
        here = f"{where}, frame {position + 1}"
        index = step.get("frame_index") if isinstance(step, dict) else None
        if type(index) is not int or index in numbered:
            raise DataError(f"{here}: frame_index must be a whole number that no other frame has; got {index!r:.40}.")
        people = step.get("skeleton")
        if not isinstance(people, list) or len(people) > MAX_PEOPLE:
            raise DataError(f"{here}: skeleton must be a list of up to {MAX_PEOPLE} people. Get the file again.")
        scored = sorted((_person(f"{here}, person {i + 1}", one) for i, one in enumerate(people)), key=lambda p: -p[0])
        numbered[index] = [(pose, sure) for mean, pose, sure in scored[:2] if mean > 0]
    seen = [numbered[index] for index in sorted(numbered) if numbered[index]]
    if not seen:
        raise DataError(f"{where}: there is no person in any of its {len(steps)} frames. Skip it.")
    frames = np.full((len(seen), max(len(people) for people in seen), JOINTS, 2), np.nan, np.float32)
    confidence = np.zeros(frames.shape[:3], np.float32)
    for position, poses in enumerate(seen):
        for person, (pose, sure) in enumerate(poses):
            frames[position, person], confidence[position, person] = pose, sure
    return frames, confidence


def read_lifted(content: bytes, where: str) -> Recording:
    """Parse frames (T, P, 18, 3), float32, and any confidence (T, P, 18) from the bytes of an `.npz` file."""
    try:
        archive = open_zip(content)
    except ValueError as error:
        raise DataError(f"{where} is not an .npz file with an array frames ({error}). Write it again.") from error
    frames = _member(archive, LIFTED_ARRAY, where, _check_lifted)
    frames[~np.isfinite(frames).all(-1)] = np.nan
    if LIFTED_CONFIDENCE not in archive.namelist():
        return frames
    return frames, _member(archive, LIFTED_CONFIDENCE, where, partial(_check_confidence, frames.shape[:3]))


def _member(archive: zipfile.ZipFile, name: str, where: str, check: Callable[..., None]) -> np.ndarray:
    """Read the array ``name`` as float32, after ``check(where, shape, dtype)`` of its header."""
    try:
        file = io.BytesIO(read_member(archive, name, MAX_BYTES))
        shape, fortran, dtype = read_header(file)
    except ValueError as error:
        raise DataError(
            f"{where} is not an .npz file with an array {name.removesuffix('.npy')} ({error}). Write it again."
        ) from error
    check(where, shape, dtype)
    try:
        values = read_values(file, shape, fortran, dtype)
    except ValueError as error:
        raise DataError(f"{where}: {error}. Write it again.") from error
    with np.errstate(over="ignore", invalid="ignore"):
        return np.array(values, np.float32, order="C")


def _check_confidence(expected: tuple[int, ...], where: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    if shape != expected or dtype.kind != "f" or dtype.itemsize not in (4, 8):
        raise DataError(
            f"{where}: confidence must be {expected} like its frames, float32 or float64; got {dtype} of shape {shape}."
        )


def _check_lifted(where: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    fits = len(shape) == 4 and 1 <= shape[0] <= MAX_FRAMES and shape[1] in (1, 2) and shape[2:] == (JOINTS, 3)
    if not fits or dtype.kind != "f" or dtype.itemsize not in (4, 8):
        raise DataError(
            f"{where}: frames must be (T, P, {JOINTS}, 3) with T up to {MAX_FRAMES} and P 1 or 2, float32 or float64; "
            f"got {dtype} of shape {shape}."
        )


def _person(where: str, person: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """Return mean score, pose (18, 2), and confidence (18,)."""
    if not isinstance(person, dict):
        raise DataError(f"{where}: expected pose and score; got {type(person).__name__}. Get the file again.")
    pose = _numbers(where, "pose", person.get("pose"), 2 * JOINTS).reshape(JOINTS, 2)
    score = _numbers(where, "score", person.get("score"), JOINTS)
    missing = ~(score > 0) | ~np.isfinite(pose).all(-1)
    pose[missing] = np.nan
    score = np.where(missing, 0, score)
    return float(score.mean()), pose, score.clip(0, 1)


def _numbers(where: str, what: str, values: Any, count: int) -> np.ndarray:
    if not isinstance(values, list) or len(values) != count or not all(type(v) in (int, float) for v in values):
        raise DataError(f"{where}: {what} must be a list of {count} numbers. Get the file again.")
    return np.array([value if abs(value) <= LARGEST else math.nan for value in values], dtype=np.float64)


def _label_list(path: Path) -> dict[str, dict[str, Any]]:
    labels = parse_json(read_file(path, MAX_BYTES), str(path))
    if not isinstance(labels, dict) or not all(isinstance(known, dict) for known in labels.values()):
        raise DataError(f'{path}: expected {{"NAME": {{"label": ..., "label_index": ...}}, ...}}. Get the file again.')
    for name in labels:
        # A name becomes part of a path: it must not point outside the folder.
        if not name or "/" in name or "\\" in name or "\0" in name or len(name.encode("utf-8", "replace")) > 200:
            raise DataError(f"{path}: {name!r:.60} is not the name of a clip. Get the file again.")
    return labels


def _label(where: str, known: dict[str, Any], classes: dict[int, str]) -> int:
    label, text = known.get("label_index"), known.get("label")
    if type(label) is not int or not 0 <= label < MAX_CLASSES or not isinstance(text, str):
        raise DataError(f"{where}: expected a label and a label_index from 0 to {MAX_CLASSES - 1}. Get the file again.")
    if classes.setdefault(label, text) != text:
        raise DataError(f"{where}: class {label} is called {text!r} here and {classes[label]!r} before.")
    return label
