"""The skeleton encoder: blocks of frames in, one token a block out."""

import math

import torch
from torch import Tensor, nn

from udtw.errors import OptionError, ShapeError
from udtw.fewshot.tokens import Tokens
from udtw.skeleton.graphs import Graph

MOST_HOPS, MOST_LAYERS = 1000, 256


class SkeletonEncoder(nn.Module):
    """MLP per joint and block, S²GC over the joints, a Transformer over the blocks, and a last FC.

    ``X̂ = MLP(block)`` (d̂ for each joint), ``αX̂ + (1−α)/K Σ_k TᵏX̂`` with T the normalised adjacency of the joint graph,
    flattened and projected to ``width``, then ``FC(Transformer(·))`` gives d' features. Two people: their mean. The
    Transformer sees a set of blocks, not their order: that is the business of the alignment, and a code of the position
    would make all clips alike.

    Parameters
    ----------
    graph : Graph
    block_size : int
        Frames M of a block.
    coordinates : int
        2 or 3.
    dim : int
        Features d' of a token.
    joint_dim : int
        d̂.
    width, depth, heads, dropout
        Of the Transformer; ``depth=0`` leaves it out. The MLP has the same dropout before its last layer.
    hops, alpha : int, float
        K and α of S²GC.
    unit_tokens : bool
        Scale tokens to zero mean and ``‖token‖² = 1`` (LayerNorm without weights, divided by √d'), so that costs lie
        between 0 and 4 whatever the data, and the targets δ = 0 and 1 can both be reached.
    """

    def __init__(
        self, graph: Graph, block_size: int = 8, coordinates: int = 3, *, dim: int = 64, joint_dim: int = 50,
        width: int = 128, depth: int = 2, heads: int = 4, dropout: float = 0.1, hops: int = 6, alpha: float = 0.7,
        unit_tokens: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        if min(width, heads, dim, joint_dim, block_size) < 1 or not 0 <= depth <= MOST_LAYERS:
            raise OptionError(
                f"Sizes must be at least 1 and depth 0 to {MOST_LAYERS}; got width={width}, heads={heads}, dim={dim}, "
                f"joint_dim={joint_dim}, block_size={block_size}, depth={depth}."
            )
        if width % heads:
            raise OptionError(f"width must be a multiple of heads; got {width} and {heads}.")
        self.dim, self.unit_tokens = dim, unit_tokens
        size = block_size * coordinates
        self.inputs = (len(graph.joints), size)
        self.mlp = nn.Sequential(
            nn.Linear(size, 2 * size),
            nn.LayerNorm(2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, 3 * size),
            nn.LayerNorm(3 * size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(3 * size, joint_dim),
            nn.LayerNorm(joint_dim),
        )
        self.register_buffer("diffusion", s2gc_matrix(graph, hops, alpha), persistent=False)
        self.project = nn.Linear(len(graph.joints) * joint_dim, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout, batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False) if depth else None
        self.out = nn.Linear(width, dim)

    @torch.no_grad()
    def standardize(self, batch: tuple[Tensor, Tensor, Tensor]) -> None:
        """Rescale the last FC so that every feature of these clips' tokens has mean 0 and standard deviation 1.

        Before any training all tokens point the same way, because what clips have in common outweighs what tells them
        apart; without labels nothing would change that.
        """
        tokens = self._raw(batch)
        values = tokens.features[tokens.inside]
        std = values.std(0).clamp_min(1e-6)
        self.out.weight /= std[:, None]
        self.out.bias.copy_((self.out.bias - values.mean(0)) / std)

    def forward(self, batch: tuple[Tensor, Tensor, Tensor]) -> Tokens:
        """Tokens (B, τ, d') of ``(blocks, lengths, people)``.

        ``blocks`` (B, τ, P, J, M·C) are padded to the longest; ``lengths`` (B,) count them; ``people`` (B, P) says who
        is there.
        """
        raw = self._raw(batch)
        if not self.unit_tokens:
            return raw
        unit = nn.functional.layer_norm(raw.features, raw.features.shape[-1:]) / math.sqrt(self.dim)
        return Tokens(unit, raw.lengths)

    def _raw(self, batch: tuple[Tensor, Tensor, Tensor]) -> Tokens:
        blocks, lengths, people = batch
        if blocks.ndim != 5 or tuple(blocks.shape[3:]) != self.inputs:
            joints, size = self.inputs
            raise ShapeError(f"The encoder expects blocks (B, τ, P, {joints}, {size}); got {tuple(blocks.shape)}.")
        joints = self.mlp(blocks)
        diffused = torch.einsum("ij,btpjd->btpid", self.diffusion, joints)
        each = self.project(diffused.flatten(3))
        present = people.to(each.dtype)[:, None, :, None]
        tokens = (each * present).sum(2) / present.sum(2)
        if self.transformer is not None:
            outside = torch.arange(blocks.shape[1], device=blocks.device) >= lengths[:, None]
            tokens = self.transformer(tokens, src_key_padding_mask=outside)
        return Tokens(self.out(tokens), lengths)


def s2gc_matrix(graph: Graph, hops: int, alpha: float) -> Tensor:
    """``αI + (1−α)/K Σ_{k=1..K} Tᵏ``, (J, J): S²GC is this matrix times the joint features."""
    if not 1 <= hops <= MOST_HOPS or not 0 <= alpha <= 1:
        raise OptionError(f"S²GC needs 1 to {MOST_HOPS} hops K and α in [0, 1]; got {hops} and {alpha}.")
    step = torch.from_numpy(graph.adjacency())
    # Beside the graph, also where the model is being made on another device.
    power, total = torch.eye(len(step), dtype=step.dtype, device=step.device), torch.zeros_like(step)
    for _ in range(hops):
        power = power @ step
        total = total + power
    return (alpha * torch.eye(len(step), device=step.device) + (1 - alpha) / hops * total).float()
