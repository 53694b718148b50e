"""The prepared form of a data set: a folder of shards (see `shards`) and ``manifest.json``, which names them.

Frames are read from mapped memory when a clip is asked for, so that a set may be larger than the memory. What holds for
every folder of shards is in `udtw.data.checked_shards`.
"""

import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from udtw.data.checked_shards import MANIFEST, Shards, finished, plan_of, refuse_other_sets, write_manifest
from udtw.data.skipping import Skipped, check_on_error
from udtw.data.versioned_json import read_described
from udtw.errors import DataError, FileFormatError, OptionError
from udtw.progress import progress_bar
from udtw.skeleton.datasets.shards import Contents, Shard, write_shard
from udtw.skeleton.datasets.skeleton_set import SkeletonSet
from udtw.skeleton.datasets.source import Source, read_clips

FORMAT, VERSION = "udtw.SkeletonSet", 1
CLIPS_PER_SHARD = 256


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
    refuse_other_sets(folder, FORMAT, source.name)
    starts = range(0, len(source), clips_per_shard)
    files, contents, written = [], [], 0
    with progress_bar(f"preparing {source.name}", len(source), progress) as advance:
        for number, start in enumerate(starts):
            indices = range(start, min(start + clips_per_shard, len(source)))
            plan = _plan(source, indices)
            found = finished(folder, number, plan, _contents)
            if found is None:
                clips, skipped = read_clips(source, indices, on_error, advance)
                path = write_shard(folder, number, plan, clips, skipped)
                found = path.name, _contents(path)
                written += 1
            elif on_error == "raise" and found[1].skipped:
                raise DataError(found[1].skipped[0].reason)
            else:
                advance(len(indices))
            files.append(found[0])
            contents.append(found[1])
    skipped = [*source.skipped, *(one for part in contents for one in part.skipped)]
    names = [name for part in contents for name in part.names]
    if not names:
        first = skipped[0].reason if skipped else "there are no files"
        raise DataError(f"{source.name}: none of the {len(source)} clips could be read. The first: {first}")
    write_manifest(folder, _manifest(source, files, contents, skipped))
    return Prepared(folder, len(names), written, len(files) - written, tuple(skipped))


def is_prepared(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def open_prepared(folder: str | os.PathLike) -> SkeletonSet:
    """The set that `prepare` wrote into ``folder``; frames stay on the disk until they are asked for."""
    folder = Path(folder)
    manifest = read_described(folder / MANIFEST, FORMAT, VERSION, "a prepared data set")
    try:
        return SkeletonSet(
            manifest["name"],
            manifest["graph"],
            manifest["classes"],
            manifest["labels"],
            manifest["names"],
            _Reader(Shards(folder, manifest["shards"], len(manifest["names"]), Shard)),
            subjects=manifest["subjects"],
            cameras=manifest["cameras"],
            skipped=[Skipped(**one) for one in manifest["skipped"]],
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise FileFormatError(f"{folder / MANIFEST} does not describe a set of skeletons: {error!r}.") from error


class _Reader:
    """Frames of clip i. Not a closure, so that worker processes can be sent one."""

    def __init__(self, shards: Shards[Shard]) -> None:
        self.shards = shards

    def __call__(self, index: int) -> np.ndarray:
        shard, place = self.shards.find(index)
        return shard.frames(place)


def _plan(source: Source, indices: range) -> str:
    """A checksum of the files behind some entries."""
    return plan_of(source.name, source.graph, VERSION, [asdict(source.entries[index]) for index in indices])


def _contents(path: Path) -> Contents:
    return Shard(path).contents()


def _manifest(source: Source, files: list[str], contents: list[Contents], skipped: list[Skipped]) -> dict[str, object]:
    return {
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
