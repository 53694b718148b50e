"""A data set of images by its name, from the files as they were published."""

import os
from dataclasses import dataclass
from pathlib import Path

from udtw._io.items import some
from udtw.errors import DataError, OptionError
from udtw.images.datasets.catalogue import DataSet, data_set
from udtw.images.datasets.class_splits import Split, checked, expanded, read_split_file, shipped_split
from udtw.images.datasets.folders import places
from udtw.images.datasets.image_set import ImageSet
from udtw.images.datasets.layouts import Listing


def load_images(
    name: str, data_dir: str | os.PathLike | None = None, *, split_file: str | os.PathLike | None = None
) -> ImageSet:
    """Load one of `DATASETS`; "synthetic" is generated and needs no data, "folder" is any folder of images.

    Parameters
    ----------
    name : str
        One of `NAMES`.
    data_dir : path, optional
        The folder or the archive of the data set, or a folder above that holds it by its name or as images/NAME; by
        default the environment variable UDTW_DATA. Zip, tar and tar.gz files are unpacked once, into the folder that
        the environment variable UDTW_CACHE names, or else into the user's cache.
    split_file : path, optional
        A split of your own (see `read_split_file`); classes that it does not name are left out. By default the
        published list or rule where we have it, else our own (see `DATASETS` and `class_splits`): for Dogs, Cars,
        Aircraft and NABirds pass the list that you compare with.

    Returns
    -------
    ImageSet
        A set with fewer images than published still loads and says so in ``notes``; one without a class does not.

    Examples
    --------
    >>> from udtw.images import load_images
    >>> load_images("synthetic")
    ImageSet('synthetic', 480 images, 24 classes: train 12, val 4, test 8)
    """
    chosen = data_set(name)
    if chosen.generate is not None:
        if split_file is not None:
            raise OptionError(f"{name} is generated with its split; there is no split_file for it.")
        return chosen.generate()
    assert chosen.find is not None, "a data set is found or generated"
    own = None if split_file is None else (read_split_file(Path(split_file).expanduser()), str(split_file))
    reasons = []
    for folder in places((name, *chosen.folders) if name != "folder" else (), data_dir):
        try:
            folder = folder.only_archive() or folder  # noqa: PLW2901 (it stands for the folder)
            found = _Found(name, chosen, chosen.find(folder), folder.where)
            if found.listing.images:
                return found.image_set(own)
            reasons.append(DataError(f"{name}: nothing was found in {folder.where}; expected {chosen.expected}."))
        except DataError as error:
            reasons.append(error)
    raise reasons[0]


@dataclass(frozen=True)
class _Found:
    """Images of a data set in the folder ``where``, and the row of the published set."""

    name: str
    published: DataSet
    listing: Listing
    where: str

    def image_set(self, own: tuple[Split, str] | None) -> ImageSet:
        """Build the set with the classes of ``own``, a split and its file, or with the data set's own split."""
        name, listing = self.name, self.listing
        present = {label for _, label in listing.images}
        given, source = own or (self._split(present), f"The split of {name}")
        split = checked(expanded(given, listing.classes), source)
        part_of = {one: part for part, classes in split.items() for one in classes}
        missing = sorted(set(part_of) - present)
        if missing:
            raise self._incomplete(len(part_of), len(part_of) - len(missing), missing)
        classes = [one for one in listing.classes if one in part_of]
        numbers = {one: number for number, one in enumerate(classes)}
        images = [(image, numbers[label]) for image, label in listing.images if label in numbers]
        notes = list(listing.notes)
        if left_out := sorted(present - set(part_of)):
            notes.append(f"{len(left_out)} classes are not in the split and are left out: {some(left_out)}")
        if self.published.n_images and own is None and len(images) != self.published.n_images:
            notes.append(f"{len(images)} of the {self.published.n_images} images of the published set are here")
        splits = {part: sorted(numbers[one] for one in members) for part, members in split.items()}
        names, labels = [image for image, _ in images], [label for _, label in images]
        return ImageSet(name, classes, labels, names, splits, listing.files, [f"{name}: {note}." for note in notes])

    def _split(self, present: set[str]) -> Split:
        """Return the published list, or the rule, which is applied only if all classes are present."""
        rule, expected = self.published.split, self.published.n_classes
        if rule is None:
            return shipped_split(self.name)
        if expected is not None and len(present) != expected:
            raise self._incomplete(expected, len(present), sorted(set(self.listing.classes) - present))
        return rule(self.listing)

    def _incomplete(self, expected: int, found: int, missing: list[str]) -> DataError:
        more = f"; missing: {some(missing)}" if missing else ""
        return DataError(
            f"{self.name}: {expected} classes of images were expected under {self.where}, found {found}{more}."
        )
