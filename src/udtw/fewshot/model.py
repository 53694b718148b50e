"""The few-shot model: an encoder, a SigmaNet, a comparator and an objective, trained together."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from udtw._engine.metrics import METRICS
from udtw.errors import OptionError, ShapeError
from udtw.fewshot.comparators import (
    AlignmentComparator,
    Comparator,
    Comparison,
    EuclideanComparator,
    MatchingComparator,
    PrototypeComparator,
    TAPComparator,
    WeightedMeanComparator,
)
from udtw.fewshot.stages import scaled_gradients
from udtw.fewshot.tokens import Tokens, as_tokens, prototypes
from udtw.nn import PairSigmaNet, SigmaNet

BASELINES: dict[str, Callable[[], Comparator]] = {
    "euclidean": EuclideanComparator,
    "protonet": PrototypeComparator,
    "matchnet": MatchingComparator,
    "tap": TAPComparator,
}
"""Comparators that align nothing. Every other name is an elastic metric of `udtw._engine.metrics`."""
UNORDERED = ("set", "grid")
"""uDTW of tokens without an order, such as those of images."""
CONTROLS = ("weighted_mean", "in_place", "best_match")
"""Parts of uDTW alone: σ without matching, σ for tokens at the same position, and matching a set without σ."""
UNCERTAIN = (*UNORDERED, "weighted_mean", "in_place")
"""Names beside those of uncertain metrics that read variances."""
NOISE_UNIT = 0.01
"""Noise that adds 1 to the variance of a token, before any training."""
MATCHING = ("support", "prototype")
OBJECTIVES = ("similarity", "cross_entropy")


def comparator_names() -> tuple[str, ...]:
    """Return the names that `make_comparator` knows: elastic metrics and `BASELINES`."""
    return *(name for name, metric in METRICS.items() if metric.elastic), *UNORDERED, *CONTROLS, *BASELINES


def make_comparator(metric: str, gamma: float = 0.1, normalize: str | None = "length", **energy: Any) -> Comparator:
    """Build the comparator of that name, one of `comparator_names`; ``energy`` are options of `AlignmentComparator`."""
    if metric in BASELINES:
        return BASELINES[metric]()
    if metric in UNORDERED:
        return AlignmentComparator("udtw", gamma, normalize, order=metric, **energy)
    if metric == "weighted_mean":
        return WeightedMeanComparator()
    if metric in CONTROLS:
        prior: dict[str, Any] = {"band": 0} if metric == "in_place" else {"order": "set"}
        return AlignmentComparator("udtw", gamma, normalize, **prior, **energy)
    if metric not in comparator_names():
        raise OptionError(f"metric must be one of {comparator_names()}; got {metric!r}.")
    return AlignmentComparator(metric, gamma, normalize, **energy)


class SimilarityObjective(nn.Module):
    """The paper's ``mean over pairs of (d² − δ)² + βΩ``: δ = 0 for the same class, 1 otherwise.

    The comparator divides d² by the length, so that one scale of features reaches both targets at every length. A query
    gets the class of the support with the least d².
    """

    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, comparison: Comparison, query_labels: Tensor, support_labels: Tensor) -> Tensor:
        target = (query_labels[:, None] != support_labels[None, :]).to(comparison.distance.dtype)
        return ((comparison.distance - target).square() + self.beta * comparison.regularizer).mean()

    def scores(self, comparison: Comparison) -> Tensor:
        """Return the scores (Q, S); lower is closer."""
        return comparison.distance


class CrossEntropyObjective(nn.Module):
    """``−log softmax over supports of −s·(d² + βΩ)``, with a learned scale s > 0.

    With several supports per class, the class's score is the soft minimum over them. Distances of unit tokens differ by
    tenths: s = 1 would leave the probabilities flat, and it is learned too slowly to correct that.
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
        """Return the scores (Q, S); lower is closer."""
        return comparison.loss(self.beta)


def make_objective(name: str, beta: float) -> SimilarityObjective | CrossEntropyObjective:
    """Build the objective of that name, one of `OBJECTIVES`."""
    if name not in OBJECTIVES:
        raise OptionError(f"objective must be one of {OBJECTIVES}; got {name!r}.")
    return SimilarityObjective(beta) if name == "similarity" else CrossEntropyObjective(beta)


class Classifier:
    """What classifies samples by labeled examples: `FewShotModel`, and the recognizers."""

    objective: Any

    def class_scores(self, support: Any, labels: Tensor, query: Any) -> tuple[Tensor, Tensor]:
        """Return scores (Q, S), lower is closer, and the labels (S,) of their columns."""
        raise NotImplementedError

    def predict(self, support: Any, labels: Sequence[Any] | np.ndarray, query: Any) -> np.ndarray:
        """Return the label (Q,) of the nearest support, or prototype of a class, for every query.

        ``support`` and ``query`` are samples as `fit` takes them, for a `FewShotModel` batches as its encoder takes
        them; ``labels`` (S,) are numbers or strings.
        """
        known, scores, columns = self._compared(support, labels, query)
        return known[columns[scores.argmin(1)]]

    def predict_proba(self, support: Any, labels: Sequence[Any] | np.ndarray, query: Any) -> np.ndarray:
        """Return the probability of every class, (Q, n_classes), in ascending order of ``labels``.

        It is the softmax over supports of ``−s·score``, summed for each class, with the scale s that training learned
        (10 where it learned none).
        """
        known, scores, columns = self._compared(support, labels, query)
        learned = getattr(self.objective, "log_scale", None)
        scale = 10.0 if learned is None else float(learned.detach().exp())
        shares = torch.from_numpy(-scale * scores).softmax(1)
        found = shares.new_zeros(len(shares), len(known)).index_add(1, torch.from_numpy(columns), shares)
        return found.double().numpy()

    @torch.no_grad()
    def _compared(self, support: Any, labels: Any, query: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        known, numbers = np.unique(np.asarray(labels), return_inverse=True)
        if numbers.ndim != 1:
            raise ShapeError(f"labels must have the shape (S,), one per support; got {numbers.shape}.")
        scores, columns = self.class_scores(support, torch.from_numpy(numbers.astype(np.int64)), query)
        return known, scores.cpu().numpy(), columns.cpu().numpy()


class FewShotModel(Classifier, nn.Module):
    """Maps samples to distances between queries and supports.

    Without other options it is the paper's model, with the exception of γ: ``preset="paper"`` of the recipes is 0.01.

    Parameters
    ----------
    encoder : module
        ``encoder(batch)`` returns `Tokens`, or a tensor of tokens (B, T, d), a feature map (B, d, h, w) or vectors
        (B, d). Its attribute ``dim`` is the number d of features per token.
    metric : str
        One of `comparator_names`. With "udtw" a SigmaNet gives every token its variance.
    objective : "similarity" or "cross_entropy"
    gamma, beta, normalize
        Temperature, weight of Ω, and what distances are divided by; see `AlignmentComparator`.
    sigma_range : (low, high)
        Bounds of σ; training starts where Σ = 1 if that lies between them.
    sigma_hidden : int, optional
        Width of the SigmaNet's hidden layer; 0: none, as for image tokens.
    sigma_gain : float
        Factor of the tokens at the input of the SigmaNet. Features of tokens of unit length are small, so that
        without a gain σ hardly moves in a few hundred steps; √d gives them unit variance.
    sigma_context : bool
        Whether the SigmaNet also sees how a token differs from the mean token of its sample.
    per_feature : bool
        A variance of every feature instead of one per token.
    sigma : "steps", "pairs" or module
        A `SigmaNet`, a `PairSigmaNet`, or a module of your own: ``module(features, lengths)`` gets tokens (B, T, d)
        with their lengths (B,) and returns σ² of the shape (B, T), or (B, T, d) with ``per_feature``. If it has an
        attribute ``of_pairs = True``, ``module(x, y)`` gets tokens (B, N, d) and (B, M, d) and returns σ² (B, N, M).
    matching : "support" or "prototype"
        Compare with every support, or with one mean sequence per class; with the likelihood weighting, tokens count in
        that mean by their precision.
    dim : int, optional
        Features per token; needed unless the encoder has ``dim``, or is or ends in a linear layer.
    weighting, warp_penalty, relax, learned, evidence : optional
        See `AlignmentComparator`.

    Examples
    --------
    >>> import torch
    >>> from udtw.fewshot import FewShotModel, Tokens
    >>> convolutions = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 4, stride=4), torch.nn.ReLU())
    >>> FewShotModel(convolutions, "udtw", dim=8).encode(torch.randn(2, 3, 16, 16)).features.shape
    torch.Size([2, 16, 8])
    >>> class Encoder(torch.nn.Linear):
    ...     dim = 4
    ...     def forward(self, batch):
    ...         return Tokens(super().forward(batch), torch.full((len(batch),), batch.shape[1]))
    >>> _ = torch.manual_seed(0)
    >>> model = FewShotModel(Encoder(3, 4), "udtw", "cross_entropy", beta=0.1)
    >>> tokens = model.encode(torch.randn(6, 10, 3))  # 2 supports, then 4 queries
    >>> model.compare(tokens[2:], tokens[:2], torch.tensor([0, 1]))[0].distance.shape
    torch.Size([4, 2])
    >>> loss = model(torch.randn(6, 10, 3), torch.tensor([0, 1]), torch.tensor([0, 0, 1, 1]))
    >>> loss.backward()
    """

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, encoder: nn.Module, metric: str = "udtw", objective: str = "similarity", *, gamma: float = 0.1,
        beta: float = 1.0, normalize: str | None = "length", sigma_range: tuple[float, float] = (0.5, 2.0),
        sigma_hidden: int | None = None, sigma_gain: float = 1.0, sigma_context: bool = False,
        per_feature: bool = False, sigma: str | nn.Module = "steps", matching: str = "support",
        dim: int | None = None, **energy: Any,
    ) -> None:  # fmt: skip
        nn.Module.__init__(self)
        if matching not in MATCHING:
            raise OptionError(f"matching must be one of {MATCHING}; got {matching!r}.")
        low, high = sigma_range
        if not 0 < low < high < math.inf:
            raise OptionError(f"sigma_range must be finite (low, high) with 0 < low < high; got {sigma_range}.")
        if per_feature and (normalize == "precision" or energy.get("evidence")):
            raise OptionError("normalize='precision' and evidence take one variance per token; use per_feature=False.")
        if not 0 < sigma_gain < math.inf:
            raise OptionError(f"sigma_gain must be positive and finite; got {sigma_gain}.")
        self.encoder, self.metric, self.matching, self.sigma_gain = encoder, metric, matching, sigma_gain
        self.sigma_context, self.weighted = sigma_context, energy.get("weighting") == "likelihood"
        self.comparator = make_comparator(metric, gamma, normalize, beta=beta, **energy)
        uncertain = metric in UNCERTAIN or (metric in METRICS and METRICS[metric].uncertain)
        self.objective = make_objective(objective, beta if uncertain else 0.0)
        self.sigma: nn.Module | None = None
        pairs = sigma == "pairs" or bool(getattr(sigma, "of_pairs", False))
        if not (isinstance(sigma, nn.Module) or sigma in ("steps", "pairs")):
            raise OptionError(f"sigma must be 'steps', 'pairs' or a module; got {sigma!r}.")
        if pairs and (per_feature or normalize == "precision" or metric == "weighted_mean"):
            raise OptionError(
                "Variances of pairs are not known token by token: use per_feature=False, another normalize than "
                "'precision' and another metric than 'weighted_mean'."
            )
        if uncertain and pairs:
            assert isinstance(self.comparator, AlignmentComparator), "the only other uncertain one is refused"
            of_pairs = sigma
            if not isinstance(of_pairs, nn.Module):
                dim = _features(encoder) if dim is None else dim
                of_pairs = PairSigmaNet(dim, sigma_hidden or None, sigma_range=(low, high))
            self.comparator.joint = of_pairs
        elif uncertain and isinstance(sigma, nn.Module):
            self.sigma, self.reads_noise = sigma, False
        elif uncertain:
            dim = _features(encoder) if dim is None else dim
            sigma_init = 1.0 if low < 1 < high else None
            self.reads_noise = bool(getattr(encoder, "states_noise", False))
            inputs = dim * (1 + sigma_context) + self.reads_noise
            self.sigma = SigmaNet(
                inputs, sigma_hidden, sigma_range=(low, high), sigma_init=sigma_init,
                per_feature=per_feature,
            )  # fmt: skip
            self.adds_noise = self.reads_noise and not getattr(encoder, "states_weights", False)
            if self.adds_noise:
                self.log_noise_gain = nn.Parameter(torch.tensor(-math.log(NOISE_UNIT)))

    def encode(self, batch: Any) -> Tokens:
        """Encode a batch of samples, with variances if the metric reads them."""
        return self.with_variance(as_tokens(self.encoder(batch)))

    def with_variance(self, tokens: Tokens, stage: str = "both") -> Tokens:
        """Return the same tokens with the SigmaNet's variances; unchanged without a SigmaNet.

        ``stage`` of training: see `udtw.fewshot.stages.stages_of`.
        """
        if self.sigma is None:
            return tokens
        if stage == "features":
            return replace(tokens, variance=None)
        found = self._by_sigma(tokens.detach() if stage == "sigma" else tokens)
        return scaled_gradients(found) if stage == "scaled" else found

    def _by_sigma(self, tokens: Tokens) -> Tokens:
        sigma = self.sigma
        assert sigma is not None, "checked by the caller"
        seen = tokens.features * self.sigma_gain
        if self.sigma_context:
            seen = torch.cat([seen, (tokens.features - tokens.mean()[:, None]) * self.sigma_gain], -1)
        if not isinstance(sigma, SigmaNet):  # of the user
            return replace(tokens, variance=sigma(tokens.features, tokens.lengths))
        if not self.reads_noise:
            return replace(tokens, variance=_of_features(sigma(seen, tokens.lengths), tokens))
        noise = tokens.noise
        if noise is None:  # atoms of a dictionary
            noise = seen.new_zeros(seen.shape[:2])
        seen = torch.cat([seen, (noise / NOISE_UNIT).log1p()[..., None]], -1)
        variance = _of_features(sigma(seen, tokens.lengths), tokens)
        if self.adds_noise:
            added = self.log_noise_gain.exp() * noise
            variance = variance + (added if variance.ndim == 2 else added[..., None])
        return replace(tokens, variance=variance, noise=noise)

    def compare(self, queries: Tokens, supports: Tokens, support_labels: Tensor) -> tuple[Comparison, Tensor]:
        """Compare queries with supports or prototypes; also return the labels of the columns.

        These are the labels of the supports, or 0 … n_way − 1 for prototypes.
        """
        if not len(queries) or not len(supports):
            raise ShapeError(
                f"An episode needs supports and queries; got {len(supports)} supports and {len(queries)} queries."
            )
        if self.matching == "prototype":
            evidence = getattr(self.comparator, "evidence", False)
            supports = prototypes(supports, support_labels, weighted=self.weighted, rescaled=evidence)
            support_labels = torch.arange(len(supports), device=support_labels.device)
        compared = self.comparator if torch.is_grad_enabled() else self.comparator.in_chunks
        return compared(queries, supports), support_labels

    def class_scores(self, support: Any, labels: Tensor, query: Any) -> tuple[Tensor, Tensor]:
        self.eval()
        comparison, columns = self.compare(self.encode(query), self.encode(support), labels)
        return self.objective.scores(comparison), columns

    def forward(
        self, batch: Any, support_labels: Tensor, query_labels: Tensor, stages: Sequence[str] = ("both",)
    ) -> Tensor:
        """Return the loss of an episode, summed over ``stages``.

        ``batch`` holds the supports first, then the queries.
        """
        encoded = as_tokens(self.encoder(batch))
        if len(encoded) != len(support_labels) + len(query_labels):
            raise ShapeError(
                f"The batch of an episode holds its supports, then its queries; got {len(encoded)} samples for "
                f"{len(support_labels)} labels of supports and {len(query_labels)} of queries."
            )
        losses = []
        for stage in stages:
            tokens = self.with_variance(encoded, stage)
            supports, queries = tokens[: len(support_labels)], tokens[len(support_labels) :]
            comparison, columns = self.compare(queries, supports, support_labels)
            losses.append(self.objective(comparison, query_labels, columns))
        return torch.stack(losses).sum()


def _of_features(variance: Tensor, tokens: Tokens) -> Tensor:
    """Return variances (B, T), or of (B, T, inputs) those of the tokens' features, which are the first inputs."""
    return variance if variance.ndim == 2 else variance[..., : tokens.features.shape[2]]


def _features(encoder: nn.Module) -> int:
    """Return the features per token: ``encoder.dim``, or the outputs of a linear layer, the only or last one."""
    last = encoder[-1] if isinstance(encoder, nn.Sequential) and len(encoder) else encoder
    found: Any = getattr(encoder, "dim", getattr(last, "out_features", None))
    if not isinstance(found, int):
        raise OptionError(
            f"How many features the tokens of {type(encoder).__name__} have is not known: pass dim=, or give the "
            "encoder an attribute dim."
        )
    return found


def predict(scores: np.ndarray, support_labels: np.ndarray) -> np.ndarray:
    """Return the labels (Q,) of the nearest supports, from ``scores`` (Q, S); lower is closer."""
    return np.asarray(support_labels)[np.asarray(scores).argmin(1)]
