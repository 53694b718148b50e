"""Values of the controls as the browser sends them, checked against limits and the lists of the server."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from udtw.errors import OptionError

ControlValues = Mapping[str, Any]
"""Values of the controls of a tab by their short names, not checked yet."""

Property = tuple[str, str]
"""The id of a component of the page, and one of its properties."""

MAX_BETA = 5.0
THEMES = ("light", "dark")


def read_values(request: Any, controls: Mapping[str, Property]) -> dict[str, Any]:
    """Values by short name from what the browser put into the store of a tab."""
    values = request.get("values") if isinstance(request, dict) else None
    if not isinstance(values, dict):
        raise OptionError("The page sent no settings. Reload the page.")
    missing = [name for name, (component, prop) in controls.items() if f"{component}.{prop}" not in values]
    if missing:
        raise OptionError(f"The page did not send {', '.join(missing)}. Reload the page.")
    return {name: values[f"{component}.{prop}"] for name, (component, prop) in controls.items()}


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


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


@dataclass(frozen=True)
class AlignmentSettings:
    """Settings of `udtw.align` that all tabs have; ``band`` is a fraction of the shorter sequence, or None."""

    gamma: float = 0.1
    beta: float = 1.0
    band: float | None = None

    @staticmethod
    def checked(values: ControlValues, log_gamma: tuple[float, float]) -> dict[str, Any]:
        """The fields from controls, which give γ as a power of ten and the band in percent, 100 for none."""
        band = number("The band", values["band"], 0, 100)
        return {
            # Two digits, as the page shows it: 0.6 is the usual γ = 4.
            "gamma": float(f"{10 ** number('log10 γ', values['gamma'], *log_gamma):.2g}"),
            "beta": number("β", values["beta"], 0, MAX_BETA),
            "band": None if band == 100 else band / 100,
        }

    @property
    def options(self) -> dict[str, Any]:
        """The same as arguments of `udtw.align`."""
        return {"gamma": self.gamma, "beta": self.beta, "band": self.band}
