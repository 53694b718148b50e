"""Cotton80 and SoyLocal of the ultra-fine-grained benchmark (Yu et al. 2021): leaves of cultivars, six of each."""

from udtw.errors import DataError
from udtw.images.datasets.class_splits import natural
from udtw.images.datasets.listing import Listing, by_folders, by_list, by_split_folders
from udtw.images.datasets.trees import Tree

LISTS = ("anno/train.txt", "anno/test.txt")


def find_ultra_fine(tree: Tree) -> Listing:
    """images/ with anno/train.txt and anno/test.txt (lines "NAME LABEL"), or class folders, also in train and test.

    The benchmark's own division into training and test images is not used: novel classes are whole classes.
    """
    lists = [name for name in LISTS if tree.has(name)]
    pictures = tree.part("images")
    if not lists:
        return by_split_folders(tree, merge=True) or by_folders(pictures or tree)
    if len(lists) < len(LISTS) or pictures is None:
        missing = next(name for name in (*LISTS, "images") if not tree.has(name))
        raise DataError(f"{tree.where} has {lists[0]} but no {missing}.")
    pairs = [_pair(tree, name, line) for name in lists for line in tree.read_text(name).splitlines() if line.strip()]
    return by_list(pictures, pairs, sorted({label for _, label in pairs}, key=natural))


def _pair(tree: Tree, name: str, line: str) -> tuple[str, str]:
    words = line.strip().rsplit(maxsplit=1)
    if len(words) != 2:
        raise DataError(f"{tree.place(name)}: expected lines NAME LABEL, got {line.strip()!r}.")
    return words[0], words[1]
