"""Dense SIFT: histograms of the directions of edges around each place, without weights."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from udtw.errors import OptionError
from udtw.images.backbones.base import TokenGrid, needed
from udtw.images.backbones.patches import LUMA
from udtw.images.backbones.pixels import check_pixels, square_framing

if TYPE_CHECKING:
    from PIL.Image import Image

ANGLES = 8


class SiftBackbone:
    """Dense (root-)SIFT descriptors of the grey image, one every ``stride`` pixels, as tokens of norm 1.

    A descriptor has ``cells``² cells of ``cell`` × ``cell`` pixels with 8 directions each. It hardly changes when a
    stroke moves by a pixel, unlike a patch of pixels.

    Examples
    --------
    >>> import torch
    >>> from udtw.images.backbones import SiftBackbone
    >>> found = SiftBackbone(image_size=64)(torch.rand(1, 3, 64, 64))
    >>> found.tokens.shape, found.grid
    (torch.Size([1, 81, 72]), (9, 9))
    """

    has_attention = False

    def __init__(self, image_size: int = 64, cells: int = 3, cell: int = 8, stride: int = 6) -> None:
        if min(cells, cell, stride) < 1 or cells * cell > image_size:
            raise OptionError(
                f"cells, cell and stride must be positive and cells · cell fit into image_size; got cells={cells}, "
                f"cell={cell}, stride={stride}, image_size={image_size}."
            )
        features = needed("kornia.feature", "The tokens of dense SIFT")
        self.framing = square_framing(image_size, resample="bilinear")
        self.cells, self.cell, self.stride = cells, cell, stride
        self.dim = cells * cells * ANGLES
        self._descriptor = features.DenseSIFTDescriptor(ANGLES, cells, cell, rootsift=True, stride=stride, padding=0)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "backbone": "sift", "cells": self.cells, "cell": self.cell, "stride": self.stride,
            "framing": self.framing.identity,
        }  # fmt: skip

    def prepare(self, image: "Image") -> Tensor:
        return self.framing(image)

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        grey = (pixels.float() * pixels.new_tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True)
        return TokenGrid.of_map(self._descriptor(grey))
