"""Collections of series, possibly of different lengths, as one padded array."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError, VarianceError

NAN_POLICIES = ("raise", "omit")


@dataclass(frozen=True)
class SeriesSet:
    """``values`` (n, T, d) zero-padded, ``lengths`` (n,), ``variances`` (n, T) one-padded or None."""

    values: np.ndarray
    lengths: np.ndarray
    variances: np.ndarray | None

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, index: np.ndarray) -> "SeriesSet":
        """The chosen series."""
        variances = None if self.variances is None else self.variances[index]
        return SeriesSet(self.values[index], self.lengths[index], variances)

    def rows(self) -> list[np.ndarray]:
        """The series without padding, (T_i, d) each."""
        return self._unpadded(self.values)

    def variance_rows(self) -> list[np.ndarray] | None:
        """Their variances without padding, (T_i,) each, if there are any."""
        return None if self.variances is None else self._unpadded(self.variances)

    def _unpadded(self, padded: np.ndarray) -> list[np.ndarray]:
        return [row[:length] for row, length in zip(padded, self.lengths, strict=True)]

    def with_variances(self, variances: np.ndarray | None) -> "SeriesSet":
        return SeriesSet(self.values, self.lengths, variances)

    def astype(self, dtype: np.dtype) -> "SeriesSet":
        variances = None if self.variances is None else self.variances.astype(dtype, copy=False)
        return SeriesSet(self.values.astype(dtype, copy=False), self.lengths, variances)

    def with_unit_variances(self) -> "SeriesSet":
        if self.variances is not None:
            return self
        return SeriesSet(self.values, self.lengths, np.ones(self.values.shape[:2], self.values.dtype))


def load_series(name: str, data: Any, variances: Any = None, nan_policy: str = "raise") -> SeriesSet:
    """A `SeriesSet` from (n, T), (n, T, d), or a list of (T_i,) or (T_i, d) arrays.

    A step with a missing value (NaN) in any feature is an error, or is left out if ``nan_policy`` is "omit"; either way
    the user's arrays stay as they are.
    """
    if nan_policy not in NAN_POLICIES:
        raise OptionError(f"nan_policy must be one of {NAN_POLICIES}; got {nan_policy!r}.")
    series = [_one_series(f"{name}[{i}]", item) for i, item in enumerate(_items(name, data))]
    if not series:
        raise LengthError(f"{name} is empty; at least one series is needed.")
    if variances is not None:
        noise = [_as_numpy(item) for item in variances]
        if len(noise) != len(series):
            raise ShapeError(f"The variances of {name} must be one array a series: {len(series)}; got {len(noise)}.")
    kept = []
    for i, steps in enumerate(series):
        keep = ~np.isnan(steps).any(axis=1) if nan_policy == "omit" else np.ones(len(steps), bool)
        _check_series(f"{name}[{i}]", steps, keep)
        if variances is not None:
            _check_variances(f"variances of {name}[{i}]", noise[i], keep)
        kept.append(keep)
    return _pad(series, kept, None if variances is None else noise)


def _items(name: str, data: Any) -> Any:
    if isinstance(data, list | tuple):
        return data
    array = _as_numpy(data)
    if array.ndim not in (2, 3):
        raise ShapeError(
            f"{name} must be an array (n, T) or (n, T, d), or a list of arrays (T,) or (T, d); got shape {array.shape}."
        )
    return array


def _as_numpy(data: Any) -> np.ndarray:
    return data.detach().cpu().numpy() if isinstance(data, Tensor) else np.asarray(data)


def _one_series(name: str, item: Any) -> np.ndarray:
    array = _as_numpy(item)
    if array.dtype.kind not in "fiub" or array.ndim not in (1, 2):
        raise ShapeError(f"{name} must be a real array (T,) or (T, d); got dtype {array.dtype}, shape {array.shape}.")
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return array[:, None] if array.ndim == 1 else array


def _check_series(name: str, steps: np.ndarray, keep: np.ndarray) -> None:
    if steps.shape[1] == 0 or not keep.any():
        raise LengthError(f"{name} has no step with a value; got shape {steps.shape}. Leave it out.")
    bad = ~np.isfinite(steps[keep])
    if bad.any():
        where = np.flatnonzero(keep)[np.argwhere(bad)[0, 0]]
        raise NonFiniteError(
            f"{name} holds {steps[where].tolist()} at step {where}; {int(bad.sum())} value(s) are NaN or infinite. "
            "Fill them, or pass nan_policy='omit' to leave out steps with NaN."
        )


def _check_variances(name: str, noise: np.ndarray, keep: np.ndarray) -> None:
    if noise.shape != keep.shape:
        raise ShapeError(f"{name} must be one number a step, shape {keep.shape}; got {noise.shape}.")
    bad = ~((noise > 0) & np.isfinite(noise)) & keep
    if bad.any():
        at = int(np.argmax(bad))
        raise VarianceError(f"{name} is {noise[at]} at step {at}, but a variance must be a positive finite number.")


def _pad(series: list[np.ndarray], kept: list[np.ndarray], noise: list[np.ndarray] | None) -> SeriesSet:
    features = {steps.shape[1] for steps in series}
    if len(features) > 1:
        raise ShapeError(f"All series must have the same number of features; got {sorted(features)}.")
    lengths = np.array([int(keep.sum()) for keep in kept])
    dtype = np.result_type(*{steps.dtype for steps in series}, *({n.dtype for n in noise} if noise else ()))
    dtype = np.dtype(np.float32) if dtype == np.float32 else np.dtype(np.float64)
    values = np.zeros((len(series), int(lengths.max()), features.pop()), dtype)
    variances = None if noise is None else np.ones(values.shape[:2], dtype)
    for i, (steps, keep) in enumerate(zip(series, kept, strict=True)):
        values[i, : lengths[i]] = steps[keep]
        if variances is not None and noise is not None:
            variances[i, : lengths[i]] = noise[i][keep]
    return SeriesSet(values, lengths, variances)
