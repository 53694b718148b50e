"""Series with their class labels, normalization and splits."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from udtw.errors import DataError, OptionError, ShapeError


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """Time series ``X`` and their class labels ``y``.

    ``X`` is (n, T) or, with several features, (n, T, d); a list of (T_i,) or (T_i, d) if the lengths differ. ``y`` (n,)
    are whole numbers or strings.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.data import LabelledSeries
    >>> data = LabelledSeries([np.zeros(3), np.zeros(5)], np.array([1, 2]))
    >>> len(data), data.lengths.tolist()
    (2, [3, 5])
    """

    X: np.ndarray | list[np.ndarray]
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    @property
    def lengths(self) -> np.ndarray:
        """(n,) number of steps of each series."""
        return np.array([len(series) for series in self.X], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class UCRData:
    """A data set with its published split into ``train`` and ``test``.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.data import LabelledSeries, UCRData
    >>> train = LabelledSeries(np.zeros((2, 4)), np.array([1, 2]))
    >>> test = LabelledSeries(np.ones((1, 4)), np.array([2]))
    >>> UCRData("Toy", train, test).all.X.shape
    (3, 4)
    """

    name: str
    train: LabelledSeries
    test: LabelledSeries

    @property
    def all(self) -> LabelledSeries:
        """Training series first, then test series."""
        return LabelledSeries(
            stack_if_equal([*self.train.X, *self.test.X]), np.concatenate([self.train.y, self.test.y])
        )


def stack_if_equal(series: list[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """Return (n, T, ...) if all series (T_i, ...) are equally long, else the list itself."""
    return np.stack(series) if len({len(steps) for steps in series}) == 1 else series


def without_padding(steps: np.ndarray) -> np.ndarray:
    """Return the series (T,) or (T, d) up to its last step that is not NaN: trailing NaN is padding."""
    present = ~np.isnan(steps) if steps.ndim == 1 else ~np.isnan(steps).all(axis=1)
    return steps[: int(np.flatnonzero(present)[-1]) + 1] if present.any() else steps[:0]


def labels_as_array(labels: Sequence[str]) -> np.ndarray:
    """Return int64 if every label is a whole number ("2", "2.0", "2e0"), else strings."""
    try:
        numbers = np.array([float(label) for label in labels])
    except ValueError:
        return np.array(labels, dtype=np.str_)
    whole = np.isfinite(numbers) & (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)
    return numbers.astype(np.int64) if whole.all() else np.array(labels, dtype=np.str_)


def numbered_labels(labels: Sequence[object] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and each label's class number; raise `DataError` if a label is missing."""
    missing = [at for at, one in enumerate(labels) if one is None or (isinstance(one, float) and np.isnan(one))]
    if missing:
        raise DataError(f"Label {missing[0]} is {labels[missing[0]]!r}; every item needs a label.")
    return np.unique(np.asarray(labels), return_inverse=True)


@overload
def znormalize(X: np.ndarray) -> np.ndarray: ...
@overload
def znormalize(X: Sequence[np.ndarray]) -> list[np.ndarray]: ...
def znormalize(X: np.ndarray | Sequence[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """Scale every feature to mean 0 and (population) standard deviation 1; constant features become zeros.

    ``X``: (n, T), (n, T, d), or a list of (T_i,) or (T_i, d). Missing values (NaN) stay and are not counted. float32
    stays float32; sums are computed in float64.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.data import znormalize
    >>> znormalize(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])).round(2).tolist()
    [[-1.22, 0.0, 1.22], [0.0, 0.0, 0.0]]
    """
    if isinstance(X, list | tuple):
        return [_znormalize(steps, axis=0) for steps in X]
    array = np.asarray(X)
    if array.ndim not in (2, 3):
        raise ShapeError(f"X must be (n, T), (n, T, d) or a list of series; got shape {array.shape}.")
    return _znormalize(array, axis=1)


def _znormalize(steps: np.ndarray, axis: int) -> np.ndarray:
    steps = np.asarray(steps)
    values = steps.astype(np.float64)
    missing = np.isnan(values)
    count = np.maximum((~missing).sum(axis, keepdims=True), 1)
    mean = np.where(missing, 0, values).sum(axis, keepdims=True) / count
    centered = values - mean
    deviation = np.sqrt(np.where(missing, 0, centered**2).sum(axis, keepdims=True) / count)
    low = np.where(missing, np.inf, values).min(axis, keepdims=True)
    high = np.where(missing, -np.inf, values).max(axis, keepdims=True)
    # Rounding gives a constant series a tiny deviation, so a constant is recognized by its range.
    scaled = np.where((low >= high) & ~missing, 0, centered / np.where(low >= high, 1, deviation))
    return scaled.astype(steps.dtype if steps.dtype == np.float32 else np.float64)


def split_by_seed(y: ArrayLike, seed: int, shares: Sequence[float] = (0.5, 0.25, 0.25)) -> tuple[np.ndarray, ...]:
    """Split labels at random; return the ascending indices of each part, the same for a seed on every machine.

    The parts are disjoint and together cover ``y`` (n,). Every class is divided by the shares with an error of less
    than two members, and is in the first part at least once; a part that rounding made too small in one class is
    compensated in the next. Later parts may lack a small class, or be empty.

    Examples
    --------
    >>> from udtw.data import split_by_seed
    >>> [part.tolist() for part in split_by_seed(["a", "b", "a", "a", "b", "a", "b", "a"], seed=0)]
    [[2, 3, 6, 7], [1, 5], [0, 4]]
    """
    labels = np.asarray(y)
    if labels.ndim != 1 or not len(labels):
        raise ShapeError(f"y must hold one label per series, shape (n,) with n at least 1; got shape {labels.shape}.")
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
        # Without the limit, many classes of one member would empty the first part in all larger classes.
        owed = np.clip(remaining, -1, 1)
    return tuple(np.flatnonzero(part_of == part) for part in range(len(wanted)))
