"""Settings of random augmentation, as JSON, and the two presets: for photographs and for drawings."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from udtw.errors import OptionError

Pair = tuple[float, float]


@dataclass(frozen=True)
class Augmentation:
    """What is done to an image, in this order. The values of the defaults change nothing.

    1. Affine: rotation by up to ± ``rotation`` degrees, translation by up to ± ``translation`` of the side,
       ``scale`` from – to, ``shear`` of up to ± degrees. What comes in from outside has the border's colour.
    2. Crop of a share ``crop`` (from, to) of the area with an aspect in ``aspect`` (from, to), resized to the whole.
    3. Horizontal flip with chance ``flip``.
    4. With chance ``jitter``, factors 1 ± ``brightness``, ± ``contrast``, ± ``saturation`` and a shift of the hue by up
       to ± ``hue`` of the circle (at most 0.5).
    5. Grey with chance ``grey``.
    6. With chance ``blur`` a Gaussian of standard deviation ``blur_sigma`` (from, to), in pixels of an image whose
       shorter side is 224, and in proportion for another.
    """

    rotation: float = 0.0
    translation: float = 0.0
    scale: Pair = (1.0, 1.0)
    shear: float = 0.0
    crop: Pair = (1.0, 1.0)
    aspect: Pair = (1.0, 1.0)
    flip: float = 0.0
    jitter: float = 0.0
    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    hue: float = 0.0
    grey: float = 0.0
    blur: float = 0.0
    blur_sigma: Pair = (0.1, 2.0)

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, tuple):
                object.__setattr__(self, field.name, _pair(field.name, value))
            else:
                object.__setattr__(self, field.name, _number(field.name, value, *LIMITS.get(field.name, (0.0, 1.0))))
        if self.crop[1] > 1:
            raise OptionError(f"crop is a share of the area, at most 1; got {self.crop}.")

    def as_json(self) -> dict[str, Any]:
        return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        known = {field.name for field in fields(cls)}
        foreign = sorted(set(values) - known)
        if foreign:
            raise OptionError(f"An augmentation has no setting {foreign[0]!r}; it has {', '.join(sorted(known))}.")
        return cls(**values)


LIMITS = {"rotation": (0.0, 180.0), "shear": (0.0, 80.0), "hue": (0.0, 0.5)}
"""Where they are not 0 to 1."""


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise OptionError(f"{name} must be a number from {low:g} to {high:g}; got {value!r}.")
    return float(value)


def _pair(name: str, value: Any) -> Pair:
    try:
        low, high = (_number(name, one, 1e-3, 1e3) for one in value)
    except (TypeError, ValueError):
        low = high = math.nan
    if not low <= high:
        raise OptionError(f"{name} must be two positive numbers (from, to); got {value!r}.")
    return low, high


PRESETS = {
    "photo": Augmentation(
        crop=(0.3, 1.0),
        aspect=(3 / 4, 4 / 3),
        flip=0.5,
        jitter=0.8,
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        grey=0.2,
        blur=0.5,
    ),
    "drawing": Augmentation(rotation=10.0, translation=0.08, scale=(0.85, 1.15), shear=10.0),
}
"""A drawn sign that is mirrored, or cut, may be another sign: "drawing" does neither, and has no colour to change."""


def as_augmentation(given: "str | Augmentation | Mapping[str, Any]") -> Augmentation:
    """A preset by name, settings as JSON, or an `Augmentation` itself."""
    if isinstance(given, Augmentation):
        return given
    if isinstance(given, Mapping):
        return Augmentation.from_json(given)
    if given not in PRESETS:
        raise OptionError(f"augmentation must be one of {tuple(PRESETS)} or an Augmentation; got {given!r}.")
    return PRESETS[given]
