"""Convert a PIL image of any mode and size to numbers in [0, 1], resized and cropped for a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from udtw.errors import DataError, OptionError, ShapeError
from udtw.images.backbones.base import needed

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
FITS = ("cover", "stretch", "contain")
# Pillow's numbers, which processor files use.
RESAMPLE = {"nearest": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}


@dataclass(frozen=True)
class Framing:
    """Resize to ``resize`` (rows, columns), then cut ``crop`` out of the center.

    ``fit`` of an image of another shape: "cover" keeps its proportions and cuts off the longer side, "stretch" changes
    its proportions, "contain" keeps them and fills the rest with black.
    """

    resize: tuple[int, int]
    crop: tuple[int, int]
    fit: str = "cover"
    resample: str = "bicubic"

    def __post_init__(self) -> None:
        if self.fit not in FITS:
            raise OptionError(f"fit must be one of {', '.join(FITS)}; got {self.fit!r}.")
        if self.resample not in RESAMPLE:
            raise OptionError(f"resample must be one of {', '.join(RESAMPLE)}; got {self.resample!r}.")
        if min(self.crop) < 1 or self.crop[0] > self.resize[0] or self.crop[1] > self.resize[1]:
            raise OptionError(
                f"The crop must be at least one pixel and fit into the resized image; "
                f"got a crop {self.crop} of {self.resize}."
            )

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "resize": list(self.resize),
            "crop": list(self.crop),
            "fit": self.fit,
            "resample": self.resample,
            "transparent": "white",
        }

    def __call__(self, image: "Image") -> Tensor:
        """Return pixels (3, *crop), float32 in [0, 1]."""
        colour = to_rgb(image)
        return _tensor(self._contained(colour) if self.fit == "contain" else self._cut(colour))

    def _cut(self, image: "Image") -> "Image":
        # Resize only the part that is kept: a strip of 1 × 10000 pixels would take a gigabyte when resized as a whole.
        width, height = image.size
        rows, columns = self.resize
        if self.fit == "cover":
            if rows * width >= columns * height:
                columns = max(columns, rows * width // height)
            else:
                rows = max(rows, columns * height // width)
        top, left = (rows - self.crop[0]) // 2, (columns - self.crop[1]) // 2
        x, y = width / columns, height / rows
        box = (left * x, top * y, min((left + self.crop[1]) * x, width), min((top + self.crop[0]) * y, height))
        return image.resize(self.crop[::-1], RESAMPLE[self.resample], box=box)

    def _contained(self, image: "Image") -> "Image":
        width, height = image.size
        scale = min(self.resize[0] / height, self.resize[1] / width)
        rows = min(self.resize[0], max(1, round(height * scale)))
        columns = min(self.resize[1], max(1, round(width * scale)))
        small = image.resize((columns, rows), RESAMPLE[self.resample])
        left, top = (columns - self.crop[1]) // 2, (rows - self.crop[0]) // 2
        # The part of a box outside the image is filled with black.
        return small.crop((left, top, left + self.crop[1], top + self.crop[0]))


class Framed:
    """Base of backbones whose images are prepared by a `Framing`, and which have no attention."""

    framing: Framing
    has_attention = False

    def prepare(self, image: "Image") -> Tensor:
        """Return pixels (3, H, W), float32 in [0, 1], not yet normalized."""
        return self.framing(image)


def square_framing(
    image_size: int, *, crop_fraction: float = 1.0, fit: str = "cover", resample: str = "bicubic"
) -> Framing:
    """Return a center crop of ``image_size``² that is ``crop_fraction`` of the resized side."""
    if isinstance(image_size, bool) or not isinstance(image_size, int) or image_size < 1:
        raise OptionError(f"image_size must be a whole number of pixels, at least 1; got {image_size!r}.")
    if not 0 < crop_fraction <= 1:
        raise OptionError(f"crop_fraction must lie in (0, 1]; got {crop_fraction}.")
    side = max(image_size, round(image_size / crop_fraction))
    return Framing((side, side), (image_size, image_size), fit, resample)


def to_rgb(image: "Image") -> "Image":
    """Convert to color of 8 bits: gray is repeated, 16 bits are scaled, transparent parts show white."""
    if 0 in image.size:
        raise DataError(f"An image of {image.size[0]} × {image.size[1]} pixels is empty.")
    if image.mode.startswith("I"):
        image = _from_16_bits(image)
    if image.mode == "F":
        raise DataError("An image of floats (mode F) has no known value of white; convert it to 8 bits first.")
    try:
        if image.has_transparency_data:
            pillow = needed("PIL.Image", "Images")
            colour = image.convert("RGBA")
            return pillow.alpha_composite(pillow.new("RGBA", image.size, "white"), colour).convert("RGB")
        return image.convert("RGB")
    except ValueError as error:
        raise DataError(f"An image of mode {image.mode} cannot be turned into color: {error}.") from error


def check_pixels(pixels: Tensor) -> None:
    if pixels.ndim != 4 or pixels.shape[1] != 3 or 0 in pixels.shape or not pixels.is_floating_point():
        raise ShapeError(
            f"A backbone takes pixels (B, 3, H, W), floats in [0, 1]; got {pixels.dtype} {tuple(pixels.shape)}."
        )


def check_mean_and_std(
    mean: float | Sequence[float], std: float | Sequence[float]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return both as three numbers, one for each of red, green and blue."""
    values = []
    for name, given in (("mean", mean), ("std", std)):
        try:
            three = np.broadcast_to(np.asarray(given, dtype=np.float64), 3)
        except (ValueError, TypeError) as error:
            raise OptionError(f"{name} must be one number or three; got {given!r}.") from error
        if not np.isfinite(three).all() or (name == "std" and (three <= 0).any()):
            raise OptionError(f"{name} must be finite{' and positive' if name == 'std' else ''}; got {given!r}.")
        values.append(tuple(float(value) for value in three))
    return values[0], values[1]


def normalize(pixels: Tensor, mean: Sequence[float], std: Sequence[float], scale: float = 1.0) -> Tensor:
    """Return (scale · pixels − mean) / std, by channel."""
    shape = (3, 1, 1)
    return (pixels * scale - pixels.new_tensor(mean).view(shape)) / pixels.new_tensor(std).view(shape)


def _from_16_bits(image: "Image") -> "Image":
    values = np.array(image.convert("I"))
    if values.min() < 0 or values.max() > 65535:
        raise DataError(
            f"An image of mode {image.mode} must hold 16-bit values; got {values.min()} to {values.max()}. "
            "Convert it to 8 bits first."
        )
    return needed("PIL.Image", "Images").fromarray(((values + 128) // 257).astype(np.uint8))


def _tensor(image: "Image") -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255).contiguous()
