"""Generated images: a textured shape of a strong color somewhere on gray clutter; no file is needed.

A class is a shape with a texture. Position, size, tilt and color are random in each image, so that what distinguishes
classes moves about, and the background carries no information.
"""

import io
import re
from collections.abc import Callable

import numpy as np

from udtw.errors import DataError, OptionError
from udtw.images.datasets.image_set import ImageSet
from udtw.images.datasets.safe_images import import_pillow

NAME = "synthetic"
N_IMAGES, SIZE = 20, 96
FILE = re.compile(r"([a-z]+)-([a-z]+)/(\d{3,})\.png")

Plane = np.ndarray


def _polar(x: Plane, y: Plane) -> tuple[Plane, Plane]:
    return np.hypot(x, y), np.arctan2(y, x)


def _star(x: Plane, y: Plane) -> Plane:
    r, angle = _polar(x, y)
    return r - 0.65 - 0.35 * np.cos(5 * angle)


# Each is negative inside the shape, which fits into the circle of radius about 1, and grows like a distance.
SHAPES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "disc": lambda x, y: np.hypot(x, y) - 0.9,
    "square": lambda x, y: np.maximum(abs(x), abs(y)) - 0.75,
    "triangle": lambda x, y: np.maximum(0.87 * abs(x) + 0.5 * y, -y) - 0.5,
    "cross": lambda x, y: np.minimum(np.maximum(abs(x) - 0.3, abs(y) - 0.95), np.maximum(abs(y) - 0.3, abs(x) - 0.95)),
    "ring": lambda x, y: abs(np.hypot(x, y) - 0.7) - 0.22,
    "star": _star,
    "bar": lambda x, y: np.maximum(abs(x) - 0.98, abs(y) - 0.33),
    "moon": lambda x, y: np.maximum(np.hypot(x, y) - 0.95, 0.75 - np.hypot(x - 0.5, y)),
}
TEXTURES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "striped": lambda x, y: np.sin(11 * x) > 0,
    "checked": lambda x, y: (np.sin(8 * x) > 0) ^ (np.sin(8 * y) > 0),
    "dotted": lambda x, y: np.cos(9 * x) * np.cos(9 * y) > 0.25,
}
CLASSES = tuple(f"{shape} {texture}" for shape in SHAPES for texture in TEXTURES)
# By the label modulo 6 (two shapes with three textures each): novel classes combine known shapes and textures.
PARTS = {"train": (0, 2, 4), "val": (3,), "test": (1, 5)}


class Shapes:
    """Generates an image on demand, from the seed and its name only."""

    def __init__(self, seed: int, size: int) -> None:
        self.seed, self.size = seed, size

    def read(self, name: str) -> bytes:
        pixels, _ = self._drawn(name)
        buffer = io.BytesIO()
        import_pillow().fromarray(pixels).save(buffer, "PNG")
        return buffer.getvalue()

    def place(self, name: str) -> str:
        return f"{NAME}/{name}"

    def mask(self, name: str) -> np.ndarray:
        """Return the mask (size, size) of the shape."""
        return self._drawn(name)[1]

    def _drawn(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        match = FILE.fullmatch(name)
        if not match or match[1] not in SHAPES or match[2] not in TEXTURES:
            raise DataError(f"{name} is not an image of the generated set; they are called like disc-striped/001.png.")
        label = CLASSES.index(f"{match[1]} {match[2]}")
        rng = np.random.default_rng([self.seed, label, int(match[3])])
        background = _background(rng, self.size)
        x, y, radius = _coordinates(rng, self.size)
        # The edge is one pixel wide.
        cover = np.clip(0.5 - SHAPES[match[1]](x, y) * radius, 0, 1)
        light, dark = _colours(rng)
        shape = np.where(TEXTURES[match[2]](x, y)[..., None], light, dark)
        shape = shape + 0.03 * rng.standard_normal(shape.shape)
        mixed = background * (1 - cover[..., None]) + shape * cover[..., None]
        return (255 * np.clip(mixed, 0, 1)).round().astype(np.uint8), cover > 0.5


def make_images(n_images: int = N_IMAGES, seed: int = 0, size: int = SIZE) -> ImageSet:
    """Draw ``n_images`` images (size × size, RGB) of each of 24 classes: 12 train, 4 validate, 8 are novel.

    Eight shapes, three textures; position, size (radius 0.28 to 0.4 of the side), tilt (±0.2) and color are random.
    The same seed gives the same images, and an image does not depend on the number of images.

    >>> from udtw.images import make_images
    >>> images = make_images(n_images=5, seed=1)
    >>> images
    ImageSet('synthetic', 120 images, 24 classes: train 12, val 4, test 8)
    >>> images.image(0).size
    (96, 96)
    """
    if n_images < 1:
        raise OptionError(f"n_images must be at least 1; got {n_images}.")
    if size < 16:
        raise OptionError(f"size must be at least 16 pixels; got {size}.")
    names = [f"{one.replace(' ', '-')}/{number + 1:03d}.png" for one in CLASSES for number in range(n_images)]
    splits = {part: [label for label in range(len(CLASSES)) if label % 6 in rest] for part, rest in PARTS.items()}
    return ImageSet(NAME, CLASSES, np.repeat(np.arange(len(CLASSES)), n_images), names, splits, Shapes(seed, size))


def shape_mask(images: ImageSet, i: int) -> np.ndarray:
    """Return the mask (size, size) of the shape in image ``i`` of a generated set.

    >>> from udtw.images.datasets import make_images, shape_mask
    >>> mask = shape_mask(make_images(), 0)
    >>> mask.shape, mask.dtype
    ((96, 96), dtype('bool'))
    """
    mask = getattr(images.reader, "mask", None)
    if mask is None:
        raise OptionError(f"Only generated images have masks; {images.name} is read from files.")
    return mask(images.names[i])


def _coordinates(rng: np.random.Generator, size: int) -> tuple[Plane, Plane, float]:
    """Return coordinates (size, size) in which the shape has radius 1 around the origin, and the radius in pixels."""
    radius = size * rng.uniform(0.28, 0.4)
    middle_x, middle_y = rng.uniform(radius, size - radius, 2)
    tilt = rng.uniform(-0.2, 0.2)
    rows, columns = np.mgrid[:size, :size] + 0.5
    dx, dy = (columns - middle_x) / radius, (rows - middle_y) / radius
    return dx * np.cos(tilt) + dy * np.sin(tilt), dy * np.cos(tilt) - dx * np.sin(tilt), radius


def _colours(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw a light and a dark shade of a strong color."""
    hue = rng.uniform(0, 2 * np.pi)
    colour = 0.5 + 0.5 * np.cos(hue + 2 * np.pi / 3 * np.arange(3))
    return 0.35 + 0.65 * colour, 0.45 * colour


def _background(rng: np.random.Generator, size: int) -> np.ndarray:
    """Draw a background (size, size, 3): gray that changes slowly, about a dozen faint strokes, and noise."""
    rows, columns = np.mgrid[:size, :size] / size
    grey = np.full((size, size), rng.uniform(0.4, 0.6))
    for _ in range(3):
        fx, fy, phase = rng.uniform(-1.5, 1.5), rng.uniform(-1.5, 1.5), rng.uniform(0, 2 * np.pi)
        grey += 0.05 * np.sin(2 * np.pi * (fx * columns + fy * rows) + phase)
    for _ in range(int(rng.integers(8, 16))):
        x, y, angle = rng.uniform(0, 1), rng.uniform(0, 1), rng.uniform(0, np.pi)
        along = (columns - x) * np.cos(angle) + (rows - y) * np.sin(angle)
        across = (rows - y) * np.cos(angle) - (columns - x) * np.sin(angle)
        stroke = np.exp(-((along / rng.uniform(0.04, 0.12)) ** 2) - (across / rng.uniform(0.01, 0.025)) ** 2)
        grey += rng.choice([-1, 1]) * rng.uniform(0.1, 0.25) * stroke
    tint = 0.02 * rng.standard_normal(3)
    return grey[..., None] + tint + 0.05 * rng.standard_normal((size, size, 3))
