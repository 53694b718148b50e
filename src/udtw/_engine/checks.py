"""Checks of values that kernels rely on: finite numbers, positive variances and temperatures, lengths within padding.

They must read the data. Inside torch.compile or torch.func.vmap that is impossible (`can_read`); there the compiled
operators call them when they run.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from udtw.errors import GammaError, LengthError, NonFiniteError, RangeError, VarianceError

FLOATS = (torch.float32, torch.float64)
"""Types that kernels take."""


def can_read(*tensors: Tensor | None) -> bool:
    """Return whether the values can be read now (not while tracing or under vmap)."""
    if torch.compiler.is_compiling():
        return False
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    return not any(t is not None and (wrapped(t) or t.is_meta) for t in tensors)


def check_lengths(both: Tensor, rows: int, columns: int) -> None:
    """Raise `LengthError` unless ``both`` (2, B) lies within the padded sizes."""
    if both.device.type == "cpu":  # NumPy is faster than torch on a handful of numbers
        x, y = both.numpy()
        if x.size == 0 or (both.numpy().min() >= 1 and x.max() <= rows and y.max() <= columns):
            return
    wrong = (both < 1) | torch.stack([both[0] > rows, both[1] > columns])
    if bool(wrong.any()):
        side, b = torch.nonzero(wrong)[0].tolist()
        name, most = ("lengths_x", "lengths_y")[side], (rows, columns)[side]
        raise LengthError(f"{name}[{b}] is {int(both[side, b])}, but must lie between 1 and the padded length {most}.")


def check_gamma(tensor: Tensor) -> None:
    """Raise `GammaError` unless every γ is a positive finite number."""
    if tensor.device.type == "cpu":  # as in `check_lengths`
        values = tensor.detach().numpy()
        if values.size == 0 or (values.min() > 0 and values.max() < np.inf):
            return
    good = (tensor > 0) & torch.isfinite(tensor)
    if not bool(good.all()):
        raise GammaError(describe_gamma(tensor.reshape(-1)[int(torch.argmin(good.reshape(-1).int()))].item()))


def describe_gamma(number: float) -> str:
    """Return the message for an unusable γ."""
    hint = " For the limit gamma -> 0 use udtw.dtw." if number == 0 else ""
    return f"gamma must be a positive finite number (a temperature in units of the cost); got {number}.{hint}"


FILL = "Fill missing values or leave those steps out (nan_policy='omit')"
"""Advice for NaN, for inputs with and without lengths or a band."""


def check_finite(name: str, tensor: Tensor | None, inside: Tensor | None = None, advice: str | None = None) -> None:
    """Raise `NonFiniteError` for NaN or infinity; ``inside`` (B, N) or (B, N, M) marks what is not padding."""
    if tensor is None:
        return
    bad = _exclude(~torch.isfinite(tensor), inside)
    if bool(bad.any()):
        at = tuple(torch.nonzero(bad)[0].tolist())
        advice = advice or f"{FILL}, mark padding with lengths, or forbid cells with a band mask."
        count = f"{int(bad.sum())} value(s) of {name} are NaN or infinite"
        raise NonFiniteError(f"{name}{list(at)} is {tensor[at].item()}; {count}. {advice}")


def check_variances(name: str, tensor: Tensor | None, inside: Tensor | None = None) -> None:
    """Raise `VarianceError` unless every variance inside the lengths is positive and finite."""
    if tensor is None:
        return
    bad = _exclude(~((tensor > 0) & torch.isfinite(tensor)), inside)
    if bool(bad.any()):
        at = tuple(torch.nonzero(bad)[0].tolist())
        raise VarianceError(
            f"{name}{list(at)} is {tensor[at].item()}, but a variance must be a positive finite number "
            f"({int(bad.sum())} value(s) are not). Pass variances σ² > 0, for example sigma**2 + 1e-6."
        )


def _exclude(bad: Tensor, inside: Tensor | None) -> Tensor:
    return bad if inside is None else bad & inside.reshape(*inside.shape, *[1] * (bad.ndim - inside.ndim))


def make_masks(lengths: Tensor, rows: int, columns: int, with_grid: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return masks of what is not padding: (B, N), (B, M) and, if wanted, (B, N, M)."""
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
    """Raise a named error for the first unusable value inside the lengths."""
    given = {name for name, tensor in (values | variances).items() if tensor is not None}
    matrices = bool(fields) or not given <= {"x", "y", "var_x", "var_y"}  # sequences alone need no (B, N, M) memory
    in_x, in_y, grid = make_masks(both_lengths, rows, columns, matrices)
    region = {"x": in_x, "var_x": in_x, "y": in_y, "var_y": in_y}
    for name, tensor in values.items():
        check_finite(name, tensor, region.get(name, grid))
    for name, tensor in variances.items():
        check_variances(name, tensor, region.get(name, grid))
    for number, field in enumerate(fields):
        check_finite(f"field {number}", field, grid)


def make_range_error(dtype: torch.dtype) -> RangeError:
    """Return the error for costs whose path sums overflow ``dtype``."""
    return RangeError(
        f"Costs divided by gamma or by the variance, summed along a path, do not fit {dtype}. Use float64, rescale the "
        "data (z-normalize), or choose a larger gamma."
    )
