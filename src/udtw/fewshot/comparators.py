"""How far two token sequences are apart: every query against every support, in one batched call.

All comparators take `Tokens` and return a `Comparison`, so that an experiment changes the metric by a name.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from udtw.align import align
from udtw.errors import OptionError
from udtw.fewshot.tokens import Tokens
from udtw.memory import refuse_if_too_large

ALIGNMENTS = ("soft_dtw", "soft_dtw_divergence", "udtw")


@dataclass(frozen=True)
class Comparison:
    """``distance`` and ``regularizer``, (Q, S) or (B,): d² and Ω of every pair."""

    distance: Tensor
    regularizer: Tensor

    def loss(self, beta: float) -> Tensor:
        """``d² + βΩ``."""
        return self.distance + beta * self.regularizer


class Comparator(nn.Module, ABC):
    """``comparator(queries, supports)`` gives a `Comparison`; it may have weights of its own."""

    chunk_cells = 2**22
    """Cells (pairs × steps × steps) that are worth holding in memory, or rather in the cache, at once."""

    @torch.no_grad()
    def in_chunks(self, queries: Tokens, supports: Tokens) -> Comparison:
        """The same as a call, in bounded memory and without gradients."""
        row = max(1, len(supports) * queries.features.shape[1] * supports.features.shape[1])
        step = max(1, self.chunk_cells // row)
        parts = [self(queries[i : i + step], supports) for i in range(0, len(queries), step)]
        return Comparison(torch.cat([p.distance for p in parts]), torch.cat([p.regularizer for p in parts]))

    @abstractmethod
    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        """(Q, S) of every query with every support."""

    def paired(self, x: Tokens, y: Tokens) -> Comparison:
        """(B,) of x_b with y_b."""
        every = self(x, y)
        return Comparison(every.distance.diagonal(), every.regularizer.diagonal())


class EuclideanComparator(Comparator):
    """``1/τ Σ_t ‖x_t − y_t‖²`` after resampling both to the supports' mean length τ: same step against same step."""

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        steps = max(1, round(float(supports.lengths.float().mean())))
        x, y = queries.resampled(steps).flatten(1), supports.resampled(steps).flatten(1)
        distance = squared_distances(x, y) / steps
        return Comparison(distance, torch.zeros_like(distance))

    def paired(self, x: Tokens, y: Tokens) -> Comparison:
        steps = max(1, round(float(y.lengths.float().mean())))
        distance = (x.resampled(steps) - y.resampled(steps)).square().sum((1, 2)) / steps
        return Comparison(distance, torch.zeros_like(distance))


class AlignmentComparator(Comparator):
    """soft-DTW, soft-DTW divergence or uDTW, divided by the longer length or by the expected path length ``E[1]``.

    Without the division, ``d²`` grows with the number of tokens, and a target such as δ = 1 or a temperature would mean
    something else for every data set.

    Parameters
    ----------
    metric : "soft_dtw", "soft_dtw_divergence" or "udtw"
        uDTW reads the tokens' variances, Σ = 1 where there are none; the other two ignore them.
    gamma : float
    normalize : "length", "path" or None
    band
        As in `udtw.align`.
    """

    def __init__(self, metric: str, gamma: float = 0.1, normalize: str | None = "length", band: Any = None) -> None:
        super().__init__()
        if metric not in ALIGNMENTS:
            raise OptionError(f"metric must be one of {ALIGNMENTS}; got {metric!r}.")
        self.metric, self.gamma, self.normalize, self.band = metric, gamma, normalize, band

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        found = self._all_pairs(queries, supports)
        if self.metric != "soft_dtw_divergence":
            return found
        own = 0.5 * self._self_distance(queries)[:, None] + 0.5 * self._self_distance(supports)[None, :]
        return Comparison(found.distance - own, found.regularizer)

    def paired(self, x: Tokens, y: Tokens) -> Comparison:
        found = self._align(squared_distances(x.features, y.features), x.lengths, y.lengths, x.variance, y.variance)
        if self.metric == "soft_dtw_divergence":
            own = 0.5 * (self._self_distance(x) + self._self_distance(y))
            return Comparison(found.distance - own, found.regularizer)
        return found

    def _all_pairs(self, queries: Tokens, supports: Tokens) -> Comparison:
        """One matrix product makes the costs of all pairs, so no sequence is copied for each pair."""
        n_q, n_s = len(queries), len(supports)
        cost = cost_of_pairs(queries, supports)
        of_queries = None if queries.variance is None else queries.variance.repeat_interleave(n_s, 0)
        of_supports = None if supports.variance is None else supports.variance.repeat(n_q, 1)
        lengths = queries.lengths.repeat_interleave(n_s), supports.lengths.repeat(n_q)
        found = self._align(cost, *lengths, of_queries, of_supports)
        return Comparison(found.distance.unflatten(0, (n_q, n_s)), found.regularizer.unflatten(0, (n_q, n_s)))

    def _self_distance(self, tokens: Tokens) -> Tensor:
        cost = squared_distances(tokens.features, tokens.features)
        return self._align(cost, tokens.lengths, tokens.lengths, None, None).distance

    def _align(
        self, cost: Tensor, lengths_x: Tensor, lengths_y: Tensor, var_x: Tensor | None, var_y: Tensor | None
    ) -> Comparison:
        rows, columns = cost.shape[1:]
        options: dict[str, Any] = {}
        if bool((lengths_x < rows).any()) or bool((lengths_y < columns).any()):
            options = {"lengths_x": lengths_x, "lengths_y": lengths_y}
        if self.metric == "udtw" and var_x is not None and var_y is not None:
            options |= {"var_x": var_x, "var_y": var_y}
        found = align(
            None, None, cost=cost, gamma=self.gamma, normalize=self.normalize, band=self.band,
            distance="expected" if self.metric == "udtw" else "soft_min", **options,
        )  # fmt: skip
        return Comparison(found.distance, found.regularizer)

    def extra_repr(self) -> str:
        return f"{self.metric}, gamma={self.gamma:g}, normalize={self.normalize!r}"


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """``‖x_i − y_j‖²`` (…, N, M) of (…, N, d) and (…, M, d), by one matrix product; never below zero."""
    norms_x, norms_y = x.square().sum(-1)[..., :, None], y.square().sum(-1)[..., None, :]
    product = (-2 * x) @ y.mT
    if product.requires_grad:
        return (product + norms_x + norms_y).clamp_min(0)
    return product.add_(norms_x).add_(norms_y).clamp_min_(0)  # without new memory: these passes are most of the time


def cost_of_pairs(queries: Tokens, supports: Tokens) -> Tensor:
    """``D`` (Q·S, N, M): squared distances between the tokens of every query and every support."""
    pairs, rows, columns = len(queries) * len(supports), queries.features.shape[1], supports.features.shape[1]
    if queries.features.device.type == "cpu" and type(queries.features) is Tensor:
        refuse_if_too_large(
            3 * pairs * rows * columns * queries.features.element_size(),
            f"Comparing {len(queries):,} × {len(supports):,} token sequences of {rows:,} and {columns:,} tokens",
            "Compare fewer at once: without gradients use in_chunks(), for training a smaller batch or episode.",
        )
    flat = squared_distances(queries.features.flatten(0, 1), supports.features.flatten(0, 1))
    return flat.unflatten(1, (len(supports), -1)).unflatten(0, (len(queries), -1)).transpose(1, 2).flatten(0, 1)
