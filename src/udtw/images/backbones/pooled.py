"""Fewer tokens: neighbours in the grid are averaged."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from udtw.errors import OptionError, ShapeError
from udtw.images.backbones.base import Backbone, TokenGrid

if TYPE_CHECKING:
    from PIL.Image import Image


class Pooled:
    """Tokens of ``backbone``, averaged to a ``grid`` (rows, columns) or grid × grid.

    Where the grid does not divide the backbone's, windows overlap by a row or column, as in adaptive average pooling.
    Attention is added up, not averaged: its sum over the image stays (a patch in several windows is shared by them).
    """

    def __init__(self, backbone: Backbone, grid: int | tuple[int, int]) -> None:
        rows, columns = (grid, grid) if isinstance(grid, int) else grid
        if rows < 1 or columns < 1:
            raise OptionError(f"A pooled grid has at least one row and one column; got {grid}.")
        self.backbone, self.grid = backbone, (int(rows), int(columns))
        self.dim, self.has_attention = backbone.dim, backbone.has_attention

    @property
    def identity(self) -> dict[str, Any]:
        return {**self.backbone.identity, "pool": list(self.grid)}

    def prepare(self, image: "Image") -> Tensor:
        return self.backbone.prepare(image)

    @torch.no_grad()
    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        fine = self.backbone(pixels, attention=attention)
        if self.grid[0] > fine.grid[0] or self.grid[1] > fine.grid[1]:
            raise ShapeError(
                f"A grid of {fine.grid[0]} × {fine.grid[1]} tokens cannot be pooled to {self.grid[0]} × "
                f"{self.grid[1]}; choose a smaller one, or larger images."
            )
        maps = fine.tokens.transpose(1, 2).unflatten(2, fine.grid)
        tokens = F.adaptive_avg_pool2d(maps, self.grid).flatten(2).transpose(1, 2).contiguous()
        pooled = None
        if fine.attention is not None:
            down, across = (_shares(*sides).to(fine.attention) for sides in zip(fine.grid, self.grid, strict=True))
            pooled = (down.T @ fine.attention.unflatten(1, fine.grid) @ across).flatten(1)
        return TokenGrid(tokens, self.grid, pooled)


def _shares(fine: int, coarse: int) -> Tensor:
    """(fine, coarse): the part of each place that goes to each window; rows sum to 1."""
    inside = (F.adaptive_avg_pool1d(torch.eye(fine), coarse) > 0).float()
    return inside / inside.sum(1, keepdim=True)
