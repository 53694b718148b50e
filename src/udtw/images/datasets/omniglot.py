"""Omniglot (Lake et al. 2015): characters of alphabets, each drawn by twenty people."""

from udtw.images.datasets.class_splits import Split, by_alphabet, expanded, shipped_split
from udtw.images.datasets.folders import Folder, Mounted
from udtw.images.datasets.layouts import Listing
from udtw.images.datasets.safe_images import is_image

NAMES = ("omniglot", "Omniglot")  # of its folder or archive
BACKGROUND, EVALUATION = "images_background", "images_evaluation"
SMALL = ("images_background_small1", "images_background_small2")
N_CHARACTERS = 1623


def find_omniglot(folder: Folder) -> Listing:
    """Find images_background and images_evaluation, or images_background_small1 and _small2: zip files or folders.

    A class is "ALPHABET/characterNN". Alphabets that are in both small sets (Greek and Latin, the same drawings) count
    once. The small sets are parts of images_background and are ignored where that is there.
    """
    root = folder.part("python") or folder
    folders = _parts(root, (BACKGROUND, EVALUATION)) or _parts(root, SMALL)
    images, seen = [], set()
    for mount, part in folders.items():
        for name in part.files():
            if name.count("/") == 2 and is_image(name) and name not in seen:
                seen.add(name)
                images.append((f"{mount}/{name}", name.rpartition("/")[0]))
    classes = tuple(sorted({label for _, label in images}))
    notes = () if len(classes) == N_CHARACTERS else (f"{len(classes)} of the {N_CHARACTERS} characters are here",)
    return Listing(Mounted(root.where, folders), tuple(images), classes, notes)


def split_omniglot(classes: tuple[str, ...]) -> Split:
    """Return the published split (Vinyals et al. 2016) if all 1623 characters are there, else `by_alphabet`.

    The published one has 1028, 172 and 423 characters of whole alphabets, except Gurmukhi: 41 of its characters train
    and 4 are novel.
    """
    published = expanded(shipped_split("omniglot"), classes)
    if set(classes) == {one for part in published.values() for one in part}:
        return published
    return by_alphabet(classes)


def _parts(folder: Folder, stems: tuple[str, ...]) -> dict[str, Folder]:
    return {stem: part for stem in stems if (part := folder.part(stem)) is not None}
