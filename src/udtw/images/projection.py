"""The linear map from a frozen backbone's tokens to the tokens that are compared."""

import math

import torch
from torch import Tensor, nn

from udtw.errors import OptionError, ShapeError
from udtw.fewshot.tokens import Tokens

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
        d'; 0: no map, the standardised tokens themselves are compared (and nothing is learned here).
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
            centred = torch.nan_to_num((flat - self.mean) / self.scale)
            _, directions = torch.linalg.eigh(centred.T @ centred / len(centred))
            self.map.weight.copy_(directions.T.flip(0)[: len(self.map.weight)])

    def forward(self, tokens: Tensor) -> Tokens:
        """``tokens`` (B, T, D) to `Tokens` of d' features."""
        if tokens.ndim != 3 or tokens.shape[2] != self.inputs:
            raise ShapeError(f"The projection expects tokens (B, T, {self.inputs}); got {tuple(tokens.shape)}.")
        features = (tokens - self.mean) / self.scale
        if self.map is not None:
            features = self.map(features)
        if self.unit_tokens:
            features = nn.functional.layer_norm(features, features.shape[-1:]) / math.sqrt(self.dim)
        return Tokens(features, torch.full((len(tokens),), tokens.shape[1], device=tokens.device))
