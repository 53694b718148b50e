"""Augmented views of an image, by kornia: the settings, two presets, and the views themselves.

View k of an image depends on the seed, the name of the image and k only.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from udtw._io.training import torch_threads
from udtw.errors import OptionError, ShapeError
from udtw.images.backbones.base import needed

Pair = tuple[float, float]


@dataclass(frozen=True)
class Augmentation:
    """Settings of random augmentation, applied in this order. The defaults change nothing.

    1. Affine: rotation by up to ± ``rotation`` degrees, translation by up to ± ``translation`` of the side,
       ``scale`` (from, to), ``shear`` by up to ± degrees. Pixels from outside the image get the border's color.
    2. Crop of a share ``crop`` (from, to) of the area with an aspect in ``aspect`` (from, to), resized to the whole.
    3. Horizontal flip with probability ``flip``.
    4. With probability ``jitter``, factors 1 ± ``brightness``, ± ``contrast``, ± ``saturation`` and a shift of the hue
       by up to ± ``hue`` of the circle (at most 0.5).
    5. Gray with probability ``grey``.
    6. With probability ``blur`` a Gaussian of standard deviation ``blur_sigma`` (from, to), in pixels of an image whose
       shorter side is 224, and in proportion for other sizes.
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
"""Limits other than 0 to 1."""


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
"""A drawn character that is mirrored or cropped may be another one: "drawing" does neither, nor changes colors."""


def as_augmentation(given: "str | Augmentation | Mapping[str, Any]") -> Augmentation:
    """Return the `Augmentation` of a preset's name, of settings as JSON, or as given."""
    if isinstance(given, Augmentation):
        return given
    if isinstance(given, Mapping):
        return Augmentation.from_json(given)
    if given not in PRESETS:
        raise OptionError(f"augmentation must be one of {tuple(PRESETS)} or an Augmentation; got {given!r}.")
    return PRESETS[given]


FULL_SIZE = 224
"""Shorter side of the images that ``blur_sigma`` refers to."""


class Views:
    """``views(pixels, name, k)``: view k of the image called ``name``, (3, H, W) in [0, 1] as ``pixels`` are.

    The pixels are bit-equal in every batch, process and order.
    """

    def __init__(self, augmentation: Augmentation, seed: int = 0) -> None:
        self.augmentation, self.seed = augmentation, seed
        self._steps: dict[tuple[int, int], list[Any]] = {}

    def __call__(self, pixels: Tensor, name: str, k: int) -> Tensor:
        if pixels.ndim != 3 or len(pixels) != 3:
            raise ShapeError(f"An image must have the shape (3, H, W); got {tuple(pixels.shape)}.")
        with torch.no_grad(), _drawing_from(_seed(self.seed, name, k)):
            view = pixels[None]
            for step in self._steps_of(pixels.shape[1], pixels.shape[2]):
                view = step(view)
            return view[0].clamp(0, 1)

    def _steps_of(self, height: int, width: int) -> list[Any]:
        if (height, width) not in self._steps:
            self._steps[height, width] = _steps(self.augmentation, height, width)
        return self._steps[height, width]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_steps": {}}


def _seed(seed: int, name: str, k: int) -> int:
    digest = hashlib.sha256(json.dumps([seed, name, k]).encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)


@contextmanager
def _drawing_from(seed: int) -> Iterator[None]:
    # kornia draws from torch's global generator of the CPU. Its resizing depends on the threads in the last bit.
    with torch.random.fork_rng(devices=[]), torch_threads(1):
        torch.default_generator.manual_seed(seed)
        yield


def _steps(settings: Augmentation, height: int, width: int) -> list[Any]:
    kornia = needed("kornia.augmentation", "Views")
    neutral, s = Augmentation(), settings
    steps: list[Any] = []
    if (s.rotation, s.translation, s.scale, s.shear) != (0, 0, neutral.scale, 0):
        shift = (s.translation, s.translation)
        steps.append(_Affine(kornia.RandomAffine(s.rotation, shift, s.scale, s.shear or None, p=1.0)))
    if s.crop != neutral.crop:
        steps.append(kornia.RandomResizedCrop((height, width), s.crop, s.aspect))
    if s.flip:
        steps.append(kornia.RandomHorizontalFlip(p=s.flip))
    if s.jitter:
        steps.append(kornia.ColorJitter(s.brightness, s.contrast, s.saturation, s.hue, p=s.jitter))
    if s.grey:
        steps.append(kornia.RandomGrayscale(p=s.grey))
    if s.blur:
        low, high = (sigma * min(height, width) / FULL_SIZE for sigma in s.blur_sigma)
        size = 2 * math.ceil(3 * high) + 1
        steps.append(kornia.RandomGaussianBlur((size, size), (low, high), border_type="replicate", p=s.blur))
    return steps


class _Affine:
    """An affine map on a ground of the border's median color, so that a drawing stays on its paper."""

    def __init__(self, affine: Any) -> None:
        self.affine = affine

    def __call__(self, pixels: Tensor) -> Tensor:
        sides = [pixels[..., 0, :], pixels[..., -1, :], pixels[..., :, 0], pixels[..., :, -1]]
        ground = torch.cat(sides, dim=-1).median(dim=-1).values[..., None, None]
        return self.affine(pixels - ground) + ground
