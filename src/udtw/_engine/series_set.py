"""Collections of series, as the estimators and `udtw.pairwise` take them."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import inputs
from udtw._engine.checks import FILL, check_finite, check_variances
from udtw._io.device import CPU, Device, checked_device
from udtw.errors import LengthError, ShapeError


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
        changed = replace(self, values=values.cpu().numpy(), variances=noise)
        object.__setattr__(changed, "_tensors", (values, own[1], variances))
        return changed

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


def load_one_series(name: str, data: Any, variances: Any = None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the steps (T, d) of one series (T,) or (T, d), and its variances (T,) or (T, d) if there are any."""
    steps = _read_steps(name, data)
    check_finite(
        name, inputs.read_tensor(name, steps), advice="Fill missing values first, for example by interpolation."
    )
    if variances is None:
        return steps, None
    given = inputs.read_array(f"var_{name}", variances)
    noise = inputs.read_variances(f"var_{name}", given, *steps.shape)[0]
    check_variances(f"var_{name}", noise)
    return steps, noise.numpy()


def load_series(
    name: str, data: Any, variances: Any = None, nan_policy: str = "raise", device: Device = None,
    names: list[str] | None = None,
) -> SeriesSet:  # fmt: skip
    """Return a `SeriesSet` from (n, T), (n, T, d), or a list of (T_i,) or (T_i, d) arrays.

    ``variances`` are one array per series, or a number. A step with a missing value (NaN) in any feature is an error,
    or is left out if ``nan_policy`` is "omit". The given arrays are not modified. ``device`` as in `udtw._io.device`.
    Data frames are matched by the ``names`` of their columns, by default those of the first.
    """
    where = checked_device(device)
    inputs.check_nan_policy(nan_policy)
    parts = _split(name, data)
    names = names or feature_names(parts)
    series = [
        _read_steps(f"{name}[{i}]", inputs.order_features(f"{name}[{i}]", one, "the first series", names))
        for i, one in enumerate(parts)
    ]
    if not series:
        raise LengthError(f"{name} is empty; at least one series is needed.")
    inputs.check_same_features(f"All series of {name}", *series)
    steps = [len(one) for one in series]
    noise = None if variances is None else _read_variances(f"var_{name.lower()}", variances, series)
    tensors = inputs.promote({"values": torch.from_numpy(inputs.stack_series(name, series, 0.0)), "variances": noise})
    values, noise, lengths = tensors["values"], tensors["variances"], torch.tensor(steps)
    assert values is not None, "series were given"
    keep = torch.arange(values.shape[1]) < lengths[:, None]
    if nan_policy == "omit":
        keep &= ~values.isnan().any(2)
    check_finite(name, values, keep, f"{FILL}.")
    check_variances(f"var_{name.lower()}", noise, keep)
    if nan_policy == "omit":
        values, noise, lengths = inputs.drop_missing(name, values, noise, lengths)
    return SeriesSet(values.numpy(), lengths.numpy(), None if noise is None else noise.numpy(), where)


def feature_names(data: Any) -> list[str] | None:
    """Return the names of the features of a list of data frames; None for anything else."""
    return inputs.read_names(data[0]) if isinstance(data, list | tuple) and len(data) else None


def _split(name: str, data: Any) -> Any:
    """Return the series of a collection."""
    series = inputs.split_series(data)
    if series is not None or isinstance(data, list | tuple):
        return data if series is None else series
    array = data.detach().cpu().numpy() if isinstance(data, Tensor) else np.asarray(data)
    if array.ndim not in (2, 3) and array.dtype != object:
        raise ShapeError(
            f"{name} must be an array (n, T) or (n, T, d), or a list of arrays (T,) or (T, d); got shape {array.shape}."
        )
    return array


def _read_steps(name: str, data: Any) -> np.ndarray:
    steps = inputs.read_array(name, data)
    steps = steps[:, None] if steps.ndim == 1 else steps
    inputs.check_steps(name, steps)
    return steps


def _read_variances(name: str, variances: Any, series: list[np.ndarray]) -> Tensor:
    """Return (n, T) or (n, T, d), padded with ones."""
    longest = max(map(len, series))
    if isinstance(variances, int | float):
        return torch.full((len(series), longest), float(variances), dtype=torch.float64)
    noise = [inputs.read_array(f"{name}[{i}]", one) for i, one in enumerate(_split(name, variances))]
    if len(noise) != len(series):
        raise ShapeError(f"{name} must hold one array of variances per series: {len(series)}; got {len(noise)}.")
    for i, (one, steps) in enumerate(zip(noise, series, strict=True)):
        if one.shape[:1] != steps.shape[:1]:
            raise ShapeError(f"{name}[{i}] must hold one variance per step, shape ({len(steps)},); got {one.shape}.")
    padded = inputs.pad_variances(name, noise, [len(one) for one in series])
    return inputs.read_variances(name, padded, longest, series[0].shape[1], single=False)
