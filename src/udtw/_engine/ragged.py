"""Batches of series of different lengths, as torch users keep them: lists, nested tensors and PackedSequence."""

from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_sequence, unpack_sequence

from udtw.errors import LengthError, OptionError, ShapeError


def container(value: Any) -> str | None:
    """Return what the value is if it is neither an array nor a list: "a nested tensor", "a PackedSequence"; or None."""
    if isinstance(value, PackedSequence):
        return "a PackedSequence"
    return "a nested tensor" if isinstance(value, Tensor) and value.is_nested else None


def parts(value: Any) -> list | None:
    """Return the series of a nested tensor, a PackedSequence, or a list of tensors or arrays.

    None for anything else.
    """
    if isinstance(value, PackedSequence):
        return unpack_sequence(value)
    if container(value) is not None:
        return list(value.unbind())
    if isinstance(value, list | tuple) and value and all(isinstance(one, Tensor | np.ndarray) for one in value):
        return list(value)
    return None


def padded(name: str, value: Any, lengths: Any = None) -> tuple[Any, Any]:
    """Return a batch (B, T, d) with zeros after the ends, and its lengths; anything but a batch of series as it is.

    A batch is a nested tensor, a PackedSequence, or a list of tensors or arrays (T_i, d).
    """
    series = parts(value)
    if series is None:
        return value, lengths
    if container(value) is None:
        _check_list(name, series)
        if isinstance(series[0], np.ndarray) and (series[0].ndim != 2 or len({len(one) for one in series}) == 1):
            return value, lengths  # NumPy stacks these itself
    else:
        series = [one[:, None] if one.ndim == 1 else one for one in series]
    if any(one.ndim != 2 for one in series):
        raise ShapeError(f"The series of {name} must have shape (T,) or (T, d); got {_shapes(series)}.")
    if len({one.shape[1] for one in series}) > 1:
        raise ShapeError(f"All series of {name} must have the same number of features; got {_shapes(series)}.")
    steps = [len(one) for one in series]
    if 0 in steps:
        raise LengthError(f"{name}[{steps.index(0)}] has no step. Leave it out.")
    if len(set(steps)) == 1:
        return _stacked(name, series, 0.0), lengths
    if lengths is not None:
        raise OptionError(f"{name} holds series of different lengths, {steps[:5]}, already; leave its lengths out.")
    return _stacked(name, series, 0.0), np.array(steps)


def padded_variances(name: str, value: Any, lengths: Any) -> Any:
    """Variances of a batch of series, (T_i,) or (T_i, d) each, with ones after the ends; anything else as it is."""
    noise = parts(value)
    if noise is None or noise[0].ndim not in (1, 2):
        return value
    own = [len(one) for one in noise]
    if len(set(own)) > 1 and own != np.ravel(lengths).tolist():
        raise ShapeError(f"{name} must hold one variance per step of each series; got {own[:5]} steps.")
    if len(set(own)) == 1 and isinstance(noise[0], np.ndarray):
        return value
    return _stacked(name, noise, 1.0)


def _check_list(name: str, series: list) -> None:
    """Raise for lists of which it cannot be told whether they are a batch, or the steps of one series."""
    if len({isinstance(one, Tensor) for one in series}) > 1:
        raise ShapeError(f"{name} is a list of tensors and arrays; make them all tensors, or all arrays.")
    if isinstance(series[0], Tensor):
        if series[0].ndim < 2:
            raise ShapeError(
                f"{name} is a list of tensors of shape {_shapes(series)}, which may be the series of a batch or the "
                "steps of one series. Pass tensors (T, 1) for a batch, or torch.stack(…) for one series."
            )
    elif len({one.shape for one in series}) > 1 and series[0].ndim < 2:
        raise ShapeError(
            f"{name} is a list of arrays of shape {_shapes(series)}. Pass arrays (T, 1) or (T, d) for a batch of "
            "different lengths; udtw.pairwise takes a list of (T,), too."
        )


def _stacked(name: str, series: list, fill: float) -> Any:
    if isinstance(series[0], np.ndarray):
        batch = np.full((len(series), max(map(len, series)), *series[0].shape[1:]), fill, np.result_type(*series))
        for row, one in zip(batch, series, strict=True):
            row[: len(one)] = one
        return batch
    devices = {one.device for one in series}
    if len(devices) > 1:
        raise ShapeError(f"All series of {name} must be on one device; got {sorted(map(str, devices))}.")
    dtype = reduce(torch.promote_types, (one.dtype for one in series))
    return pad_sequence([one.to(dtype) for one in series], batch_first=True, padding_value=fill)


def _shapes(series: list) -> str:
    shown = [tuple(one.shape) for one in series[:3]]
    return ", ".join(map(str, shown)) + (", …" if len(series) > 3 else "")
