"""The only gate for user input: shapes, types and values are checked here, kernels never check.

Value checks need to look at data. Where that is impossible (inside torch.compile or torch.func.vmap) they are left to
the compiled operators, which call the same functions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw.errors import GammaError, LengthError, NonFiniteError, RangeError, ShapeError, VarianceError

ArrayLike = Any
FLOATS = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Form:
    """In which form the user's arrays came, and results go back: NumPy or torch, one pair or a batch."""

    numpy: bool
    single: bool

    def restore(self, result: Tensor) -> Any:
        """Drop the batch axis of a single pair; hand NumPy back to who brought NumPy."""
        if self.single:
            result = result.squeeze(0)
        return result.detach().numpy()[()] if self.numpy else result


def visible(*tensors: Tensor | None) -> bool:
    """Whether the values can be looked at now."""
    if torch.compiler.is_compiling():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return not any(t is not None and (wrapped(t) or t.is_meta) for t in tensors)


def as_tensor(name: str, value: ArrayLike) -> Tensor:
    """A floating-point tensor; half precision and integers become what is computed in."""
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise ShapeError(
                f"{name} must hold real numbers; got an array of dtype {array.dtype}. Pass floats; series of different "
                "lengths go padded with lengths, or as a list to udtw.pairwise."
            )
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float32 if array.dtype == np.float16 else np.float64)
        value = torch.from_numpy(np.require(array, requirements="W"))
    if value.is_complex():
        raise ShapeError(
            f"{name} must hold real numbers; got {value.dtype}. Pass its real and imaginary parts as features."
        )
    if value.dtype not in FLOATS:
        value = value.to(torch.float32 if value.is_floating_point() else torch.get_default_dtype())
    return value


def common(tensors: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    """The same tensors in the widest of their dtypes; all must be on one device."""
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
    count = next((size for size in sizes.values() if size != 1), 1)
    if any(size not in (1, count) for size in sizes.values()):
        raise ShapeError(f"Batch sizes must agree or be 1; got {sizes}.")
    return {
        name: t if t is None or t.shape[0] == count else t.expand(count, *t.shape[1:]) for name, t in tensors.items()
    }


def step_variance(name: str, value: ArrayLike | None, steps: int) -> Tensor | None:
    """(1 or B, N) from a number, (N,) or (B, N)."""
    if value is None:
        return None
    tensor = as_tensor(name, value)
    if tensor.ndim == 0:
        tensor = tensor.expand(1, steps)
    elif tensor.ndim == 1:
        tensor = tensor[None]
    if tensor.ndim != 2 or tensor.shape[1] != steps:
        raise ShapeError(
            f"{name} must hold one variance a step, shape ({steps},) or (B, {steps}); got {tuple(tensor.shape)}. "
            "Variances of matches, (B, N, M), go to variance=."
        )
    return tensor


def lengths(name: str, value: ArrayLike | None, count: int, padded: int, device: torch.device) -> Tensor:
    """(B,) int64 from None (all of it), an int, or one int per pair."""
    if value is None:
        return torch.full((count,), padded, dtype=torch.int64, device=device)
    tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    if tensor.is_floating_point() or tensor.dtype == torch.bool or tensor.is_complex():
        raise LengthError(f"{name} must be whole numbers; got dtype {tensor.dtype}.")
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
    if both.device.type == "cpu":  # a quick look; NumPy is faster than torch on a handful of numbers
        x, y = both.numpy()
        if x.size == 0 or (both.numpy().min() >= 1 and x.max() <= rows and y.max() <= columns):
            return
    limits = torch.tensor([[rows], [columns]], device=both.device)
    wrong = (both < 1) | (both > limits)
    if bool(wrong.any()):
        side, b = torch.nonzero(wrong)[0].tolist()
        name = ("lengths_x", "lengths_y")[side]
        raise LengthError(
            f"{name}[{b}] is {int(both[side, b])}, but must lie between 1 and the padded length {int(limits[side, 0])}."
        )


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
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return gamma(torch.from_numpy(np.array(value)), count, like)
    number = float(value)
    if not 0 < number < float("inf"):
        raise GammaError(_gamma_message(number))
    return torch.full((count,), number, dtype=like.dtype, device=like.device)


def _gamma_message(number: float) -> str:
    hint = " For the limit gamma -> 0 use udtw.dtw." if number == 0 else ""
    return f"gamma must be a positive finite number (a temperature in units of the cost); got {number}.{hint}"


def check_gamma(tensor: Tensor) -> None:
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
    """``inside`` marks the real part of a padded tensor, (B, N) or (B, N, M)."""
    if tensor is None:
        return
    bad = ~torch.isfinite(tensor)
    if inside is not None:
        bad &= inside.reshape(*inside.shape, *[1] * (tensor.ndim - inside.ndim))
    if bool(bad.any()):
        at = _first_bad(bad)
        raise NonFiniteError(
            f"{name}{list(at)} is {tensor[at].item()}; {int(bad.sum())} value(s) of {name} are NaN or infinite. Mark "
            "padding with lengths, fill or drop missing steps, or forbid cells with a band mask."
        )


def check_variance(name: str, tensor: Tensor | None, inside: Tensor | None = None) -> None:
    if tensor is None:
        return
    bad = ~((tensor > 0) & torch.isfinite(tensor))
    if inside is not None:
        bad &= inside
    if bool(bad.any()):
        at = _first_bad(bad)
        raise VarianceError(
            f"{name}{list(at)} is {tensor[at].item()}, but a variance must be a positive finite number "
            f"({int(bad.sum())} value(s) are not). Pass variances σ² > 0, for example sigma**2 + 1e-6."
        )


def check_values(
    values: dict[str, Tensor | None],
    variances: dict[str, Tensor | None],
    both_lengths: Tensor,
    rows: int,
    columns: int,
    fields: Sequence[Tensor] = (),
) -> None:
    """Raise a named error for the first value inside the lengths that is not usable."""
    device = both_lengths.device
    in_x = torch.arange(rows, device=device) < both_lengths[0, :, None]
    in_y = torch.arange(columns, device=device) < both_lengths[1, :, None]
    region = {"x": in_x, "var_x": in_x, "y": in_y, "var_y": in_y}
    given = {name for name, tensor in (values | variances).items() if tensor is not None}
    grid = None
    if fields or not given <= region.keys():  # sequences alone need no (B, N, M) memory
        grid = in_x[:, :, None] & in_y[:, None, :]
    for name, tensor in values.items():
        check_finite(name, tensor, region.get(name, grid))
    for name, tensor in variances.items():
        check_variance(name, tensor, region.get(name, grid))
    for number, field in enumerate(fields):
        check_finite(f"field {number}", field, grid)


def range_error(dtype: torch.dtype) -> RangeError:
    return RangeError(
        f"Costs divided by gamma or by the variance, summed along a path, do not fit {dtype}. Use float64, rescale the "
        "data (z-normalise), or choose a larger gamma."
    )
