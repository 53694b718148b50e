"""Images with clutter: on a foreign background, or with a foreign picture pasted over a part of them.

Their masks tell which tokens belong to the image itself.
"""

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.nn.functional import adaptive_avg_pool2d

from udtw.errors import DataError, OptionError
from udtw.images.backbones.pixels import Framing
from udtw.images.datasets.image_set import ImageSet, Reader
from udtw.images.datasets.safe_images import decode, import_pillow
from udtw.images.datasets.synthetic import shape_mask
from udtw.images.projection import token_order
from udtw.images.recognizer import ImageRecognizer
from udtw.images.reverse_attention import BATCH, RankCorrelation, rank_correlations, summary
from udtw.images.tokens import TokenSet

if TYPE_CHECKING:
    from PIL.Image import Image

Pair = tuple[float, float]


@dataclass(frozen=True)
class Clutter:
    """Clutter in a share of the images: half of them shrunk onto a foreign picture, half partly covered by one.

    Parameters
    ----------
    share : float
        Share of the images that get clutter; the others keep their content.
    shrink : (from, to)
        Side of the image on a foreign background, as a share of the whole.
    patch : (from, to)
        Side of the picture that is pasted over an image, as a share of the whole.
    size : int
        Side in pixels of the square images that are returned.

    Examples
    --------
    >>> from experiments.clutter_images import Clutter
    >>> from udtw.images.datasets import make_images, shape_mask
    >>> images = make_images(n_images=2)
    >>> cluttered = Clutter(size=64).of(images, foreign=make_images(2, seed=1), seed=0)
    >>> cluttered.image(0).size, bool(0 < shape_mask(cluttered, 0).mean() < 1)
    ((64, 64), True)
    """

    share: float = 1.0
    shrink: Pair = (0.5, 0.7)
    patch: Pair = (0.5, 0.7)
    size: int = 160

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise OptionError(f"share must lie in [0, 1]; got {self.share}.")
        for name, (low, high) in (("shrink", self.shrink), ("patch", self.patch)):
            if not 0 < low <= high < 1:
                raise OptionError(f"{name} must be (from, to) with 0 < from ≤ to < 1; got {(low, high)}.")
        if self.size < 16:
            raise OptionError(f"size must be at least 16 pixels; got {self.size}.")

    def of(self, images: ImageSet, foreign: ImageSet, seed: int = 0) -> ImageSet:
        """Put clutter from pictures of ``foreign`` into the images.

        An image depends on the seed and its name only.
        """
        if not len(foreign):
            raise DataError(f"{foreign.name} has no images to take clutter from.")
        reader = Cluttered(self, images.reader, foreign, seed)
        return ImageSet(images.name, images.classes, images.labels, images.names, images.splits, reader, images.notes)


class Cluttered:
    """Reads images of another reader with clutter, as PNG files."""

    def __init__(self, settings: Clutter, reader: Reader, foreign: ImageSet, seed: int) -> None:
        self.settings, self.reader, self.foreign, self.seed = settings, reader, foreign, seed

    def read(self, name: str) -> bytes:
        buffer = io.BytesIO()
        self.image(name).save(buffer, "PNG")
        return buffer.getvalue()

    def image(self, name: str) -> "Image":
        """Return the image itself, without encoding it."""
        return self._made(name)[0]

    def made_from(self, name: str) -> bytes:
        """Return the bytes of both files, and how they are joined."""
        about = json.dumps([self.seed, name, asdict(self.settings)]).encode()
        return about + self.reader.read(name) + self.foreign.read(self._drawn(name)[1])

    def place(self, name: str) -> str:
        return self.reader.place(name)

    def mask(self, name: str) -> np.ndarray:
        """Return the mask (size, size) of the pixels that are not clutter."""
        return self._made(name)[1]

    def _drawn(self, name: str) -> tuple[np.random.Generator, int]:
        """Draw the random numbers of an image, and the foreign picture that the first of them chooses."""
        digest = hashlib.sha256(json.dumps([self.seed, name]).encode()).digest()
        rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        return rng, int(rng.integers(len(self.foreign)))

    def _made(self, name: str) -> tuple[Any, np.ndarray]:
        s = self.settings
        rng, which = self._drawn(name)
        drawn, covered = rng.random() < s.share, rng.random() < 0.5
        own = _square(decode(self.reader.read(name), self.reader.place(name)))
        side = round(s.size * rng.uniform(*(s.patch if covered else s.shrink)))
        left, top = (int(place) for place in rng.integers(0, s.size - side + 1, 2))
        mask = np.ones((s.size, s.size), dtype=bool)
        if not drawn:
            return _resized(own, s.size), mask
        other = _square(self.foreign.image(which))
        other = _resized(other, min(other.width, own.width))  # never sharper than the image itself
        below, above = (own, other) if covered else (other, own)
        made = _resized(below, s.size)
        made.paste(_resized(above, side), (left, top))
        mask[top : top + side, left : left + side] = False
        return made, mask if covered else ~mask


def _square(image: "Image") -> "Image":
    """Return the middle square in color."""
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return image.convert("RGB").crop((left, top, left + side, top + side))


def _resized(image: "Image", side: int) -> "Image":
    return image.resize((side, side), import_pillow().Resampling.BICUBIC)


def foreground(tokens: TokenSet, images: ImageSet) -> np.ndarray:
    """Return the share of each token's cell that belongs to the shape, or is not clutter, (n, h·w), row by row.

    ``images``, found by name, are generated ones or those of `Clutter`.
    """
    place = {name: i for i, name in enumerate(images.names)}
    used = tokens.identity["backbone"].get("framing")
    framing = used and Framing(tuple(used["resize"]), tuple(used["crop"]), used["fit"], used["resample"])
    found = []
    for name in tokens.names:
        mask = import_pillow().fromarray(255 * shape_mask(images, place[name]).astype(np.uint8))
        pixels = framing(mask)[:1] if framing else torch.from_numpy(np.array(mask) / 255)[None]
        found.append(adaptive_avg_pool2d(pixels[None].double(), tokens.grid).flatten().numpy())
    return np.stack(found)


def foreground_correlation(recognizer: ImageRecognizer, tokens: TokenSet, images: ImageSet) -> RankCorrelation:
    """Measure the rank correlation of a model's uncertainty with the `foreground`."""
    masks = foreground(tokens, images)[:, token_order(recognizer.recipe.order, tokens.grid)]
    source, found = recognizer.source(tokens), []
    for start in range(0, len(tokens), BATCH):
        chosen = np.arange(start, min(start + BATCH, len(tokens)))
        found.append(rank_correlations(recognizer.encode(source.batch(chosen)).variance, masks[chosen]))
    return summary(np.concatenate(found))
