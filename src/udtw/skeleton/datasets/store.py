"""The prepared form of a data set: a folder of shards (see `shards`) and ``manifest.json``, which names them.

Shards are written one by one, the manifest last, each in full or not at all: stopped at any time, the same call goes on
after the last whole shard. Frames are read from mapped memory when a clip is asked for, so that a set may be larger
than the memory; a shard is compared with its checksum when it is opened. Nothing is pickled.
"""

import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from udtw.data.atomic import leftovers, write_atomically
from udtw.errors import DataError, FileFormatError, OptionError, UdtwError
from udtw.skeleton.datasets.progress import progress_bar
from udtw.skeleton.datasets.shards import FILE, Contents, Shard, write_shard
from udtw.skeleton.datasets.skeleton_set import SkeletonSet, Skipped
from udtw.skeleton.datasets.source import Source, check_on_error, read_clips

FORMAT, VERSION = "udtw.SkeletonSet", 1
MANIFEST = "manifest.json"
CLIPS_PER_SHARD = 256
LEFTOVER_SECONDS = 3600


@dataclass(frozen=True)
class Prepared:
    """What `prepare` did: clips in the set, shards written now and found finished, and what was left out."""

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
    """Parse ``source`` once and write its prepared form into ``folder``, made if needed.

    A shard that is there in full and was made from the same files is kept. ``on_error``: "raise" stops at the first
    file that cannot be read (what was finished before stays), "skip" leaves it out and lists it.
    """
    check_on_error(on_error)
    if clips_per_shard < 1:
        raise OptionError(f"clips_per_shard must be at least 1; got {clips_per_shard}.")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_other_sets(folder, source.name)
    starts = range(0, len(source), clips_per_shard)
    files, contents, written = [], [], 0
    with progress_bar(f"preparing {source.name}", len(source), progress) as advance:
        for number, start in enumerate(starts):
            indices = range(start, min(start + clips_per_shard, len(source)))
            plan = _plan(source, indices)
            found = _finished(folder, number, plan)
            if found is None:
                clips, skipped = read_clips(source, indices, on_error, advance)
                path = write_shard(folder, number, plan, clips, skipped)
                found = path.name, Shard(path).contents()
                written += 1
            elif on_error == "raise" and found[1].skipped:
                raise DataError(found[1].skipped[0].reason)
            else:
                for _ in indices:
                    advance()
            files.append(found[0])
            contents.append(found[1])
    skipped = [*source.skipped, *(one for part in contents for one in part.skipped)]
    names = [name for part in contents for name in part.names]
    if not names:
        first = skipped[0].reason if skipped else "there are no files"
        raise DataError(f"{source.name}: none of the {len(source)} clips could be read. The first: {first}")
    _write_manifest(folder, source, files, contents, skipped)
    return Prepared(folder, len(names), written, len(files) - written, tuple(skipped))


def is_prepared(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def open_prepared(folder: str | os.PathLike) -> SkeletonSet:
    """The set that `prepare` wrote into ``folder``; frames stay on the disk until they are asked for."""
    folder = Path(folder)
    manifest = _read_manifest(folder / MANIFEST)
    try:
        shards = [(str(shard["file"]), int(shard["clips"])) for shard in manifest["shards"]]
        foreign = [name for name, _ in shards if not FILE.fullmatch(name)]
        if foreign:
            raise ValueError(f"{foreign[0]!r} is not the name of a shard")
        if sum(count for _, count in shards) != len(manifest["names"]) or any(count < 0 for _, count in shards):
            raise ValueError("the shards' clips do not add up to the names")
        return SkeletonSet(
            manifest["name"],
            manifest["graph"],
            manifest["classes"],
            manifest["labels"],
            manifest["names"],
            _Reader(folder, shards),
            subjects=manifest["subjects"],
            cameras=manifest["cameras"],
            skipped=[Skipped(**one) for one in manifest["skipped"]],
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{folder / MANIFEST} does not describe a set of skeletons: {error!r}.") from error


class _Reader:
    """Frames of clip i, from the shard that holds it. Sent to another process it opens the shards anew."""

    def __init__(self, folder: Path, shards: list[tuple[str, int]]) -> None:
        self.folder = folder
        self.files = [name for name, _ in shards]
        self.ends = np.cumsum([count for _, count in shards])
        self._open: dict[int, Shard] = {}

    def __call__(self, index: int) -> np.ndarray:
        number = int(np.searchsorted(self.ends, index, side="right"))
        shard = self._shard(number)
        return shard.frames(index - (int(self.ends[number - 1]) if number else 0))

    def _shard(self, number: int) -> Shard:
        # Once opened they stay so: a mapped file costs address space, and its checksum would be computed again.
        if number not in self._open:
            shard = Shard(self.folder / self.files[number])
            expected = int(self.ends[number] - (self.ends[number - 1] if number else 0))
            if len(shard) != expected:
                raise FileFormatError(f"{shard.path} holds {len(shard)} clips; {MANIFEST} says {expected}.")
            self._open[number] = shard
        return self._open[number]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": {}}


def _plan(source: Source, indices: range) -> str:
    """A checksum of the files behind some entries: it changes when they do."""
    entries = [asdict(source.entries[index]) for index in indices]
    return hashlib.sha256(json.dumps([source.name, source.graph, VERSION, entries]).encode()).hexdigest()


def _finished(folder: Path, number: int, plan: str) -> tuple[str, Contents] | None:
    """A whole shard that was made by this plan."""
    for path in sorted(folder.glob(f"shard-{number:05d}-*.safetensors")):
        try:
            contents = Shard(path).contents()
        except UdtwError:
            continue  # a damaged one is made again
        if contents.plan == plan:
            return path.name, contents
    return None


def _refuse_other_sets(folder: Path, name: str) -> None:
    try:
        found = _read_manifest(folder / MANIFEST).get("name") if is_prepared(folder) else name
    except FileFormatError:
        found = name
    if found != name:
        raise DataError(f"{folder} holds the prepared data set {found!r}. Choose another folder for {name!r}.")


def _write_manifest(
    folder: Path, source: Source, files: list[str], contents: list[Contents], skipped: list[Skipped]
) -> None:
    manifest = {
        "format": FORMAT,
        "version": VERSION,
        "name": source.name,
        "graph": source.graph,
        "classes": list(source.classes),
        "shards": [{"file": file, "clips": len(part.names)} for file, part in zip(files, contents, strict=True)],
        **{
            column: [value for part in contents for value in getattr(part, column)]
            for column in ("names", "labels", "subjects", "cameras")
        },
        "skipped": [asdict(one) for one in skipped],
    }
    write_atomically(folder / MANIFEST, json.dumps(manifest, ensure_ascii=False).encode())
    # Not before: until here the folder held the old set as a whole.
    for path in folder.glob("shard-*.safetensors"):
        if FILE.fullmatch(path.name) and path.name not in files:
            path.unlink(missing_ok=True)
    for path in leftovers(folder):
        # A younger one may belong to a second run that is writing the same files.
        if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
            path.unlink(missing_ok=True)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileFormatError(f"{path.parent} holds no {MANIFEST}, so it is not a prepared data set.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path} is damaged or not JSON: {error}. Prepare the data set again.") from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise FileFormatError(f"{path} is not the manifest of a {FORMAT}.")
    if manifest.get("version") != VERSION:
        raise FileFormatError(f"{path} has version {manifest.get('version')!r}; this udtw reads {VERSION}.")
    return manifest
