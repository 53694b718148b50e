"""Tokens without a network: patches of pixels with a code of their position, and dense SIFT."""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from udtw.errors import OptionError, ShapeError
from udtw.images.backbones.base import TokenGrid, needed
from udtw.images.backbones.pixels import Framed, check_pixels, square_framing

LUMA = (0.299, 0.587, 0.114)


class PatchBackbone(Framed):
    """Normalized patches of pixels, followed by a code of their position, as tokens; no network and no weights.

    A patch p of C·patch² numbers becomes (p − mean p) / √(var p + floor²) / √(C·patch²): a patch with contrast has a
    norm just under 1, a constant one is 0, and contrast below ``floor`` is not amplified. The code of the position is
    sin and cos of 2ᵏ·π·r and 2ᵏ·π·c for k < ``frequencies``, with r and c the row and column of the patch in (0, 1).

    Parameters
    ----------
    image_size : int
        Side of the square images, in pixels.
    patch : int
        Side of a patch.
    stride : int, optional
        Distance of neighboring patches, by default ``patch``.
    colour : bool
        False: only the gray value is used.
    position : float
        Norm of the code of the position; 0: no code.
    frequencies : int
    floor : float
        In units of white.

    Examples
    --------
    >>> from PIL import Image
    >>> from udtw.images import PatchBackbone
    >>> backbone = PatchBackbone(image_size=64, patch=16)
    >>> pixels = backbone.prepare(Image.new("RGB", (100, 80)))
    >>> pixels.shape
    torch.Size([3, 64, 64])
    >>> found = backbone(pixels[None])
    >>> found.tokens.shape, found.grid  # 3·16² numbers of a patch, 12 of its position
    (torch.Size([1, 16, 780]), (4, 4))
    """

    def __init__(
        self,
        image_size: int = 224,
        patch: int = 16,
        *,
        stride: int | None = None,
        colour: bool = True,
        position: float = 0.5,
        frequencies: int = 3,
        floor: float = 0.05,
    ) -> None:
        stride = patch if stride is None else stride
        if not 1 <= patch <= image_size or stride < 1:
            raise OptionError(
                f"patch must lie between 1 and image_size, stride be at least 1; "
                f"got patch={patch}, stride={stride}, image_size={image_size}."
            )
        if (image_size - patch) % stride:
            raise OptionError(
                f"Patches of {patch} pixels, one every {stride}, do not fill {image_size} pixels; choose image_size = "
                f"{patch} + a multiple of {stride}."
            )
        if not (0 <= position < math.inf) or frequencies < 1 or not (0 < floor < math.inf):
            raise OptionError(
                f"position must be at least 0, frequencies at least 1, floor positive; "
                f"got position={position}, frequencies={frequencies}, floor={floor}."
            )
        self.framing = square_framing(image_size, resample="bilinear")
        self.patch, self.stride, self.colour = patch, stride, colour
        self.position, self.frequencies, self.floor = float(position), frequencies, float(floor)
        self.pixels_per_patch = patch * patch * (3 if colour else 1)
        self.dim = self.pixels_per_patch + (4 * frequencies if position else 0)

    @property
    def identity(self) -> dict[str, Any]:
        return {
            "backbone": "patches",
            "patch": self.patch,
            "stride": self.stride,
            "colour": self.colour,
            "position": self.position,
            "frequencies": self.frequencies,
            "floor": self.floor,
            "framing": self.framing.identity,
        }

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        pixels = pixels.float()
        if not self.colour:
            pixels = (pixels * pixels.new_tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True)
        rows, columns = ((side - self.patch) // self.stride + 1 for side in pixels.shape[2:])
        if rows < 1 or columns < 1:
            raise ShapeError(f"Pixels {tuple(pixels.shape[2:])} are less than one patch of {self.patch}.")
        patches = F.unfold(pixels, self.patch, stride=self.stride).transpose(1, 2)
        centered = patches - patches.mean(2, keepdim=True)
        scale = (centered.square().mean(2, keepdim=True) + self.floor**2).sqrt()
        tokens = centered / (scale * math.sqrt(self.pixels_per_patch))
        if self.position:
            code = position_code(rows, columns, self.frequencies).to(tokens) * self.position
            tokens = torch.cat([tokens, code.expand(len(tokens), -1, -1)], 2)
        return TokenGrid(tokens, (rows, columns))


def position_code(rows: int, columns: int, frequencies: int) -> Tensor:
    """Return the codes of positions, (rows·columns, 4·frequencies), each row of norm 1."""
    octaves = math.pi * 2.0 ** torch.arange(frequencies, dtype=torch.float64)

    def waves(n: int) -> Tensor:
        angles = ((torch.arange(n, dtype=torch.float64) + 0.5) / n)[:, None] * octaves
        return torch.cat([angles.sin(), angles.cos()], 1)

    down, across = waves(rows), waves(columns)
    code = torch.cat([down[:, None].expand(-1, columns, -1), across[None].expand(rows, -1, -1)], 2)
    return (code / math.sqrt(2 * frequencies)).flatten(0, 1).float()


ANGLES = 8


class SiftBackbone(Framed):
    """Dense (root-)SIFT descriptors of the gray image, one every ``stride`` pixels, as tokens of norm 1.

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

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        check_pixels(pixels)
        grey = (pixels.float() * pixels.new_tensor(LUMA).view(3, 1, 1)).sum(1, keepdim=True)
        return TokenGrid.of_map(self._descriptor(grey))
