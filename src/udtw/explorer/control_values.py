"""Check the values of the controls as sent by the browser against limits and the lists of the server."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from udtw.errors import OptionError

ControlValues = Mapping[str, Any]
"""Unchecked values of the controls of a tab by their short names."""

Property = tuple[str, str]
"""Id of a component of the page, and one of its properties."""

MAX_BETA = 5.0
THEMES = ("light", "dark")


def read_values(request: Any, controls: Mapping[str, Property]) -> dict[str, Any]:
    """Read the values by short name from the store of a tab."""
    values = request.get("values") if isinstance(request, dict) else None
    if not isinstance(values, dict):
        raise OptionError("The page sent no settings. Reload the page.")
    missing = [name for name, (component, prop) in controls.items() if f"{component}.{prop}" not in values]
    if missing:
        raise OptionError(f"The page did not send {', '.join(missing)}. Reload the page.")
    return {name: values[f"{component}.{prop}"] for name, (component, prop) in controls.items()}


def number(name: str, value: Any, low: float, high: float) -> float:
    """Check a finite number within [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise OptionError(f"{name} must be a number from {low:g} to {high:g}; got {_short(value)}.")
    if not low <= value <= high:
        raise OptionError(f"{name} must lie between {low:g} and {high:g}; got {value:g}.")
    return float(value)


def whole(name: str, value: Any, low: int, high: int) -> int:
    """Check a whole number within [low, high]."""
    checked = number(name, value, low, high)
    if not checked.is_integer():
        raise OptionError(f"{name} must be a whole number from {low} to {high}; got {checked:g}.")
    return int(checked)


def choice(name: str, value: Any, choices: Collection[str]) -> str:
    """Check that a value is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        raise OptionError(f"{name} must be one of {', '.join(choices)}; got {_short(value)}.")
    return value


def interval(name: str, value: Any, low: float, high: float) -> tuple[float, float]:
    """Check two numbers within [low, high], the smaller first."""
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
    """Hold the settings of `udtw.align` shared by all tabs; ``band`` is a fraction of the shorter sequence, or None."""

    gamma: float = 0.1
    beta: float = 1.0
    band: float | None = None

    @staticmethod
    def checked(values: ControlValues, log_gamma: tuple[float, float]) -> dict[str, Any]:
        """Check the fields from controls, which give γ as a power of ten and the band in percent, 100 for none."""
        band = number("The band", values["band"], 0, 100)
        return {
            # Two digits, as shown on the page: 0.6 gives the default γ = 4.
            "gamma": float(f"{10 ** number('log10 γ', values['gamma'], *log_gamma):.2g}"),
            "beta": number("β", values["beta"], 0, MAX_BETA),
            "band": None if band == 100 else band / 100,
        }

    @property
    def options(self) -> dict[str, Any]:
        """Return the settings as arguments of `udtw.align`."""
        return {"gamma": self.gamma, "beta": self.beta, "band": self.band}
