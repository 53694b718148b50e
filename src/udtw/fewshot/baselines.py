"""Comparators of other methods: Matching Networks, Prototypical Networks and TAP, from their formulas."""

import torch
from torch import Tensor, nn

from udtw.fewshot.comparators import Comparator, Comparison, cost_of_pairs, squared_distances
from udtw.fewshot.tokens import Tokens


class PrototypeComparator(Comparator):
    """Prototypical Networks: ``‖x̄ − ȳ‖²`` of the mean tokens."""

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        distance = squared_distances(queries.mean(), supports.mean())
        return Comparison(distance, torch.zeros_like(distance))


class MatchingComparator(Comparator):
    """Matching Networks: ``1 − cos(x̄, ȳ)`` of the mean tokens; the softmax over supports is that of the objective."""

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        x, y = (nn.functional.normalize(tokens.mean(), dim=1) for tokens in (queries, supports))
        distance = 1 - x @ y.T
        return Comparison(distance, torch.zeros_like(distance))


class TAPComparator(Comparator):
    """Temporal Alignment Prediction: a network predicts the alignment, without dynamic programming.

    ``D_ij = ‖x_i − y_j‖``, ``P_ij = |i/N − j/M|``, ``f = conv(5×5, 2→64)-ReLU-conv(5×5, 64→64)-ReLU-conv(3×3, 64→1)``
    of both, ``A = softmax_j(−(f + D))``, ``T = A / ΣA``, ``d(x, y) = Σ T_ij D_ij``; the distance is
    ``d(x, y) + d(y, x)``.
    """

    tile = 4
    """Sequences of a side that are compared at once, those of like length: the network costs as much for padding as for
    tokens, and the cells of a tile, with 64 channels each, stay in the cache."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(2, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, width, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, 1, 3, padding=1),
        )

    @torch.no_grad()
    def in_chunks(self, queries: Tokens, supports: Tokens) -> Comparison:
        return self(queries, supports)

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        rows, columns = (tokens.lengths.argsort() for tokens in (queries, supports))
        lines = [
            torch.cat([self._of_tile(queries[x], supports[y]) for y in columns.split(self.tile)], 1)
            for x in rows.split(self.tile)
        ]
        distance = torch.cat(lines)[rows.argsort()][:, columns.argsort()]
        return Comparison(distance, torch.zeros_like(distance))

    def _of_tile(self, queries: Tokens, supports: Tokens) -> Tensor:
        """(Q, S) of every query with every support."""
        x, y = queries.trimmed(), supports.trimmed()
        base = (cost_of_pairs(x, y) + 1e-8).sqrt()  # the root has no derivative at zero
        in_x = x.inside.repeat_interleave(len(y), 0)
        in_y = y.inside.repeat(len(x), 1)
        distance = self._one_way(base, in_x, in_y) + self._one_way(base.mT, in_y, in_x)
        return distance.unflatten(0, (len(x), len(y)))

    def _one_way(self, base: Tensor, in_x: Tensor, in_y: Tensor) -> Tensor:
        """``Σ T_ij D_ij`` (B,), from D (B, N, M) and masks of the tokens that are no padding."""
        positions = [torch.arange(1, m.shape[1] + 1, device=m.device) / m.sum(1)[:, None] for m in (in_x, in_y)]
        apart = (positions[0][:, :, None] - positions[1][:, None, :]).abs().to(base.dtype)
        valid = (in_x[:, :, None] & in_y[:, None, :])[:, None]
        seen = torch.stack([base, apart], 1) * valid
        for layer in self.net:  # a bias in the padding would reach the tokens by the next convolution
            seen = layer(seen) * valid
        score = -(seen[:, 0] + base)
        score = score.masked_fill(~in_y[:, None, :], -torch.inf)
        plan = score.softmax(2) * in_x[:, :, None]
        return (plan * base).sum((1, 2)) / plan.sum((1, 2))
