"""What every backbone offers: an image in, a grid of tokens out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from torch import Tensor

from udtw.errors import ShapeError

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class TokenGrid:
    """``tokens`` (B, h·w, D), row by row of a ``grid`` (h, w).

    ``attention`` (B, h·w), where the backbone has one and it was asked for: how much of the class token's attention in
    the last layer each patch gets, the mean over heads.
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
        """The places of a feature map (B, D, h, w) as tokens."""
        return cls(maps.flatten(2).transpose(1, 2).contiguous(), (maps.shape[2], maps.shape[3]))


class Backbone(Protocol):
    """A frozen network from images to tokens. ``backbone(backbone.prepare(image)[None])`` is a `TokenGrid`.

    Between the two steps an image is a tensor of numbers in [0, 1], so that augmentation has its place there.
    """

    dim: int
    """Features D of a token."""

    has_attention: bool

    @property
    def identity(self) -> dict[str, Any]:
        """All that the tokens depend on, as JSON values: model, revision or checksum, layer, preprocessing."""

    def prepare(self, image: "Image") -> Tensor:
        """(3, H, W) float32 in [0, 1]: colour, resized and cropped as the model wants it, not yet normalised."""

    def __call__(self, pixels: Tensor, *, attention: bool = False) -> TokenGrid:
        """Tokens of ``pixels`` (B, 3, H, W) in [0, 1], without gradients."""
