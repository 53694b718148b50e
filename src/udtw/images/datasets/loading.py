"""A data set of images by its name, from the files as users have them."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from udtw.data.choosing import some
from udtw.data.folder import data_root
from udtw.errors import DataError, OptionError
from udtw.images.datasets.cars import find_cars
from udtw.images.datasets.class_splits import (
    Split,
    by_digest,
    checked,
    expanded,
    odd_novel,
    read_split_file,
    shipped_split,
)
from udtw.images.datasets.fine_grained import find_aircraft, find_cub, find_dogs, find_nabirds
from udtw.images.datasets.folder import find_folder, split_folder
from udtw.images.datasets.general import find_cifar_fs, find_miniimagenet, find_tieredimagenet
from udtw.images.datasets.image_set import ImageSet
from udtw.images.datasets.listing import Listing
from udtw.images.datasets.omniglot import find_omniglot, split_omniglot
from udtw.images.datasets.synthetic import make_images
from udtw.images.datasets.trees import Folder, Tree, open_tree
from udtw.images.datasets.ultra_fine import find_ultra_fine

FOLDER, GENERATED = "folder", "synthetic"


@dataclass(frozen=True)
class Known:
    """A data set: how its files are found, what is expected of them, and how its classes are divided.

    ``rule`` divides the classes of a listing; None: by the published list. ``n_classes`` and ``n_images`` are the
    published numbers (None: any), ``also`` are names that its folder or archive may have, ``layout`` says what was
    expected if nothing is found.
    """

    find: Callable[[Tree], Listing]
    rule: Callable[[Listing], Split] | None
    n_classes: int | None
    n_images: int | None
    layout: str
    also: tuple[str, ...] = ()


def _digest(n_train: int, n_val: int) -> Callable[[Listing], Split]:
    return lambda listing: by_digest(listing.classes, n_train, n_val)


KNOWN: Mapping[str, Known] = {
    "cifar-fs": Known(
        find_cifar_fs, None, 100, 60_000, "train.zip, val.zip and test.zip with a folder for each class",
        ("CIFAR-FS", "cifar_fs", "cifarfs"),
    ),
    "miniimagenet": Known(
        find_miniimagenet, None, 100, 60_000,
        "images/*.jpg with train.csv, val.csv and test.csv, or folders n01532829, …",
        ("miniImageNet", "mini-imagenet", "mini_imagenet"),
    ),
    "tieredimagenet": Known(
        find_tieredimagenet, None, 608, 779_165,
        "folders n01530575, … of ImageNet, in train, val and test or all together",
        ("tieredImageNet", "tiered-imagenet", "tiered_imagenet"),
    ),
    "cub": Known(
        find_cub, None, 200, 11_788, "images/001.Black_footed_Albatross/*.jpg, …", ("CUB_200_2011", "CUB"),
    ),
    "dogs": Known(
        find_dogs, _digest(70, 20), 120, 20_580, "Images/n02085620-Chihuahua/*.jpg, …",
        ("StanfordDogs", "stanford-dogs", "stanford_dogs"),
    ),
    "cars": Known(
        find_cars, _digest(130, 17), 196, 16_185,
        "cars_train, cars_test and devkit with cars_meta.mat and cars_train_annos.mat, or car_data/train/CLASS",
        ("StanfordCars", "stanford-cars", "stanford_cars", "car_data"),
    ),
    "aircraft": Known(
        find_aircraft, _digest(50, 25), 100, 10_000,
        "data/images/*.jpg with data/images_variant_trainval.txt and data/images_variant_test.txt",
        ("fgvc-aircraft-2013b", "fgvc-aircraft"),
    ),
    "nabirds": Known(
        find_nabirds, _digest(350, 66), 555, 48_562, "images with images.txt, image_class_labels.txt and classes.txt",
        ("NABirds",),
    ),
    "cotton80": Known(
        find_ultra_fine, lambda listing: odd_novel(listing.classes), 80, 480,
        "images with anno/train.txt and anno/test.txt, or a folder for each class", ("Cotton80", "COTTON", "cotton"),
    ),
    "soylocal": Known(
        find_ultra_fine, lambda listing: odd_novel(listing.classes), 200, 1_200,
        "images with anno/train.txt and anno/test.txt, or a folder for each class", ("SoyLocal", "soy_local"),
    ),
    "omniglot": Known(
        find_omniglot, lambda listing: split_omniglot(listing.classes), None, None,
        "images_background.zip and images_evaluation.zip, or images_background_small1.zip and _small2.zip",
        ("Omniglot",),
    ),
    FOLDER: Known(find_folder, split_folder, None, None, "a folder for each class, or these in train, val and test"),
}  # fmt: skip
NAMES = (*KNOWN, GENERATED)


def load_images(
    name: str, data_dir: str | os.PathLike | None = None, *, split_file: str | os.PathLike | None = None
) -> ImageSet:
    """Load one of `NAMES`; "synthetic" is generated and needs no data, "folder" is any folder of images.

    ``data_dir`` (by default the environment variable UDTW_DATA) is the folder or the archive of the data set, or a
    folder above that holds it by its name or images/NAME. Zip, tar and tar.gz files are read where they are. The split
    into training, validation and novel classes is the published one where we have the list (CIFAR-FS, miniImageNet,
    tieredImageNet, CUB, the whole Omniglot), the published rule (Cotton80, SoyLocal), or else our own: see
    `class_splits`. For Dogs, Cars, Aircraft and NABirds it is our own, with the usual numbers of classes; pass the list
    that you compare with as ``split_file`` (see `read_split_file`). Classes that the split does not name are left out.
    A set with fewer images than published still loads and says so in ``notes``; one without a class does not.
    """
    check_name(name)
    if name == GENERATED:
        if split_file is not None:
            raise OptionError(f"{name} is generated with its split; there is no split_file for it.")
        return make_images()
    known = KNOWN[name]
    own_split = None if split_file is None else read_split_file(Path(split_file).expanduser())
    reasons = []
    for tree in places(name, data_dir):
        try:
            listing = known.find(tree)
            if listing.images:
                return _assemble(name, known, listing, tree.where, own_split, split_file)
            reasons.append(DataError(f"{name}: nothing was found in {tree.where}; expected {known.layout}."))
        except DataError as error:
            reasons.append(error)
    raise reasons[0]


def check_name(name: str) -> None:
    if name not in NAMES:
        raise OptionError(f"There is no image data set {name!r}; choose one of {', '.join(NAMES)}.")


def places(name: str, data_dir: str | os.PathLike | None) -> Iterator[Tree]:
    """Where a set may be: in the folders and archives with its name if there are such, else in the folder itself."""
    root = data_root(data_dir)
    if not root.is_dir():
        yield open_tree(root)
        return
    inner = False
    if name != FOLDER:
        for one in (name, *KNOWN[name].also):
            for above in (root / "images", root):
                if above.is_dir() and (part := Folder(above).part(one)) is not None:
                    inner = True
                    yield part
    if not inner:
        yield Folder(root)


def _assemble(
    name: str, known: Known, listing: Listing, where: str, own: Split | None, split_file: str | os.PathLike | None
) -> ImageSet:
    present = {label for _, label in listing.images}
    split = expanded(own or _split(name, known, listing, where, present), listing.classes)
    split = checked(split, f"The split of {name}" if own is None else str(split_file))
    part_of = {one: part for part, classes in split.items() for one in classes}
    missing = sorted(set(part_of) - present)
    if missing:
        found = len(part_of) - len(missing)
        raise DataError(
            f"{name}: {len(part_of)} classes of images were expected under {where}, found {found}; "
            f"missing: {some(missing)}."
        )
    classes = [one for one in listing.classes if one in part_of]
    numbers = {one: number for number, one in enumerate(classes)}
    images = [(image, numbers[label]) for image, label in listing.images if label in numbers]
    notes = list(listing.notes)
    if left_out := sorted(present - set(part_of)):
        notes.append(f"{len(left_out)} classes are not in the split and are left out: {some(left_out)}")
    if known.n_images and own is None and len(images) != known.n_images:
        notes.append(f"{len(images)} of the {known.n_images} images of the published set are here")
    splits = {part: sorted(numbers[one] for one in members) for part, members in split.items()}
    names, labels = [image for image, _ in images], [label for _, label in images]
    return ImageSet(name, classes, labels, names, splits, listing.tree, [f"{name}: {note}." for note in notes])


def _split(name: str, known: Known, listing: Listing, where: str, present: set[str]) -> Split:
    """The classes of each part. A rule means what it says only if all classes are there."""
    if known.rule is None:
        return shipped_split(name)
    if known.n_classes is not None and len(present) != known.n_classes:
        absent = sorted(set(listing.classes) - present)
        more = f"; missing: {some(absent)}" if absent else ""
        raise DataError(
            f"{name}: {known.n_classes} classes of images were expected under {where}, found {len(present)}{more}."
        )
    return known.rule(listing)
