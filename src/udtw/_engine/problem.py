"""`Problem`: what a backend is asked about, as tensors that `udtw._engine.inputs` has checked."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from udtw._engine import inputs, likelihood, prior
from udtw._engine.prior import Prior

COST, LOG_VARIANCE, DEVIATION, ONE, WARPS = range(5)
"""Built-in fields: C, log Σ, (Σ − 1)², 1, and not of a cell but of a path: its number of non-diagonal steps."""
BUILT_IN = 5
"""Fields given by the user are numbered from here on."""
MATRIX_BYTES = 64 * 2**20
"""Bytes of the cost matrices that `Problem.slices` makes at a time."""


@dataclass(frozen=True)
class Problem:
    """A batch of B pairs. The base cost D is ``‖x_m − y_n‖²`` or ``cost``; C is D, or D over the variance.

    The energy of a path is the sum of C over its cells or, if there is a β, of ``C + β log(Σ/r)`` plus the constant
    ``½β(N + M) log r``; r is the level of the pair (`log_level`). The prior adds ω for each non-diagonal step.

    ``var_x`` and ``var_y`` come together (Σ is their mean) and exclude ``variance``. With an ``index``, pair b compares
    sequence ``index[0, b]`` of x with sequence ``index[1, b]`` of y; without, sequence b with sequence b.
    """

    gamma: Tensor  # (B,)
    lengths: Tensor  # (2, B) int64
    prior: Prior
    x: Tensor | None = None  # (B, N, d), or (n_x, N, d) with an index
    y: Tensor | None = None  # (B, M, d), or (n_y, M, d)
    cost: Tensor | None = None  # (B, N, M)
    var_x: Tensor | None = None  # (B, N), or (n_x, N); with a last axis d, a variance of each feature
    var_y: Tensor | None = None  # (B, M), or (n_y, M); likewise
    variance: Tensor | None = None  # (B, N, M)
    beta: Tensor | None = None  # (B,)
    index: Tensor | None = None  # (2, B) int64

    @property
    def main(self) -> Tensor:
        """The sequences or the cost: the tensor whose dtype and device are those of the problem."""
        if self.x is not None:
            return self.x
        assert self.cost is not None, "a Problem has sequences or a cost"
        return self.cost

    @property
    def data(self) -> tuple[Tensor | None, ...]:
        """x, y, cost, var_x, var_y and variance, in the order of every operator and gradient."""
        return self.x, self.y, self.cost, self.var_x, self.var_y, self.variance

    @property
    def prices(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """γ, β and ω of each pair."""
        return self.gamma, self.beta, self.prior.warp_penalty

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, N, M)."""
        if self.x is not None and self.y is not None:
            return self.lengths.shape[1], self.x.shape[1], self.y.shape[1]
        count, rows, columns = self.main.shape
        return count, rows, columns

    @property
    def uncertain(self) -> bool:
        """Whether a variance was given."""
        return self.var_x is not None or self.variance is not None

    @property
    def by_feature(self) -> bool:
        """Whether every feature has a variance of its own."""
        return self.var_x is not None and self.var_x.ndim == 3

    @property
    def plain(self) -> bool:
        """Whether the energy of a path is the sum of C over its cells."""
        return self.prior.warp_penalty is None and (self.beta is None or not self.uncertain)

    @property
    def wants_gradient(self) -> bool:
        """Whether a gradient in anything but γ, β and ω is to be expected."""
        return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in self.data)

    def base_cost(self) -> Tensor:
        """``D`` (B, N, M)."""
        if self.x is not None and self.y is not None:
            return likelihood.squared_distances(self.x, self.y)
        return self.main

    def pair_variance(self) -> Tensor | None:
        """``Σ`` (B, N, M), or (B, N, M, d) with a variance of each feature; None where it is 1 throughout."""
        if self.var_x is not None and self.var_y is not None:
            return likelihood.mean_variance(self.var_x, self.var_y)
        return self.variance

    def log_variance(self) -> Tensor | None:
        """``log Σ`` (B, N, M), summed over features with variances of their own; None where it is 0 throughout."""
        variance = self.pair_variance()
        if variance is None:
            return None
        return variance.log().sum(3) if self.by_feature else variance.log()

    def weighted_cost(self) -> Tensor:
        """``C = D / Σ`` (B, N, M)."""
        if self.by_feature:
            assert self.x is not None, "features belong to sequences"
            assert self.y is not None, "features belong to sequences"
            assert self.var_x is not None, "checked by by_feature"
            assert self.var_y is not None, "comes with var_x"
            return likelihood.feature_distances(self.x, self.y, self.var_x, self.var_y)
        variance = self.pair_variance()
        return self.base_cost() if variance is None else self.base_cost() / variance

    def energy(self) -> Tensor:
        """(B, N, M): ``C``, or with a β ``C + β log(Σ/r)``."""
        cost, log = self.weighted_cost(), self.log_variance()
        if self.beta is None or log is None:
            return cost
        return cost + self.beta[:, None, None] * (log - self.log_level()[:, None, None])

    def constant_energy(self) -> Tensor:
        """``½β(N + M) log r`` (B,): the part of a path's energy that does not depend on the path."""
        if self.beta is None or not self.uncertain:
            return torch.zeros_like(self.gamma)
        return 0.5 * self.beta * self.log_level() * self.lengths.sum(0)

    def field(self, which: int) -> Tensor:
        """Built-in field number ``which`` of the cells, (B, N, M)."""
        if which == COST:
            return self.weighted_cost()
        variance = self.pair_variance()
        if variance is None or which == ONE:
            return self.main.new_full(self.shape, float(which == ONE))
        if which == LOG_VARIANCE and (log := self.log_variance()) is not None:
            return log
        deviation = (variance - 1).square()
        return deviation.sum(3) if self.by_feature else deviation

    def log_level(self) -> Tensor:
        """``log r`` (B,): the mean log variance of the pair; zero where Σ is 1 throughout."""
        rows, columns = self.shape[1:]
        if self.var_x is not None and self.var_y is not None:
            in_x, in_y, _ = inputs.inside(self.lengths, rows, columns, False)
            return likelihood.log_level(self.var_x.log(), self.var_y.log(), in_x, in_y)
        if self.variance is None:
            return torch.zeros_like(self.gamma)
        cells = inputs.inside(self.lengths, rows, columns, True)[2]
        assert cells is not None, "asked for"
        return torch.where(cells, self.variance.log(), 0).sum((1, 2)) / cells.sum((1, 2))

    @property
    def few_features(self) -> bool:
        """Whether D is better made by the kernel than by a matrix product; False if D is given.

        With a variance of each feature C is no matrix product.
        """
        return self.x is not None and (self.by_feature or self.x.shape[2] <= likelihood.MAX_DIRECT_DIM)

    def with_cost_of_many_features(self) -> "Problem":
        """Return the same problem, with D made once by a matrix product if there are many features."""
        if self.x is None or self.y is None or self.few_features:
            return self
        if inputs.visible(self.x, self.y):
            # The sum is a cheap test: only if it is not finite is the precise, slower check needed.
            for name, tensor in (("x", self.x), ("y", self.y)):
                if not bool(torch.isfinite(tensor.detach().sum())):
                    inputs.check_finite(name, tensor)
        return self.replace(x=None, y=None, cost=self.base_cost())

    def self_pair(self, side: str, relax: Any = None) -> "Problem":
        """Return the problem of matching x (or y) with itself; ``relax`` as the user gave it."""
        row = 0 if side == "x" else 1
        sequence, variance = getattr(self, side), getattr(self, f"var_{side}")
        lengths = self.lengths[row].expand(2, -1)
        return self.replace(
            x=sequence, y=sequence, var_x=variance, var_y=variance, lengths=lengths,
            prior=replace(self.prior, relax=prior.own_relax(relax, lengths)),
        )  # fmt: skip

    def transposed(self) -> "Problem":
        """Return the same pairs with x and y exchanged."""

        def turned(matrix: Tensor | None) -> Tensor | None:
            return None if matrix is None else matrix.transpose(1, 2)

        band, relax = self.prior.band, self.prior.relax
        if band.kind == prior.ITAKURA:  # its rows are rounded, so that it is not quite one of columns; a radius is
            mask = prior.admissible(band, self.lengths, *self.shape[1:])
            band = prior.Band(prior.MASK, 0.0, mask)
        return self.replace(
            x=self.y, y=self.x, cost=turned(self.cost), var_x=self.var_y, var_y=self.var_x,
            variance=turned(self.variance), lengths=self.lengths.flip(0),
            prior=replace(
                self.prior, band=replace(band, mask=turned(band.mask)),
                relax=None if relax is None else relax[[2, 3, 0, 1]],
            ),
        )  # fmt: skip

    def slices(self) -> Iterator["Problem"]:
        """Return the pairs of an indexed problem as batches with a cost matrix, each of about `MATRIX_BYTES`."""
        assert self.x is not None, "an index belongs to sequences"
        assert self.y is not None, "an index belongs to sequences"
        assert self.index is not None, "the caller has an index"
        count, rows, columns = self.shape
        size = max(1, MATRIX_BYTES // (rows * columns * self.x.element_size()))
        for part in torch.arange(count, device=self.lengths.device).split(size):
            i, j = self.index[:, part]
            gamma, beta, warp = (None if one is None else one[part].to(self.x.dtype) for one in self.prices)
            assert gamma is not None, "a Problem has a temperature"
            relax = None if self.prior.relax is None else self.prior.relax[:, part]
            pairs = Problem(
                gamma=gamma,
                lengths=self.lengths[:, part],
                prior=Prior(self.prior.band, warp, relax),
                x=self.x[i],
                y=self.y[j],
                var_x=None if self.var_x is None else self.var_x[i],
                var_y=None if self.var_y is None else self.var_y[j],
                beta=beta,
            )
            yield pairs if pairs.by_feature else pairs.replace(x=None, y=None, cost=pairs.base_cost())

    def without_padding(self) -> "Problem":
        """Return the same problem with zeros (variances.

        Ones) as padding, so that NaN there cannot reach a gradient.
        """
        _, rows, columns = self.shape
        in_x, in_y, grid = inputs.inside(
            self.lengths, rows, columns, self.cost is not None or self.variance is not None
        )

        def keep(tensor: Tensor | None, inside: Tensor | None, otherwise: float) -> Tensor | None:
            if tensor is None or inside is None:
                return None
            shaped = inside.reshape(*inside.shape, *[1] * (tensor.ndim - inside.ndim))
            return torch.where(shaped, tensor, otherwise)

        return self.replace(
            x=keep(self.x, in_x, 0.0),
            y=keep(self.y, in_y, 0.0),
            cost=keep(self.cost, grid, 0.0),
            var_x=keep(self.var_x, in_x, 1.0),
            var_y=keep(self.var_y, in_y, 1.0),
            variance=keep(self.variance, grid, 1.0),
        )

    def check_values(self, fields: Sequence[Tensor] = ()) -> None:
        """Raise a named error for the first value that no kernel could use."""
        inputs.check_values(
            {"x": self.x, "y": self.y, "cost": self.cost},
            {"var_x": self.var_x, "var_y": self.var_y, "variance": self.variance},
            self.lengths,
            *self.shape[1:],
            fields,
        )

    def to(self, dtype: torch.dtype) -> "Problem":
        """Return the same problem in another floating-point type."""
        names = ("gamma", "x", "y", "cost", "var_x", "var_y", "variance", "beta")
        tensors = {name: getattr(self, name) for name in names}
        changes: dict[str, Any] = {name: None if t is None else t.to(dtype) for name, t in tensors.items()}
        if self.prior.warp_penalty is not None:
            changes["prior"] = replace(self.prior, warp_penalty=self.prior.warp_penalty.to(dtype))
        return replace(self, **changes)

    def replace(self, **changes: Any) -> "Problem":
        """Return a copy with some attributes changed."""
        return replace(self, **changes)


def make_problem(
    tensors: dict[str, Tensor | None],
    gamma: Any = 1.0,
    lengths: tuple[Any, Any] = (None, None),
    *,
    band: Any = None,
    beta: Any = None,
    warp_penalty: Any = 0.0,
    relax: Any = None,
) -> Problem:
    """Return a `Problem` from the tensors of `inputs.pair` and the user's options.

    (lengths_x, lengths_y) are a pair.
    """
    main = tensors["x"] if tensors.get("cost") is None else tensors["cost"]
    assert main is not None, "inputs.pair gives sequences or a cost"
    other = tensors["y"] if tensors.get("cost") is None else None
    count, rows = main.shape[:2]
    columns = main.shape[2] if other is None else other.shape[1]
    both = inputs.both_lengths(*lengths, count, rows, columns, main.device)
    no_penalty = isinstance(warp_penalty, int | float) and warp_penalty == 0
    problem = Problem(
        gamma=inputs.gamma(gamma, count, main),
        lengths=both,
        prior=Prior(
            prior.parse(band, count, rows, columns, main.device),
            None if no_penalty else inputs.per_pair("warp_penalty", warp_penalty, count, main),
            prior.parse_relax(relax, both),
        ),
        beta=None if beta is None else inputs.beta(beta, count, main),
        **tensors,
    )
    if any(one is not None for one in lengths) and inputs.visible(problem.lengths):
        inputs.check_lengths(problem.lengths, rows, columns)
    if problem.prior.relax is not None and inputs.visible(problem.prior.relax):
        prior.check_relax(problem.prior.relax, problem.lengths)
    return problem


def without_autocast(value: Any) -> AbstractContextManager:
    """Disable autocast, which would lose digits; no-op if it is already off."""
    name = value.device.type if isinstance(value, Tensor) else "cpu"
    enabled = torch.amp.is_autocast_available(name) and torch.is_autocast_enabled(name)
    return torch.autocast(name, enabled=False) if enabled else nullcontext()
