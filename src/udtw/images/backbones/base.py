"""The interface of backbones, from an image to a grid of tokens, and what they share."""

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

from udtw.errors import OptionError, ShapeError

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class TokenGrid:
    """Tokens of a batch of images, as a `Backbone` returns them.

    Parameters
    ----------
    tokens : Tensor (B, h·w, D)
        Row by row of the grid.
    grid : (h, w)
    attention : Tensor (B, h·w), optional
        The share of the class token's attention in the last layer that each patch gets, the mean over heads; only from
        backbones that have attention, and on request.

    Examples
    --------
    >>> import torch
    >>> from udtw.images import TokenGrid
    >>> TokenGrid(torch.zeros(8, 6, 384), grid=(2, 3)).tokens.shape
    torch.Size([8, 6, 384])
    """

    tokens: Tensor
    grid: tuple[int, int]
    attention: Tensor | None = None

    def __post_init__(self) -> None:
        if self.tokens.ndim != 3 or self.tokens.shape[1] != self.grid[0] * self.grid[1]:
            raise ShapeError(
                f"A grid of {self.grid[0]} × {self.grid[1]} needs tokens (B, {self.grid[0] * self.grid[1]}, D); "
                f"got {tuple(self.tokens.shape)}."
            )
        if self.attention is not None and self.attention.shape != self.tokens.shape[:2]:
            raise ShapeError(
                f"Attention must have the shape {tuple(self.tokens.shape[:2])}; got {tuple(self.attention.shape)}."
            )

    @classmethod
    def of_map(cls, maps: Tensor) -> "TokenGrid":
        """Return the positions of a feature map (B, D, h, w) as tokens."""
        return cls(maps.flatten(2).transpose(1, 2).contiguous(), (maps.shape[2], maps.shape[3]))


class Backbone(Protocol):
    """A frozen network from images to tokens: ``backbone(backbone.prepare(image)[None])`` is a `TokenGrid`.

    Between the two steps an image is a tensor of numbers in [0, 1], to which augmentation can be applied.

    Examples
    --------
    Any class with these four names is a backbone. This one averages the colors of quarters of the image:

    >>> import numpy as np
    >>> import torch
    >>> from PIL import Image
    >>> from udtw.images import TokenGrid
    >>> class Quarters:
    ...     dim, has_attention, identity = 3, False, {"backbone": "quarters"}
    ...     def prepare(self, image):
    ...         pixels = np.array(image.convert("RGB").resize((32, 32)))
    ...         return torch.from_numpy(pixels).permute(2, 0, 1) / 255
    ...     def __call__(self, pixels, *, attention=False):
    ...         return TokenGrid.of_map(torch.nn.functional.avg_pool2d(pixels, 16))
    >>> backbone = Quarters()
    >>> pixels = backbone.prepare(Image.new("RGB", (100, 80), "red"))
    >>> backbone(pixels[None]).tokens[0, 0]
    tensor([1., 0., 0.])
    """

    dim: int
    """Number D of features of a token."""

    has_attention: bool

    @property
    def identity(self) -> dict[str, Any]:
        """All that the tokens depend on, as JSON values: model, revision or checksum, layer, preprocessing."""

    def prepare(self, image: "Image") -> Tensor:
        """Return pixels (3, H, W), float32 in [0, 1]: color, resized and cropped for the model, not yet normalized."""

    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        """Return the tokens of ``pixels`` (B, 3, H, W) in [0, 1], without gradients."""


class Pooled:
    """Fewer tokens: those of ``backbone``, averaged to a ``grid`` (rows, columns) or grid × grid.

    Where the grid does not divide the backbone's, windows overlap by a row or column, as in adaptive average pooling.
    Attention is added up, not averaged: its sum over the image stays the same (a patch in several windows is divided
    among them).

    Examples
    --------
    >>> import torch
    >>> from udtw.images import PatchBackbone
    >>> from udtw.images.backbones import Pooled
    >>> Pooled(PatchBackbone(64, patch=16), grid=2)(torch.zeros(1, 3, 64, 64)).grid
    (2, 2)
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
    """Return the share of each position that goes to each window, (fine, coarse); rows sum to 1."""
    inside = (F.adaptive_avg_pool1d(torch.eye(fine), coarse) > 0).float()
    return inside / inside.sum(1, keepdim=True)


def needed(module: str, what: str, install: str = "udtw[images]") -> Any:
    """Import the module of that name now; raise an `ImportError` that says how to install it if it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = error.name or module.partition(".")[0]
        raise ImportError(f"{what} need the package {package}; install it with: pip install '{install}'") from error


def choices(wanted: str, names: Sequence[str], count: int = 8) -> str:
    """Return those of ``names`` most like ``wanted``, or the last ones if none is like it, for an error message."""
    if not names:
        return "there are none"
    close = difflib.get_close_matches(wanted, names, n=count, cutoff=0.4) or list(names[-count:])
    return f"some of the {len(names)} there are: {', '.join(close)}"
