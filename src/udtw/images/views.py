"""Augmented views of an image, by kornia: view k of an image is a fact of (seed, image name, k) alone."""

import hashlib
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from udtw.errors import ShapeError
from udtw.images.augmentation import Augmentation
from udtw.images.threads import torch_threads

FULL_SIZE = 224
"""Shorter side for which the blur is given."""


class Views:
    """``views(pixels, name, k)``: view k of the image called ``name``, (3, H, W) in [0, 1] as ``pixels`` are.

    The pixels are the same to the last bit whatever else was drawn before, in whichever batch, process or order.
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
    # kornia draws from torch's one generator of the CPU. Its resizing differs in the last bit with the threads.
    with torch.random.fork_rng(devices=[]), torch_threads(1):
        torch.default_generator.manual_seed(seed)
        yield


def _steps(settings: Augmentation, height: int, width: int) -> list[Any]:
    try:
        from kornia import augmentation as kornia
    except ModuleNotFoundError as error:
        raise ImportError("Views are made by kornia; install it with: pip install 'udtw[images]'") from error
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
    """An affine map over a ground of the border's colour, its median: around a drawing there is more of its paper."""

    def __init__(self, affine: Any) -> None:
        self.affine = affine

    def __call__(self, pixels: Tensor) -> Tensor:
        sides = [pixels[..., 0, :], pixels[..., -1, :], pixels[..., :, 0], pixels[..., :, -1]]
        ground = torch.cat(sides, dim=-1).median(dim=-1).values[..., None, None]
        return self.affine(pixels - ground) + ground
