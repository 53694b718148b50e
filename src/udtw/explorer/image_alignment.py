"""Offer images, check the settings of the image tab, and align two images."""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine.align import align
from udtw._engine.alignment import Alignment
from udtw.errors import DataError, OptionError
from udtw.explorer.control_values import AlignmentSettings, ControlValues, choice, number, whole
from udtw.explorer.uploads import MAX_IMAGE_BYTES, UPLOAD, UploadCache, decode_contents, file_name, read_image
from udtw.images import Backbone, ImageRecognizer, PatchBackbone, load_backbone
from udtw.images.datasets import make_images
from udtw.images.projection import ORDERS, token_order
from udtw.plots.image_maps import LUMA
from udtw.plots.image_match import ImageMatch

if TYPE_CHECKING:
    from PIL.Image import Image

N_IMAGES = 6
SIDE, PATCH = 112, 8
LOG_GAMMA = (-3.0, 0.0)
MAX_MATCHES, MAX_POSITION = 30, 1.0
VARIANCES = {"none": "None: σ = 1 everywhere", "contrast": "Estimated: patches without contrast are uncertain"}


@dataclass(frozen=True)
class ImageSettings(AlignmentSettings):
    """Hold the settings of the tab; ``patch`` is a position in the reading order of the left image, in percent."""

    gamma: float = 0.03
    order: str = "raster"
    position: float = 0.2
    variance: str = "contrast"
    matches: int = 12
    patch: float = 53.5

    @classmethod
    def of(cls, values: ControlValues) -> "ImageSettings":
        """Check the values of the controls."""
        return cls(
            **cls.checked(values, LOG_GAMMA),
            order=choice("The reading order", values["order"], ORDERS),
            position=number("The weight of the position", values["position"], 0, MAX_POSITION),
            variance=choice("The variance", values["variance"], VARIANCES),
            matches=whole("The number of matches", values["matches"], 0, MAX_MATCHES),
            patch=number("The patch", values["patch"], 0, 100),
        )


@dataclass(frozen=True)
class ChosenImage:
    """Hold an image, its label, and the Python code that creates it."""

    image: "Image"
    label: str
    code: str


@dataclass(frozen=True)
class ImageResult:
    """Hold both images as seen by the backbone, σ² of their tokens in reading order, and the alignment.

    ``pixels`` are (H, W, 3) in [0, 1], ``positions`` are the row-major positions of the tokens on the grid, and
    ``patch`` is the index of the framed token of the left image.
    """

    pixels: tuple[np.ndarray, np.ndarray]
    grid: tuple[int, int]
    order: str
    positions: np.ndarray
    var_x: Tensor | None
    var_y: Tensor | None
    alignment: Alignment
    coupling: np.ndarray
    patch: int

    @property
    def match(self) -> ImageMatch:
        """Return the match for the figures of `udtw.plots`."""
        return ImageMatch(*self.pixels, self.coupling, self.grid, self.grid, self.var_x, self.var_y, self.order)


class ImageChoices:
    """Offer the images of a server: generated ones and uploads."""

    def __init__(self) -> None:
        self._images = make_images(N_IMAGES)
        self.uploads: UploadCache[Image] = UploadCache()

    @property
    def sets(self) -> dict[str, str]:
        """Return the labels of all classes by name."""
        return {name: name for name in self._images.classes} | {UPLOAD: "Your own picture"}

    def items(self, name: Any) -> list[str]:
        """Return the labels of the images of a class; none for uploads."""
        name = choice("The class", name, self.sets)
        return [] if name == UPLOAD else [f"No. {i + 1}" for i in range(N_IMAGES)]

    def pick(self, name: Any, item: Any, upload: Any = None) -> ChosenImage:
        """Return image number ``item`` of class ``name``, or the upload with the key ``upload``."""
        name = choice("The class", name, self.sets)
        if name == UPLOAD:
            if upload is None:
                raise DataError("Choose an image: a PNG or JPEG file.")
            label, image = self.uploads.get(upload)
            return ChosenImage(image, label, f"PIL.Image.open({label!r})")
        number = self._images.classes.index(name) * N_IMAGES + whole("The image", item, 0, N_IMAGES - 1)
        return ChosenImage(self._image(number), self._images.names[number], f"images.image({number})")

    @lru_cache(maxsize=64)  # noqa: B019 (one object per server)
    def _image(self, number: int) -> "Image":
        return self._images.image(number)

    def upload(self, contents: Any, name: Any) -> tuple[str, str]:
        """Store an uploaded image; return its key and description."""
        shown = file_name(name)
        content = decode_contents(contents, shown, MAX_IMAGE_BYTES)
        image = read_image(content, shown)
        width, height = image.size
        if max(image.size) > 4 * SIDE:
            image.thumbnail((4 * SIDE, 4 * SIDE))  # the backbone downscales further anyway; this keeps the cache small
        return self.uploads.put(shown, content, image), f"{shown}: {width} × {height} pixels"


class TokenEncoder:
    """Compute tokens and variances of images from patches of pixels, or with a trained model."""

    def __init__(self, model: str | os.PathLike | None = None, backbone: str | None = None) -> None:
        if (model is None) != (backbone is None):
            raise OptionError("Pass both a model and its backbone, or neither.")
        self.model_name = None if model is None else Path(model).name
        self.backbone_name = backbone
        self._recognizer: ImageRecognizer | None = None
        self._backbone: Backbone | None = None
        if model is not None and backbone is not None:
            self._recognizer, self._backbone = ImageRecognizer.load(Path(model)), load_backbone(backbone)
            if self._recognizer.backbone != self._backbone.identity:
                raise OptionError(
                    f"{self.model_name} was trained on tokens of {self._recognizer.backbone}, not {backbone}."
                )

    def align(self, x: ChosenImage, y: ChosenImage, settings: ImageSettings) -> ImageResult:
        """Align the tokens of two images."""
        backbone = self._backbone or PatchBackbone(SIDE, PATCH, position=settings.position)
        pixels = [backbone.prepare(one.image) for one in (x, y)]
        seen = [backbone(one[None]) for one in pixels]
        grid = seen[0].grid
        positions = token_order(settings.order, grid)
        tokens = [one.tokens[0][positions] for one in seen]
        variances: list[Tensor | None] = [None, None]
        if self._recognizer is not None:
            encoded = self._recognizer.encode(torch.stack(tokens))
            tokens = list(encoded.features)
            if encoded.variance is not None:
                variances = list(encoded.variance)
        elif settings.variance == "contrast":
            variances = list(contrast_variance(pixels, grid)[:, positions])
        alignment = align(tokens[0], tokens[1], *variances, weighting="precision", **settings.options)
        left, right = (one.permute(1, 2, 0).numpy() for one in pixels)
        return ImageResult(
            pixels=(left, right),
            grid=grid,
            order=settings.order,
            positions=positions,
            var_x=variances[0],
            var_y=variances[1],
            alignment=alignment,
            coupling=alignment.coupling.numpy(),
            patch=round(settings.patch / 100 * (len(positions) - 1)),
        )


def contrast_variance(pixels: list[Tensor], grid: tuple[int, int]) -> Tensor:
    """Estimate σ² (2, h·w) of each patch: σ = ½ + 1.5·exp(−c / mean c), c the standard deviation of its gray values."""
    rows, columns = grid
    gray = torch.einsum("c,bchw->bhw", torch.tensor(LUMA), torch.stack(pixels))
    patches = gray.unflatten(1, (rows, -1)).unflatten(3, (columns, -1)).transpose(2, 3)
    contrast = patches.flatten(3).std(3, correction=0).flatten(1)
    return (0.5 + 1.5 * torch.exp(-contrast / contrast.mean().clamp_min(1e-6))).square()
