"""What a data set's folder or archive holds: images and the class of each, found by folders or by lists of names."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from udtw.errors import DataError
from udtw.images.datasets.class_splits import natural
from udtw.images.datasets.image_set import SPLITS
from udtw.images.datasets.safe_images import is_image
from udtw.images.datasets.trees import Mounted, Tree


@dataclass(frozen=True)
class Listing:
    """``images``: name and class of each; ``classes`` in the order of their labels, also those without an image."""

    tree: Tree
    images: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]
    notes: tuple[str, ...] = ()


def class_folders(tree: Tree) -> list[tuple[str, str]]:
    """Name and class of each image; its class is the folder at the top that it is in."""
    return [(name, name.split("/", 1)[0]) for name in tree.files() if "/" in name and is_image(name)]


def by_folders(tree: Tree) -> Listing:
    images = class_folders(tree)
    return Listing(tree, tuple(images), tuple(sorted({label for _, label in images}, key=natural)))


def by_split_folders(tree: Tree, merge: bool) -> Listing | None:
    """Class folders in "train", "val" and "test" (folders or archives), or None if none of these is here.

    A class that is in several of them has all its images if ``merge``, else those of the first.
    """
    trees = {split: part for split in SPLITS if (part := tree.part(split)) is not None}
    images: list[tuple[str, str]] = []
    seen: set[str] = set()
    for split, part in trees.items():
        found = [(f"{split}/{name}", label) for name, label in class_folders(part) if merge or label not in seen]
        images += found
        seen |= {label for _, label in found}
    if not images:
        return None
    return Listing(Mounted(tree.where, trees), tuple(images), tuple(sorted(seen, key=natural)))


def by_list(
    tree: Tree, listed: Iterable[tuple[str, str]], classes: Sequence[str], notes: Sequence[str] = ()
) -> Listing:
    """The images that a list of the data set names, of those the ones that are there."""
    there = set(tree.files())
    pairs = list(dict.fromkeys(listed))
    images = tuple(pair for pair in pairs if pair[0] in there)
    absent = [name for name, _ in pairs if name not in there]
    if absent:
        some = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
        notes = [*notes, f"{len(absent)} of the {len(pairs)} listed images are not in {tree.where}: {some}"]
    twice = [name for name, count in Counter(name for name, _ in images).items() if count > 1]
    if twice:
        raise DataError(f"{tree.place(twice[0])} is listed under two classes.")
    return Listing(tree, images, tuple(classes), tuple(notes))


def rows(tree: Tree, name: str) -> list[tuple[str, str]]:
    """The lines of a text file, each a word and what follows it."""
    found = []
    for number, line in enumerate(tree.read_text(name).splitlines(), start=1):
        words = line.strip().split(maxsplit=1)
        if len(words) == 2:
            found.append((words[0], words[1]))
        elif words:
            raise DataError(f"{tree.place(name)}, line {number}: expected two words, got {line.strip()!r}.")
    return found
