"""Steps with missing values (NaN), left out of a pair of sequences before it is aligned."""

from typing import Any

import torch
from torch import Tensor

from udtw._engine import inputs
from udtw._engine.series_set import NAN_POLICIES
from udtw.errors import LengthError, OptionError


def check_policy(nan_policy: str, *ready_made: Any) -> None:
    """Raise unless ``nan_policy`` is known, and sequences are given where steps are to be left out."""
    if nan_policy not in NAN_POLICIES:
        raise OptionError(f"nan_policy must be one of {NAN_POLICIES}; got {nan_policy!r}.")
    if nan_policy == "omit" and any(one is not None for one in ready_made):
        raise OptionError(
            "nan_policy='omit' leaves out steps of x and y, which a ready-made cost or a joint variance does not have. "
            "Leave out its rows and columns yourself, or use a band mask."
        )


def without_missing(side: str, series: Any, variances: Any, lengths: Any) -> tuple[Any, Any, Any]:
    """Return a sequence, its variances and its lengths without the steps that hold NaN; ``side`` is "x" or "y".

    What has no NaN is returned as it is. Gradients pass to the steps that stay.
    """
    tensor, single = inputs.sequence(side, series)
    count, padded, dim = tensor.shape
    steps = inputs.lengths(f"lengths_{side}", lengths, count, padded, tensor.device)
    inside = torch.arange(padded, device=tensor.device) < steps[:, None]
    keep = ~tensor.detach().isnan().any(2) & inside
    if bool((keep == inside).all()):
        return series, variances, lengths
    kept = keep.sum(1)
    if not bool(kept.all()):
        raise LengthError(
            f"{side}[{int(torch.argmin(kept))}] has a missing value in every step, so that nan_policy='omit' leaves "
            "none."
        )
    # The steps that stay come first, in their order.
    order = torch.argsort((~keep).long(), dim=1, stable=True)[:, : int(kept.max())]
    real = torch.arange(order.shape[1], device=tensor.device) < kept[:, None]

    def chosen(values: Tensor, padding: float) -> Tensor:
        values = values.expand(count, *values.shape[1:])
        index, mask = (one if values.ndim == 2 else one[..., None] for one in (order, real))
        return torch.where(mask, values.gather(1, index.expand(-1, -1, *values.shape[2:])), padding)

    def given(values: Tensor, like: Any) -> Any:
        values = values[0] if single else values
        return values if isinstance(like, Tensor) else values.numpy()

    if variances is not None and not isinstance(variances, str):
        own = inputs.step_variance(f"var_{side}", variances, padded, dim, single)
        assert own is not None, "variances are given"
        variances = given(chosen(own, 1.0), variances)
    return given(chosen(tensor, 0.0), series), variances, None if single else kept
