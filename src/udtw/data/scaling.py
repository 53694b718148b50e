"""Series brought to zero mean and unit deviation."""

from collections.abc import Sequence
from typing import overload

import numpy as np

from udtw.errors import ShapeError


@overload
def znormalize(X: np.ndarray) -> np.ndarray: ...
@overload
def znormalize(X: Sequence[np.ndarray]) -> list[np.ndarray]: ...
def znormalize(X: np.ndarray | Sequence[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """Each series and feature to mean 0 and (population) standard deviation 1; a constant one becomes zeros.

    ``X``: (n, T), (n, T, d), or a list of (T_i,) or (T_i, d). Missing values (NaN) stay and do not count. float32 stays
    float32; the sums are taken in float64.
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
    centred = values - mean
    deviation = np.sqrt(np.where(missing, 0, centred**2).sum(axis, keepdims=True) / count)
    low = np.where(missing, np.inf, values).min(axis, keepdims=True)
    high = np.where(missing, -np.inf, values).max(axis, keepdims=True)
    # Rounding gives a constant series a tiny deviation, so only its range tells.
    scaled = np.where((low >= high) & ~missing, 0, centred / np.where(low >= high, 1, deviation))
    return scaled.astype(steps.dtype if steps.dtype == np.float32 else np.float64)
