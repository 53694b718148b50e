"""The split of each data set's classes into training, validation and novel ones.

Every rule here was fixed before anything was trained on the sets. Labels count from 0, the numbers of actions from 1.
"""

from collections.abc import Callable
from dataclasses import dataclass

from udtw.errors import DataError

KINETICS_TRAIN = 200


@dataclass(frozen=True)
class ClassSplit:
    """Labels of the classes for training, for validation and of novel classes.

    ``train`` is ordered: a protocol with fewer training classes takes the first ones. ``exemplars`` are names of clips,
    one for each novel class, or empty. If there are ``test_cameras``, training clips are those of other cameras, and of
    the novel classes the clips of these cameras are queries and the others supports.
    """

    train: tuple[int, ...]
    validation: tuple[int, ...]
    novel: tuple[int, ...]
    exemplars: tuple[str, ...] = ()
    test_cameras: tuple[int, ...] = ()


def ntu_classes(n_classes: int) -> ClassSplit:
    """Split by the one-shot protocol: A1, A7, A13, … are novel (20 of 120, 10 of 60); the others train, in order.

    The exemplars are S001C003P008R001Aaaa up to A55 and S018C003P008R001Aaaa from A61 on.
    """
    novel = tuple(range(0, n_classes, 6))
    exemplars = tuple(f"S{1 if label < 60 else 18:03d}C003P008R001A{label + 1:03d}" for label in novel)
    return ClassSplit(tuple(label for label in range(n_classes) if label % 6), (), novel, exemplars)


def kinetics_classes(n_classes: int) -> ClassSplit:
    """Split by the number in the published lists: the first 200 classes train; the others are novel."""
    if n_classes <= KINETICS_TRAIN:
        raise DataError(f"Kinetics trains on {KINETICS_TRAIN} classes; with {n_classes} classes none is novel.")
    return ClassSplit(tuple(range(KINETICS_TRAIN)), (), tuple(range(KINETICS_TRAIN, n_classes)))


def utd_mhad_classes(n_classes: int) -> ClassSplit:
    """Split by the last digit of the action: 3, 6 and 9 are novel (8 of 27), 8 and 0 validate (4), others train (15).

    Also of MSR Action3D: 6 of 20 are novel, 4 for validation, 10 train.
    """
    digits = {3: "novel", 6: "novel", 9: "novel", 8: "validation", 0: "validation"}
    return _by_rule(n_classes, lambda label: digits.get((label + 1) % 10, "train"))


def natops_classes(n_classes: int) -> ClassSplit:
    """Split the signals 1 to 6: the multiples of 3 are novel (2), 5 is for validation, and 1, 2 and 4 train."""
    return ClassSplit((0, 1, 3), (4,), (2, 5))


def nw_ucla_classes(n_classes: int) -> ClassSplit:
    """Split the ten actions: the odd ones (1st, 3rd, …, 9th) are novel, the others train; views 1, 2 → 3.

    Five novel classes are what 5-way episodes need, which leaves none for validation: settings are chosen elsewhere.
    """
    return ClassSplit(tuple(range(1, n_classes, 2)), (), tuple(range(0, n_classes, 2)), test_cameras=(3,))


def synthetic_classes(n_classes: int) -> ClassSplit:
    """Split by the label modulo 5: 1 and 3 are novel, 4 validates, 0 and 2 train (of 12 classes: 5, 2 and 5)."""
    return _by_rule(n_classes, lambda label: ("train", "novel", "train", "novel", "validation")[label % 5])


def by_thirds(n_classes: int) -> ClassSplit:
    """Split a folder of your own by the label modulo 6: 1 and 4 are novel, 3 is for validation, 0, 2 and 5 train."""
    return _by_rule(n_classes, lambda label: ("train", "novel", "train", "validation", "novel", "train")[label % 6])


def _by_rule(n_classes: int, part: Callable[[int], str]) -> ClassSplit:
    parts = [part(label) for label in range(n_classes)]
    train, validation, novel = (
        tuple(label for label, one in enumerate(parts) if one == wanted) for wanted in ("train", "validation", "novel")
    )
    return ClassSplit(train, validation, novel)
