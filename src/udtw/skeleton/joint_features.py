"""Features that belong to one joint each, so that a fault of a joint stays where it is."""

import math

import torch
from torch import Tensor, nn

from udtw.errors import OptionError

SCALE = 2.0
"""Root mean square length of the features of a pose, before training."""


class JointFeatures(nn.Module):
    """Position, velocity, acceleration … of each joint in a block, and how far each can be trusted.

    ``z_j = g_j W x_j``: x_j are the M·C coordinates of joint j, W (K·C, M·C) is the same for all joints and starts as
    the first K cosines (DCT) of each coordinate, g_j is a gain of the joint. W and g are learned. With several people,
    z_j is their mean by the weights of the joint, and its weight is the mean weight of those who are present.

    Parameters
    ----------
    joints, block_size, coordinates : int
        J, M and C.
    frequencies : int
        K, 1 to M.

    Examples
    --------
    >>> import torch
    >>> from udtw.skeleton.joint_features import JointFeatures
    >>> blocks, weights = torch.randn(2, 5, 1, 20, 8 * 3), torch.ones(2, 5, 1, 20)
    >>> features, weight = JointFeatures(20, block_size=8, coordinates=3)(blocks, weights)
    >>> features.shape, weight.shape
    (torch.Size([2, 5, 180]), torch.Size([2, 5, 180]))
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
        """Features and their weights, (B, τ, J·K·C) each, of blocks (B, τ, P, J, M·C) and weights (B, τ, P, J)."""
        each = self.map(blocks) * (self.scale * self.log_gain.exp())[:, None]
        total = weights.sum(2)[..., None]
        features = (each * weights[..., None]).sum(2) / total
        present = (weights > 0).any(3).sum(2)[..., None, None]
        return features.flatten(2), (total / present).expand_as(features).flatten(2)


def cosines(size: int, count: int) -> Tensor:
    """(count, size): the first rows of the orthonormal basis of the discrete cosine transform, a frequency each."""
    waves = torch.cos(math.pi / size * torch.arange(count)[:, None] * (torch.arange(size) + 0.5))
    return nn.functional.normalize(waves)
