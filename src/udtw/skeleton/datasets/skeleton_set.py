"""Many clips of one data set: what is known of all of them at once, and the frames of each when it is asked for."""

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Self, SupportsIndex, overload

import numpy as np

from udtw.data.choosing import checked_indices, class_numbers
from udtw.data.skipping import Skipped
from udtw.errors import OptionError, ShapeError
from udtw.skeleton.datasets.clip import Clip

Reader = Callable[[int], np.ndarray]


class SkeletonSet(Sequence[Clip]):
    """Clips whose frames are read when one is asked for: ``skeletons[i]`` is a `Clip`.

    ``graph`` names the layout of the joints ("ntu25", "openpose18", "kinect20", "upperbody8"). ``labels``, ``subjects``
    and ``cameras`` are (n,) int64 arrays, ``names`` a tuple of n names; ``labels`` index ``classes``. ``skipped`` lists
    what was left out when the set was read. Subsets share the reader and keep all classes, so labels stay the same
    numbers.
    """

    def __init__(
        self,
        name: str,
        graph: str,
        classes: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        names: Sequence[str],
        read: Reader,
        *,
        subjects: Sequence[int] | np.ndarray | None = None,
        cameras: Sequence[int] | np.ndarray | None = None,
        skipped: Sequence[Skipped] = (),
    ) -> None:
        """``read(i)`` gives the frames (T, P, J, C) of clip i."""
        n = len(names)
        self.name, self.graph, self.classes = name, graph, tuple(classes)
        self.names, self.skipped = tuple(names), tuple(skipped)
        self.labels = _column("labels", labels, n)
        self.subjects = _column("subjects", np.full(n, -1) if subjects is None else subjects, n)
        self.cameras = _column("cameras", np.full(n, -1) if cameras is None else cameras, n)
        self._read = read
        if n and not (self.labels.min() >= 0 and self.labels.max() < len(self.classes)):
            found = f"{self.labels.min()} to {self.labels.max()}"
            raise OptionError(f"{name}: labels must index the {len(self.classes)} classes from 0; got {found}.")

    @classmethod
    def from_clips(
        cls, name: str, graph: str, classes: Sequence[str], clips: Iterable[Clip], *, skipped: Sequence[Skipped] = ()
    ) -> Self:
        """A set of clips that are in memory already."""
        kept = list(clips)
        return cls(
            name,
            graph,
            classes,
            [clip.label for clip in kept],
            [clip.name for clip in kept],
            [clip.frames for clip in kept].__getitem__,
            subjects=[clip.subject for clip in kept],
            cameras=[clip.camera for clip in kept],
            skipped=skipped,
        )

    def __len__(self) -> int:
        return len(self.names)

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
        """The clips at ``indices``, in that order; their frames are not read for it."""
        chosen = checked_indices(indices, len(self), f"{self.name} has {len(self)} clips")
        return SkeletonSet(
            self.name,
            self.graph,
            self.classes,
            self.labels[chosen],
            [self.names[i] for i in chosen],
            self._reader_of(chosen),
            subjects=self.subjects[chosen],
            cameras=self.cameras[chosen],
            skipped=self.skipped,
        )

    def of_classes(self, classes: Iterable[int | str]) -> "SkeletonSet":
        """The clips of some classes, given by name or number, in the order in which they are here."""
        wanted = class_numbers(classes, self.classes, self.name)
        return self.subset(np.flatnonzero(np.isin(self.labels, wanted)))

    def _reader_of(self, chosen: np.ndarray) -> Reader:
        if isinstance(self._read, _Chosen):  # so that subsets of subsets do not become ever slower
            return _Chosen(self._read.read, self._read.indices[chosen])
        return _Chosen(self._read, chosen)

    def __repr__(self) -> str:
        present = len(np.unique(self.labels))
        return f"SkeletonSet({self.name!r}, {len(self)} clips, {present} of {len(self.classes)} classes, {self.graph})"


class _Chosen:
    """A reader of some clips of another reader. Not a closure, so that worker processes can be sent one."""

    def __init__(self, read: Reader, indices: np.ndarray) -> None:
        self.read = read
        self.indices = indices

    def __call__(self, index: int) -> np.ndarray:
        return self.read(int(self.indices[index]))


def _column(what: str, values: Sequence[int] | np.ndarray, n: int) -> np.ndarray:
    column = np.array(values, dtype=np.int64)
    if column.shape != (n,):
        raise ShapeError(f"{what} must have shape ({n},), one a clip; got {column.shape}.")
    column.flags.writeable = False
    return column
