"""Series with their class labels, in the one form that the readers, the cache and the generators share."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class LabelledSeries:
    """``X``: (n, T) or, with several features, (n, T, d); a list of (T_i,) or (T_i, d) if the lengths differ.

    ``y``: (n,) labels, whole numbers or strings.
    """

    X: np.ndarray | list[np.ndarray]
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)

    @property
    def lengths(self) -> np.ndarray:
        """(n,)"""
        return np.array([len(series) for series in self.X], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class UCRData:
    """A data set with its published split."""

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
    """(n, T, ...) if all series (T_i, ...) are equally long, else the list itself."""
    return np.stack(series) if len({len(steps) for steps in series}) == 1 else series


def without_padding(steps: np.ndarray) -> np.ndarray:
    """The series (T,) or (T, d) up to its last step that holds a value: NaN behind it only fills the row."""
    present = ~np.isnan(steps) if steps.ndim == 1 else ~np.isnan(steps).all(axis=1)
    return steps[: int(np.flatnonzero(present)[-1]) + 1] if present.any() else steps[:0]


def labels_as_array(labels: Sequence[str]) -> np.ndarray:
    """int64 if every label is a whole number ("2", "2.0", "2e0"), else strings."""
    try:
        numbers = np.array([float(label) for label in labels])
    except ValueError:
        return np.array(labels, dtype=np.str_)
    whole = np.isfinite(numbers) & (numbers == np.round(numbers)) & (np.abs(numbers) < 2**53)
    return numbers.astype(np.int64) if whole.all() else np.array(labels, dtype=np.str_)
