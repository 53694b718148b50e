"""Blocks as pictures: what Matching and Prototypical Networks saw in the paper."""

import itertools

import torch
from torch import Tensor, nn

from udtw.errors import ShapeError
from udtw.fewshot.tokens import Tokens


def render(blocks: Tensor, coordinates: int, size: int = 224) -> Tensor:
    """(n, 3, size, size) colour images of blocks (n, J, M·C): joints down, frames across, x, y, z as red, green, blue.

    Each block's values are spread over [0, 1]; without a third coordinate blue is 0. Enlarged bilinearly.
    """
    if blocks.ndim != 3 or blocks.shape[2] % coordinates:
        raise ShapeError(f"Blocks must have shape (n, J, M·{coordinates}); got {tuple(blocks.shape)}.")
    image = blocks.unflatten(2, (-1, coordinates)).permute(0, 3, 1, 2)
    low, high = image.amin((1, 2, 3), keepdim=True), image.amax((1, 2, 3), keepdim=True)
    image = (image - low) / (high - low).clamp_min(1e-6)
    image = nn.functional.pad(image, (0, 0, 0, 0, 0, 3 - coordinates))
    return nn.functional.interpolate(image, (size, size), mode="bilinear", align_corners=True)


class RenderedEncoder(nn.Module):
    """A small convolutional net on the picture of every block; one token a block. It knows nothing of the skeleton.

    Takes the batches of `SkeletonEncoder`. Four convolutions, the first 8×8 with stride 4, the others 3×3 with stride
    2, each with group normalisation and ReLU; mean over the picture; FC to ``dim``. Two people: their mean.
    """

    def __init__(self, coordinates: int = 3, *, dim: int = 64, width: int = 16, image_size: int = 224) -> None:
        super().__init__()
        self.dim, self.coordinates, self.image_size = dim, coordinates, image_size
        sizes = [3, width, 2 * width, 4 * width, 4 * width]
        layers: list[nn.Module] = []
        for number, (before, after) in enumerate(itertools.pairwise(sizes)):
            kernel, stride = (8, 4) if number == 0 else (3, 2)
            layers += [
                nn.Conv2d(before, after, kernel, stride, padding=kernel // 2 if number else 2),
                nn.GroupNorm(4, after),
                nn.ReLU(),
            ]
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[-1], dim))

    def forward(self, batch: tuple[Tensor, Tensor, Tensor]) -> Tokens:
        blocks, lengths, people = batch
        inside = torch.arange(blocks.shape[1], device=blocks.device) < lengths[:, None]
        used = inside[:, :, None] & people[:, None, :]
        tokens = self.net(render(blocks[used], self.coordinates, self.image_size))
        every = tokens.new_zeros(*used.shape, self.dim)
        every[used] = tokens
        return Tokens(every.sum(2) / people.sum(1).to(every.dtype)[:, None, None], lengths)
