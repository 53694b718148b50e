"""The gate for user input: read arrays, tensors, lists of series and numbers, or raise an error that names the fault.

`read_pair` reads the arguments of `align`; `udtw._engine.series_set` reads collections by the same functions, and
`udtw._engine.checks` checks the values. Kernels never check.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_sequence, unpack_sequence

from udtw._engine import likelihood
from udtw._engine.checks import FLOATS, can_read, check_gamma, describe_gamma
from udtw.errors import (
    GammaError,
    LengthError,
    NonFiniteError,
    OptionError,
    PathError,
    ShapeError,
    UdtwError,
)

ArrayLike = Any
NAN_POLICIES = ("raise", "omit")


@dataclass(frozen=True)
class Form:
    """The form of the user's arrays, in which results are returned: NumPy or torch, one pair or a batch."""

    numpy: bool
    single: bool

    def restore(self, result: Tensor) -> Any:
        """Return the result without the batch axis for a single pair, as NumPy if the input was NumPy."""
        if self.single:
            result = result.squeeze(0)
        return result.detach().numpy()[()] if self.numpy else result


def read_tensor(name: str, value: ArrayLike) -> Tensor:
    """Return a float32 or float64 tensor; half precision becomes float32, integer tensors the default dtype."""
    if isinstance(value, Tensor) and value.dtype in FLOATS and not value.is_nested and value.layout == torch.strided:
        return value
    if (container := name_container(value)) is not None:
        raise ShapeError(f"{name} must be an array or a tensor; got {container}. Pad it, and pass the lengths.")
    if not isinstance(value, Tensor):
        array = read_array(name, value)
        if any(stride < 0 for stride in array.strides):  # torch has no negative strides
            array = array.copy()
        return torch.from_numpy(np.require(array, requirements="W"))
    if value.layout != torch.strided:
        raise ShapeError(f"{name} is a tensor of layout {value.layout}. Pass {name}.to_dense().")
    if value.is_complex():
        raise ShapeError(
            f"{name} must hold real numbers; got {value.dtype}. Pass its real and imaginary parts as features."
        )
    if value.dtype not in FLOATS:
        value = value.to(torch.float32 if value.is_floating_point() else torch.get_default_dtype())
    return value


def read_array(name: str, value: ArrayLike) -> np.ndarray:
    """Return a float32 or float64 array; half precision becomes float32, integers float64."""
    if isinstance(value, Tensor):
        whole = not (value.is_floating_point() or value.is_complex())
        return read_tensor(name, value.double() if whole else value).detach().cpu().numpy()
    try:
        array = np.asarray(value)
    except (ValueError, RuntimeError) as error:  # rows of different lengths; tensors with a gradient
        raise ShapeError(
            f"{name} is not a numeric array: {error}. Pass one array or tensor; series of different lengths go in "
            "as a list of arrays or tensors (T, d), or padded with lengths."
        ) from None
    if array.dtype.kind not in "fiub":
        raise ShapeError(
            f"{name} must hold real numbers; got an array of dtype {array.dtype}. Pass floats; series of different "
            "lengths go in as a list of arrays or tensors (T, d), or padded with lengths."
        )
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
    return array


def read_sequence(name: str, value: ArrayLike) -> tuple[Tensor, bool]:
    """Return (B, N, d) from (B, N, d), (N, d) or (N,), and whether it was one sequence."""
    tensor = read_tensor(name, value)
    if tensor.ndim not in (1, 2, 3):
        raise ShapeError(
            f"{name} must have shape (N,), (N, d) or (B, N, d): time before features; got {tuple(tensor.shape)}."
        )
    single = tensor.ndim < 3
    tensor = tensor[None, :, None] if tensor.ndim == 1 else tensor[None] if tensor.ndim == 2 else tensor
    if tensor.shape[1] == 0 or tensor.shape[2] == 0:
        raise LengthError(
            f"{name} must have at least one step and one feature; got shape {tuple(tensor.shape)} as (B, N, d)."
        )
    return tensor, single


def read_matrix(name: str, value: ArrayLike) -> tuple[Tensor, bool]:
    """Return (B, N, M) from (B, N, M) or (N, M), and whether it was one matrix."""
    tensor = read_tensor(name, value)
    if tensor.ndim not in (2, 3):
        raise ShapeError(f"{name} must have shape (N, M) or (B, N, M); got {tuple(tensor.shape)}.")
    single = tensor.ndim == 2
    tensor = tensor[None] if single else tensor
    if 0 in tensor.shape[1:]:
        raise LengthError(f"{name} must have at least one row and one column; got shape {tuple(tensor.shape)}.")
    return tensor, single


def read_variances(name: str, value: ArrayLike, steps: int, dim: int = 1, single: bool = True) -> Tensor:
    """Return (1 or B, N) from a number, (N,) or (B, N); (1 or B, N, d) from (N, d) or (B, N, d) of ``dim`` features.

    An array (N, d) needs a pair without batch axis (``single``), where it cannot be a batch of variances of steps.
    """
    tensor = read_tensor(name, value)
    if tensor.ndim == 0:
        tensor = tensor.expand(1, steps)
    elif tensor.ndim == 1 or (single and dim > 1 and tuple(tensor.shape) == (steps, dim)):
        tensor = tensor[None]
    if tensor.ndim == 3 and dim == 1 and tensor.shape[2] == 1:
        tensor = tensor[:, :, 0]
    by_feature = tensor.ndim == 3 and dim > 1 and tensor.shape[2] == dim
    if tensor.shape[1:2] != (steps,) or not (tensor.ndim == 2 or by_feature):
        features = f", or one per feature of each step, shape (B, {steps}, {dim})" if dim > 1 else ""
        raise ShapeError(
            f"{name} must hold one variance per step, shape ({steps},) or (B, {steps}){features}; got "
            f"{tuple(tensor.shape)}. Variances of matches, (B, N, M), go to variance=."
        )
    return tensor


def read_labels(value: Any) -> Any:
    """Return the index of a pandas Series or DataFrame; None for anything else."""
    index = getattr(value, "index", None)
    return index if hasattr(value, "iloc") and hasattr(index, "get_indexer") else None


def read_names(value: Any) -> list[str] | None:
    """Return the names of the columns of a data frame (pandas, Polars); None for anything else."""
    columns = getattr(value, "columns", None)
    if columns is None or len(getattr(value, "shape", ())) != 2:
        return None
    names = list(columns)
    return names if all(isinstance(one, str) for one in names) and len(set(names)) == len(names) else None


def order_features(name: str, value: Any, other: str, wanted: list[str] | None) -> Any:
    """Return a data frame with its columns in the order of the names of another one; anything else as it is.

    Frames that share only some names, or with a column of dates, raise a `ShapeError`: dates are not a feature.
    """
    names = read_names(value)
    for column in names or ():
        if np.asarray(value[column]).dtype.kind in "mM":
            raise ShapeError(
                f"{name} has the column {column!r} of dates, which is not a feature. Leave it out, or make it the "
                "index of a pandas frame."
            )
    if names is None or wanted is None or names == wanted or not set(names) & set(wanted):
        return value
    if set(names) != set(wanted):
        missing, extra = sorted(set(wanted) - set(names)), sorted(set(names) - set(wanted))
        raise ShapeError(
            f"{name} and {other} have different columns: {name} lacks {missing} and has {extra} instead. Choose the "
            "same columns of both."
        )
    return value[wanted]


def read_pair(
    x: ArrayLike,
    y: ArrayLike,
    var_x: ArrayLike | None = None,
    var_y: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    *,
    lengths: tuple[Any, Any] = (None, None),
    nan_policy: str = "raise",
) -> tuple[dict[str, Tensor | None], tuple[Any, Any], Form]:
    """Read the arrays of `align`.

    Return tensors of one dtype and batch size by name ("x" and "y" or "cost", and the variances), the lengths, and the
    caller's `Form`. If only one of ``var_x`` and ``var_y`` is given, the other is 1; if only one is per feature, the
    other is repeated for every feature.
    """
    check_nan_policy(nan_policy, cost, variance)
    if variance is not None and (var_x is not None or var_y is not None):
        raise OptionError("Give either var_x / var_y (one variance per step) or variance (one per match), not both.")
    tensors: dict[str, Tensor | None] = {}
    counts = list(lengths)
    if cost is not None:
        if x is not None or y is not None:
            raise OptionError("Give either x and y or a ready-made cost, not both; with cost= pass x=None, y=None.")
        main, single = read_matrix("cost", cost)
        tensors["cost"] = main
        dim, shape = 1, (main.shape[1], main.shape[2])
    else:
        if x is None or y is None:
            raise ShapeError("x and y are needed, unless a ready-made cost= is given.")
        x, y = order_features("x", x, "y", None), order_features("y", y, "x", read_names(x))
        (x, counts[0]), (y, counts[1]) = pad_series("x", x, counts[0]), pad_series("y", y, counts[1])
        (main, single_x), (other, single_y) = read_sequence("x", x), read_sequence("y", y)
        check_same_features("x and y", main, other)
        tensors |= {"x": main, "y": other}
        dim, shape, single = main.shape[2], (main.shape[1], other.shape[1]), single_x and single_y
    for side, (name, given) in enumerate((("x", var_x), ("y", var_y))):
        if isinstance(given, str) and (given != "estimate" or cost is not None):
            raise OptionError(f"var_{name} must be variances, or 'estimate' beside sequences; got {given!r}.")
        noise = None
        if given is not None and not isinstance(given, str):
            padded = pad_variances(f"var_{name}", given, counts[side])
            noise = read_variances(f"var_{name}", padded, shape[side], dim, single)
        tensors[f"var_{name}"] = noise
        if nan_policy == "omit":
            counts[side] = _omit_missing(tensors, name, counts[side])
        if isinstance(given, str):
            series, steps = _with_lengths(tensors, name, counts[side])
            tensors[f"var_{name}"] = likelihood.estimate_variances(f"var_{name}", series, steps)
    if variance is not None:
        joint, _ = read_matrix("variance", variance)
        tensors["variance"] = joint
        if tuple(joint.shape[1:]) != shape:
            raise ShapeError(
                f"variance must have one entry per match, shape {shape} or (B, {shape[0]}, {shape[1]}); got "
                f"{tuple(joint.shape)}."
            )
    tensors = _expand_batches(promote(tensors))
    first, second = tensors["x" if cost is None else "cost"], tensors.get("y")
    assert first is not None, "a pair has sequences or a cost"
    _complete_variances(tensors, (first.shape[1], first.shape[2] if second is None else second.shape[1]))
    numpy = not isinstance(x if cost is None else cost, Tensor)
    return tensors, (counts[0], counts[1]), Form(numpy=numpy, single=single and len(first) == 1)


def _with_lengths(tensors: dict[str, Tensor | None], name: str, lengths: Any) -> tuple[Tensor, Tensor]:
    """Return the sequences ``name`` and their lengths (B,)."""
    series = tensors[name]
    assert series is not None, "the caller has sequences"
    return series, read_lengths(f"lengths_{name}", lengths, series.shape[0], series.shape[1], series.device)


def _omit_missing(tensors: dict[str, Tensor | None], name: str, lengths: Any) -> Any:
    """Drop steps with NaN of the sequences ``name`` and their variances; return the lengths of the rest."""
    series, steps = _with_lengths(tensors, name, lengths)
    kept, tensors[f"var_{name}"], steps = drop_missing(name, series, tensors[f"var_{name}"], steps)
    if kept is series:
        return lengths
    tensors[name] = kept
    return None if len(kept) == 1 else steps


def promote(tensors: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    """Return the same tensors in the widest of their dtypes; all must be on one device."""
    first, *others = [t for t in tensors.values() if t is not None]
    if all(t.dtype == first.dtype and t.device == first.device for t in others):
        return tensors
    given = {name: t for name, t in tensors.items() if t is not None}
    devices = {name: t.device for name, t in given.items()}
    if len(set(devices.values())) > 1:
        raise ShapeError(f"All inputs must be on one device; got {devices}. Move them with .to(device).")
    dtype = torch.float64 if any(t.dtype == torch.float64 for t in given.values()) else torch.float32
    return {name: None if t is None else t.to(dtype) for name, t in tensors.items()}


def _expand_batches(tensors: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    """Expand batches of one to the common batch size."""
    sizes = {name: t.shape[0] for name, t in tensors.items() if t is not None}
    if len(set(sizes.values())) == 1:
        return tensors
    count = next((size for size in sizes.values() if size != 1), 1)
    if any(size not in (1, count) for size in sizes.values()):
        raise ShapeError(f"Batch sizes must agree or be 1; got {sizes}.")
    return {
        name: t if t is None or t.shape[0] == count else t.expand(count, *t.shape[1:]) for name, t in tensors.items()
    }


def _complete_variances(tensors: dict[str, Tensor | None], shape: tuple[int, int]) -> None:
    """Fill in ones where only the other side has variances; repeat them per feature where the other side has those."""
    for name, other, steps in (("var_x", "var_y", shape[0]), ("var_y", "var_x", shape[1])):
        own, its = tensors[name], tensors[other]
        if own is None and its is not None:
            own = its.new_ones(len(its), steps)
        if own is not None and its is not None and its.ndim > own.ndim:
            own = own[:, :, None].expand(-1, -1, its.shape[2])
        tensors[name] = own


# Series of different lengths, as torch users keep them: lists, nested tensors and PackedSequence.


def name_container(value: Any) -> str | None:
    """Return "a nested tensor" or "a PackedSequence"; None for arrays, lists and ordinary tensors."""
    if isinstance(value, PackedSequence):
        return "a PackedSequence"
    return "a nested tensor" if isinstance(value, Tensor) and value.is_nested else None


def split_series(value: Any) -> list | None:
    """Return the series of a nested tensor, a PackedSequence, or a list of tensors or arrays; None for all else."""
    if isinstance(value, PackedSequence):
        return unpack_sequence(value)
    if name_container(value) is not None:
        return list(value.unbind())
    if isinstance(value, list | tuple) and value and all(isinstance(one, Tensor | np.ndarray) for one in value):
        return list(value)
    return None


def pad_series(name: str, value: Any, lengths: Any = None) -> tuple[Any, Any]:
    """Pad a batch of series with zeros to (B, T, d); return it and its lengths.

    A batch is a nested tensor, a PackedSequence, or a list of tensors or arrays (T_i, d). Anything else is returned as
    it is.
    """
    series = split_series(value)
    if series is None:
        return value, lengths
    if name_container(value) is None:
        _check_unambiguous(name, series)
        if isinstance(series[0], np.ndarray) and (series[0].ndim != 2 or len({len(one) for one in series}) == 1):
            return value, lengths  # NumPy stacks these itself
    else:
        series = [one[:, None] if one.ndim == 1 else one for one in series]
    check_series(name, series)
    steps = [len(one) for one in series]
    if len(set(steps)) == 1:
        return stack_series(name, series, 0.0), lengths
    if lengths is not None:
        raise OptionError(f"{name} holds series of different lengths, {steps[:5]}, already; leave its lengths out.")
    return stack_series(name, series, 0.0), np.array(steps)


def pad_variances(name: str, value: Any, lengths: Any) -> Any:
    """Pad variances of a batch of series, (T_i,) or (T_i, d) each, with ones; return anything else as it is."""
    noise = split_series(value)
    if noise is None or noise[0].ndim not in (1, 2):
        return value
    steps = [len(one) for one in noise]
    if len(set(steps)) > 1 and steps != np.ravel(lengths).tolist():
        raise ShapeError(f"{name} must hold one variance per step of each series; got {steps[:5]} steps.")
    if len({one.shape[1:] for one in noise}) > 1:
        raise ShapeError(
            f"{name} must hold one variance per step in every series, or one per feature in every series; got shapes "
            f"{_list_shapes(noise)}."
        )
    if len(set(steps)) == 1 and isinstance(noise[0], np.ndarray):
        return value
    return stack_series(name, noise, 1.0)


def stack_series(name: str, series: list, padding: float) -> Any:
    """Stack arrays or tensors of different lengths as one batch."""
    if isinstance(series[0], np.ndarray):
        dtype = np.result_type(*{one.dtype for one in series})
        batch = np.full((len(series), max(map(len, series)), *series[0].shape[1:]), padding, dtype)
        for row, one in zip(batch, series, strict=True):
            row[: len(one)] = one
        return batch
    devices = {one.device for one in series}
    if len(devices) > 1:
        raise ShapeError(f"All series of {name} must be on one device; got {sorted(map(str, devices))}.")
    widest = reduce(torch.promote_types, (one.dtype for one in series))
    return pad_sequence([one.to(widest) for one in series], batch_first=True, padding_value=padding)


def check_series(name: str, series: Sequence[Any]) -> None:
    """Raise unless the arrays or tensors are series (T_i, d) with steps and with the same features."""
    for i, one in enumerate(series):
        check_steps(f"{name}[{i}]", one)
    check_same_features(f"All series of {name}", *series)


def check_steps(name: str, series: Any) -> None:
    """Raise unless one series is (T, d) and has steps."""
    if series.ndim != 2:
        raise ShapeError(f"{name} must have shape (T,) or (T, d); got {tuple(series.shape)}.")
    if 0 in series.shape:
        raise LengthError(f"{name} has no step with a value; got shape {tuple(series.shape)}. Leave it out.")


def check_same_features(subject: str, *series: Any) -> None:
    """Raise unless the last axes of all arrays or tensors have the same size."""
    if len({one.shape[-1] for one in series}) > 1:
        raise ShapeError(f"{subject} must have the same number of features; got shapes {_list_shapes(series)}.")


def _check_unambiguous(name: str, series: list) -> None:
    """Raise for lists that may be a batch or the steps of one series."""
    if len({isinstance(one, Tensor) for one in series}) > 1:
        raise ShapeError(f"{name} is a list of tensors and arrays; make them all tensors, or all arrays.")
    if isinstance(series[0], Tensor):
        if series[0].ndim < 2:
            raise ShapeError(
                f"{name} is a list of tensors of shape {_list_shapes(series)}, which may be the series of a batch or "
                "the steps of one series. Pass tensors (T, 1) for a batch, or torch.stack(…) for one series."
            )
    elif len({one.shape for one in series}) > 1 and series[0].ndim < 2:
        raise ShapeError(
            f"{name} is a list of arrays of shape {_list_shapes(series)}. Pass arrays (T, 1) or (T, d) for a batch of "
            "different lengths; udtw.pairwise takes a list of (T,), too."
        )


def _list_shapes(series: Sequence[Any]) -> str:
    shapes = list(dict.fromkeys(tuple(one.shape) for one in series))
    return ", ".join(map(str, shapes[:3])) + (", …" if len(shapes) > 3 else "")


# Steps with missing values


def check_nan_policy(nan_policy: str, *ready_made: Any) -> None:
    """Raise unless ``nan_policy`` is known, and sequences are given where steps are to be left out."""
    if nan_policy not in NAN_POLICIES:
        raise OptionError(f"nan_policy must be one of {NAN_POLICIES}; got {nan_policy!r}.")
    if nan_policy == "omit" and any(one is not None for one in ready_made):
        raise OptionError(
            "nan_policy='omit' leaves out steps of x and y, which a ready-made cost or a joint variance does not have. "
            "Leave out its rows and columns yourself, or use a band mask."
        )


def drop_missing(
    name: str, series: Tensor, variances: Tensor | None, lengths: Tensor
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Return series (B, T, d), their variances and lengths (B,) without the steps that hold NaN.

    Without NaN the same objects are returned. Gradients pass to the steps that stay.
    """
    inside = torch.arange(series.shape[1], device=series.device) < lengths[:, None]
    keep = ~series.detach().isnan().any(2) & inside
    if bool((keep == inside).all()):
        return series, variances, lengths
    kept = keep.sum(1)
    if not bool(kept.all()):
        raise LengthError(
            f"{name}[{int(torch.argmin(kept))}] has a missing value in every step, so that nan_policy='omit' leaves "
            "none."
        )
    # The steps that stay come first, in their order.
    order = torch.argsort((~keep).long(), dim=1, stable=True)[:, : int(kept.max())]
    real = torch.arange(order.shape[1], device=series.device) < kept[:, None]

    def select(values: Tensor, padding: float) -> Tensor:
        values = values.expand(len(series), *values.shape[1:])
        index, mask = (one if values.ndim == 2 else one[..., None] for one in (order, real))
        return torch.where(mask, values.gather(1, index.expand(-1, -1, *values.shape[2:])), padding)

    return select(series, 0.0), None if variances is None else select(variances, 1.0), kept


# Numbers of each pair


def read_lengths(name: str, value: ArrayLike | None, count: int, padded: int, device: torch.device) -> Tensor:
    """Return (B,) int64 from None (all of it), an int, or one int per pair."""
    if value is None:
        return torch.full((count,), padded, dtype=torch.int64, device=device)
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.is_complex():
        hint = " For a boolean mask of valid steps, pass mask.sum(1)." if tensor.dtype == torch.bool else ""
        raise LengthError(f"{name} must be whole numbers; got dtype {tensor.dtype}.{hint}")
    # "not in" does not compare the symbolic sizes of torch.compile
    if tensor.ndim > 1 or (tensor.ndim == 1 and tensor.shape[0] != 1 and tensor.shape[0] != count):
        raise LengthError(f"{name} must be one int, or one for each of {count} pairs; got shape {tuple(tensor.shape)}.")
    return tensor.to(device=device, dtype=torch.int64).expand(count)


def read_both_lengths(
    lengths_x: ArrayLike | None, lengths_y: ArrayLike | None, count: int, rows: int, columns: int, device: torch.device
) -> Tensor:
    """Return the lengths of x and of y, (2, B) int64."""
    if lengths_x is None and lengths_y is None and rows == columns:
        return torch.full((2, count), rows, dtype=torch.int64, device=device)
    of_x = read_lengths("lengths_x", lengths_x, count, rows, device)
    return torch.stack([of_x, read_lengths("lengths_y", lengths_y, count, columns, device)])


def read_gamma(value: Any, count: int, like: Tensor) -> Tensor:
    """Return (B,) temperatures from a number, a tensor of one number, or one per pair. The gradient is kept."""
    tensor = _expand_number("gamma", value, count, like, GammaError)
    if type(value) in (int, float):
        if not 0 < value < float("inf"):
            raise GammaError(describe_gamma(value))
    elif can_read(tensor):
        check_gamma(tensor)
    return tensor


def read_per_pair(name: str, value: Any, count: int, like: Tensor) -> Tensor:
    """Return (B,) finite numbers from a number, a tensor of one number, or one per pair. The gradient is kept."""
    tensor = _expand_number(name, value, count, like, OptionError)
    finite = (
        -inf < value < inf if type(value) in (int, float) else not can_read(tensor) or bool(tensor.isfinite().all())
    )
    if not finite:
        raise NonFiniteError(f"{name} must be finite; got {tensor.detach()[:5].tolist()}.", parameter=name)
    return tensor


def read_beta(value: Any, count: int, like: Tensor) -> Tensor:
    """Return (B,) non-negative weights of log Σ in the likelihood."""
    tensor = read_per_pair("beta", value, count, like)
    usable = value >= 0 if type(value) in (int, float) else not can_read(tensor) or bool((tensor >= 0).all())
    if not usable:
        raise OptionError(
            f"With weighting='likelihood' beta must not be negative; got {float(tensor.detach().min())}.",
            parameter="beta",
        )
    return tensor


def _expand_number(name: str, value: Any, count: int, like: Tensor, error: type[UdtwError]) -> Tensor:
    if type(value) in (int, float):
        return torch.full((count,), value, dtype=like.dtype, device=like.device)
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise error(f"{name} must be one number, or one for each of {count} pairs; got {value!r}.", parameter=name)
        value = torch.from_numpy(np.array(array))
    if (
        value.dtype == torch.bool
        or value.is_complex()
        or value.ndim > 1
        or (value.numel() != 1 and value.numel() != count)
    ):
        shape = tuple(value.shape)
        raise error(f"{name} must be one number, or one for each of {count} pairs; got shape {shape}.", parameter=name)
    return value.to(device=like.device, dtype=like.dtype).reshape(-1).expand(count)


def read_path(name: str, value: Any) -> Tensor:
    """Return the cells of a path (L, 2) as int64. Steps must be [1, 0], [0, 1] or [1, 1]; the ends are not checked."""
    cells = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
    if cells.ndim != 2 or cells.shape[1] != 2 or cells.shape[0] == 0 or cells.is_floating_point():
        raise PathError(
            f"{name} must be an integer array (L, 2) of cells; got shape {tuple(cells.shape)}, {cells.dtype}."
        )
    cells = cells.long()
    steps = cells[1:] - cells[:-1]
    wrong = ((steps < 0) | (steps > 1)).any(1) | (steps.sum(1) == 0)
    if bool(wrong.any()):
        at = int(torch.argmax(wrong.int()))
        raise PathError(
            f"{name} must move by [1, 0], [0, 1] or [1, 1]; step {at} goes from {cells[at].tolist()} to "
            f"{cells[at + 1].tolist()}."
        )
    return cells
