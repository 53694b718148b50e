"""CUB-200-2011, Stanford Dogs, FGVC-Aircraft and NABirds in the layout of their archives."""

from udtw.errors import DataError
from udtw.images.datasets.class_splits import natural
from udtw.images.datasets.listing import Listing, by_folders, by_list, by_split_folders, rows
from udtw.images.datasets.trees import Tree

VARIANT_LISTS = ("images_variant_trainval.txt", "images_variant_test.txt")


def find_cub(tree: Tree) -> Listing:
    """images/001.Black_footed_Albatross/….jpg; with images.txt beside it, the images that it lists."""
    root = tree.part("CUB_200_2011") or tree
    pictures = root.part("images") or root
    if not root.has("images.txt"):
        return by_folders(pictures)
    pairs = [(name, name.split("/", 1)[0]) for _, name in rows(root, "images.txt")]
    return by_list(pictures, pairs, sorted({label for _, label in pairs}))


def find_dogs(tree: Tree) -> Listing:
    """Images/n02085620-Chihuahua/….jpg."""
    return by_folders(tree.part("Images", "images") or tree)


def find_aircraft(tree: Tree) -> Listing:
    """data/images/0034309.jpg with data/images_variant_trainval.txt and images_variant_test.txt, or class folders."""
    root = tree.part("fgvc-aircraft-2013b") or tree
    root = root.part("data") or root
    pictures = root.part("images")
    if pictures is None or not root.has(VARIANT_LISTS[0]):
        return by_split_folders(root, merge=True) or by_folders(pictures or root)
    absent = [name for name in VARIANT_LISTS if not root.has(name)]
    if absent:
        raise DataError(f"{root.where} has no {absent[0]}. Get the archive again.")
    pairs = [(f"{number}.jpg", variant) for name in VARIANT_LISTS for number, variant in rows(root, name)]
    return by_list(pictures, pairs, sorted({label for _, label in pairs}))


def find_nabirds(tree: Tree) -> Listing:
    """images/0817/….jpg with images.txt, image_class_labels.txt and classes.txt.

    A class is called by its number and name, "0817 Yellow-headed Blackbird", since the hierarchy repeats names; of the
    1011 nodes in classes.txt only the 555 that have images are classes.
    """
    root = tree.part("nabirds") or tree
    pictures = root.part("images")
    lists = ("images.txt", "image_class_labels.txt", "classes.txt")
    absent = [name for name in lists if not root.has(name)]
    if pictures is None or absent:
        missing = ", ".join([*(() if pictures else ("images",)), *absent])
        raise DataError(f"{root.where} holds no NABirds: it has no {missing}.")
    paths, labels, titles = (dict(rows(root, name)) for name in lists)
    unknown = [key for key in labels.values() if key not in titles]
    if unknown or set(paths) != set(labels):
        what = f"class {unknown[0]} in classes.txt" if unknown else "label or path for some images"
        raise DataError(f"{root.where}: the lists {', '.join(lists)} do not fit: there is no {what}.")
    pairs = [(path, f"{labels[key]:0>4} {titles[labels[key]]}") for key, path in paths.items()]
    return by_list(pictures, pairs, sorted({label for _, label in pairs}, key=natural))
