"""Layouts of data sets on the disk: which images there are and the class of each, found by folders or by lists."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from udtw._io.mat5 import read_value
from udtw.errors import DataError
from udtw.images.datasets.class_splits import csv_rows, natural
from udtw.images.datasets.folders import Files, Folder, Mounted
from udtw.images.datasets.image_set import SPLITS
from udtw.images.datasets.safe_images import is_image

WORDNET_ID = re.compile(r"n\d{8}")
PICKLES = (".pkl", ".pickle", ".npz", ".plk")
MAX_MAT = 32 * 2**20

Pairs = list[tuple[str, str]]
"""Name of the file and class of each image."""


@dataclass(frozen=True)
class Listing:
    """``images``: name and class of each; ``classes`` in the order of their labels, also those without an image."""

    files: Files
    images: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def by_folders(folder: Folder) -> Listing:
    """Return the images in class folders; an image's class is the folder at the top that it is in."""
    images = _class_folders(folder)
    return Listing(folder, tuple(images), tuple(sorted({label for _, label in images}, key=natural)))


def by_split_folders(folder: Folder, merge: bool) -> Listing | None:
    """Find class folders in "train", "val" and "test" (folders or archives), or None if none of these is here.

    A class that is in several of them has all its images if ``merge``, else those of the first.
    """
    folders = {split: part for split in SPLITS if (part := folder.part(split)) is not None}
    images: Pairs = []
    seen: set[str] = set()
    for split, part in folders.items():
        own = [(f"{split}/{name}", label) for name, label in _class_folders(part) if merge or label not in seen]
        images += own
        seen |= {label for _, label in own}
    if not images:
        return None
    return Listing(Mounted(folder.where, folders), tuple(images), tuple(sorted(seen, key=natural)))


def by_list(
    files: Files, listed: Iterable[tuple[str, str]], classes: Sequence[str], notes: Sequence[str] = ()
) -> Listing:
    """Return the images that a list of the data set names, of those the ones that are there."""
    there = set(files.files())
    pairs = list(dict.fromkeys(listed))
    images = tuple(pair for pair in pairs if pair[0] in there)
    absent = [name for name, _ in pairs if name not in there]
    if absent:
        some = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
        notes = [*notes, f"{len(absent)} of the {len(pairs)} listed images are not in {files.where}: {some}"]
    twice = [name for name, count in Counter(name for name, _ in images).items() if count > 1]
    if twice:
        raise DataError(f"{files.place(twice[0])} is listed under two classes.")
    return Listing(files, images, tuple(classes), tuple(notes))


def _class_folders(folder: Folder) -> Pairs:
    return [(name, name.split("/", 1)[0]) for name in folder.files() if "/" in name and is_image(name)]


@dataclass(frozen=True)
class Layout:
    """A layout that needs no code of its own; call it with the folder of a data set to get its `Listing`.

    ``roots`` are folders to go down through, where they are there; ``pictures`` is the folder of the images below.
    Where ``lists`` are there, ``read(root)`` returns the pairs in them, with classes in the order of numbers in their
    names (``natural_order``) or of their letters; a list that is missing is an error. Without any list, and unless
    they are ``required``, a class is a folder, also in train, val and test (``merge``: see `by_split_folders`).
    """

    roots: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ("images",)
    lists: tuple[str, ...] = ()
    read: Callable[[Folder], Pairs] | None = None
    required: bool = False
    natural_order: bool = True
    merge: bool = True

    def __call__(self, folder: Folder) -> Listing:
        for name in self.roots:
            folder = folder.part(name) or folder
        pictures = folder.part(*self.pictures)
        listed = [name for name in self.lists if folder.has(name)]
        if self.read is None or not listed:
            if self.required:
                return Listing(folder, (), ())
            return by_split_folders(folder, self.merge) or by_folders(pictures or folder)
        missing = [name for name in self.lists if name not in listed]
        if pictures is None or missing:
            absent = ", ".join([*(() if pictures else self.pictures[:1]), *missing])
            raise DataError(f"{folder.where} has {listed[0]} but no {absent}. Get the archive again.")
        pairs = self.read(folder)
        order = natural if self.natural_order else None
        return by_list(pictures, pairs, sorted({label for _, label in pairs}, key=order))


def rows(folder: Folder, name: str) -> list[tuple[str, str]]:
    """Return the lines of a text file, each a word and what follows it."""
    pairs = []
    for number, line in enumerate(folder.read_text(name).splitlines(), start=1):
        words = line.strip().split(maxsplit=1)
        if len(words) == 2:
            pairs.append((words[0], words[1]))
        elif words:
            raise DataError(f"{folder.place(name)}, line {number}: expected two words, got {line.strip()!r}.")
    return pairs


CUB_LIST = ("images.txt",)
AIRCRAFT_LISTS = ("images_variant_trainval.txt", "images_variant_test.txt")
NABIRDS_LISTS = ("images.txt", "image_class_labels.txt", "classes.txt")
ULTRA_FINE_LISTS = ("anno/train.txt", "anno/test.txt")


def cub_pairs(root: Folder) -> Pairs:
    """Read lines "1 001.Black_footed_Albatross/….jpg"."""
    return [(name, name.split("/", 1)[0]) for _, name in rows(root, *CUB_LIST)]


def aircraft_pairs(root: Folder) -> Pairs:
    """Read lines "0034309 707-320": the name of the image without .jpg, and its variant."""
    return [(f"{number}.jpg", variant) for name in AIRCRAFT_LISTS for number, variant in rows(root, name)]


def nabirds_pairs(root: Folder) -> Pairs:
    """Read lists of paths, of numbers of classes and of names of classes, by keys.

    A class is called by its number and name, "0817 Yellow-headed Blackbird", since the hierarchy repeats names; of the
    1011 nodes in classes.txt only the 555 that have images are classes.
    """
    paths, labels, titles = (dict(rows(root, name)) for name in NABIRDS_LISTS)
    unknown = [key for key in labels.values() if key not in titles]
    if unknown or set(paths) != set(labels):
        what = f"class {unknown[0]} in classes.txt" if unknown else "label or path for some images"
        raise DataError(f"{root.where}: the lists {', '.join(NABIRDS_LISTS)} do not fit: there is no {what}.")
    return [(path, f"{labels[key]:0>4} {titles[labels[key]]}") for key, path in paths.items()]


def ultra_fine_pairs(root: Folder) -> Pairs:
    """Read lines "NAME LABEL".

    The benchmark's division of images is not used: novel classes are whole classes.
    """
    pairs = []
    for name in ULTRA_FINE_LISTS:
        for line in root.read_text(name).splitlines():
            words = line.strip().rsplit(maxsplit=1)
            if len(words) == 2:
                pairs.append((words[0], words[1]))
            elif words:
                raise DataError(f"{root.place(name)}: expected lines NAME LABEL, got {line.strip()!r}.")
    return pairs


def find_miniimagenet(folder: Folder) -> Listing:
    """Find images/n0153282900000005.jpg with train.csv, val.csv and test.csv (Ravi and Larochelle), or class folders.

    Without the CSV files the first nine letters of a file's name are its class, as they are in the CSV files.
    """
    pictures = folder.part("images")
    flat = [name for name in pictures.files() if "/" not in name and is_image(name)] if pictures else []
    if pictures is None or not flat:
        return find_imagenet(folder)
    if all(folder.has(f"{split}.csv") for split in SPLITS):
        lists = [f"{split}.csv" for split in SPLITS]
        pairs = [
            pair
            for name in lists
            for pair in csv_rows(folder.read_text(name), ("filename", "label"), folder.place(name))
        ]
    else:
        pairs = [(name, name[:9]) for name in flat if WORDNET_ID.match(name)]
    return by_list(pictures, pairs, sorted({label for _, label in pairs}))


def find_imagenet(folder: Folder) -> Listing:
    """Find folders n01530575, … in train, val and test, in images, or in the folder itself: ImageNet's own will do.

    Of ImageNet as it is published (all classes in train and again in val) the images in train are taken.
    """
    listing = by_split_folders(folder, merge=False) or by_folders(folder.part("images") or folder)
    kept = tuple((name, label) for name, label in listing.images if WORDNET_ID.fullmatch(label))
    if not kept:
        pickled = [name for name in folder.files() if name.lower().endswith(PICKLES)]
        if pickled:
            raise DataError(
                f"{folder.place(pickled[0])} is a pickled archive. Pickles can run any code when they are read, so "
                "udtw does not read them; take the images from ImageNet as folders n01530575, … in train, val and test."
            )
    return Listing(listing.files, kept, tuple(label for label in listing.classes if WORDNET_ID.fullmatch(label)))


OMNIGLOT_CHARACTERS = 1623


def find_omniglot(folder: Folder) -> Listing:
    """Find images_background and images_evaluation, or images_background_small1 and _small2: zip files or folders.

    A class is "ALPHABET/characterNN". Alphabets that are in both small sets (Greek and Latin, the same drawings) count
    once. The small sets are parts of images_background and are ignored where that is there.
    """
    root = folder.part("python") or folder
    for stems in (("background", "evaluation"), ("background_small1", "background_small2")):
        folders = {f"images_{stem}": part for stem in stems if (part := root.part(f"images_{stem}")) is not None}
        if folders:
            break
    images, seen = [], set()
    for mount, part in folders.items():
        for name in part.files():
            if name.count("/") == 2 and is_image(name) and name not in seen:
                seen.add(name)
                images.append((f"{mount}/{name}", name.rpartition("/")[0]))
    classes = tuple(sorted({label for _, label in images}))
    there = f"{len(classes)} of the {OMNIGLOT_CHARACTERS} characters are here"
    notes = () if len(classes) == OMNIGLOT_CHARACTERS else (there,)
    return Listing(Mounted(root.where, folders), tuple(images), classes, notes)


CARS_META = "cars_meta.mat"
CARS_TRAIN, CARS_TEST = "cars_train_annos.mat", "cars_test_annos_withlabels.mat"


def find_cars(folder: Folder) -> Listing:
    """Find cars_train/00001.jpg and cars_test/ with the devkit's .mat files, or folders CLASS in train and test.

    The devkit is the folder devkit (or car_devkit/devkit), cars_test_annos_withlabels.mat may lie beside it. Without
    the labels of the test images only the training images are taken. A "/" in a class's name becomes "-", as in the
    redistributed folders.
    """
    outer = folder.part("car_devkit")
    kits = [folder, *(kit for kit in (folder.part("devkit"), outer and (outer.part("devkit") or outer)) if kit)]
    kit = next((one for one in kits if one.has(CARS_META) and one.has(CARS_TRAIN)), None)
    if kit is None:
        root = folder.part("car_data") or folder
        return by_split_folders(root, merge=True) or by_folders(root)
    titles = [str(title).replace("/", "-") for title in _mat_list(kit, CARS_META, "class_names")]
    pictures = {name: part for name in ("cars_train", "cars_test") if (part := folder.part(name)) is not None}
    labelled_test = next((one for one in kits if one.has(CARS_TEST)), None)
    annotations = [("cars_train", kit, CARS_TRAIN)]
    notes = []
    if labelled_test is not None:
        annotations.append(("cars_test", labelled_test, CARS_TEST))
    else:
        notes.append(f"the images in cars_test have no labels here ({CARS_TEST} is missing) and are left out")
    pairs = [
        (f"{mount}/{name}", titles[number - 1])
        for mount, where, file in annotations
        for name, number in _annotations(where, file, len(titles))
    ]
    return by_list(Mounted(folder.where, pictures), pairs, titles, notes)


def _annotations(folder: Folder, file: str, n_classes: int) -> list[tuple[str, int]]:
    """Read file name and number of the class, from 1, of each image."""
    pairs = []
    for row in _mat_list(folder, file, "annotations"):
        fields = row if isinstance(row, dict) else {}
        name, number = fields.get("fname"), fields.get("class")
        label = int(number.item()) if isinstance(number, np.ndarray) and number.size == 1 else 0
        if not isinstance(name, str) or not 1 <= label <= n_classes:
            raise DataError(f"{folder.place(file)}: a row has no fname, or no class from 1 to {n_classes}: {row}.")
        pairs.append((name, label))
    return pairs


def _mat_list(folder: Folder, file: str, name: str) -> list[Any]:
    content = folder.read(file, MAX_MAT)
    try:
        values = read_value(content, name, MAX_MAT)
    except ValueError as error:
        raise DataError(f"{folder.place(file)} is damaged: {error}. Get the file again.") from error
    if not isinstance(values, list):
        raise DataError(f"{folder.place(file)} is not the file of the data set: {name} is not a list in it.")
    return values
