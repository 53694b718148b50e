"""Which clips are for training, which for choosing settings, and which are of novel classes.

Every rule here was fixed before anything was trained on the sets. Labels count from 0, the numbers of actions from 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from udtw.errors import DataError, OptionError
from udtw.skeleton.datasets.skeleton_set import SkeletonSet

KINETICS_TRAIN = 200


@dataclass(frozen=True, eq=False)
class Protocol:
    """Indices into a set: (k,) int64 arrays. No class is in two of the first three parts.

    ``exemplars`` holds one index for each novel class, in the order of the classes, if the protocol names the one
    example that is known of each; then ``novel`` is all other clips of these classes, the tests. Without it (None)
    supports are drawn in episodes.
    """

    train: np.ndarray
    validation: np.ndarray
    novel: np.ndarray
    exemplars: np.ndarray | None = None


@dataclass(frozen=True)
class ClassSplit:
    """Labels of each part; those for training in the order in which fewer of them are taken.

    ``exemplars``: names of clips, one for each novel class, or none.
    """

    train: tuple[int, ...]
    validation: tuple[int, ...]
    novel: tuple[int, ...]
    exemplars: tuple[str, ...] = ()


def ntu_classes(n_classes: int) -> ClassSplit:
    """One-shot: the actions A1, A7, A13, … are novel (20 of 120, 10 of 60), the others train, by ascending number.

    The exemplars are S001C003P008R001Aaaa up to A55 and S018C003P008R001Aaaa from A61 on.
    """
    novel = tuple(range(0, n_classes, 6))
    exemplars = tuple(f"S{1 if label < 60 else 18:03d}C003P008R001A{label + 1:03d}" for label in novel)
    return ClassSplit(tuple(label for label in range(n_classes) if label % 6), (), novel, exemplars)


def kinetics_classes(n_classes: int) -> ClassSplit:
    """The first 200 classes by their number in the published lists train, the others are novel."""
    if n_classes <= KINETICS_TRAIN:
        raise DataError(f"Kinetics trains on {KINETICS_TRAIN} classes; here are {n_classes}, so that none is novel.")
    return ClassSplit(tuple(range(KINETICS_TRAIN)), (), tuple(range(KINETICS_TRAIN, n_classes)))


def utd_mhad_classes() -> ClassSplit:
    """By the last digit of the action's number: 3, 6 and 9 are novel (8), 8 and 0 validation (4), others train (15)."""
    digits = {3: "novel", 6: "novel", 9: "novel", 8: "validation", 0: "validation"}
    return _by_rule(27, lambda label: digits.get((label + 1) % 10, "train"))


def natops_classes() -> ClassSplit:
    """Of the signals 1 to 6 the multiples of 3 are novel (2), 5 is validation, and 1, 2 and 4 train."""
    return ClassSplit((0, 1, 3), (4,), (2, 5))


def synthetic_classes(n_classes: int) -> ClassSplit:
    """By the label modulo 5: 1 and 3 are novel, 4 is validation, 0 and 2 train. Twelve classes give 5, 2 and 5."""
    return _by_rule(n_classes, lambda label: ("train", "novel", "train", "novel", "validation")[label % 5])


_SPLITS: dict[str, Callable[[int], ClassSplit]] = {
    "ntu60": ntu_classes,
    "ntu120": ntu_classes,
    "kinetics": kinetics_classes,
    "kinetics-3d": kinetics_classes,
    "utd-mhad": lambda n_classes: utd_mhad_classes(),
    "natops": lambda n_classes: natops_classes(),
    "synthetic": synthetic_classes,
}


def class_split(skeletons: SkeletonSet) -> ClassSplit:
    """The split of classes that is used for this data set."""
    if skeletons.name not in _SPLITS:
        raise OptionError(f"There is no protocol for {skeletons.name!r}. Make a Protocol of your own indices.")
    return _SPLITS[skeletons.name](len(skeletons.classes))


def protocol(skeletons: SkeletonSet, n_train: int | None = None, n_validation: int | None = None) -> Protocol:
    """The protocol of a data set.

    ``n_train`` takes only so many of its training classes, the first ones (NTU-120: 20, 40, 60, 80, 100; NTU-60: 10 to
    50). ``n_validation`` takes so many of the last training classes for validation, where the protocol has none.
    """
    split = class_split(skeletons)
    train, validation = list(split.train), list(split.validation)
    if n_validation is not None:
        if validation or not 1 <= n_validation < len(train):
            has = f"has {len(validation)} validation classes already" if validation else f"has {len(train)} to train"
            raise OptionError(f"n_validation={n_validation} cannot be taken: {skeletons.name} {has}.")
        train, validation = train[:-n_validation], train[-n_validation:]
    if n_train is not None:
        if not 1 <= n_train <= len(train):
            raise OptionError(f"n_train must be from 1 to {len(train)}, the training classes; got {n_train}.")
        train = train[:n_train]
    exemplars = _exemplars(skeletons, split.exemplars) if split.exemplars else None
    novel = _clips_of(skeletons, split.novel)
    if exemplars is not None:
        novel = np.setdiff1d(novel, exemplars)
    return Protocol(_clips_of(skeletons, train), _clips_of(skeletons, validation), novel, exemplars)


def _by_rule(n_classes: int, part: Callable[[int], str]) -> ClassSplit:
    parts = [part(label) for label in range(n_classes)]
    train, validation, novel = (
        tuple(label for label, one in enumerate(parts) if one == wanted) for wanted in ("train", "validation", "novel")
    )
    return ClassSplit(train, validation, novel)


def _clips_of(skeletons: SkeletonSet, classes: Sequence[int]) -> np.ndarray:
    absent = sorted(set(classes) - set(skeletons.labels.tolist()))
    if absent:
        names = ", ".join(f"{label + 1} ({skeletons.classes[label]})" for label in absent[:5])
        more = ", …" if len(absent) > 5 else ""
        raise DataError(
            f"{skeletons.name}: there are no clips of {len(absent)} class(es) of the protocol: {names}{more}. "
            "Add their files and prepare the set again."
        )
    return np.flatnonzero(np.isin(skeletons.labels, classes))


def _exemplars(skeletons: SkeletonSet, names: Sequence[str]) -> np.ndarray:
    place = {name: index for index, name in enumerate(skeletons.names)}
    absent = [name for name in names if name not in place]
    if absent:
        reasons = {one.name: one.reason for one in skeletons.skipped}
        why = next((f" {name} was skipped: {reasons[name]}" for name in absent if name in reasons), "")
        raise DataError(
            f"{skeletons.name}: {len(absent)} of the {len(names)} exemplars of the one-shot protocol are not there: "
            f"{', '.join(absent)}. Add their .skeleton files and prepare the set again.{why}"
        )
    return np.array([place[name] for name in names], dtype=np.int64)
