"""Turn the tokens of a frozen backbone into the sequence that is compared: order of the grid, and a linear map."""

import math

import numpy as np
import torch
from torch import Tensor, nn

from udtw.errors import OptionError, ShapeError
from udtw.fewshot.tokens import Tokens

ORDERS = ("raster", "snake", "hilbert", "set", "grid")


def token_order(name: str, grid: tuple[int, int]) -> np.ndarray:
    """Return the positions (h·w,), numbered row by row, in the order in which they are read.

    - "raster": row by row;
    - "snake": every other row backwards, so that neighbors in the sequence are neighbors in the image;
    - "hilbert": along the Hilbert curve of the enclosing power of two, without the cells outside the grid. Pieces of
      the sequence are compact regions of the image;
    - "set", "grid", "auto": row by row, for comparators in which the tokens may have no order.

    >>> from udtw.images.projection import token_order
    >>> token_order("snake", (2, 3))
    array([0, 1, 2, 5, 4, 3])
    """
    if name not in (*ORDERS, "auto"):
        raise OptionError(f"order must be one of {ORDERS}; got {name!r}.")
    height, width = grid
    positions = np.arange(height * width).reshape(height, width)
    if name == "snake":
        positions[1::2] = positions[1::2, ::-1]
    if name != "hilbert":
        return positions.ravel()
    rows, columns = np.divmod(positions.ravel(), width)
    return np.argsort(hilbert_index(rows, columns, max(1, (max(grid) - 1).bit_length())))


def hilbert_index(rows: np.ndarray, columns: np.ndarray, levels: int) -> np.ndarray:
    """Return the position of each cell along the Hilbert curve of a 2ˡ × 2ˡ grid."""
    rows, columns = rows.copy(), columns.copy()
    along = np.zeros_like(rows)
    for level in reversed(range(levels)):
        half = 1 << level
        below, right = (rows & half) > 0, (columns & half) > 0
        along += half * half * ((3 * right) ^ below)
        # Turn the quadrant so that the curve in it is the curve of the whole.
        flip = ~below & right
        rows = np.where(flip, half - 1 - (rows & (half - 1)), rows)
        columns = np.where(flip, half - 1 - (columns & (half - 1)), columns)
        rows, columns = np.where(below, rows, columns), np.where(below, columns, rows)
    return along


STARTS = ("orthogonal", "principal")


class TokenProjection(nn.Module):
    """``z = W·(x − mean)/scale``, then zero mean and ``‖z‖² = 1`` (LayerNorm without weights, divided by √d').

    ``W`` (d', D) has no bias and is learned. Mean and scale of each feature are those of training tokens, set by
    `standardize`: deep features differ by orders of magnitude, and the largest would dominate. Squared distances of
    unit tokens lie between 0 and 4 for every backbone, so that the targets δ = 0 and 1 can be reached.

    Parameters
    ----------
    inputs : int
        Features D of the backbone's tokens.
    dim : int
        d'; 0: no map, the standardized tokens themselves are compared (and nothing is learned here).
    start : "orthogonal" or "principal"
        W before training: random orthonormal rows, or the principal directions of the training tokens.
    unit_tokens : bool
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, inputs: int, dim: int = 256, *, start: str = "orthogonal", unit_tokens: bool = True) -> None:
        super().__init__()
        if start not in STARTS:
            raise OptionError(f"start must be one of {STARTS}; got {start!r}.")
        if not 0 <= dim <= inputs:
            raise OptionError(f"A projection of {inputs} features has 0 to {inputs} of its own; got dim={dim}.")
        self.inputs, self.dim, self.start, self.unit_tokens = inputs, dim or inputs, start, unit_tokens
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("scale", torch.ones(inputs))
        self.map = nn.Linear(inputs, dim, bias=False) if dim else None
        if self.map is not None:
            nn.init.orthogonal_(self.map.weight)

    @torch.no_grad()
    def standardize(self, tokens: Tensor) -> None:
        """Set mean, scale and, with ``start="principal"``, the directions from ``tokens`` (B, T, D), without labels."""
        flat = tokens.flatten(0, 1).double()
        self.mean.copy_(flat.mean(0))
        # Constant features carry no information; dividing by their standard deviation would only add noise.
        deviation = flat.std(0, correction=0)
        self.scale.copy_(torch.where(deviation > 1e-6 * deviation.max().clamp_min(1e-12), deviation, torch.inf))
        if self.map is not None and self.start == "principal":
            centered = torch.nan_to_num((flat - self.mean) / self.scale)
            _, directions = torch.linalg.eigh(centered.T @ centered / len(centered))
            self.map.weight.copy_(directions.T.flip(0)[: len(self.map.weight)])

    def forward(self, tokens: Tensor) -> Tokens:
        """Map ``tokens`` (B, T, D) to `Tokens` of d' features."""
        if tokens.ndim != 3 or tokens.shape[2] != self.inputs:
            raise ShapeError(f"The projection expects tokens (B, T, {self.inputs}); got {tuple(tokens.shape)}.")
        features = (tokens - self.mean) / self.scale
        if self.map is not None:
            features = self.map(features)
        if self.unit_tokens:
            features = nn.functional.layer_norm(features, features.shape[-1:]) / math.sqrt(self.dim)
        return Tokens(features, torch.full((len(tokens),), tokens.shape[1], device=tokens.device))
