"""Images and one number a token over them: what the figures of image tokens share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
from matplotlib.image import AxesImage
from numpy.typing import NDArray
from torch import Tensor

from udtw.errors import LengthError, NonFiniteError, ShapeError

# From blue (certain) to red (uncertain). The pale middle lets the image through.
MAP_COLORS = LinearSegmentedColormap.from_list("udtw.sigma_map", ["#1450A0", "#F4F1EA", "#C01024"])
OPACITY = 0.62
"""Of a map over its image."""

FADED = (0.25, 0.75)
"""Black and white of an image under a map: colours must show, on the darkest and the lightest parts too."""

LUMA = (0.299, 0.587, 0.114)
FONT, SMALL_FONT = 9, 8
FRAME_WIDTH, FRAME_COLOR = 0.5, "#999999"

Floats = NDArray[np.float64]


def as_pixels(image: Any) -> Floats:
    """(H, W, 3) in [0, 1] of a PIL image, or of an array (H, W, 3) or (H, W): whole numbers to 255, or floats to 1."""
    if hasattr(image, "convert"):
        from udtw.images.backbones.pixels import to_rgb

        image = to_rgb(image)
    array = as_array(image)
    whole = array.dtype.kind in "iu"
    pixels = array.astype(np.float64) / (255 if whole else 1)
    if pixels.ndim == 2:
        pixels = pixels[..., None].repeat(3, -1)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise ShapeError(f"An image must be a PIL image, (H, W, 3) or (H, W); got an array of {array.shape}.")
    if not np.isfinite(pixels).all():
        raise NonFiniteError("An image holds NaN or infinity.")
    return np.clip(pixels, 0, 1)


def as_array(values: Any) -> NDArray[Any]:
    return np.asarray(values.detach().cpu() if isinstance(values, Tensor) else values)


def as_maps(name: str, values: Any, grid: tuple[int, int], count: int) -> Floats:
    """(n, h, w) of ``values`` (n, h·w) row by row, or (n, h, w); finite."""
    height, width = grid
    array = as_array(values)
    if array.shape not in ((count, height * width), (count, height, width)):
        raise ShapeError(
            f"{name} must have shape ({count}, {height * width}) or ({count}, {height}, {width}), {count} image(s) of "
            f"{height} × {width} tokens; got {array.shape}."
        )
    maps = array.astype(np.float64).reshape(count, height, width)
    if not np.isfinite(maps).all():
        raise NonFiniteError(f"{name} holds NaN or infinity.")
    return maps


def check_images(images: Sequence[Any], titles: Sequence[str] | None) -> list[Floats]:
    """The pixels of all images, at least one, each with its title if there are any."""
    if len(images) == 0:
        raise LengthError("images is empty; at least one is needed.")
    if titles is not None and len(titles) != len(images):
        raise LengthError(f"titles must be one an image, {len(images)}; got {len(titles)}.")
    return [as_pixels(image) for image in images]


def without_ticks(axes: Axes) -> None:
    """A thin frame and nothing else: white paper must have an edge. At the top of its slot, next to its title."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set(linewidth=FRAME_WIDTH, color=FRAME_COLOR)
    axes.set_anchor("N")


def show_image(axes: Axes, pixels: Floats) -> AxesImage:
    """The image in its proportions; coordinates are its pixels, whole numbers at their edges."""
    without_ticks(axes)
    height, width = pixels.shape[:2]
    return axes.imshow(pixels, extent=(0, width, height, 0), interpolation="nearest" if height < 64 else "antialiased")


def show_map(
    axes: Axes, pixels: Floats, values: Floats, colors: Colormap | str, norm: Normalize, interpolation: str
) -> AxesImage:
    """``values`` (h, w) over the image, which is grey and pale beneath."""
    low, high = FADED
    show_image(axes, (low + (high - low) * (pixels @ LUMA))[..., None].repeat(3, -1))
    height, width = pixels.shape[:2]
    return axes.imshow(
        values, extent=(0, width, height, 0), cmap=colors, norm=norm, alpha=OPACITY, interpolation=interpolation
    )


def row_inches(pixels: Sequence[Floats], width: float) -> list[float]:
    """Heights of images drawn ``width`` inches wide; no taller than twice that, no flatter than half."""
    return [width * min(max(one.shape[0] / one.shape[1], 0.5), 2.0) for one in pixels]
