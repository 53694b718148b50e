"""Collections of series, as the estimators and `udtw.pairwise` take them: the gate for arrays and lists of series."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import ragged
from udtw._io.device import CPU, Device, checked_device
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError, VarianceError

NAN_POLICIES = ("raise", "omit")


@dataclass(frozen=True)
class SeriesSet:
    """``values`` (n, T, d) zero-padded, ``lengths`` (n,), ``variances`` (n, T) or (n, T, d), one-padded, or None.

    Whatever is computed from it is computed on its ``device``.
    """

    values: np.ndarray
    lengths: np.ndarray
    variances: np.ndarray | None
    device: torch.device = CPU

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor | None]:
        """Values, lengths and variances on the device, where they stay."""
        if not hasattr(self, "_tensors"):
            given = (self.values, self.lengths, self.variances)
            moved = tuple(None if one is None else torch.as_tensor(one, device=self.device) for one in given)
            object.__setattr__(self, "_tensors", moved)
        return self._tensors  # type: ignore[attr-defined]

    def with_tensors(self, values: Tensor, variances: Tensor | None) -> "SeriesSet":
        """Return a copy with other values and variances, which are already on the device."""
        own = self.tensors
        values, variances = values.to(own[0].dtype), None if variances is None else variances.to(own[0].dtype)
        noise = None if variances is None else variances.cpu().numpy()
        found = replace(self, values=values.cpu().numpy(), variances=noise)
        object.__setattr__(found, "_tensors", (values, own[1], variances))
        return found

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # without tensors

    def __len__(self) -> int:
        return self.values.shape[0]

    def __getitem__(self, index: np.ndarray) -> "SeriesSet":
        """Return the chosen series."""
        variances = None if self.variances is None else self.variances[index]
        return replace(self, values=self.values[index], lengths=self.lengths[index], variances=variances)

    def rows(self) -> list[np.ndarray]:
        """Return the series without padding, (T_i, d) each."""
        return self._unpadded(self.values)

    def variance_rows(self) -> list[np.ndarray] | None:
        """Their variances without padding, (T_i,) each, if there are any."""
        return None if self.variances is None else self._unpadded(self.variances)

    def _unpadded(self, padded: np.ndarray) -> list[np.ndarray]:
        return [row[:length] for row, length in zip(padded, self.lengths, strict=True)]

    def with_variances(self, variances: np.ndarray | None) -> "SeriesSet":
        return self if variances is self.variances else replace(self, variances=variances)

    def astype(self, dtype: np.dtype) -> "SeriesSet":
        if self.values.dtype == dtype and (self.variances is None or self.variances.dtype == dtype):
            return self
        variances = None if self.variances is None else self.variances.astype(dtype, copy=False)
        return replace(self, values=self.values.astype(dtype, copy=False), variances=variances)

    def with_unit_variances(self) -> "SeriesSet":
        if self.variances is not None:
            return self
        return self.with_variances(np.ones(self.values.shape[:2], self.values.dtype))


def one_series(name: str, data: Any, variances: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
    """(T, d) float32 or float64 steps of one series (T,) or (T, d), and its variances (T,) from (T,) or a number."""
    steps = _one_series(name, data)
    every = np.ones(len(steps), bool)
    _check_series(name, steps, every, advice="Fill them first, for example by interpolation.")
    if variances is None:
        return steps, None
    noise = _as_numpy(variances)
    if noise.dtype.kind not in "fiu":
        raise VarianceError(f"The variance of {name} must be real numbers; got dtype {noise.dtype}.")
    noise = np.broadcast_to(noise, every.shape) if noise.ndim == 0 else noise
    _check_variances(f"the variance of {name}", noise, every)
    return steps, noise


def load_series(
    name: str, data: Any, variances: Any = None, nan_policy: str = "raise", device: Device = None
) -> SeriesSet:
    """Return a `SeriesSet` from (n, T), (n, T, d), or a list of (T_i,) or (T_i, d) arrays.

    A step with a missing value (NaN) in any feature is an error, or is left out if ``nan_policy`` is "omit". The given
    arrays are not modified. ``device`` as in `udtw._io.device`.
    """
    where = checked_device(device)
    if nan_policy not in NAN_POLICIES:
        raise OptionError(f"nan_policy must be one of {NAN_POLICIES}; got {nan_policy!r}.")
    series = [_one_series(f"{name}[{i}]", item) for i, item in enumerate(_items(name, data))]
    if not series:
        raise LengthError(f"{name} is empty; at least one series is needed.")
    if variances is not None:
        noise = [_as_numpy(item) for item in variances]
        if len(noise) != len(series):
            raise ShapeError(f"The variances of {name} must be one array per series: {len(series)}; got {len(noise)}.")
    kept = []
    for i, steps in enumerate(series):
        keep = ~np.isnan(steps).any(axis=1) if nan_policy == "omit" else np.ones(len(steps), bool)
        _check_series(f"{name}[{i}]", steps, keep)
        if variances is not None:
            _check_variances(f"variances of {name}[{i}]", noise[i], keep)
        kept.append(keep)
    return replace(_pad(series, kept, None if variances is None else noise), device=where)


def _items(name: str, data: Any) -> Any:
    data = data if (series := ragged.parts(data)) is None else series
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


_OMIT = "Fill them, or pass nan_policy='omit' to leave out steps with NaN."


def _check_series(name: str, steps: np.ndarray, keep: np.ndarray, advice: str = _OMIT) -> None:
    if steps.shape[1] == 0 or not keep.any():
        raise LengthError(f"{name} has no step with a value; got shape {steps.shape}. Leave it out.")
    bad = ~np.isfinite(steps[keep])
    if bad.any():
        where = np.flatnonzero(keep)[np.argwhere(bad)[0, 0]]
        raise NonFiniteError(
            f"{name} holds {steps[where].tolist()} at step {where}; {int(bad.sum())} value(s) are NaN or infinite. "
            f"{advice}"
        )


def _check_variances(name: str, noise: np.ndarray, keep: np.ndarray) -> None:
    if noise.shape[:1] != keep.shape or noise.ndim > 2:
        raise ShapeError(f"{name} must be one number per step, shape {keep.shape}, or per feature; got {noise.shape}.")
    bad = ~((noise > 0) & np.isfinite(noise)).reshape(len(noise), -1).all(1) & keep
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
    by_feature = {one.shape[1:] for one in noise} if noise else {()}
    if by_feature - {()} and by_feature != {values.shape[2:]}:
        raise ShapeError(
            f"Variances must be one per step in all series, or one per feature ({values.shape[2]}) in all; got shapes "
            f"{sorted({one.shape for one in noise or ()})[:5]}."
        )
    variances = None if noise is None else np.ones((*values.shape[:2], *by_feature.pop()), dtype)
    for i, (steps, keep) in enumerate(zip(series, kept, strict=True)):
        values[i, : lengths[i]] = steps[keep]
        if variances is not None and noise is not None:
            variances[i, : lengths[i]] = noise[i][keep]
    return SeriesSet(values, lengths, variances)
