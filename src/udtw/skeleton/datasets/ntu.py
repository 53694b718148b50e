"""NTU RGB+D 60 and 120 (Shahroudy et al. 2016, Liu et al. 2020): `.skeleton` files of a Kinect v2, 25 joints."""

import os
import re
from pathlib import Path

import numpy as np

from udtw.data.skipping import Skipped
from udtw.data.tables import read_lines
from udtw.errors import DataError
from udtw.skeleton.datasets.ntu_classes import CLASSES
from udtw.skeleton.datasets.ntu_parser import MAX_BYTES, Body, parse
from udtw.skeleton.datasets.source import Entry, Source

GRAPH = "ntu25"
SAMPLE = re.compile(r"S(\d{3})C(\d{3})P(\d{3})R(\d{3})A(\d{3})")
SHORTEST = 12  # frames in which a body must be seen
WIDE, MOSTLY = 0.8, 0.69754


def ntu_source(path: Path, n_classes: int, ignore: Path | None = None) -> Source:
    """``path``: a folder with the `.skeleton` files, or with folders of them. ``n_classes``: 60 or 120.

    ``ignore``: a text file with names of samples to leave out, such as the published lists of samples with missing
    skeletons; lines that are no names are passed over. NTU-60 takes actions 1 to 60 only, so that a folder of all
    files serves both sets.
    """
    unwanted = _ignored(ignore) if ignore else frozenset()
    found: dict[str, tuple[Entry, Path]] = {}
    skipped = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        for file in files:
            stem, ending = os.path.splitext(file)
            match = SAMPLE.fullmatch(stem)
            if ending != ".skeleton" or not match or not 1 <= int(match[5]) <= n_classes or stem in found:
                continue
            if stem in unwanted:
                skipped.append(Skipped(stem, f"listed in {ignore}"))
                continue
            place = Path(folder, file)
            info = place.stat()
            stamp = f"{info.st_size} {info.st_mtime_ns}"
            entry = Entry(stem, int(match[5]) - 1, int(match[3]), int(match[2]), stamp, info.st_size)
            found[stem] = entry, place
    if not found:
        raise DataError(f"{path} holds no NTU RGB+D: expected files such as S001C001P001R001A001.skeleton in it.")
    names = sorted(found)
    places = [found[name][1] for name in names]
    return Source(
        f"ntu{n_classes}",
        GRAPH,
        CLASSES[:n_classes],
        tuple(found[name][0] for name in names),
        lambda index: read_skeleton(places[index]),
        tuple(sorted(skipped, key=lambda one: one.name)),
    )


def read_skeleton(path: Path) -> np.ndarray:
    """Frames (T, P, 25, 3) float32 of one file: one person or two, see `choose_people`."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    n_frames, bodies = parse(content, str(path))
    if not bodies:
        raise DataError(
            f"{path}: no body in any of its {n_frames} frames. It is one of the samples with missing skeletons: "
            "leave it out by their published list (ignore), or skip it."
        )
    return choose_people(bodies, n_frames)


def choose_people(bodies: list[Body], n_frames: int) -> np.ndarray:
    """(T, P, 25, 3) of the one or two bodies that are people, the one that moves most first.

    The usual rule against the sensor's ghosts (chairs, reflections, fragments), applied while other bodies remain:

    1. a body seen in 11 frames or fewer is noise;
    2. so is one that in 69.754 % of its frames or more is wider than 0.8 of its height (range of x and of y);
    3. of the rest the two with the largest motion stay: the variance of x, y and z over all its joints and frames.

    Frames in which none of them was seen are dropped.
    """
    people = [body for body in bodies if len(body.frames) >= SHORTEST] or [max(bodies, key=lambda b: len(b.frames))]
    people = [body for body in people if not _is_wide(body)] or [max(people, key=_motion)]
    people = sorted(people, key=_motion, reverse=True)[:2]
    frames = np.full((n_frames, len(people), *people[0].joints.shape[1:]), np.nan, np.float32)
    for slot, body in enumerate(people):
        frames[body.frames, slot] = body.joints
    return frames[np.unique(np.concatenate([body.frames for body in people]))]


def _is_wide(body: Body) -> bool:
    # fmax and fmin pass over missing joints (NaN); a frame without any counts as wide.
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
        raise DataError(f"{path} names no samples: expected a line such as S001C002P005R002A008 for each.")
    return samples
