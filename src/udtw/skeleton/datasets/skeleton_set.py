"""Clips, sets of clips whose frames are read on demand, and data sets in their original files."""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Self, SupportsIndex, overload

import numpy as np

from udtw.data.choosing import checked_indices, class_numbers
from udtw.data.skipping import Skipped, check_on_error
from udtw.errors import DataError, LengthError, OptionError, ShapeError, UdtwError
from udtw.progress import progress_bar

MAX_PEOPLE = 2
Reader = Callable[[int], np.ndarray]
"""Gives the frames (T, P, J, C) of clip i."""


@dataclass(frozen=True, eq=False)
class Clip:
    """One recorded action: the joints of one or two people over time.

    Parameters
    ----------
    frames : (T, P, J, C) float32
        Time, people (1 or 2), joints, coordinates (2 or 3); NaN where a joint or a person is missing.
    label : int
        Index into the classes of the set.
    name : str
    subject, camera : int
        Numbers as the data set counts them; −1 if unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton.datasets import Clip
    >>> clip = Clip(np.zeros((30, 1, 20, 3), np.float32), label=2, name="wave-001")
    >>> len(clip), clip.subject
    (30, -1)
    """

    frames: np.ndarray
    label: int
    name: str
    subject: int = -1
    camera: int = -1

    def __post_init__(self) -> None:
        check_frames(self.frames, f"clip {self.name!r}")

    def __len__(self) -> int:
        return len(self.frames)


def check_frames(frames: np.ndarray, what: str) -> None:
    """Raise unless ``frames`` are (T, P, J, C) float32 with at least one frame; ``what`` begins the message."""
    shape = getattr(frames, "shape", None)
    if shape is None or len(shape) != 4 or frames.dtype != np.float32:
        kind = getattr(frames, "dtype", type(frames).__name__)
        raise ShapeError(f"{what}: frames must be a float32 array (T, P, J, C); got {kind} of shape {shape}.")
    if not 1 <= shape[1] <= MAX_PEOPLE or not shape[2] or shape[3] not in (2, 3):
        raise ShapeError(f"{what}: 1 or 2 people, joints, and 2 or 3 coordinates are needed; got shape {shape}.")
    if not shape[0]:
        raise LengthError(f"{what} has no frames.")


@dataclass(frozen=True)
class Entry:
    """What is known of a clip before its frames are read.

    ``label``, ``subject`` and ``camera`` as in `Clip`. For a clip in original files, ``stamp`` is a string that changes
    when its file does, and ``size`` the size of the file in bytes.

    Examples
    --------
    >>> from udtw.skeleton.datasets import Entry
    >>> Entry("wave-001", label=2, subject=5).camera
    -1
    """

    name: str
    label: int
    subject: int = -1
    camera: int = -1
    stamp: str = ""
    size: int = 0


class SkeletonSet(Sequence[Clip]):
    """A sequence of clips whose frames are read on demand: ``skeletons[i]`` is a `Clip`.

    Subsets share the reader and keep all classes, so that labels keep their numbers.

    Parameters
    ----------
    name : str
    graph : str
        Layout of the joints, one of `udtw.skeleton.GRAPHS` ("ntu25", "openpose18", "kinect20", "upperbody8").
    classes : sequence of str
    entries : sequence of Entry
        One per clip.
    read : callable
        ``read(i)`` gives the frames (T, P, J, C) of clip i.
    skipped : sequence of Skipped
        Clips that were left out when the set was read.

    Attributes
    ----------
    names : tuple of str
    labels, subjects, cameras : (n,) int64

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton.datasets import Clip, SkeletonSet
    >>> frames = np.zeros((30, 1, 20, 3), np.float32)
    >>> clips = [Clip(frames, label, f"clip {i}") for i, label in enumerate([0, 1, 0])]
    >>> skeletons = SkeletonSet.from_clips("mine", "kinect20", ("wave", "kick"), clips)
    >>> skeletons
    SkeletonSet('mine', 3 clips, 2 of 2 classes, kinect20)
    >>> skeletons.of_classes(["wave"]).names
    ('clip 0', 'clip 2')
    """

    def __init__(
        self,
        name: str,
        graph: str,
        classes: Sequence[str],
        entries: Sequence[Entry],
        read: Reader,
        *,
        skipped: Sequence[Skipped] = (),
    ) -> None:
        self.name, self.graph, self.classes = name, graph, tuple(classes)
        self.entries, self.skipped = tuple(entries), tuple(skipped)
        self.names = tuple(entry.name for entry in self.entries)
        self.labels = _column("labels", [entry.label for entry in self.entries])
        self.subjects = _column("subjects", [entry.subject for entry in self.entries])
        self.cameras = _column("cameras", [entry.camera for entry in self.entries])
        self._read = read
        if len(self) and not (self.labels.min() >= 0 and self.labels.max() < len(self.classes)):
            found = f"{self.labels.min()} to {self.labels.max()}"
            raise OptionError(f"{name}: labels must index the {len(self.classes)} classes from 0; got {found}.")

    @classmethod
    def from_clips(
        cls, name: str, graph: str, classes: Sequence[str], clips: Iterable[Clip], *, skipped: Sequence[Skipped] = ()
    ) -> Self:
        """A set of clips that are in memory."""
        kept = list(clips)
        entries = [Entry(clip.name, clip.label, clip.subject, clip.camera) for clip in kept]
        return cls(name, graph, classes, entries, [clip.frames for clip in kept].__getitem__, skipped=skipped)

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Clip: ...
    @overload
    def __getitem__(self, index: slice) -> "SkeletonSet": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "Clip | SkeletonSet":
        if isinstance(index, slice):
            return self.subset(range(*index.indices(len(self))))
        at = operator.index(index)
        if not -len(self) <= at < len(self):
            raise IndexError(f"{self.name} has {len(self)} clips; there is no clip {at}.")
        at %= len(self)
        label, subject, camera = (int(column[at]) for column in (self.labels, self.subjects, self.cameras))
        return Clip(self._read(at), label, self.names[at], subject, camera)

    def subset(self, indices: Sequence[int] | np.ndarray) -> "SkeletonSet":
        """The clips at ``indices``, in that order; no frames are read."""
        chosen = checked_indices(indices, len(self), f"{self.name} has {len(self)} clips")
        entries = [self.entries[i] for i in chosen]
        return SkeletonSet(
            self.name, self.graph, self.classes, entries, self._reader_of(chosen), skipped=self.skipped
        )  # fmt: skip

    def of_classes(self, classes: Iterable[int | str]) -> "SkeletonSet":
        """The clips of some classes, given by name or number, in the order of this set."""
        wanted = class_numbers(classes, self.classes, self.name)
        return self.subset(np.flatnonzero(np.isin(self.labels, wanted)))

    def _reader_of(self, chosen: np.ndarray) -> Reader:
        if isinstance(self._read, _Chosen):  # one level only, so that subsets of subsets do not get slower
            return _Chosen(self._read.read, self._read.indices[chosen])
        return _Chosen(self._read, chosen)

    def __repr__(self) -> str:
        present = len(np.unique(self.labels))
        return f"SkeletonSet({self.name!r}, {len(self)} clips, {present} of {len(self.classes)} classes, {self.graph})"


class _Chosen:
    """A reader of some clips of another reader. A class, because worker processes cannot be sent a closure."""

    def __init__(self, read: Reader, indices: np.ndarray) -> None:
        self.read = read
        self.indices = indices

    def __call__(self, index: int) -> np.ndarray:
        return self.read(int(self.indices[index]))


def _column(what: str, values: Sequence[int]) -> np.ndarray:
    column = np.array(values, dtype=np.int64)
    if column.shape != (len(values),):
        raise ShapeError(f"{what} must be one number per clip, shape ({len(values)},); got shape {column.shape}.")
    column.flags.writeable = False
    return column


@dataclass(frozen=True, eq=False)
class Source:
    """A data set in its original files, found but not read; see `SkeletonSet` for what the fields mean.

    ``read(i)`` gives the frames (T, P, J, C) of entry i, or raises a `UdtwError` that names its file.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton.datasets import Entry, Source
    >>> frames = [np.zeros((30, 1, 20, 3), np.float32)]
    >>> source = Source("mine", "kinect20", ("wave",), (Entry("wave-001", 0),), frames.__getitem__)
    >>> len(source), len(source.clip(0))
    (1, 30)
    """

    name: str
    graph: str
    classes: tuple[str, ...]
    entries: tuple[Entry, ...]
    read: Reader
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.entries)

    def clip(self, index: int) -> Clip:
        """Clip ``index``, read from its file."""
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
    """All clips of ``source`` in memory."""
    check_on_error(on_error)
    with progress_bar(f"reading {source.name}", len(source), progress) as advance:
        clips, skipped = read_clips(source, range(len(source)), on_error, advance)
    refuse_empty(source, len(clips), skipped)
    return SkeletonSet.from_clips(source.name, source.graph, source.classes, clips, skipped=[*source.skipped, *skipped])


def refuse_empty(source: Source, clips: int, skipped: Sequence[Skipped]) -> None:
    """Raise if no clip could be read, with the reason of the first."""
    if not clips:
        first = skipped[0].reason if skipped else "there are no files"
        raise DataError(f"{source.name}: none of the {len(source)} clips could be read. The first: {first}")
