"""Items of a data set: chosen by index or class, and left out and listed if their files cannot be read."""

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import SupportsIndex

import numpy as np

from udtw.errors import OptionError, ShapeError

ON_ERROR = ("raise", "skip")


@dataclass(frozen=True)
class Skipped:
    """A clip or image that was left out because its file could not be read, and the reason."""

    name: str
    reason: str


def check_on_error(on_error: str) -> None:
    """Raise unless ``on_error`` is "raise" or "skip"."""
    if on_error not in ON_ERROR:
        raise OptionError(f"on_error must be one of {ON_ERROR}; got {on_error!r}.")


def checked_indices(indices: Sequence[int] | np.ndarray, count: int, what: str) -> np.ndarray:
    """Return ``indices`` as (k,) int64 from 0 to ``count`` − 1; −1 is the last item.

    ``what`` begins error messages: "toy has 9 clips".
    """
    chosen = np.asarray(indices)
    if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
        raise ShapeError(f"indices must be whole numbers of shape (k,); got {chosen.dtype} of {chosen.shape}.")
    chosen = chosen.astype(np.int64)
    if len(chosen) and not (-count <= chosen.min() and chosen.max() < count):
        raise IndexError(f"{what}; got indices {chosen.min()} to {chosen.max()}.")
    return chosen % max(count, 1)


def checked_index(index: SupportsIndex, count: int, name: str, items: str) -> int:
    """Return an index from 0 to ``count`` − 1; −1 is the last of the ``items`` of data set ``name``."""
    at = operator.index(index)
    if not -count <= at < count:
        raise IndexError(f"{name} has {count} {items}s; there is no {items} {at}.")
    return at % count


def check_labels(labels: np.ndarray, n_classes: int, name: str) -> None:
    """Raise `OptionError` unless the labels of data set ``name`` are numbers of its classes."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < n_classes):
        extent = f"{labels.min()} to {labels.max()}"
        raise OptionError(f"{name}: labels must index the {n_classes} classes from 0; got {extent}.")


def class_numbers(wanted: Iterable[int | str], classes: Sequence[str], name: str) -> list[int]:
    """Return the numbers of classes given by name or number; ``name`` is the data set, for error messages."""
    return [_class_number(one, classes, name) for one in wanted]


def _class_number(one: int | str, classes: Sequence[str], name: str) -> int:
    if isinstance(one, str):
        if one in classes:
            return classes.index(one)
    elif 0 <= operator.index(one) < len(classes):
        return operator.index(one)
    raise OptionError(f"{name} has no class {one!r}; it has {some(classes)}.")


def some(words: Sequence[str], count: int = 5) -> str:
    """Return the first few words, and their number if there are more, for an error message."""
    return ", ".join(words[:count]) + (f", … ({len(words)} in all)" if len(words) > count else "")
