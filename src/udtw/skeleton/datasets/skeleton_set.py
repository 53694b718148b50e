"""Sets of clips whose frames are read on demand, and data sets in their original files."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self, SupportsIndex, overload

import numpy as np

from udtw._io.items import Skipped, check_labels, check_on_error, checked_index, checked_indices, class_numbers
from udtw._io.progress import progress_bar
from udtw.data.labelled import numbered_labels
from udtw.errors import DataError, LengthError, OptionError, ShapeError, UdtwError
from udtw.skeleton.datasets.clip import Clip, Reader, Recording
from udtw.skeleton.graphs import Graph, from_edges, graph, graph_name


@dataclass(frozen=True)
class Entry:
    """Description of a clip, known before its frames are read.

    ``label``, ``subject`` and ``camera`` as in `Clip`. For a clip in original files, ``stamp`` is a string that changes
    when its file does, and ``size`` the size of the file in bytes.
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
    graph : str or Graph
        Layout of the joints: one of `udtw.skeleton.GRAPHS` ("ntu25", "coco17", …), or a graph by `from_edges`. The
        attribute is its name.
    classes : sequence of str
    entries : sequence of Entry
        One per clip.
    read : callable
        ``read(i)`` returns the frames (T, P, J, C) of clip i, or a pair of these and their confidence (T, P, J).
    skipped : sequence of Skipped
        Clips that were left out when the set was read.

    Attributes
    ----------
    names : tuple of str
    labels, subjects, cameras : (n,) int64

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.skeleton import SkeletonSet
    >>> from udtw.skeleton.datasets.clip import Clip
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
        graph: str | Graph,
        classes: Sequence[str],
        entries: Sequence[Entry],
        read: Reader,
        *,
        skipped: Sequence[Skipped] = (),
    ) -> None:
        self.name, self.graph, self.classes = name, graph_name(graph), tuple(classes)
        self.entries, self.skipped = tuple(entries), tuple(skipped)
        self.names = tuple(entry.name for entry in self.entries)
        self.labels = _column("labels", [entry.label for entry in self.entries])
        self.subjects = _column("subjects", [entry.subject for entry in self.entries])
        self.cameras = _column("cameras", [entry.camera for entry in self.entries])
        self._read = read
        check_labels(self.labels, len(self.classes), name)

    @classmethod
    def from_clips(
        cls, name: str, graph: str | Graph, classes: Sequence[str], clips: Iterable[Clip], *,
        skipped: Sequence[Skipped] = (),
    ) -> Self:  # fmt: skip
        """Build a set of clips that are in memory."""
        kept = list(clips)
        entries = [Entry(clip.name, clip.label, clip.subject, clip.camera) for clip in kept]
        recordings: list[Recording] = [(clip.frames, clip.confidence) for clip in kept]
        return cls(name, graph, classes, entries, recordings.__getitem__, skipped=skipped)

    @classmethod
    def from_arrays(
        cls, X: Sequence | np.ndarray, y: Sequence | np.ndarray, *, edges: str | Graph | Sequence[tuple[int, int]],
        confidence: Sequence | np.ndarray | None = None, centre: int = 0, name: str = "arrays", on_error: str = "raise",
    ) -> Self:  # fmt: skip
        """Build a set from arrays: one clip for each item of ``X``.

        Parameters
        ----------
        X : sequence of (T, J, C) or (T, P, J, C)
            Positions of the joints, of one or two people; clips may differ in length. NaN where one is missing.
        y : (n,)
            Classes, as numbers or text. Labels count them in ascending order.
        edges : str, Graph or pairs of joint numbers
            A layout of `udtw.skeleton.GRAPHS` by name, a graph, or the bones.
        confidence : sequence of (T, J) or (T, P, J), optional
            From 0 (not tracked) to 1, for each position.
        centre : int
            With bones: the number of the torso joint.
        name : str
        on_error : "raise" or "skip"
            Stop at a clip with another shape, confidence outside [0, 1] or no joint that is ever tracked, or leave it
            out and list it in ``skipped``.

        Examples
        --------
        >>> import numpy as np
        >>> from udtw.skeleton import SkeletonSet
        >>> X = np.random.default_rng(0).standard_normal((4, 30, 3, 2))  # 4 clips, 30 frames, 3 joints, x and y
        >>> seen = np.ones((4, 30, 3))
        >>> seen[0, 10:20, 2] = 0  # the last joint is lost for ten frames
        >>> arms = SkeletonSet.from_arrays(X, ["wave", "wave", "jab", "jab"], edges=[(0, 1), (1, 2)], confidence=seen)
        >>> arms.classes, round(float(arms[0].confidence.mean()), 2)
        (('jab', 'wave'), 0.89)
        """
        check_on_error(on_error)
        if len(X) != len(y) or (confidence is not None and len(confidence) != len(X)):
            given = "" if confidence is None else f" and {len(confidence)} arrays of confidence"
            raise ShapeError(
                f"Every clip needs a label and its confidence; got {len(X)} clips, {len(y)} labels{given}."
            )
        if not len(X):
            raise DataError("There are no clips: X is empty.")
        classes, labels = numbered_labels(y)
        layout: str | Graph
        if isinstance(edges, str | Graph):
            layout = edges
        else:
            layout = from_edges(edges, with_people("X[0]", X[0], 4).shape[2], centre)
        entries = tuple(Entry(f"clip {i}", int(label)) for i, label in enumerate(labels))
        names = tuple(str(one) for one in classes)
        arrays = _Arrays(X, confidence, len(graph(layout).joints))
        return cls._of_source(Source(name, graph_name(layout), names, entries, arrays), on_error)

    @classmethod
    def _of_source(cls, source: "Source", on_error: str, advance: Callable[[], None] = lambda: None) -> Self:
        clips, skipped = read_clips(source, range(len(source)), on_error, advance)
        refuse_empty(source, len(clips), skipped)
        return cls.from_clips(source.name, source.graph, source.classes, clips, skipped=[*source.skipped, *skipped])

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: SupportsIndex) -> Clip: ...
    @overload
    def __getitem__(self, index: slice) -> "SkeletonSet": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "Clip | SkeletonSet":
        if isinstance(index, slice):
            return self.subset(range(*index.indices(len(self))))
        at = checked_index(index, len(self), self.name, "clip")
        label, subject, camera = (int(column[at]) for column in (self.labels, self.subjects, self.cameras))
        return Clip.of(self._read(at), label, self.names[at], subject, camera)

    def subset(self, indices: Sequence[int] | np.ndarray) -> "SkeletonSet":
        """Return the clips at ``indices``, in that order; no frames are read."""
        chosen = checked_indices(indices, len(self), f"{self.name} has {len(self)} clips")
        entries = [self.entries[i] for i in chosen]
        return SkeletonSet(
            self.name, self.graph, self.classes, entries, self._reader_of(chosen), skipped=self.skipped
        )  # fmt: skip

    def of_classes(self, classes: Iterable[int | str]) -> "SkeletonSet":
        """Return the clips of some classes, given by name or number, in the order of this set."""
        wanted = class_numbers(classes, self.classes, self.name)
        return self.subset(np.flatnonzero(np.isin(self.labels, wanted)))

    def at_least(self, n_frames: int) -> "SkeletonSet":
        """Return the clips of ``n_frames`` or more; the shorter ones are listed in ``skipped``. All clips are read.

        A model pads a clip that is shorter than one of its blocks with the last frame; use this to leave them out.

        Examples
        --------
        >>> from udtw.skeleton import make_actions
        >>> actions = make_actions(n_classes=4, n_clips=5)
        >>> longer = actions.at_least(60)
        >>> len(longer) + len(longer.skipped), min(len(clip) for clip in longer) >= 60
        (20, True)
        """
        if n_frames < 1:
            raise OptionError(f"n_frames must be at least 1; got {n_frames}.")
        lengths = np.array([len(clip) for clip in self], dtype=np.int64)
        kept = self.subset(np.flatnonzero(lengths >= n_frames))
        short = np.flatnonzero(lengths < n_frames)
        if len(short) == len(self):
            raise LengthError(
                f"{self.name}: none of the {len(self)} clips has {n_frames} frames or more; the longest has "
                f"{lengths.max(initial=0)}. Use smaller blocks."
            )
        reasons = [Skipped(self.names[i], f"{lengths[i]} frames are fewer than {n_frames}") for i in short]
        kept.skipped = (*self.skipped, *reasons)
        return kept

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

    def __call__(self, index: int) -> Recording:
        return self.read(int(self.indices[index]))


class _Arrays:
    """A reader of arrays by `SkeletonSet.from_arrays`."""

    def __init__(self, X: Sequence | np.ndarray, confidence: Sequence | np.ndarray | None, n_joints: int) -> None:
        self.X, self.confidence, self.n_joints = X, confidence, n_joints

    def __call__(self, index: int) -> Recording:
        frames = with_people(f"X[{index}]", self.X[index], 4)
        if frames.shape[2] != self.n_joints:
            raise ShapeError(
                f"Clips must have the {self.n_joints} joints of the layout; X[{index}] has {frames.shape[2]}."
            )
        if self.confidence is None:
            return frames
        return frames, with_people(f"confidence[{index}]", self.confidence[index], 3)


def with_people(what: str, values: Any, ndim: int) -> np.ndarray:
    """Convert to float32 with an axis of people after time, which is added if it is left out."""
    array = np.asarray(values)
    if array.ndim not in (ndim - 1, ndim) or array.dtype.kind not in "fiub":
        axes = "(T, P, J, C)" if ndim == 4 else "(T, P, J)"
        raise ShapeError(f"{what} must be {axes}, or without P; got {array.dtype} of shape {array.shape}.")
    return (array if array.ndim == ndim else array[:, None]).astype(np.float32)


def _column(what: str, values: Sequence[int]) -> np.ndarray:
    column = np.array(values, dtype=np.int64)
    if column.shape != (len(values),):
        raise ShapeError(f"{what} must be one number per clip, shape ({len(values)},); got shape {column.shape}.")
    column.flags.writeable = False
    return column


@dataclass(frozen=True, eq=False)
class Source:
    """A data set in its original files, found but not read; see `SkeletonSet` for what the fields mean.

    ``read(i)`` returns the frames (T, P, J, C) of entry i, or frames and confidence (T, P, J), or raises a `UdtwError`
    that names its file.
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
        """Read clip ``index`` from its file."""
        entry = self.entries[index]
        return Clip.of(self.read(index), entry.label, entry.name, entry.subject, entry.camera)


def read_clips(
    source: Source, indices: Sequence[int], on_error: str, advance: Callable[[], None] = lambda: None
) -> tuple[list[Clip], list[Skipped]]:
    """Read the clips of some entries; also return those that could not be read, unless ``on_error`` is "raise"."""
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
    """Read all clips of ``source`` into memory."""
    check_on_error(on_error)
    with progress_bar(f"reading {source.name}", len(source), progress) as advance:
        return SkeletonSet._of_source(source, on_error, advance)


def refuse_empty(source: Source, clips: int, skipped: Sequence[Skipped]) -> None:
    """Raise if no clip could be read, with the reason of the first."""
    if not clips:
        first = skipped[0].reason if skipped else "there are no files"
        raise DataError(f"{source.name}: none of the {len(source)} clips could be read. The first: {first}")
