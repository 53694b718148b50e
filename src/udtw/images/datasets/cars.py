"""Stanford Cars (Krause et al. 2013): photographs in two folders, their classes in MATLAB files."""

from typing import Any

import numpy as np

from udtw.data.mat5 import read_value
from udtw.errors import DataError
from udtw.images.datasets.listing import Listing, by_folders, by_list, by_split_folders
from udtw.images.datasets.trees import Mounted, Tree

MAX_MAT = 32 * 2**20
META = "cars_meta.mat"
TRAIN, TEST, UNLABELLED_TEST = "cars_train_annos.mat", "cars_test_annos_withlabels.mat", "cars_test_annos.mat"


def find_cars(tree: Tree) -> Listing:
    """cars_train/00001.jpg and cars_test/ with the devkit's .mat files, or folders CLASS in train and test.

    The devkit is the folder devkit (or car_devkit/devkit), cars_test_annos_withlabels.mat may lie beside it. Without
    the labels of the test images only the training images are taken. A "/" in a class's name becomes "-", as in the
    redistributed folders.
    """
    devkits = [tree, *(part for part in (tree.part("devkit"), _devkit(tree)) if part is not None)]
    kit = next((one for one in devkits if one.has(META) and one.has(TRAIN)), None)
    if kit is None:
        root = tree.part("car_data") or tree
        return by_split_folders(root, merge=True) or by_folders(root)
    titles = [str(title).replace("/", "-") for title in _values(kit, META, "class_names")]
    pictures = {name: part for name in ("cars_train", "cars_test") if (part := tree.part(name)) is not None}
    labelled_test = next((one for one in devkits if one.has(TEST)), None)
    sources = [("cars_train", kit, TRAIN)]
    notes = []
    if labelled_test is not None:
        sources.append(("cars_test", labelled_test, TEST))
    else:
        notes.append(f"the images in cars_test have no labels here ({TEST} is missing) and are left out")
    pairs = [
        (f"{folder}/{name}", titles[number - 1])
        for folder, where, file in sources
        for name, number in _annotations(where, file, len(titles))
    ]
    return by_list(Mounted(tree.where, pictures), pairs, titles, notes)


def _devkit(tree: Tree) -> Tree | None:
    outer = tree.part("car_devkit")
    return outer and (outer.part("devkit") or outer)


def _annotations(tree: Tree, file: str, n_classes: int) -> list[tuple[str, int]]:
    """File name and number of the class, from 1, of each image."""
    found = []
    for row in _values(tree, file, "annotations"):
        fields = row if isinstance(row, dict) else {}
        name, number = fields.get("fname"), fields.get("class")
        label = int(number.item()) if isinstance(number, np.ndarray) and number.size == 1 else 0
        if not isinstance(name, str) or not 1 <= label <= n_classes:
            raise DataError(f"{tree.place(file)}: a row has no fname, or no class from 1 to {n_classes}: {row}.")
        found.append((name, label))
    return found


def _values(tree: Tree, file: str, name: str) -> list[Any]:
    try:
        values = read_value(tree.read(file, MAX_MAT), name, MAX_MAT)
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"{tree.place(file)} is damaged: {error}. Get the file again.") from error
    if not isinstance(values, list):
        raise DataError(f"{tree.place(file)} is not the file of the data set: {name} is not a list in it.")
    return values
