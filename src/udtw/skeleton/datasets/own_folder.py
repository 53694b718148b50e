"""Clips of your own: a folder with a subfolder for each class, and a `.npy` or `.json` file for each clip.

A `.npy` file holds positions (T, J, C) or (T, P, J, C), NaN where one is missing; if there is a file
`NAME.confidence.npy` beside it, that holds their confidence (T, J) or (T, P, J). A `.json` file holds the positions as
lists (null where one is missing), alone or as ``{"frames": …, "confidence": …}``. The joints are those that
`graph.json` in the folder names, ``{"graph": "coco17"}`` or ``{"edges": [[0, 1], …], "centre": 0}``; without it, those
of the only layout in `udtw.skeleton.GRAPHS` with that number of joints.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from udtw._io import strict_json
from udtw._io.items import some
from udtw._io.npy import read_npy
from udtw.errors import DataError, OptionError, ShapeError, UdtwError
from udtw.skeleton.datasets.clip import Recording, checked_confidence
from udtw.skeleton.datasets.files import read_file
from udtw.skeleton.datasets.skeleton_set import Entry, Source, with_people
from udtw.skeleton.graphs import GRAPHS, from_edges, graph

NAME, GRAPH_FILE = "folder", "graph.json"
CONFIDENCE_END = ".confidence.npy"
MAX_BYTES = 256 * 2**20


def folder_source(path: Path, layout: str | None = None) -> Source:
    """Find the clips in the subfolders of ``path``, which are the classes; other and hidden files are ignored.

    ``layout``: the joints where there is no `graph.json`.
    """
    files = [
        file
        for file in sorted(path.glob("*/*"))
        if file.suffix in (".npy", ".json") and not file.name.startswith(".") and not file.name.endswith(CONFIDENCE_END)
    ]
    if not files:
        raise DataError(
            f"{path} holds no clips: expected a subfolder for each class, with `.npy` files (frames, joints, "
            "coordinates) or `.json` files."
        )
    classes = sorted({file.parent.name for file in files})
    labels = [classes.index(file.parent.name) for file in files]
    layout = _layout(path, files) if layout is None or (path / GRAPH_FILE).exists() else layout
    return _source(layout, classes, files, labels, [f"{file.parent.name}/{file.name}" for file in files])


def clip_files(files: Sequence[Path], layout: str) -> Source:
    """Return single files of clips without classes, with the joints of ``layout``."""
    wrong = [str(file) for file in files if file.suffix not in (".npy", ".json") or not file.is_file()]
    if wrong or not files:
        raise DataError(f"Clips are existing `.npy` or `.json` files; got {some(wrong) if wrong else 'none'}.")
    return _source(layout, ["unknown"], files, [0] * len(files), [str(file) for file in files])


def _source(layout: str, classes: list[str], files: Sequence[Path], labels: list[int], names: list[str]) -> Source:
    n_joints = len(graph(layout).joints)

    def read(index: int) -> Recording:
        found = _read(files[index])
        frames = found[0] if isinstance(found, tuple) else found
        if frames.shape[2] != n_joints:
            raise ShapeError(f"{files[index]} has {frames.shape[2]} joints; the layout, {layout}, has {n_joints}.")
        return found

    entries = [
        Entry(name, label, stamp=f"{stat.st_size} {stat.st_mtime_ns}", size=stat.st_size)
        for name, label, stat in zip(names, labels, (file.stat() for file in files), strict=True)
    ]
    return Source(NAME, layout, tuple(classes), tuple(entries), read)


def _layout(folder: Path, files: list[Path]) -> str:
    """Return the name of the layout, by `graph.json` or by the number of joints of the first clip that can be read."""
    where = folder / GRAPH_FILE
    described: Any = None
    if where.exists():
        try:
            described = strict_json.loads(read_file(where, MAX_BYTES))
        except ValueError as error:
            raise DataError(f"{where} is not JSON: {error}.") from error
        if isinstance(described, dict) and isinstance(described.get("graph"), str):
            try:
                graph(described["graph"])
            except OptionError as error:
                raise DataError(f"{where}: {error}") from error
            return described["graph"]
    n_joints = _first_joints(files)
    if described is not None:
        return _by_edges(described, n_joints, where)
    fitting = [name for name, known in GRAPHS.items() if len(known.joints) == n_joints]
    if len(fitting) != 1:
        which = f"{', '.join(fitting)} have" if fitting else "no known layout has"
        raise DataError(
            f"{folder}: which joints are connected? The clips have {n_joints} joints, and {which} that many. Write "
            f'{GRAPH_FILE} into the folder: {{"graph": "{(fitting or ["coco17"])[0]}"}}, or '
            '{"edges": [[0, 1], [1, 2]], "centre": 0}.'
        )
    return fitting[0]


def _by_edges(described: Any, n_joints: int, where: Path) -> str:
    edges = described.get("edges") if isinstance(described, dict) else None
    centre = described.get("centre", 0) if isinstance(described, dict) else None
    pairs = isinstance(edges, list) and all(
        isinstance(edge, list) and len(edge) == 2 and all(type(joint) is int for joint in edge) for edge in edges
    )
    if not pairs or type(centre) is not int:
        raise DataError(
            f'{where} must be {{"graph": NAME}} or {{"edges": [[0, 1], …], "centre": 0}} with joint numbers; got '
            f"{described!r:.60}."
        )
    try:
        return from_edges(edges, n_joints, centre).text  # type: ignore[arg-type]
    except OptionError as error:
        raise DataError(f"{where}: {error}") from error


def _first_joints(files: list[Path]) -> int:
    first: UdtwError | None = None
    for file in files:
        try:
            found = _read(file)
        except UdtwError as error:
            first = first or error
            continue
        return (found[0] if isinstance(found, tuple) else found).shape[2]
    raise DataError(f"None of the {len(files)} clips could be read. The first: {first}") from first


def _read(file: Path) -> Recording:
    """Read frames (T, P, J, C), and their confidence if there is one."""
    confidence: Any = None
    try:
        if file.suffix == ".npy":
            frames: Any = read_npy(io.BytesIO(read_file(file, MAX_BYTES)))
            beside = file.with_name(file.stem + CONFIDENCE_END)
            if beside.exists():
                confidence = read_npy(io.BytesIO(read_file(beside, MAX_BYTES)))
        else:
            frames = strict_json.loads(read_file(file, MAX_BYTES))
            if isinstance(frames, dict):
                frames, confidence = frames.get("frames"), frames.get("confidence")
            frames = _array(frames)
            confidence = None if confidence is None else _array(confidence)
    except ValueError as error:
        if isinstance(error, UdtwError):
            raise
        raise DataError(f"{file} cannot be read: {error}.") from error
    frames = with_people(str(file), frames, 4)
    if confidence is None:
        return frames
    sure = with_people(f"{file}, confidence", confidence, 3)
    return frames, checked_confidence(sure, frames.shape, str(file))


def _array(lists: Any) -> np.ndarray:
    """Convert nested lists to numbers; null becomes NaN."""
    try:
        return np.array(lists, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"it must hold lists of numbers of one length: {error}") from error
