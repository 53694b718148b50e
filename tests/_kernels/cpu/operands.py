"""What the tests of the compiled operators compute with: two pairs of 4 and 3 steps, in every form."""

import torch

from udtw._engine.prior import NONE

RNG = torch.Generator().manual_seed(0)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=RNG, dtype=torch.float64)


def positive(*shape: int) -> torch.Tensor:
    return torch.rand(*shape, generator=RNG, dtype=torch.float64) + 0.5


X, Y = normal(2, 4, 2), normal(2, 3, 2)
VAR_X, VAR_Y, JOINT = positive(2, 4), positive(2, 3), positive(2, 4, 3)
COST, GAMMA = normal(2, 4, 3).square(), torch.tensor([0.4, 2.0], dtype=torch.float64)
FIELD = normal(2, 4, 3)
LENGTHS = {"lengths_x": torch.tensor([4, 3]), "lengths_y": torch.tensor([2, 3])}
LENGTHS_OF_BOTH = torch.tensor([[4, 3], [2, 3]])
BETA, WARP = torch.tensor([0.5, 1.5], dtype=torch.float64), torch.tensor([0.3, -0.2], dtype=torch.float64)
RELAX = torch.tensor([[1, 2], [0, 1], [1, 0], [1, 1]])


def described(data, gamma, lengths, beta=None, warp=None, relax=None):
    """The arguments of an operator that describe a problem without a band."""
    return *data, gamma, beta, warp, lengths, relax, NONE, 0.0, None


COSTS = normal(2, 3, 4, 3).square()  # two mapped calls with three pairs each
MASKS = torch.ones(2, 3, 4, 3, dtype=torch.bool)
for hole in [(0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 2, 1), (1, 1, 3, 0)]:
    MASKS[hole] = False


def leaves(tensors):
    return tuple(t.clone().requires_grad_() for t in tensors)
