"""The prepared form of a data set: a folder of shards of clips and ``manifest.json``, see `udtw._io.shard_store`.

Frames are read from mapped memory on demand, so that a set may be larger than the memory.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from udtw._io.items import Skipped, check_on_error
from udtw._io.progress import progress_bar
from udtw._io.shard_store import ArraySpec, Contents, Part, Shard, Shards, ShardStore, checksum
from udtw.errors import OptionError, ShapeError
from udtw.skeleton.datasets.clip import Clip, Recording, check_frames
from udtw.skeleton.datasets.skeleton_set import Entry, SkeletonSet, Source, read_clips, refuse_empty

CLIPS_PER_SHARD = 256
COLUMNS = ("labels", "subjects", "cameras")
CONFIDENCE = "confidence"
"""Layout of shards, and part of their plan: shards that were written without confidence are made again."""


class ClipShard(Shard):
    """A few hundred clips.

    A clip of T frames with P people takes T·P consecutive rows of ``rows`` (R, J, C); clip i has the rows
    ``offsets[i]`` to ``offsets[i + 1]`` of ``offsets`` (n + 1,), and ``people[i]`` of ``people`` (n,). If its layout is
    `CONFIDENCE`, ``confidence`` (R, J) holds that of the rows; otherwise it is 1, as in sets that version 0.2 wrote.
    """

    format, items, content, remedy = "udtw.SkeletonSet", "clips", "skeletons", "Prepare the data set again"
    columns = COLUMNS

    def array_specs(self) -> dict[str, ArraySpec]:
        n = len(self)
        specs: dict[str, ArraySpec] = {
            "rows": ("F32", (None, None, None)), "offsets": ("I64", (n + 1,)), "people": ("I64", (n,)),
        }  # fmt: skip
        if self.contents.layout not in (None, CONFIDENCE):
            raise ValueError(f"unknown layout {self.contents.layout!r:.40}")
        return specs | ({"confidence": ("F32", (None, None))} if self.contents.layout else {})

    def check(self) -> None:
        self._offsets, self._people = self.whole("offsets"), self.whole("people")
        offsets, people, lengths = self._offsets, self._people, np.diff(self._offsets)
        n_rows = self.arrays["rows"].get_shape()[0]
        if offsets[0] != 0 or offsets[-1] != n_rows or (lengths < 1).any() or not np.isin(people, (1, 2)).all():
            raise ValueError("offsets that do not fit the rows")
        if (lengths % people).any():
            raise ValueError("rows that do not fit the number of people")
        sure = self.arrays.get("confidence")
        if sure is not None and sure.get_shape() != self.arrays["rows"].get_shape()[:2]:
            raise ValueError("confidence that does not fit the rows")

    def recording(self, index: int) -> Recording:
        """Copy the frames (T, P, J, C) of clip ``index`` of this shard, and their confidence if it has one."""
        start, stop = (int(self._offsets[index + step]) for step in (0, 1))
        rows = self.arrays["rows"][start:stop]
        frames = rows.reshape(-1, int(self._people[index]), *rows.shape[1:])
        check_frames(frames, f"{self.path}, clip {index}")
        if "confidence" not in self.arrays:
            return frames
        return frames, self.arrays["confidence"][start:stop].reshape(frames.shape[:3])


@dataclass(frozen=True)
class Prepared:
    """The result of `prepare`: clips in the set, shards written now and kept from before, and clips left out."""

    folder: Path
    clips: int
    written: int
    kept: int
    skipped: tuple[Skipped, ...]


def prepare(
    source: Source,
    folder: str | os.PathLike,
    *,
    on_error: str = "raise",
    clips_per_shard: int = CLIPS_PER_SHARD,
    progress: bool = False,
) -> Prepared:
    """Parse ``source`` once and write its prepared form into ``folder``, which is created if needed.

    Complete shards that were made from the same files are kept. ``on_error``: "raise" stops at the first file that
    cannot be read (shards finished before stay), "skip" leaves it out and lists it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from udtw.skeleton.datasets import open_prepared, prepare
    >>> from udtw.skeleton.datasets.skeleton_set import Entry, Source
    >>> frames = [np.zeros((30, 1, 20, 3), np.float32)]
    >>> source = Source("mine", "kinect20", ("wave",), (Entry("wave-001", 0),), frames.__getitem__)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     print(prepare(source, folder).written)
    ...     print(open_prepared(folder))
    1
    SkeletonSet('mine', 1 clips, 1 of 1 classes, kinect20)
    """
    check_on_error(on_error)
    if clips_per_shard < 1:
        raise OptionError(f"clips_per_shard must be at least 1; got {clips_per_shard}.")
    store = ShardStore(Path(folder), ClipShard)
    store.start(source.name)
    with progress_bar(f"preparing {source.name}", len(source), progress) as advance:

        def make(parts: Iterable[Part]) -> Iterator[tuple[int, Contents]]:
            for part in parts:
                clips, skipped = read_clips(source, part.indices, on_error, advance)
                yield part.number, _write(store, part, clips, skipped)

        shards, written = store.fill(_parts(source, clips_per_shard), make, on_error=on_error, advance=advance)
    skipped = [*source.skipped, *(one for shard in shards for one in shard.skipped)]
    clips = sum(len(shard.names) for shard in shards)
    refuse_empty(source, clips, skipped)
    columns = {name: [value for shard in shards for value in shard.columns[name]] for name in COLUMNS}
    described = {"graph": source.graph, "classes": list(source.classes)}
    store.finish(source.name, described, shards, columns, skipped)
    return Prepared(store.folder, clips, written, len(shards) - written, tuple(skipped))


def is_prepared(folder: Path) -> bool:
    return ShardStore(folder, ClipShard).is_there()


def open_prepared(folder: str | os.PathLike) -> SkeletonSet:
    """Open the set that `prepare` wrote into ``folder``; frames stay on disk until they are requested.

    Examples
    --------
    See `prepare`. A folder that holds no prepared set is an error:

    >>> import tempfile
    >>> from udtw.skeleton.datasets import open_prepared
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     open_prepared(folder)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    udtw.errors.FileFormatError: ... holds no manifest.json, so it is not a folder of shards of skeletons.
    """
    return ShardStore(Path(folder), ClipShard).open(_set)


def _set(manifest: dict[str, Any], shards: Shards[ClipShard]) -> SkeletonSet:
    columns = [manifest[name] for name in ("names", *COLUMNS)]
    entries = [Entry(*values) for values in zip(*columns, strict=True)]
    read = partial(_recording, shards)  # not a closure, which could not be sent to worker processes
    return SkeletonSet(
        manifest["name"], manifest["graph"], manifest["classes"], entries, read, skipped=manifest["skipped"]
    )  # fmt: skip


def _recording(shards: Shards[ClipShard], index: int) -> Recording:
    shard, place = shards.find(index)
    return shard.recording(place)


def _parts(source: Source, clips_per_shard: int) -> Iterator[Part]:
    for number, start in enumerate(range(0, len(source), clips_per_shard)):
        indices = range(start, min(start + clips_per_shard, len(source)))
        entries = [asdict(source.entries[index]) for index in indices]
        yield Part(number, checksum(source.name, source.graph, ClipShard.version, CONFIDENCE, entries), indices)


def _write(store: ShardStore, part: Part, clips: list[Clip], skipped: list[Skipped]) -> Contents:
    shapes = {clip.frames.shape[2:] for clip in clips}
    if len(shapes) > 1:
        raise ShapeError(f"Clips of one data set must agree in joints and coordinates; got {sorted(shapes)}.")
    joints, coordinates = next(iter(shapes), (1, 3))
    rows = [clip.frames.reshape(-1, joints, coordinates) for clip in clips]
    arrays = {
        "rows": np.concatenate([np.zeros((0, joints, coordinates), np.float32), *rows]),
        "offsets": np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64),
        "people": np.array([clip.frames.shape[1] for clip in clips], dtype=np.int64),
    }
    sure = any((clip.confidence < 1).any() for clip in clips)
    if sure:
        arrays["confidence"] = np.concatenate([clip.confidence.reshape(-1, joints) for clip in clips])
    columns = {
        "labels": [clip.label for clip in clips],
        "subjects": [clip.subject for clip in clips],
        "cameras": [clip.camera for clip in clips],
    }
    contents = Contents(
        part.plan, [clip.name for clip in clips], skipped, columns, layout=CONFIDENCE if sure else None
    )  # fmt: skip
    return store.write(part.number, contents, arrays)
