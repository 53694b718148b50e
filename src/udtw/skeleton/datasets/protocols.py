"""Which clips are for training, which for choosing settings, and which are of novel classes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from udtw.errors import DataError, OptionError
from udtw.skeleton.datasets.skeleton_set import SkeletonSet


@dataclass(frozen=True, eq=False)
class Protocol:
    """Indices into a set, ascending: (k,) int64 arrays. The classes of the three parts have nothing in common.

    ``exemplars`` holds one index for each novel class if the protocol names the one example that is known of it; then
    ``novel`` is all other clips of these classes, the tests. Without it (None) supports are drawn in episodes.
    """

    train: np.ndarray
    validation: np.ndarray
    novel: np.ndarray
    exemplars: np.ndarray | None = None


@dataclass(frozen=True)
class ClassSplit:
    """The same in terms of classes (labels, from 0), in the order in which training classes are taken."""

    train: tuple[int, ...]
    validation: tuple[int, ...]
    novel: tuple[int, ...]


def by_rule(n_classes: int, part: Callable[[int], str]) -> ClassSplit:
    """A split where ``part(label)`` is "train", "validation" or "novel"."""
    parts = [part(label) for label in range(n_classes)]
    train, validation, novel = (
        tuple(label for label, one in enumerate(parts) if one == wanted) for wanted in ("train", "validation", "novel")
    )
    return ClassSplit(train, validation, novel)


def utd_mhad_classes() -> ClassSplit:
    """By the last digit of the action's number: 3, 6 and 9 are novel (8 classes), 8 and 0 validation (4), others train.

    The rule was chosen for the sizes of its parts (15, 4, 8) before anything was trained.
    """
    digit = {3: "novel", 6: "novel", 9: "novel", 8: "validation", 0: "validation"}
    return by_rule(27, lambda label: digit.get((label + 1) % 10, "train"))


def synthetic_classes(n_classes: int) -> ClassSplit:
    """By the label modulo 5: 1 and 3 are novel, 4 is validation, 0 and 2 train. Twelve classes give 5, 2 and 5."""
    return by_rule(n_classes, lambda label: ("train", "novel", "train", "novel", "validation")[label % 5])


def class_split(skeletons: SkeletonSet) -> ClassSplit:
    """The split of classes that is used for this data set."""
    if skeletons.name == "utd-mhad":
        return utd_mhad_classes()
    if skeletons.name == "synthetic":
        return synthetic_classes(len(skeletons.classes))
    raise OptionError(f"There is no protocol for {skeletons.name!r}. Make a Protocol of your own indices.")


def protocol(skeletons: SkeletonSet, n_train: int | None = None) -> Protocol:
    """The protocol of a data set; ``n_train`` takes only so many of its training classes, the first ones."""
    split = class_split(skeletons)
    train = split.train if n_train is None else _first(split.train, n_train)
    parts = [_clips_of(skeletons, classes) for classes in (train, split.validation, split.novel)]
    return Protocol(*parts)


def _first(classes: Sequence[int], count: int) -> tuple[int, ...]:
    if not 1 <= count <= len(classes):
        raise OptionError(f"n_train must be from 1 to {len(classes)}, the number of training classes; got {count}.")
    return tuple(classes[:count])


def _clips_of(skeletons: SkeletonSet, classes: Sequence[int]) -> np.ndarray:
    absent = sorted(set(classes) - set(skeletons.labels.tolist()))
    if absent:
        names = ", ".join(skeletons.classes[label] for label in absent[:5])
        raise DataError(f"{skeletons.name} has no clips of {len(absent)} class(es) of the protocol: {names}. Get them.")
    return np.flatnonzero(np.isin(skeletons.labels, classes))
