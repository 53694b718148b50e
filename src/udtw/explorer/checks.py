"""What the browser sends is a claim: numbers within limits, names from the server's own lists, or a named error."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from udtw.errors import OptionError

MAX_BETA = 5.0


def number(name: str, value: Any, low: float, high: float) -> float:
    """A finite number within [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OptionError(f"{name} must be a number from {low:g} to {high:g}; got {_short(value)}.")
    if not low <= value <= high:
        raise OptionError(f"{name} must lie between {low:g} and {high:g}; got {value:g}.")
    return float(value)


def whole(name: str, value: Any, low: int, high: int) -> int:
    """A whole number within [low, high]."""
    found = number(name, value, low, high)
    if not found.is_integer():
        raise OptionError(f"{name} must be a whole number from {low} to {high}; got {found:g}.")
    return int(found)


def choice(name: str, value: Any, choices: Collection[str]) -> str:
    """One of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(choices)}; got {_short(value)}.")
    return value


def interval(name: str, value: Any, low: float, high: float) -> tuple[float, float]:
    """Two numbers within [low, high], the smaller first."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise OptionError(f"{name} must be two numbers; got {_short(value)}.")
    first, last = (number(name, one, low, high) for one in value)
    if first > last:
        raise OptionError(f"{name} must begin before it ends; got {first:g} to {last:g}.")
    return first, last


def alignment_settings(said: Mapping[str, Any], log_gamma: tuple[float, float]) -> dict[str, Any]:
    """``gamma`` (said as a power of ten), ``beta`` and ``band`` (said in %, 100 is none), which all tabs have."""
    band = number("The band", said["band"], 0, 100)
    return {
        "gamma": 10 ** number("log10 γ", said["gamma"], *log_gamma),
        "beta": number("β", said["beta"], 0, MAX_BETA),
        "band": None if band == 100 else band / 100,
    }


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
