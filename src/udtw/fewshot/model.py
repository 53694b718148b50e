"""The few-shot model: an encoder, a SigmaNet, a comparator and an objective, trained together."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from udtw.errors import OptionError
from udtw.fewshot.baselines import MatchingComparator, PrototypeComparator, TAPComparator
from udtw.fewshot.comparators import AlignmentComparator, Comparator, Comparison, EuclideanComparator
from udtw.fewshot.objectives import make_objective
from udtw.fewshot.tokens import Tokens, prototypes
from udtw.nn import SigmaNet

METRICS = ("euclidean", "soft_dtw", "soft_dtw_divergence", "udtw", "protonet", "matchnet", "tap")
MATCHING = ("support", "prototype")


def make_comparator(metric: str, gamma: float = 0.1, normalize: str | None = "length") -> Comparator:
    """The comparator of that name, one of `METRICS`."""
    if metric not in METRICS:
        raise OptionError(f"metric must be one of {METRICS}; got {metric!r}.")
    others: dict[str, Callable[[], Comparator]] = {
        "euclidean": EuclideanComparator,
        "protonet": PrototypeComparator,
        "matchnet": MatchingComparator,
        "tap": TAPComparator,
    }
    return others[metric]() if metric in others else AlignmentComparator(metric, gamma, normalize)


class FewShotModel(nn.Module):
    """Samples in, distances between queries and supports out.

    Parameters
    ----------
    encoder : module
        ``encoder(batch)`` gives `Tokens`; it has an attribute ``dim``, the features of a token.
    metric : str
        One of `METRICS`. With "udtw" a SigmaNet gives every token its variance.
    objective : "similarity" or "cross_entropy"
    gamma, beta, normalize
        Temperature, weight of Ω, and what distances are divided by; see `AlignmentComparator`.
    sigma_range : (low, high)
        Bounds of σ; training starts where Σ = 1 if that lies between them.
    sigma_hidden : int, optional
        Width of the SigmaNet's hidden layer; 0: none, as for image tokens.
    sigma_gain : float
        What tokens are multiplied by on their way into the SigmaNet. Features of tokens of unit length are small, so
        that without a gain σ hardly moves in a few hundred steps; √d gives them unit variance.
    matching : "support" or "prototype"
        Compare with every support, or with one mean sequence a class.
    """

    def __init__(
        self, encoder: nn.Module, metric: str = "udtw", objective: str = "similarity", *, gamma: float = 0.1,
        beta: float = 1.0, normalize: str | None = "length", sigma_range: tuple[float, float] = (0.5, 2.0),
        sigma_hidden: int | None = None, sigma_gain: float = 1.0, matching: str = "support",
    ) -> None:  # fmt: skip
        super().__init__()
        if matching not in MATCHING:
            raise OptionError(f"matching must be one of {MATCHING}; got {matching!r}.")
        low, high = sigma_range
        if not 0 < low < high < math.inf:
            raise OptionError(f"sigma_range must be finite (low, high) with 0 < low < high; got {sigma_range}.")
        if not 0 < sigma_gain < math.inf:
            raise OptionError(f"sigma_gain must be positive and finite; got {sigma_gain}.")
        self.encoder, self.metric, self.matching, self.sigma_gain = encoder, metric, matching, sigma_gain
        self.comparator = make_comparator(metric, gamma, normalize)
        self.objective = make_objective(objective, beta if metric == "udtw" else 0.0)
        start = 1.0 if low < 1 < high else None
        dim: Any = encoder.dim
        self.sigma = SigmaNet(dim, sigma_hidden, a=high - low, b=low, start=start) if metric == "udtw" else None

    def encode(self, batch: Any) -> Tokens:
        """Tokens of a batch of samples, with variances if the metric reads them."""
        tokens: Tokens = self.encoder(batch)
        return self.with_variance(tokens)

    def with_variance(self, tokens: Tokens) -> Tokens:
        if self.sigma is None:
            return tokens
        variance = self.sigma(tokens.features * self.sigma_gain, tokens.lengths)
        return Tokens(tokens.features, tokens.lengths, variance)

    def compare(self, queries: Tokens, supports: Tokens, support_labels: Tensor) -> tuple[Comparison, Tensor]:
        """The comparison, and the labels of its columns: those of the supports, or 0 … n_way − 1 for prototypes."""
        if self.matching == "prototype":
            supports = prototypes(supports, support_labels)
            support_labels = torch.arange(len(supports), device=support_labels.device)
        compared = self.comparator if torch.is_grad_enabled() else self.comparator.in_chunks
        return compared(queries, supports), support_labels

    def forward(self, batch: Any, support_labels: Tensor, query_labels: Tensor) -> Tensor:
        """The episode's loss. ``batch`` holds the supports first, then the queries."""
        tokens = self.encode(batch)
        supports, queries = tokens[: len(support_labels)], tokens[len(support_labels) :]
        comparison, columns = self.compare(queries, supports, support_labels)
        return self.objective(comparison, query_labels, columns)


def predict(scores: np.ndarray, support_labels: np.ndarray) -> np.ndarray:
    """(Q,) label of the nearest support, from ``scores`` (Q, S), lower is closer."""
    return np.asarray(support_labels)[np.asarray(scores).argmin(1)]
