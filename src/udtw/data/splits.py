"""Random splits that every seed makes in the same way on every machine."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from udtw.errors import OptionError, ShapeError


def split_by_seed(y: ArrayLike, seed: int, shares: Sequence[float] = (0.5, 0.25, 0.25)) -> tuple[np.ndarray, ...]:
    """Indices of each part, ascending: disjoint, and together all of ``y`` (n,).

    Every class is divided by the shares, off by less than two members, and is in the first part at least once; what
    rounding took from a part in one class it gets back in the next. Later parts may lack a small class, or be empty.
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ShapeError(f"y must be one label a series, shape (n,) with n at least 1; got shape {labels.shape}.")
    wanted = np.asarray(shares, np.float64)
    if wanted.ndim != 1 or not len(wanted) or not (wanted > 0).all() or not np.isclose(wanted.sum(), 1):
        raise OptionError(f"shares must be positive and add up to 1; got {tuple(shares)}.")
    rng = np.random.default_rng(seed)
    part_of = np.empty(len(labels), np.int64)
    owed = np.zeros(len(wanted))
    for label in np.unique(labels):
        members = rng.permutation(np.flatnonzero(labels == label))
        remaining = wanted * len(members) + owed
        for turn, member in enumerate(members):
            part = 0 if turn == 0 else int(np.argmax(remaining))
            part_of[member] = part
            remaining[part] -= 1
        # Without the limit, many classes of one member would starve the first part of all larger classes.
        owed = np.clip(remaining, -1, 1)
    return tuple(np.flatnonzero(part_of == part) for part in range(len(wanted)))
