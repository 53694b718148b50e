"""Distances of token sequences: every query against every support, in one batched call.

All comparators take `Tokens` and return a `Comparison`, so that an experiment changes the metric by a name. Those that
do not align (Matching Networks, Prototypical Networks, TAP) follow their formulas.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from udtw._engine.checks import make_masks
from udtw._engine.distribution import PathDistribution
from udtw._engine.likelihood import squared_distances
from udtw._engine.metrics import Metric, get_metric
from udtw._engine.pair_block import Batch
from udtw._engine.prior import parse_displacement
from udtw._io.memory import refuse_if_too_large
from udtw.errors import OptionError
from udtw.fewshot.tokens import Tokens

BY_PRODUCT = 0
"""``max_direct_dim`` of distances between all tokens of a batch: one large matrix product is ten times as fast as sums
of differences, even for few features."""


@dataclass(frozen=True)
class Comparison:
    """``distance`` and ``regularizer``, (Q, S) or (B,): d² and Ω of every pair."""

    distance: Tensor
    regularizer: Tensor

    def loss(self, beta: float) -> Tensor:
        """Return ``d² + βΩ``."""
        return self.distance + beta * self.regularizer


class Comparator(nn.Module, ABC):
    """``comparator(queries, supports)`` returns a `Comparison`; it may have weights of its own."""

    chunk_cells = 2**22
    """Cells (pairs × steps × steps) computed at once, so that they fit into the cache."""

    @torch.no_grad()
    def in_chunks(self, queries: Tokens, supports: Tokens) -> Comparison:
        """Compare as a call does, in bounded memory and without gradients."""
        row = max(1, len(supports) * queries.features.shape[1] * supports.features.shape[1])
        step = max(1, self.chunk_cells // row)
        parts = [self(queries[i : i + step], supports) for i in range(0, len(queries), step)]
        return Comparison(torch.cat([p.distance for p in parts]), torch.cat([p.regularizer for p in parts]))

    @abstractmethod
    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        """Compare every query with every support, (Q, S)."""

    def paired(self, x: Tokens, y: Tokens) -> Comparison:
        """Compare x_b with y_b, (B,)."""
        every = self(x, y)
        return Comparison(every.distance.diagonal(), every.regularizer.diagonal())

    def free_energy(self, x: Tokens, y: Tokens) -> Tensor | None:
        """Return −γ log Z of x_b with y_b, (B,); None for a comparator without a likelihood."""
        return None


class EuclideanComparator(Comparator):
    """``1/τ Σ_t ‖x_t − y_t‖²`` after resampling both to the supports' mean length τ: same step against same step."""

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        steps = max(1, round(float(supports.lengths.float().mean())))
        x, y = queries.resampled(steps).flatten(1), supports.resampled(steps).flatten(1)
        distance = squared_distances(x[None], y[None], BY_PRODUCT)[0] / steps
        return Comparison(distance, torch.zeros_like(distance))

    def paired(self, x: Tokens, y: Tokens) -> Comparison:
        steps = max(1, round(float(y.lengths.float().mean())))
        distance = (x.resampled(steps) - y.resampled(steps)).square().sum((1, 2)) / steps
        return Comparison(distance, torch.zeros_like(distance))


class AlignmentComparator(Comparator):
    """An elastic metric, divided by the longer length or by the expected path length ``E[1]``.

    Without the division, ``d²`` grows with the number of tokens, and a target such as δ = 1 or a temperature would mean
    something different for every data set.

    Parameters
    ----------
    metric : str or Metric
        An elastic metric. uDTW reads the tokens' variances, Σ = 1 where there are none; the
        others ignore them. With variances of every feature, ``D/Σ`` is the sum of ``D_l/Σ_l``, and log Σ the mean of
        ``log Σ_l``, so that β has the same meaning. A `Metric` brings its own parameters, and those below are not used.

        If tokens have weights of their features, uDTW takes ``D = d Σ_l w_l v_l (x_l − y_l)² / Σ_l w_l v_l`` with the
        weights w of x and v of y, instead of the sum of squared differences: features that cannot be trusted are
        assumed to differ as much as the others do, so that a match is neither closer nor farther for them. With
        variances of every feature, these are divided by the weights instead.
    gamma : float
    normalize : "length", "path", "precision" or None
        "precision", of uDTW with variances: the distance is the mean of D over the path, weighted by precisions,
        ``E[D/Σ] / E[1/Σ]``, under the weighting's distribution of paths. A pair with many uncertain tokens is then
        compared by the others, and is neither closer nor farther for it.
    band
        As in `udtw.align`.
    weighting : "likelihood" or "precision"
        Of uDTW. "likelihood": the distance is the divergence of the free energy, ``F(x, y) − ½[F(x, x) + F(y, y)]``, in
        which uncertainty costs a path ``β log Σ``. "precision": the paper's ``d²`` and Ω.
    beta : float
        Of "likelihood".
    warp_penalty : float
        ω, added for each non-diagonal step; not of the paper's weighting.
    relax : int
        Tokens that may stay unmatched at each end of both sequences: an action need not fill its clip.
    learned : bool
        Train γ, β and ω of "likelihood" (γ and β in log form) with the rest of the model.
    evidence : bool
        Of "likelihood" with one variance per token. What a match costs is compared with what it would cost if the two
        tokens were unrelated, ``D₀ = ‖x‖² + ‖y‖²`` for tokens of zero mean: the energy of a cell is
        ``(D − D₀)/Σ = −2⟨x, y⟩/Σ``, plus ``β log Σ``. Below zero it speaks for the pair, above zero against it, and an
        uncertain match hardly counts. The distance is the free energy. In the divergence, which it replaces, D₀
        cancels, so that uncertain tokens make a pair close.
    order : "path", "set" or "grid"
        Of uDTW, as in `udtw.align`: for tokens without an order. A "grid" is square, read row by row, and its reach
        (at first half a side) is learned.

        With ``evidence``, the best of many partners speaks for any pair, so that the sum over matches would grow with
        the precision of an image. The distance is then the mean of both ways of choosing partners, in which a token
        counts by its own precision: ``½[Σ_m u_m S_m + Σ_n v_n S_n]`` with ``S_m = −γ log Σ_n exp(2⟨x_m, y_n⟩/γ)``,
        ``u_m = σ_m⁻²/Σ σ⁻²``, and S_n and v_n likewise for the tokens of y.
    """

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, metric: str | Metric, gamma: float = 0.1, normalize: str | None = "length", band: Any = None, *,
        weighting: str = "precision", beta: float = 1.0, warp_penalty: float = 0.0, relax: int = 0,
        learned: bool = False, evidence: bool = False, order: str = "path",
    ) -> None:  # fmt: skip
        super().__init__()
        chosen = get_metric(metric, gamma=gamma, band=band)
        if not chosen.elastic:
            raise OptionError(f"metric must compare sequences of different lengths; {chosen.name!r} does not.")
        self.by_precision = normalize == "precision" and isinstance(metric, str) and chosen.uncertain
        likely = isinstance(metric, str) and "weighting" in chosen.params and weighting == "likelihood"
        self.evidence = evidence and likely and not self.by_precision
        if isinstance(metric, str):
            wanted: dict[str, Any] = {
                "normalize": None if self.by_precision else normalize, "weighting": weighting,
                "warp_penalty": warp_penalty, "relax": (relax,) * 4 if relax else None, "order": order,
            } | ({"beta": beta, "debias": not self.by_precision and not evidence} if likely else {})  # fmt: skip
            chosen = chosen.with_params(**{name: v for name, v in wanted.items() if name in chosen.params})
        chosen.check()
        self.metric = chosen
        self.plain = chosen.without_bias or chosen
        self.order = order
        self.of_best = self.evidence and order != "path"
        """Whether precisions weight the best matches of tokens, and leave the choice of partners to the features."""
        self.joint: nn.Module | None = None
        """Gives the variances of matches, (B, N, M), from the tokens of both; by default those of tokens are summed."""
        if order == "grid":
            self.log_reach = nn.Parameter(torch.tensor(0.5).log())
        self.learns = learned and chosen.params.get("weighting") == "likelihood"
        if self.learns:
            self.log_gamma = nn.Parameter(torch.tensor(float(chosen.params["gamma"])).log())
            self.log_beta = nn.Parameter(torch.tensor(float(chosen.params["beta"])).log())
            if order == "path":
                self.warp_penalty = nn.Parameter(torch.tensor(float(chosen.params["warp_penalty"])))

    def params(self, n_tokens: int | None = None) -> dict[str, Any]:
        """Return the parameters of the metric without its bias, with the present values of those that are learned.

        With ``n_tokens``, also the shape and the reach of a grid of so many.
        """
        params = dict(self.plain.params)
        if self.learns:
            params |= {"gamma": self.log_gamma.exp(), "beta": self.log_beta.exp()}
            if self.order == "path":
                params["warp_penalty"] = self.warp_penalty
        if self.order == "grid" and n_tokens is not None:
            side = math.isqrt(n_tokens)
            if side**2 != n_tokens:
                raise OptionError(f"A grid of tokens must be square; got {n_tokens} tokens. Use 'set' for others.")
            params |= {"shape": (side, side), "reach": side * self.log_reach.exp()}
        return params

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        found = self._all_pairs(queries, supports)
        if self.metric.without_bias is None:
            return found
        own = 0.5 * self._self_distance(queries)[:, None] + 0.5 * self._self_distance(supports)[None, :]
        return Comparison(found.distance - own, found.regularizer)

    def paired(self, x: Tokens, y: Tokens) -> Comparison:
        found = self._pairs(x, y)
        if self.metric.without_bias is not None:
            own = 0.5 * (self._self_distance(x) + self._self_distance(y))
            return Comparison(found.distance - own, found.regularizer)
        return found

    def _all_pairs(self, queries: Tokens, supports: Tokens) -> Comparison:
        n_q, n_s = len(queries), len(supports)
        if self.plain.takes_cost and not self._by_feature(queries, supports):
            # One matrix product makes the costs of all pairs, so no sequence is copied for each pair.
            given = self.plain.uncertain and queries.variance is not None and supports.variance is not None
            of_queries = queries.variance.repeat_interleave(n_s, 0) if given else None  # type: ignore[union-attr]
            of_supports = supports.variance.repeat(n_q, 1) if given else None  # type: ignore[union-attr]
            lengths = queries.lengths.repeat_interleave(n_s), supports.lengths.repeat(n_q)
            cost = cost_of_pairs(queries, supports, self.between)
            joint = None
            if self.joint is not None:
                joint = self.joint(
                    queries.zero_padded().repeat_interleave(n_s, 0), supports.zero_padded().repeat(n_q, 1, 1)
                )
            found = self._of_cost(cost, lengths, (of_queries, of_supports), joint)
        else:
            of_query, of_support = (torch.arange(n, device=queries.features.device) for n in (n_q, n_s))
            found = self._pairs(queries[of_query.repeat_interleave(n_s)], supports[of_support.repeat(n_q)])
        return Comparison(found.distance.unflatten(0, (n_q, n_s)), found.regularizer.unflatten(0, (n_q, n_s)))

    def _self_distance(self, tokens: Tokens) -> Tensor:
        return self._pairs(tokens, tokens).distance

    def _pairs(self, x: Tokens, y: Tokens) -> Comparison:
        variances = (x.variance, y.variance)
        if self._by_feature(x, y):
            variances = (_divided(x.variance, x.weight), _divided(y.variance, y.weight))
            dim = x.features.shape[2]
            options = self.params(x.features.shape[1]) | {"lengths_x": x.lengths, "lengths_y": y.lengths}
            if "beta" in options:
                options["beta"] = options["beta"] / dim
            found = _comparison(
                self.plain.function(x.features, y.features, var_x=variances[0], var_y=variances[1], **options)
            )
            return Comparison(found.distance, found.regularizer / dim)
        if self.plain.takes_cost:
            joint = None if self.joint is None else self.joint(x.zero_padded(), y.zero_padded())
            return self._of_cost(self.between(x, y), (x.lengths, y.lengths), variances, joint)
        return _comparison(
            self.plain.compare(Batch(x.features, x.lengths, variances[0]), Batch(y.features, y.lengths, variances[1]))
        )

    def between(self, x: Tokens, y: Tokens) -> Tensor:
        """Return D between the tokens of x_b and y_b, or as evidence ``D − D₀``, (B, N, M)."""
        if self.evidence:
            return (-2 * x.features) @ y.features.mT
        if not self.plain.uncertain or (x.weight is None and y.weight is None):
            return between_tokens(x, y)
        weights = [torch.ones_like(one.features) if one.weight is None else one.weight for one in (x, y)]
        return weighted_distances(x.features, y.features, *weights)

    def _by_feature(self, x: Tokens, y: Tokens) -> bool:
        known = x.variance is not None and y.variance is not None
        return self.plain.uncertain and known and x.variance.ndim == 3  # type: ignore[union-attr]

    def free_energy(self, x: Tokens, y: Tokens) -> Tensor | None:
        """Return F of x_b with y_b, (B,), without the terms of each alone; None without a free energy."""
        return self._pairs(x, y).distance if self.metric.params.get("weighting") == "likelihood" else None

    def _of_cost(
        self, cost: Tensor, lengths: tuple[Tensor, Tensor], variances: tuple[Tensor | None, Tensor | None],
        joint: Tensor | None,
    ) -> Comparison:  # fmt: skip
        rows, columns = cost.shape[1:]
        options = self.params(rows)
        if bool((lengths[0] < rows).any()) or bool((lengths[1] < columns).any()):
            options |= {"lengths_x": lengths[0], "lengths_y": lengths[1]}
        if self.by_precision:
            return self._mean_by_precision(cost, variances, options)
        if self.of_best and joint is None:
            return self._mean_of_best(cost, variances, options)
        if joint is not None:
            options["variance"] = joint
        elif self.plain.uncertain and variances[0] is not None and variances[1] is not None:
            options |= {"var_x": variances[0], "var_y": variances[1]}
        return _comparison(self.plain.function(None, None, cost=cost, **options))

    def _mean_by_precision(
        self, cost: Tensor, variances: tuple[Tensor | None, Tensor | None], options: dict[str, Any]
    ) -> Comparison:
        """Return ``E[D/Σ] / E[1/Σ]``, (B,)."""
        one = cost.new_ones(1)
        of_x, of_y = (one[:, None] if variance is None else variance for variance in variances)
        sigma = ((of_x[:, :, None] + of_y[:, None, :]) / 2).expand_as(cost)
        weighted, precision = cost / sigma, 1 / sigma
        energy = weighted + options["beta"] * sigma.log() if options["weighting"] == "likelihood" else weighted
        lengths = (options["lengths_x"], options["lengths_y"]) if "lengths_x" in options else None
        paths = PathDistribution(
            energy, options["gamma"], lengths, options.get("band"), warp_penalty=options.get("warp_penalty", 0.0),
            relax=options.get("relax"),
        )  # fmt: skip
        total, weight = paths.expect(weighted, precision)
        return Comparison(total / weight, torch.zeros_like(total))

    def _mean_of_best(
        self, cost: Tensor, variances: tuple[Tensor | None, Tensor | None], options: dict[str, Any]
    ) -> Comparison:
        """Return the mean of both ways of choosing partners, weighted by precision, (B,)."""
        gamma, (_, rows, columns) = options["gamma"], cost.shape
        if self.order == "grid":
            cost = cost + parse_displacement(options["shape"], options["reach"][None], rows, columns)
        scores = -cost / gamma
        weights = [
            cost.new_ones(len(cost), size) if variance is None else 1 / variance
            for variance, size in zip(variances, (rows, columns), strict=True)
        ]
        if "lengths_x" in options:
            lengths = torch.stack([options["lengths_x"], options["lengths_y"]])
            inside = make_masks(lengths, rows, columns, with_grid=False)[:2]
            both = inside[0][:, :, None] & inside[1][:, None, :]
            scores = torch.where(both, scores, -torch.finfo(cost.dtype).max / 4)
            weights = [torch.where(one, weight, 0) for weight, one in zip(weights, inside, strict=True)]
        ways = [
            (weight * torch.logsumexp(scores, axis)).sum(1) / weight.sum(1)
            for weight, axis in zip(weights, (2, 1), strict=True)
        ]
        distance = -0.5 * gamma * (ways[0] + ways[1])
        return Comparison(distance, torch.zeros_like(distance))

    def extra_repr(self) -> str:
        return ", ".join([self.metric.name, *(f"{name}={value!r}" for name, value in self.metric.params.items())])


def _divided(variance: Tensor | None, weight: Tensor | None) -> Tensor | None:
    return variance if variance is None or weight is None else variance / weight


def _comparison(found: Any) -> Comparison:
    """Convert the result of a metric: distances (B,), or an `Alignment`."""
    if isinstance(found, Tensor):
        return Comparison(found, torch.zeros_like(found))
    if found.weighting == "likelihood":  # the price of uncertainty is part of the free energy
        return Comparison(found.loss, torch.zeros_like(found.loss))
    return Comparison(found.distance, found.regularizer)


def weighted_distances(x: Tensor, y: Tensor, weight_x: Tensor, weight_y: Tensor) -> Tensor:
    """Return ``d Σ_l w_il v_jl (x_il − y_jl)² / Σ_l w_il v_jl`` (…, N, M) by matrix products.

    ``x`` is (…, N, d) and ``y`` (…, M, d), each with weights of its shape.
    """
    of_x, of_y = weight_x * x, weight_y * y
    total = (of_x * x) @ weight_y.mT + weight_x @ (of_y * y).mT - 2 * of_x @ of_y.mT
    return (total / (weight_x @ weight_y.mT)).clamp_min(0) * x.shape[-1]


def between_tokens(x: Tokens, y: Tokens) -> Tensor:
    """Return squared distances between the tokens of x_b and y_b, (B, N, M)."""
    return squared_distances(x.zero_padded(), y.zero_padded(), BY_PRODUCT)


def cost_of_pairs(
    queries: Tokens, supports: Tokens, between: Callable[[Tokens, Tokens], Tensor] = between_tokens
) -> Tensor:
    """Return D (Q·S, N, M): squared distances, or another cost, between the tokens of every query and every support."""
    pairs, rows, columns = len(queries) * len(supports), queries.features.shape[1], supports.features.shape[1]
    if queries.features.device.type == "cpu" and type(queries.features) is Tensor:
        refuse_if_too_large(
            3 * pairs * rows * columns * queries.features.element_size(),
            f"Comparing {len(queries):,} × {len(supports):,} token sequences of {rows:,} and {columns:,} tokens",
            "Compare fewer at once: without gradients use in_chunks(), for training a smaller batch or episode.",
        )
    flat = between(queries.as_one(), supports.as_one())[0]
    return flat.unflatten(1, (len(supports), -1)).unflatten(0, (len(queries), -1)).transpose(1, 2).flatten(0, 1)


class PrototypeComparator(Comparator):
    """Prototypical Networks: ``‖x̄ − ȳ‖²`` of the mean tokens."""

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        distance = squared_distances(queries.mean()[None], supports.mean()[None], BY_PRODUCT)[0]
        return Comparison(distance, torch.zeros_like(distance))


class MatchingComparator(Comparator):
    """Matching Networks: ``1 − cos(x̄, ȳ)`` of the mean tokens; the softmax over supports is that of the objective."""

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        x, y = (nn.functional.normalize(tokens.mean(), dim=1) for tokens in (queries, supports))
        distance = 1 - x @ y.T
        return Comparison(distance, torch.zeros_like(distance))


class WeightedMeanComparator(Comparator):
    """``1 − cos(x̄, ȳ)`` of the means of the tokens, weighted by their precision 1/σ²: σ without any matching."""

    def forward(self, queries: Tokens, supports: Tokens) -> Comparison:
        x, y = (nn.functional.normalize(tokens.mean(by_precision=True), dim=1) for tokens in (queries, supports))
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
        """Compare every query with every support, (Q, S)."""
        x, y = queries.trimmed(), supports.trimmed()
        base = (cost_of_pairs(x, y) + 1e-8).sqrt()  # the root has no derivative at zero
        in_x = x.inside.repeat_interleave(len(y), 0)
        in_y = y.inside.repeat(len(x), 1)
        distance = self._one_way(base, in_x, in_y) + self._one_way(base.mT, in_y, in_x)
        return distance.unflatten(0, (len(x), len(y)))

    def _one_way(self, base: Tensor, in_x: Tensor, in_y: Tensor) -> Tensor:
        """Return ``Σ T_ij D_ij`` (B,), from D (B, N, M) and masks of the tokens that are not padding."""
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
