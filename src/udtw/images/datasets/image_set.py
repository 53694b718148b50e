"""Labeled images of one data set, whose files are read on demand."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, SupportsIndex

import numpy as np

from udtw._io.items import check_labels, checked_index, checked_indices
from udtw.errors import OptionError, ShapeError
from udtw.images.datasets.safe_images import decode

if TYPE_CHECKING:
    from PIL.Image import Image

SPLITS = ("train", "val", "test")


class Reader(Protocol):
    """Reads encoded files by their names; can be sent to worker processes."""

    def read(self, name: str) -> bytes: ...

    def place(self, name: str) -> str: ...


class ImageSet:
    """Labeled images of one data set; their files are read on demand.

    Parameters
    ----------
    name : str
    classes : sequence of str
    labels : (n,) int
        They index ``classes``. Subsets keep all classes, so that labels stay the same numbers.
    names : n str
        Unique and relative, "/" between folders.
    splits : mapping
        The class indices of "train", "val" and "test"; any of these may be absent.
    reader : Reader
        Reads a file by its name.
    notes : sequence of str
        How the set differs from the published one.

    Examples
    --------
    >>> from udtw.images import load_images
    >>> images = load_images("synthetic")
    >>> images.of_split("test").limited(5)
    ImageSet('synthetic', 40 images, 24 classes: train 12, val 4, test 8)
    >>> images.names[0], images.classes[images.labels[0]], images.image(0).size
    ('disc-striped/001.png', 'disc striped', (96, 96))
    """

    def __init__(
        self,
        name: str,
        classes: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        names: Sequence[str],
        splits: Mapping[str, Sequence[int]],
        reader: Reader,
        notes: Sequence[str] = (),
    ) -> None:
        self.name, self.classes, self.names, self.notes = name, tuple(classes), tuple(names), tuple(notes)
        self.labels = np.array(labels, dtype=np.int64)
        self.splits = {split: tuple(splits[split]) for split in SPLITS if splits.get(split)}
        self.reader = reader
        n = len(self.classes)
        if self.labels.shape != (len(self.names),):
            raise ShapeError(f"labels must have shape ({len(self.names)},), one per image; got {self.labels.shape}.")
        self.labels.flags.writeable = False
        check_labels(self.labels, n, name)
        if len(set(self.names)) < len(self.names):
            raise OptionError(f"{name}: names of images must be unique.")
        members = [label for split in self.splits.values() for label in split]
        if len(set(members)) < len(members) or not set(members) <= set(range(n)):
            raise OptionError(f"{name}: splits must hold each of the {n} classes at most once.")

    def __len__(self) -> int:
        return len(self.names)

    def read(self, i: SupportsIndex) -> bytes:
        """Read the encoded file of image ``i``."""
        return self.reader.read(self.names[self._index(i)])

    def image(self, i: SupportsIndex) -> "Image":
        """Decode image ``i``, its mode as stored.

        Raise a `DataError` that names the file if it is damaged or too large.
        """
        name = self.names[self._index(i)]
        made = getattr(self.reader, "image", None)  # of images that are made, not read
        return made(name) if made else decode(self.reader.read(name), self.reader.place(name))

    def made_from(self, i: SupportsIndex) -> bytes:
        """Return the bytes that image ``i`` depends on: its file, or what it is made from."""
        name = self.names[self._index(i)]
        return getattr(self.reader, "made_from", self.reader.read)(name)

    def subset(self, indices: Sequence[int] | np.ndarray) -> "ImageSet":
        """Return the images at ``indices``, in that order; no file is read."""
        at = checked_indices(indices, len(self), f"{self.name} has {len(self)} images")
        names = [self.names[i] for i in at]
        return ImageSet(self.name, self.classes, self.labels[at], names, self.splits, self.reader, self.notes)

    def of_split(self, split: str) -> "ImageSet":
        """Return the images of the classes of "train", "val" or "test"."""
        if split not in self.splits:
            raise OptionError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits) or 'none'}.")
        return self.subset(np.flatnonzero(np.isin(self.labels, self.splits[split])))

    def limited(self, per_class: int, seed: int = 0) -> "ImageSet":
        """Return at most ``per_class`` images of each class, in their present order.

        The choice depends on the seed, the class and the images of that class only.
        """
        if per_class < 1:
            raise OptionError(f"per_class must be at least 1; got {per_class}.")
        kept: list[int] = []
        for label in np.unique(self.labels):
            members = np.flatnonzero(self.labels == label)
            # Sorting random numbers, unlike `choice`, keeps the chosen images when ``per_class`` grows.
            order = np.argsort(np.random.default_rng([seed, int(label)]).random(len(members)), kind="stable")
            kept.extend(members[order[:per_class]].tolist())
        return self.subset(np.array(sorted(kept), dtype=np.int64))

    def _index(self, i: SupportsIndex) -> int:
        return checked_index(i, len(self), self.name, "image")

    def __repr__(self) -> str:
        parts = ", ".join(f"{split} {len(labels)}" for split, labels in self.splits.items())
        return f"ImageSet({self.name!r}, {len(self)} images, {len(self.classes)} classes: {parts})"
