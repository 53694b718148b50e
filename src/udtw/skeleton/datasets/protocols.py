"""Protocols: the clips of a data set for training, for validation, and of novel classes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from udtw.errors import DataError, OptionError
from udtw.skeleton.datasets.class_splits import ClassSplit
from udtw.skeleton.datasets.loading import DATASETS
from udtw.skeleton.datasets.skeleton_set import SkeletonSet


@dataclass(frozen=True, eq=False)
class Protocol:
    """Indices into a set: (k,) int64 arrays. No class is in two of ``train``, ``validation`` and ``novel``.

    ``exemplars`` holds one index for each novel class, in the order of the classes, if the protocol names the one
    known example of each; then ``novel`` is all other clips of these classes, the tests. Otherwise it is None,
    and support clips are drawn in episodes. ``queries`` (len(novel),) is True for novel clips that may only be queries,
    and False for those that may only be supports, if the protocol divides them (by camera); otherwise None.
    """

    train: np.ndarray
    validation: np.ndarray
    novel: np.ndarray
    exemplars: np.ndarray | None = None
    queries: np.ndarray | None = None


def class_split(skeletons: SkeletonSet) -> ClassSplit:
    """Return the split of classes that is used for this data set."""
    if skeletons.name not in DATASETS:
        raise OptionError(f"There is no protocol for {skeletons.name!r}. Make a Protocol of your own indices.")
    return DATASETS[skeletons.name].split(len(skeletons.classes))


def protocol(skeletons: SkeletonSet, n_train: int | None = None, n_validation: int | None = None) -> Protocol:
    """Return the protocol of a data set: which clips are for training, for validation, and of novel classes.

    ``n_train`` takes only the first training classes (NTU-120: 20, 40, 60, 80, 100; NTU-60: 10 to 50).
    ``n_validation`` takes the last training classes for validation, where the protocol has none.

    Examples
    --------
    >>> from udtw.skeleton import make_actions, protocol
    >>> actions = make_actions(n_classes=12, n_clips=2)
    >>> parts = protocol(actions)
    >>> len(parts.train), len(parts.validation), len(parts.novel)
    (10, 4, 10)
    >>> actions.subset(parts.novel)
    SkeletonSet('synthetic', 10 clips, 5 of 12 classes, kinect20)
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
    parts = Protocol(_clips_of(skeletons, train), _clips_of(skeletons, validation), novel, exemplars)
    if not split.test_cameras:
        return parts
    tested = np.isin(skeletons.cameras, split.test_cameras)
    return replace(parts, train=parts.train[~tested[parts.train]], queries=tested[novel])


def cross_view(skeletons: SkeletonSet) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of the training and test clips of the cross-view protocol: all classes, by other cameras."""
    cameras = class_split(skeletons).test_cameras
    tested = np.isin(skeletons.cameras, cameras)
    if not cameras or tested.all() or not tested.any():
        raise DataError(
            f"{skeletons.name} has no cross-view protocol: it needs clips of cameras {list(cameras)} and of others; "
            f"got cameras {sorted(set(skeletons.cameras.tolist()))}."
        )
    return np.flatnonzero(~tested), np.flatnonzero(tested)


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
            f"{skeletons.name}: {len(absent)} of the {len(names)} exemplars of the one-shot protocol are missing: "
            f"{', '.join(absent)}. Add their .skeleton files and prepare the set again.{why}"
        )
    return np.array([place[name] for name in names], dtype=np.int64)
