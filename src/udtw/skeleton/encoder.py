"""Encoders of skeletons: blocks of frames in, one token per block out, with features of single joints beside it."""

import itertools
import math

import torch
from torch import Tensor, nn

from udtw.errors import OptionError, ShapeError
from udtw.fewshot.tokens import Tokens
from udtw.skeleton.graphs import Graph
from udtw.skeleton.graphs import graph as named_graph

SCALE = 2.0
"""Root mean square length of the features of a pose, before training."""


class JointFeatures(nn.Module):
    """Position, velocity, acceleration … of each joint in a block, and how far each can be trusted.

    ``z_j = g_j W x_j``: x_j are the M·C coordinates of joint j, W (K·C, M·C) is the same for all joints and starts as
    the first K cosines (DCT) of each coordinate, g_j is a gain of the joint. W and g are learned. With several people,
    z_j is their mean by the weights of the joint, and its weight is the mean weight of those who are present.
    ``joints``, ``block_size`` and ``coordinates`` are J, M and C; ``frequencies`` is K, from 1 to M.
    """

    def __init__(self, joints: int, block_size: int, coordinates: int, frequencies: int = 3) -> None:
        super().__init__()
        if not 1 <= frequencies <= block_size:
            raise OptionError(f"frequencies must be from 1 to block_size={block_size}; got {frequencies}.")
        self.dim = joints * frequencies * coordinates
        self.scale = SCALE / math.sqrt(joints * block_size * coordinates)
        self.map = nn.Linear(block_size * coordinates, frequencies * coordinates, bias=False)
        with torch.no_grad():
            self.map.weight.copy_(torch.kron(cosines(block_size, frequencies), torch.eye(coordinates)))
        self.log_gain = nn.Parameter(torch.zeros(joints))

    def forward(self, blocks: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Return features and weights, (B, τ, J·K·C) each, of blocks (B, τ, P, J, M·C) and weights (B, τ, P, J)."""
        each = self.map(blocks) * (self.scale * self.log_gain.exp())[:, None]
        total = weights.sum(2)[..., None]
        features = (each * weights[..., None]).sum(2) / total
        present = (weights > 0).any(3).sum(2)[..., None, None]
        return features.flatten(2), (total / present).expand_as(features).flatten(2)


def cosines(size: int, count: int) -> Tensor:
    """Return the first rows (count, size) of the orthonormal basis of the discrete cosine transform."""
    waves = torch.cos(math.pi / size * torch.arange(count)[:, None] * (torch.arange(size) + 0.5))
    return nn.functional.normalize(waves)


MOST_HOPS, MOST_LAYERS = 1000, 256
UNIT = 0.01
"""Variance of a joint, in units of the normalized body, at which it counts half."""
WHOLE = 0.5
"""Length of the features of the whole body beside those of the joints, before training."""


class SkeletonEncoder(nn.Module):
    """Tokens of blocks: an MLP per joint and block, S²GC over the joints, a Transformer over the blocks, and a last FC.

    ``X̂ = MLP(block)`` (d̂ features per joint), ``αX̂ + (1−α)/K Σ_k TᵏX̂`` with T the normalized adjacency of the joint
    graph, flattened and projected to ``width``, then ``FC(Transformer(·))`` gives d' features. The features of two
    people are averaged. The Transformer has no position encoding: order is left to the alignment, and a position
    encoding would make all clips similar.

    With ``frequencies``, linear features of the single joints (`JointFeatures`) stand beside these d'. With few classes
    to train on they recognize others better, and in them uDTW can tell which joints to trust.

    Parameters
    ----------
    graph : Graph or str
        A layout of the joints, or its name.
    block_size : int
        Frames M per block.
    coordinates : int
        2 or 3 per joint.
    dim : int
        Features d' per token, without those of the single joints.
    joint_dim : int
        Features d̂ per joint.
    width, depth, heads, dropout
        Sizes of the Transformer; ``depth=0`` leaves it out. The MLP has the same dropout before its last layer.
    hops, alpha : int, float
        K and α of S²GC.
    unit_tokens : bool
        Scale tokens to zero mean and ``‖token‖² = 1`` (LayerNorm without weights, divided by √d'), so that costs lie
        between 0 and 4 for any data, and both targets δ = 0 and 1 can be reached.

    weighted : bool
        Use variances ``v`` of the joints, which batches must have then. A joint has the weight ``w = 1/(1 + v/s²)`` in
        S²GC, so that the features of one that is not tracked come from its neighbors:
        ``Σ_j A_ij w_j X̂_j · Σ_j A_ij / Σ_j A_ij w_j``. s is learned, from 0.1 of the normalized body on. The mean of v
        over the joints is the ``noise`` of a token. Features of the joints have the weights w, those of the whole body
        the weight of that mean.
    frequencies : int
        K of the features of each joint; 0: only those of the whole body, as in the paper.
    block_norm : bool
        LayerNorm after each layer of the MLP; the paper has none.

    Examples
    --------
    >>> import torch
    >>> from udtw.skeleton import SkeletonEncoder, graph
    >>> encoder = SkeletonEncoder(graph("kinect20"), block_size=8, dim=16)
    >>> blocks = torch.randn(2, 5, 1, 20, 8 * 3)  # clips, blocks, people, joints, M·C
    >>> tokens = encoder((blocks, torch.tensor([5, 3]), torch.ones(2, 1, dtype=torch.bool)))
    >>> tokens.features.shape
    torch.Size([2, 5, 16])
    """

    diffusion: Tensor

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, graph: Graph | str, block_size: int = 8, coordinates: int = 3, *, dim: int = 64, joint_dim: int = 50,
        width: int = 128, depth: int = 2, heads: int = 4, dropout: float = 0.1, hops: int = 6, alpha: float = 0.7,
        unit_tokens: bool = True, weighted: bool = False, frequencies: int = 0,
        block_norm: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        graph = named_graph(graph)
        if min(width, heads, dim, joint_dim, block_size) < 1 or not 0 <= depth <= MOST_LAYERS:
            raise OptionError(
                f"Sizes must be at least 1 and depth 0 to {MOST_LAYERS}; got width={width}, heads={heads}, dim={dim}, "
                f"joint_dim={joint_dim}, block_size={block_size}, depth={depth}."
            )
        if width % heads:
            raise OptionError(f"width must be a multiple of heads; got {width} and {heads}.")
        self.unit_tokens, self.weighted = unit_tokens, weighted
        self.states_noise, self.states_weights = weighted, weighted and frequencies > 0
        size = block_size * coordinates
        self.inputs = (len(graph.joints), size)
        norm = nn.LayerNorm if block_norm else nn.Identity
        self.mlp = nn.Sequential(
            nn.Linear(size, 2 * size),
            norm(2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, 3 * size),
            norm(3 * size),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(3 * size, joint_dim),
            norm(joint_dim),
        )
        self.register_buffer("diffusion", s2gc_matrix(graph, hops, alpha), persistent=False)
        if weighted:
            self.log_unit = nn.Parameter(torch.tensor(math.log(UNIT)))
        self.project = nn.Linear(len(graph.joints) * joint_dim, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout, batch_first=True, norm_first=True)
        self.transformer = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False) if depth else None
        self.out = nn.Linear(width, dim)
        self.joints: JointFeatures | None = None
        self.dim = dim
        if frequencies:
            self.joints = JointFeatures(len(graph.joints), block_size, coordinates, frequencies)
            self.log_whole = nn.Parameter(torch.tensor(math.log(WHOLE)))
            self.dim += self.joints.dim

    @torch.no_grad()
    def standardize(self, batch: tuple[Tensor, ...]) -> None:
        """Rescale the last FC so that every feature of these clips' tokens has mean 0 and standard deviation 1.

        Before training all tokens point in nearly the same direction, because clips differ little compared with what
        they have in common; training without labels would not change that.
        """
        tokens = self._raw(batch)
        values = tokens.features[tokens.inside]
        std = values.std(0).clamp_min(1e-6)
        self.out.weight /= std[:, None]
        self.out.bias.copy_((self.out.bias - values.mean(0)) / std)

    def forward(self, batch: tuple[Tensor, ...]) -> Tokens:
        """Encode ``(blocks, lengths, people)``, if weighted ``(…, variance)``, as tokens (B, τ, dim).

        ``blocks`` (B, τ, P, J, M·C) are padded to the longest clip; ``lengths`` (B,) are their numbers; ``people``
        (B, P) is True for people who are present; ``variance`` (B, τ, P, J) is that of the joints.
        """
        whole = self._raw(batch)
        features = whole.features
        if self.unit_tokens:
            features = nn.functional.layer_norm(features, features.shape[-1:]) / math.sqrt(features.shape[-1])
        if self.joints is None:
            return Tokens(features, whole.lengths, noise=whole.noise)
        sure = batch[2].to(features.dtype)[:, None, :, None].expand(batch[0].shape[:4])
        if whole.noise is not None:
            sure = sure * self._trust(batch[3])
        own, weight = self.joints(batch[0], sure)
        features = torch.cat([self.log_whole.exp() * features, own], -1)
        if whole.noise is None:
            return Tokens(features, whole.lengths)
        of_whole = self._trust(whole.noise)[..., None].expand_as(whole.features)
        return Tokens(features, whole.lengths, noise=whole.noise, weight=torch.cat([of_whole, weight], -1))

    def _trust(self, variance: Tensor) -> Tensor:
        """Return ``1/(1 + v/s²)``."""
        return 1 / (1 + variance / self.log_unit.exp())

    def _raw(self, batch: tuple[Tensor, ...]) -> Tokens:
        blocks, lengths, people = batch[:3]
        variance = batch[3] if self.weighted else None
        check_blocks(blocks, self.inputs)
        joints = self.mlp(blocks)
        if variance is None:
            diffused = torch.einsum("ij,btpjd->btpid", self.diffusion, joints)
        else:
            weight = self._trust(variance)
            share = self.diffusion.sum(1) / (weight @ self.diffusion.mT)
            diffused = torch.einsum("ij,btpjd->btpid", self.diffusion, joints * weight[..., None]) * share[..., None]
        each = self.project(diffused.flatten(3))
        present = people.to(each.dtype)[:, None, :, None]
        tokens = (each * present).sum(2) / present.sum(2)
        noise = None if variance is None else (variance.mean(3) * present[..., 0]).sum(2) / present.sum((2, 3))
        if self.transformer is not None:
            outside = torch.arange(blocks.shape[1], device=blocks.device) >= lengths[:, None]
            tokens = self.transformer(tokens, src_key_padding_mask=outside)
        return Tokens(self.out(tokens), lengths, noise=noise)


def check_blocks(blocks: Tensor, inputs: tuple[int, int]) -> None:
    """Raise unless ``blocks`` are (B, τ, P, J, M·C) with ``inputs`` (J, M·C)."""
    if blocks.ndim != 5 or tuple(blocks.shape[3:]) != inputs:
        joints, size = inputs
        raise ShapeError(f"The encoder expects blocks (B, τ, P, {joints}, {size}); got {tuple(blocks.shape)}.")


def s2gc_matrix(graph: Graph, hops: int, alpha: float) -> Tensor:
    """Return the matrix ``αI + (1−α)/K Σ_{k=1..K} Tᵏ``, (J, J), by which S²GC multiplies the joint features."""
    if not 1 <= hops <= MOST_HOPS or not 0 <= alpha <= 1:
        raise OptionError(f"S²GC needs 1 to {MOST_HOPS} hops K and α in [0, 1]; got {hops} and {alpha}.")
    step = torch.from_numpy(graph.adjacency())
    # On the device of the graph, also if the default device is another one ("meta" when a checkpoint is checked).
    power, total = torch.eye(len(step), dtype=step.dtype, device=step.device), torch.zeros_like(step)
    for _ in range(hops):
        power = power @ step
        total = total + power
    return (alpha * torch.eye(len(step), device=step.device) + (1 - alpha) / hops * total).float()


def render(blocks: Tensor, coordinates: int, size: int = 224) -> Tensor:
    """Render blocks (n, J, M·C) as images (n, 3, size, size): joints down, frames across, x, y, z as red, green, blue.

    The values of each block are scaled to [0, 1] and interpolated bilinearly; without a third coordinate blue is 0.
    """
    if blocks.ndim != 3 or blocks.shape[2] % coordinates:
        raise ShapeError(f"Blocks must have shape (n, J, M·{coordinates}); got {tuple(blocks.shape)}.")
    image = blocks.unflatten(2, (-1, coordinates)).permute(0, 3, 1, 2)
    low, high = image.amin((1, 2, 3), keepdim=True), image.amax((1, 2, 3), keepdim=True)
    image = (image - low) / (high - low).clamp_min(1e-6)
    image = nn.functional.pad(image, (0, 0, 0, 0, 0, 3 - coordinates))
    return nn.functional.interpolate(image, (size, size), mode="bilinear", align_corners=True)


class RenderedEncoder(nn.Module):
    """Tokens of pictures of blocks by a small convolutional network, which does not use the joint graph.

    The paper compared with Matching and Prototypical Networks in this way. Takes the same batches as
    `SkeletonEncoder`. Four convolutions, the first 8×8 with stride 4, the others 3×3 with stride 2, each with group
    normalization and ReLU; mean over the picture; FC to ``dim``. The tokens of two people are averaged.
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

    def forward(self, batch: tuple[Tensor, ...]) -> Tokens:
        blocks, lengths, people = batch[:3]  # the picture has no place for variances
        inside = torch.arange(blocks.shape[1], device=blocks.device) < lengths[:, None]
        used = inside[:, :, None] & people[:, None, :]
        tokens = self.net(render(blocks[used], self.coordinates, self.image_size))
        every = tokens.new_zeros(*used.shape, self.dim)
        every[used] = tokens
        return Tokens(every.sum(2) / people.sum(1).to(every.dtype)[:, None, None], lengths)
