"""Any folder of images: a folder for each class, or these in train, val and test."""

from udtw.errors import DataError
from udtw.images.datasets.class_splits import Split, by_shares
from udtw.images.datasets.image_set import SPLITS
from udtw.images.datasets.listing import Listing, by_folders, by_split_folders
from udtw.images.datasets.trees import Tree


def find_folder(tree: Tree) -> Listing:
    return by_split_folders(tree, merge=True) or by_folders(tree)


def split_folder(listing: Listing) -> Split:
    """The classes in train, val and test, if these folders are there and no class is in two of them; else `by_shares`.

    Folders that share classes (the usual layout of a classifier's data) divide images, not classes: the images of a
    class are put together.
    """
    parts: dict[str, set[str]] = {}
    for name, label in listing.images:
        parts.setdefault(name.split("/", 1)[0], set()).add(label)
    if len(parts) > 1 and set(parts) <= set(SPLITS) and sum(map(len, parts.values())) == len(listing.classes):
        return {split: tuple(sorted(parts[split])) for split in SPLITS if split in parts}
    if len(listing.classes) < 2:
        raise DataError(f"{listing.tree.where} holds images of one class; at least 2 classes can be told apart.")
    return by_shares(listing.classes)
