"""The kinds of SigmaNet that the estimators offer by name."""

import math
from typing import Any

from udtw.errors import OptionError
from udtw.nn import SigmaNet

KINDS = ("context", "series", "step")
CONTEXT = 9
"""Steps that a network of kind "context" sees."""


def sigma_bounds(sigma_range: Any) -> tuple[float, float]:
    """The least and the greatest σ of an estimator's ``sigma_range``."""
    try:
        low, high = (float(limit) for limit in sigma_range)
    except (TypeError, ValueError):
        raise OptionError(f"sigma_range must be two numbers, least and greatest σ; got {sigma_range!r}.") from None
    if not 0 < low < high < math.inf:
        raise OptionError(f"sigma_range must satisfy 0 < low < high; got {sigma_range!r}.")
    return low, high


def starting_sigma(low: float, high: float) -> float:
    """σ = 1 where the range allows, so that training begins with the sharp soft-DTW; else its middle."""
    return 1.0 if low < 1 < high else 0.5 * (low + high)


def make_sigma(kind: Any, steps: int, dim: int, sigma_range: Any) -> SigmaNet:
    """A SigmaNet for series (steps, dim): "step" sees one step, "context" `CONTEXT` of them, "series" all."""
    if kind not in KINDS:
        raise OptionError(f"sigma must be one of {KINDS} or None; got {kind!r}.")
    low, high = sigma_bounds(sigma_range)
    extent: dict[str, Any] = {"step": {}, "context": {"context": CONTEXT}, "series": {"length": steps}}[kind]
    return SigmaNet(dim, a=high - low, b=low, start=starting_sigma(low, high), **extent)
