"""A data set in its original files: what there is, found without reading it, and a reader of each clip."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from udtw.data.skipping import Skipped, check_on_error
from udtw.errors import DataError, UdtwError
from udtw.progress import progress_bar
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.skeleton_set import SkeletonSet


@dataclass(frozen=True)
class Entry:
    """One clip of the original files. ``stamp`` changes when its file does, ``size`` is the file's in bytes."""

    name: str
    label: int
    subject: int = -1
    camera: int = -1
    stamp: str = ""
    size: int = 0


@dataclass(frozen=True, eq=False)
class Source:
    """``read(i)`` gives the frames (T, P, J, C) of entry i, or raises a `UdtwError` that names its file."""

    name: str
    graph: str
    classes: tuple[str, ...]
    entries: tuple[Entry, ...]
    read: Callable[[int], np.ndarray]
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    def clip(self, index: int) -> Clip:
        entry = self.entries[index]
        return Clip(self.read(index), entry.label, entry.name, entry.subject, entry.camera)


def read_clips(
    source: Source, indices: Sequence[int], on_error: str, advance: Callable[[], None] = lambda: None
) -> tuple[list[Clip], list[Skipped]]:
    """The clips of some entries, and those that could not be read, unless ``on_error`` is "raise"."""
    clips, skipped = [], []
    for index in indices:
        try:
            clips.append(source.clip(index))
        except UdtwError as error:
            if on_error == "raise":
                raise
            skipped.append(Skipped(source.entries[index].name, str(error)))
        advance()
    return clips, skipped


def read_all(source: Source, on_error: str = "raise", *, progress: bool = False) -> SkeletonSet:
    """All clips in memory."""
    check_on_error(on_error)
    with progress_bar(f"reading {source.name}", len(source), progress) as advance:
        clips, skipped = read_clips(source, range(len(source)), on_error, advance)
    if not clips:
        first = skipped[0].reason if skipped else "there are no files"
        raise DataError(f"{source.name}: none of the {len(source)} clips could be read. The first: {first}")
    return SkeletonSet.from_clips(source.name, source.graph, source.classes, clips, skipped=[*source.skipped, *skipped])
