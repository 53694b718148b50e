"""What is minimised over an episode, and by what a query is then classified."""

import torch
from torch import Tensor, nn

from udtw.errors import OptionError
from udtw.fewshot.comparators import Comparison

OBJECTIVES = ("similarity", "cross_entropy")


class SimilarityObjective(nn.Module):
    """The paper's ``mean over pairs of (d² − δ)² + βΩ``: δ = 0 for the same class, 1 otherwise.

    The comparator divides d² by the length, so that one scale of features reaches both targets at every length. A query
    belongs to the support with the least d².
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, comparison: Comparison, query_labels: Tensor, support_labels: Tensor) -> Tensor:
        target = (query_labels[:, None] != support_labels[None, :]).to(comparison.distance.dtype)
        return ((comparison.distance - target).square() + self.beta * comparison.regularizer).mean()

    def scores(self, comparison: Comparison) -> Tensor:
        """(Q, S), lower is closer."""
        return comparison.distance


class CrossEntropyObjective(nn.Module):
    """``−log softmax over supports of −s·(d² + βΩ)``, with a learned scale s > 0.

    With several supports a class, the class's score is the soft minimum over them. Distances of unit tokens differ by
    tenths; s = 1 at the start would leave the probabilities flat, and is learned too slowly to mend that.
    """

    def __init__(self, beta: float = 1.0, scale: float = 10.0) -> None:
        super().__init__()
        self.beta = beta
        self.log_scale = nn.Parameter(torch.tensor(float(scale)).log())

    def forward(self, comparison: Comparison, query_labels: Tensor, support_labels: Tensor) -> Tensor:
        log_odds = (-self.log_scale.exp() * self.scores(comparison)).log_softmax(1)
        same = query_labels[:, None] == support_labels[None, :]
        return -log_odds.masked_fill(~same, -torch.inf).logsumexp(1).mean()

    def scores(self, comparison: Comparison) -> Tensor:
        """(Q, S), lower is closer."""
        return comparison.loss(self.beta)


def make_objective(name: str, beta: float) -> SimilarityObjective | CrossEntropyObjective:
    if name not in OBJECTIVES:
        raise OptionError(f"objective must be one of {OBJECTIVES}; got {name!r}.")
    return SimilarityObjective(beta) if name == "similarity" else CrossEntropyObjective(beta)
