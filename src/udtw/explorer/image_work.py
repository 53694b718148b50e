"""Two images and settings in, everything that the second tab shows out."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from udtw.align import Alignment, align
from udtw.errors import DataError, OptionError
from udtw.explorer.checks import alignment_settings, choice, number, whole
from udtw.explorer.uploads import MAX_IMAGE_BYTES, Shelf, decode_contents, file_name, read_image
from udtw.images import Backbone, ImageRecognizer, PatchBackbone, load_backbone
from udtw.images.datasets import make_images
from udtw.images.order import ORDERS, token_order

if TYPE_CHECKING:
    from PIL.Image import Image

N_IMAGES = 6
SIDE, PATCH = 112, 8
LOG_GAMMA = (-3.0, 0.0)
MAX_MATCHES, MAX_POSITION = 30, 1.0
UPLOAD = "upload"
VARIANCES = {"none": "None: σ = 1 everywhere", "contrast": "Estimated: patches without contrast are uncertain"}
LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class ImageSettings:
    """``band``: a fraction of the tokens, or None. ``patch``: share of the left image's tokens, in reading order."""

    gamma: float = 0.03
    beta: float = 1.0
    band: float | None = None
    order: str = "raster"
    position: float = 0.2
    variance: str = "contrast"
    matches: int = 12
    patch: float = 53.5

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "ImageSettings":
        return cls(
            **alignment_settings(said, LOG_GAMMA),
            order=choice("The reading order", said["order"], ORDERS),
            position=number("The weight of the position", said["position"], 0, MAX_POSITION),
            variance=choice("The variance", said["variance"], VARIANCES),
            matches=whole("The number of matches", said["matches"], 0, MAX_MATCHES),
            patch=number("The patch", said["patch"], 0, 100),
        )


@dataclass(frozen=True)
class Picked:
    """An image, what it is called, and the Python that makes it."""

    image: "Image"
    label: str
    code: str


@dataclass(frozen=True)
class ImageResult:
    """``pixels`` (3, H, W) of both as the backbone saw them, σ of their tokens in reading order, and the alignment."""

    pixels: tuple[np.ndarray, np.ndarray]
    grid: tuple[int, int]
    order: np.ndarray
    var_x: Tensor | None
    var_y: Tensor | None
    alignment: Alignment
    coupling: np.ndarray
    entropy: float
    patch: int


class Gallery:
    """The images of a server: generated ones, and uploads."""

    def __init__(self) -> None:
        self._images = make_images(N_IMAGES)
        self.uploads: Shelf[Image] = Shelf()

    @property
    def sets(self) -> dict[str, str]:
        return {name: name for name in self._images.classes} | {UPLOAD: "Your own picture"}

    def items(self, name: Any) -> list[str]:
        name = choice("The class", name, self.sets)
        return [] if name == UPLOAD else [f"No. {i + 1}" for i in range(N_IMAGES)]

    def pick(self, name: Any, item: Any, upload: Any = None) -> Picked:
        name = choice("The class", name, self.sets)
        if name == UPLOAD:
            if upload is None:
                raise DataError("Choose a picture: a PNG or JPEG file.")
            label, image = self.uploads.get(upload)
            return Picked(image, label, f"PIL.Image.open({label!r})")
        number = self._images.classes.index(name) * N_IMAGES + whole("The image", item, 0, N_IMAGES - 1)
        return Picked(self._image(number), self._images.names[number], f"images.image({number})")

    @lru_cache(maxsize=64)  # noqa: B019 (one gallery a server)
    def _image(self, number: int) -> "Image":
        return self._images.image(number)

    def upload(self, contents: Any, name: Any) -> tuple[str, str]:
        """Key and description of an uploaded image."""
        shown = file_name(name)
        content = decode_contents(contents, shown, MAX_IMAGE_BYTES)
        image = read_image(content, shown)
        width, height = image.size
        if max(image.size) > 4 * SIDE:
            image.thumbnail((4 * SIDE, 4 * SIDE))  # the backbone sees less, and the shelf stays light
        return self.uploads.put(shown, content, image), f"{shown}: {width} × {height} pixels"


class Eye:
    """Tokens and variances of images: patches of pixels, or a trained model of the user's."""

    def __init__(self, model: str | os.PathLike | None = None, backbone: str | None = None) -> None:
        if (model is None) != (backbone is None):
            raise OptionError("A model and its backbone are needed both, or none of them.")
        self.model_name = None if model is None else Path(model).name
        self.backbone_name = backbone
        self._recognizer: ImageRecognizer | None = None
        self._backbone: Backbone | None = None
        if model is not None and backbone is not None:
            self._recognizer, self._backbone = ImageRecognizer.load(Path(model)), load_backbone(backbone)
            if self._recognizer.backbone != self._backbone.identity:
                raise OptionError(
                    f"{self.model_name} was trained on tokens of {self._recognizer.backbone}, not of {backbone}."
                )

    def look(self, x: Picked, y: Picked, settings: ImageSettings) -> ImageResult:
        """Align the tokens of two images."""
        s = settings
        backbone = self._backbone or PatchBackbone(SIDE, PATCH, position=s.position)
        pixels = [backbone.prepare(one.image) for one in (x, y)]
        seen = [backbone(one[None]) for one in pixels]
        grid = seen[0].grid
        order = token_order(s.order, grid)
        tokens = [one.tokens[0][order] for one in seen]
        variances: list[Tensor | None] = [None, None]
        if self._recognizer is not None:
            encoded = self._recognizer.encode(torch.stack(tokens))
            tokens = list(encoded.features)
            if encoded.variance is not None:
                variances = list(encoded.variance)
        elif s.variance == "contrast":
            variances = list(contrast_variance(pixels, grid)[:, order])
        found = align(tokens[0], tokens[1], *variances, gamma=s.gamma, beta=s.beta, band=s.band)
        return ImageResult(
            pixels=(pixels[0].numpy(), pixels[1].numpy()),
            grid=grid,
            order=order,
            var_x=variances[0],
            var_y=variances[1],
            alignment=found,
            coupling=found.coupling.numpy(),
            entropy=max(float(found.paths.entropy), 0.0),
            patch=round(s.patch / 100 * (len(order) - 1)),
        )


def contrast_variance(pixels: list[Tensor], grid: tuple[int, int]) -> Tensor:
    """σ² (2, h·w) by patch: σ = ½ + 1.5·exp(−c / mean c), with c the deviation of the grey values of a patch."""
    rows, columns = grid
    grey = torch.einsum("c,bchw->bhw", torch.tensor(LUMA), torch.stack(pixels))
    patches = grey.unflatten(1, (rows, -1)).unflatten(3, (columns, -1)).transpose(2, 3)
    contrast = patches.flatten(3).std(3, correction=0).flatten(1)
    return (0.5 + 1.5 * torch.exp(-contrast / contrast.mean().clamp_min(1e-6))).square()
