"""Check and convert the user's arrays: shapes, types and values of a pair. Kernels never check.

Collections of series enter through `series_set`. Checks of values must read the data. Inside torch.compile or
torch.func.vmap that is impossible; there the compiled operators call the same functions when they run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import ragged
from udtw.errors import (
    GammaError,
    LengthError,
    NonFiniteError,
    OptionError,
    PathError,
    RangeError,
    ShapeError,
    VarianceError,
)

ArrayLike = Any
FLOATS = (torch.float32, torch.float64)


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


def visible(*tensors: Tensor | None) -> bool:
    """Whether the values can be read now (not while tracing or under vmap)."""
    if torch.compiler.is_compiling():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return not any(t is not None and (wrapped(t) or t.is_meta) for t in tensors)


def as_tensor(name: str, value: ArrayLike) -> Tensor:
    """Return a float32 or float64 tensor; half precision becomes float32, integers the default dtype."""
    if isinstance(value, Tensor) and value.dtype in FLOATS and not value.is_nested and value.layout == torch.strided:
        return value
    if (found := ragged.container(value)) is not None:
        raise ShapeError(f"{name} must be an array or a tensor; got {found}. Pad it, and pass the lengths.")
    if not isinstance(value, Tensor):
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
        if any(stride < 0 for stride in array.strides):  # torch has no negative strides
            array = array.copy()
        value = torch.from_numpy(np.require(array, requirements="W"))
    if value.layout != torch.strided:
        raise ShapeError(f"{name} is a tensor of layout {value.layout}. Pass {name}.to_dense().")
    if value.is_complex():
        raise ShapeError(
            f"{name} must hold real numbers; got {value.dtype}. Pass its real and imaginary parts as features."
        )
    if value.dtype not in FLOATS:
        value = value.to(torch.float32 if value.is_floating_point() else torch.get_default_dtype())
    return value


def labels(value: Any) -> Any:
    """Return the index of a pandas Series or DataFrame; None for anything else."""
    index = getattr(value, "index", None)
    return index if hasattr(value, "iloc") and hasattr(index, "get_indexer") else None


def common(tensors: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
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


def sequence(name: str, value: ArrayLike) -> tuple[Tensor, bool]:
    """(B, N, d) from (B, N, d), (N, d) or (N,), and whether it was one sequence."""
    tensor = as_tensor(name, value)
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


def matrix(name: str, value: ArrayLike) -> tuple[Tensor, bool]:
    """(B, N, M) from (B, N, M) or (N, M), and whether it was one matrix."""
    tensor = as_tensor(name, value)
    if tensor.ndim not in (2, 3):
        raise ShapeError(f"{name} must have shape (N, M) or (B, N, M); got {tuple(tensor.shape)}.")
    single = tensor.ndim == 2
    tensor = tensor[None] if single else tensor
    if 0 in tensor.shape[1:]:
        raise LengthError(f"{name} must have at least one row and one column; got shape {tuple(tensor.shape)}.")
    return tensor, single


def same_batch(tensors: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
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


def step_variance(name: str, value: ArrayLike | None, steps: int, dim: int = 1, single: bool = True) -> Tensor | None:
    """(1 or B, N) from a number, (N,) or (B, N); (1 or B, N, d) from (N, d) or (B, N, d), for d = ``dim`` features.

    An array (N, d) needs a pair without batch axis (``single``), where it cannot be a batch of variances of steps.
    """
    if value is None:
        return None
    tensor = as_tensor(name, value)
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


def pair(
    x: ArrayLike,
    y: ArrayLike,
    var_x: ArrayLike | None = None,
    var_y: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    cost: ArrayLike | None = None,
) -> tuple[dict[str, Tensor | None], Form]:
    """Tensors of one dtype and batch size by name ("x", "y" or "cost", and the variances), and the caller's `Form`.

    If only one of ``var_x`` and ``var_y`` is given, the other is 1; if only one is of features, the other's are equal.
    """
    if variance is not None and (var_x is not None or var_y is not None):
        raise OptionError("Give either var_x / var_y (one variance per step) or variance (one per match), not both.")
    tensors: dict[str, Tensor | None] = {}
    if cost is not None:
        if x is not None or y is not None:
            raise OptionError("Give either x and y or a ready-made cost, not both; with cost= pass x=None, y=None.")
        main, single = matrix("cost", cost)
        tensors["cost"] = main
        rows, columns = main.shape[1:]
    else:
        if x is None or y is None:
            raise ShapeError("x and y are needed, unless a ready-made cost= is given.")
        (first, single_x), (second, single_y) = sequence("x", x), sequence("y", y)
        tensors |= {"x": first, "y": second}
        if first.shape[2] != second.shape[2]:
            raise ShapeError(
                "x and y must have the same number of features; got shapes "
                f"{tuple(first.shape)} and {tuple(second.shape)} as (B, N, d)."
            )
        single = single_x and single_y
        rows, columns = first.shape[1], second.shape[1]
    dim = 1 if cost is not None else first.shape[2]
    tensors["var_x"] = step_variance("var_x", var_x, rows, dim, single)
    tensors["var_y"] = step_variance("var_y", var_y, columns, dim, single)
    if variance is not None:
        joint, _ = matrix("variance", variance)
        tensors["variance"] = joint
        if tuple(joint.shape[1:]) != (rows, columns):
            raise ShapeError(
                f"variance must have one entry per match, shape ({rows}, {columns}) or (B, {rows}, {columns}); got "
                f"{tuple(joint.shape)}."
            )
    tensors = same_batch(common(tensors))
    main = tensors["x" if cost is None else "cost"]  # type: ignore[assignment]
    for name, other, steps in (("var_x", "var_y", rows), ("var_y", "var_x", columns)):
        mine, its = tensors[name], tensors[other]
        if mine is None and its is not None:
            mine = tensors[name] = main.new_ones((main.shape[0], steps))
        if mine is not None and its is not None and its.ndim > mine.ndim:
            tensors[name] = mine[:, :, None].expand(-1, -1, dim)
    numpy = not isinstance(x if cost is None else cost, Tensor)
    return tensors, Form(numpy=numpy, single=single and main.shape[0] == 1)


def lengths(name: str, value: ArrayLike | None, count: int, padded: int, device: torch.device) -> Tensor:
    """(B,) int64 from None (all of it), an int, or one int per pair."""
    if value is None:
        return torch.full((count,), padded, dtype=torch.int64, device=device)
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.is_complex():
        hint = " For a boolean mask of valid steps, pass mask.sum(1)." if tensor.dtype == torch.bool else ""
        raise LengthError(f"{name} must be whole numbers; got dtype {tensor.dtype}.{hint}")
    if tensor.ndim > 1 or (tensor.ndim == 1 and tensor.shape[0] not in (1, count)):
        raise LengthError(f"{name} must be one int, or one for each of {count} pairs; got shape {tuple(tensor.shape)}.")
    return tensor.to(device=device, dtype=torch.int64).expand(count)


def both_lengths(
    lengths_x: ArrayLike | None, lengths_y: ArrayLike | None, count: int, rows: int, columns: int, device: torch.device
) -> Tensor:
    """(2, B) int64: `lengths` of x and of y."""
    if lengths_x is None and lengths_y is None and rows == columns:
        return torch.full((2, count), rows, dtype=torch.int64, device=device)
    return torch.stack(
        [
            lengths("lengths_x", lengths_x, count, rows, device),
            lengths("lengths_y", lengths_y, count, columns, device),
        ]
    )


def check_lengths(both: Tensor, rows: int, columns: int) -> None:
    """``both`` (2, B) must lie within the padded sizes."""
    if both.device.type == "cpu":  # NumPy is faster than torch on a handful of numbers
        x, y = both.numpy()
        if x.size == 0 or (both.numpy().min() >= 1 and x.max() <= rows and y.max() <= columns):
            return
    wrong = (both < 1) | torch.stack([both[0] > rows, both[1] > columns])
    if bool(wrong.any()):
        side, b = torch.nonzero(wrong)[0].tolist()
        name, most = ("lengths_x", "lengths_y")[side], (rows, columns)[side]
        raise LengthError(f"{name}[{b}] is {int(both[side, b])}, but must lie between 1 and the padded length {most}.")


def gamma(value: Any, count: int, like: Tensor) -> Tensor:
    """(B,) from a number, a tensor of one number, or one per pair. Its gradient is kept."""
    if isinstance(value, Tensor):
        if value.ndim > 1 or (value.ndim == 1 and value.shape[0] not in (1, count)):
            raise GammaError(
                f"gamma must be one number, or one for each of {count} pairs; got shape {tuple(value.shape)}."
            )
        tensor = value.to(device=like.device, dtype=like.dtype)
        if visible(tensor):
            check_gamma(tensor)
        return tensor.expand(count)
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value) > 0:
        return gamma(torch.from_numpy(np.array(value)), count, like)
    number = float(value)
    if not 0 < number < float("inf"):
        raise GammaError(_gamma_message(number))
    return torch.full((count,), number, dtype=like.dtype, device=like.device)


def per_pair(name: str, value: Any, count: int, like: Tensor) -> Tensor:
    """(B,) finite numbers from a number, a tensor of one number, or one per pair. The gradient is kept."""
    if type(value) in (int, float) and isfinite(value):
        return torch.full((count,), value, dtype=like.dtype, device=like.device)
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    if tensor.dtype == torch.bool or tensor.is_complex() or tensor.ndim > 1 or tensor.numel() not in (1, count):
        raise OptionError(
            f"{name} must be one number, or one for each of {count} pairs; got shape {tuple(tensor.shape)}."
        )
    tensor = tensor.to(device=like.device, dtype=like.dtype)
    if visible(tensor) and not bool(torch.isfinite(tensor).all()):
        raise NonFiniteError(f"{name} must be finite; got {tensor.detach().reshape(-1)[:5].tolist()}.")
    return tensor.reshape(-1).expand(count)


def beta(value: Any, count: int, like: Tensor) -> Tensor:
    """(B,) numbers that are not negative: the price of log Σ in the likelihood."""
    tensor = per_pair("beta", value, count, like)
    usable = value >= 0 if type(value) in (int, float) else not visible(tensor) or bool((tensor >= 0).all())
    if not usable:
        raise OptionError(f"With weighting='likelihood' beta must not be negative; got {float(tensor.detach().min())}.")
    return tensor


def _gamma_message(number: float) -> str:
    hint = " For the limit gamma -> 0 use udtw.dtw." if number == 0 else ""
    return f"gamma must be a positive finite number (a temperature in units of the cost); got {number}.{hint}"


def check_gamma(tensor: Tensor) -> None:
    """Raise `GammaError` unless every γ is a positive finite number."""
    if tensor.device.type == "cpu":  # as in `check_lengths`
        values = tensor.detach().numpy()
        if values.size == 0 or (values.min() > 0 and values.max() < np.inf):
            return
    good = (tensor > 0) & torch.isfinite(tensor)
    if not bool(good.all()):
        raise GammaError(_gamma_message(tensor.reshape(-1)[int(torch.argmin(good.reshape(-1).int()))].item()))


def _first_bad(bad: Tensor) -> tuple[int, ...]:
    return tuple(torch.nonzero(bad)[0].tolist())


def check_finite(name: str, tensor: Tensor | None, inside: Tensor | None = None) -> None:
    """Raise `NonFiniteError` for NaN or infinity; ``inside`` (B, N) or (B, N, M) marks what is not padding."""
    if tensor is None:
        return
    bad = ~torch.isfinite(tensor)
    if inside is not None:
        bad &= inside.reshape(*inside.shape, *[1] * (tensor.ndim - inside.ndim))
    if bool(bad.any()):
        at = _first_bad(bad)
        raise NonFiniteError(
            f"{name}{list(at)} is {tensor[at].item()}; {int(bad.sum())} value(s) of {name} are NaN or infinite. Mark "
            "padding with lengths, leave out missing steps (nan_policy='omit') or fill them, or forbid cells with a "
            "band mask."
        )


def check_variance(name: str, tensor: Tensor | None, inside: Tensor | None = None) -> None:
    """Raise `VarianceError` unless every variance inside the lengths is positive and finite."""
    if tensor is None:
        return
    bad = ~((tensor > 0) & torch.isfinite(tensor))
    if inside is not None:
        bad &= inside.reshape(*inside.shape, *[1] * (tensor.ndim - inside.ndim))
    if bool(bad.any()):
        at = _first_bad(bad)
        raise VarianceError(
            f"{name}{list(at)} is {tensor[at].item()}, but a variance must be a positive finite number "
            f"({int(bad.sum())} value(s) are not). Pass variances σ² > 0, for example sigma**2 + 1e-6."
        )


def inside(lengths: Tensor, rows: int, columns: int, with_grid: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Masks of what is not padding: (B, N), (B, M) and, if wanted, (B, N, M)."""
    in_x = torch.arange(rows, device=lengths.device) < lengths[0, :, None]
    in_y = torch.arange(columns, device=lengths.device) < lengths[1, :, None]
    return in_x, in_y, in_x[:, :, None] & in_y[:, None, :] if with_grid else None


def check_values(
    values: dict[str, Tensor | None],
    variances: dict[str, Tensor | None],
    both_lengths: Tensor,
    rows: int,
    columns: int,
    fields: Sequence[Tensor] = (),
) -> None:
    """Raise a named error for the first value inside the lengths that is not usable."""
    given = {name for name, tensor in (values | variances).items() if tensor is not None}
    matrices = bool(fields) or not given <= {"x", "y", "var_x", "var_y"}  # sequences alone need no (B, N, M) memory
    in_x, in_y, grid = inside(both_lengths, rows, columns, matrices)
    region = {"x": in_x, "var_x": in_x, "y": in_y, "var_y": in_y}
    for name, tensor in values.items():
        check_finite(name, tensor, region.get(name, grid))
    for name, tensor in variances.items():
        check_variance(name, tensor, region.get(name, grid))
    for number, field in enumerate(fields):
        check_finite(f"field {number}", field, grid)


def range_error(dtype: torch.dtype) -> RangeError:
    """Return the error for costs whose path sums overflow ``dtype``."""
    return RangeError(
        f"Costs divided by gamma or by the variance, summed along a path, do not fit {dtype}. Use float64, rescale the "
        "data (z-normalise), or choose a larger gamma."
    )


def path(name: str, value: Any) -> Tensor:
    """(L, 2) int64 cells of an alignment path, which moves by [1, 0], [0, 1] or [1, 1]; its ends are not checked."""
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
