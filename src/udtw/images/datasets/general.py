"""CIFAR-FS, miniImageNet and tieredImageNet: photographs of many kinds of things, with published lists of classes."""

import csv
import io
import re

from udtw.errors import DataError
from udtw.images.datasets.image_set import SPLITS
from udtw.images.datasets.listing import Listing, by_folders, by_list, by_split_folders
from udtw.images.datasets.safe_images import is_image
from udtw.images.datasets.trees import Tree

WNID = re.compile(r"n\d{8}")
PICKLES = (".pkl", ".pickle", ".npz", ".plk")


def find_cifar_fs(tree: Tree) -> Listing:
    """Class folders in train, val and test (folders or zip files), in data, or in the folder itself."""
    return by_split_folders(tree, merge=False) or by_folders(tree.part("data") or tree)


def find_miniimagenet(tree: Tree) -> Listing:
    """images/n0153282900000005.jpg with train.csv, val.csv and test.csv (Ravi and Larochelle), or class folders.

    Without the CSV files the first nine letters of a file's name are its class, as they are in the CSV files.
    """
    pictures = tree.part("images")
    flat = [name for name in pictures.files() if "/" not in name and is_image(name)] if pictures else []
    if pictures is None or not flat:
        return _imagenet_folders(tree, pictures)
    if all(tree.has(f"{split}.csv") for split in SPLITS):
        pairs = [pair for split in SPLITS for pair in _csv_rows(tree, f"{split}.csv")]
    else:
        pairs = [(name, name[:9]) for name in flat if WNID.match(name)]
    return by_list(pictures, pairs, sorted({label for _, label in pairs}))


def find_tieredimagenet(tree: Tree) -> Listing:
    """Folders n01530575, … in train, val and test, in images, or in the folder itself: ImageNet's own will do.

    Of ImageNet as it is published (all classes in train and again in val) the images in train are taken.
    """
    return _imagenet_folders(tree, tree.part("images"))


def _imagenet_folders(tree: Tree, pictures: Tree | None) -> Listing:
    found = by_split_folders(tree, merge=False) or by_folders(pictures or tree)
    kept = tuple((name, label) for name, label in found.images if WNID.fullmatch(label))
    if not kept:
        pickled = [name for name in tree.files() if name.lower().endswith(PICKLES)]
        if pickled:
            raise DataError(
                f"{tree.place(pickled[0])} is a pickled archive. Pickles can run any code when they are read, so udtw "
                "does not; take the images from ImageNet as folders n01530575, … in train, val and test."
            )
    return Listing(found.tree, kept, tuple(label for label in found.classes if WNID.fullmatch(label)))


def _csv_rows(tree: Tree, name: str) -> list[tuple[str, str]]:
    try:
        table = csv.DictReader(io.StringIO(tree.read_text(name), newline=""))
        if not {"filename", "label"} <= set(table.fieldnames or ()):
            raise DataError(f"{tree.place(name)} must have the columns filename and label; it has {table.fieldnames}.")
        return [(row["filename"] or "", row["label"] or "") for row in table]
    except csv.Error as error:
        raise DataError(f"{tree.place(name)} is not a CSV file: {error}.") from error
