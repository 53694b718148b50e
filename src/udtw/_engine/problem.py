"""`Problem`: what a backend is asked about, as tensors that `udtw._engine.inputs` has checked."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from udtw._engine import checks, inputs, likelihood, prior, ties
from udtw._engine.prior import Prior
from udtw.errors import OptionError

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
    ``½β(N + M) log r``; r is the level of the pair (`log_level`). The prior adds ω for each non-diagonal step, δ for
    each step without a partner and κ for each run of them.

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
        priced = any(price is not None for price in self.prior.prices)
        return not priced and (self.beta is None or not self.uncertain)

    @property
    def wants_gradient(self) -> bool:
        """Whether a gradient in anything but γ, β and the prices of the prior is to be expected."""
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

    def skew_energy(self) -> Tensor | None:
        """(B,): what the skew of ω adds to every path, if no end is relaxed; None without skew.

        A path from the first to the last cell has N − M more steps (1, 0) than (0, 1).
        """
        skew = self.prior.warp_skew
        return None if skew is None else skew * (self.lengths[0] - self.lengths[1])

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
            in_x, in_y, _ = checks.make_masks(self.lengths, rows, columns, False)
            return likelihood.log_level(self.var_x.log(), self.var_y.log(), in_x, in_y)
        if self.variance is None:
            return torch.zeros_like(self.gamma)
        cells = checks.make_masks(self.lengths, rows, columns, True)[2]
        assert cells is not None, "asked for"
        return torch.where(cells, self.variance.log(), 0).sum((1, 2)) / cells.sum((1, 2))

    @property
    def few_features(self) -> bool:
        """Whether D is better made by the kernel than by a matrix product; False if D is given.

        With a variance per feature, C is not a matrix product.
        """
        return self.x is not None and (self.by_feature or self.x.shape[2] <= likelihood.MAX_DIRECT_DIM)

    def with_cost_of_many_features(self) -> "Problem":
        """Return the same problem, with D made once by a matrix product if there are many features."""
        if self.x is None or self.y is None or self.few_features:
            return self
        if checks.can_read(self.x, self.y):
            # The sum is a cheap test: only if it is not finite is the precise, slower check needed.
            for name, tensor in (("x", self.x), ("y", self.y)):
                if not bool(torch.isfinite(tensor.detach().sum())):
                    checks.check_finite(name, tensor)
        return self.replace(x=None, y=None, cost=self.base_cost())

    def self_pair(self, side: str, relax: Any = None) -> "Problem":
        """Return the problem of matching x (or y) with itself; ``relax`` as the user gave it."""
        row = 0 if side == "x" else 1
        sequence, variance = getattr(self, side), getattr(self, f"var_{side}")
        lengths = self.lengths[row].expand(2, -1)
        return self.replace(
            x=sequence, y=sequence, var_x=variance, var_y=variance, lengths=lengths,
            prior=replace(self.prior, relax=prior.own_relax(relax, lengths), ties=None),
        )  # fmt: skip

    def transposed(self) -> "Problem":
        """Return the same pairs with x and y exchanged."""

        def turned(matrix: Tensor | None) -> Tensor | None:
            return None if matrix is None else matrix.transpose(1, 2)

        band, relax, skew = self.prior.band, self.prior.relax, self.prior.warp_skew
        if band.kind == prior.ITAKURA:  # its rows are rounded, so that it is not quite one of columns; a radius is
            mask = prior.admissible(band, self.lengths, *self.shape[1:])
            band = prior.Band(prior.MASK, 0.0, mask)
        return self.replace(
            x=self.y, y=self.x, cost=turned(self.cost), var_x=self.var_y, var_y=self.var_x,
            variance=turned(self.variance), lengths=self.lengths.flip(0),
            prior=replace(
                self.prior, band=replace(band, mask=turned(band.mask)),
                relax=None if relax is None else relax[[2, 3, 0, 1]],
                warp_skew=None if skew is None else -skew, ties=turned(self.prior.ties),
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
            gamma, beta = (None if one is None else one[part].to(self.x.dtype) for one in (self.gamma, self.beta))
            assert gamma is not None, "a Problem has a temperature"
            pairs = Problem(
                gamma=gamma,
                lengths=self.lengths[:, part],
                prior=self.prior.of_pairs(part, self.x.dtype),
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
        in_x, in_y, grid = checks.make_masks(
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
        checks.check_values(
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
        places, ties = (None if t is None else t.to(dtype) for t in (self.prior.displacement, self.prior.ties))
        priced = self.prior.with_prices(lambda price: price.to(dtype))
        prior = replace(priced, displacement=places, ties=ties)
        return replace(self, prior=prior, **changes)

    def replace(self, **changes: Any) -> "Problem":
        """Return a copy with some attributes changed."""
        return replace(self, **changes)


def make_problem(
    tensors: dict[str, Tensor | None],
    gamma: Any = 1.0,
    lengths: tuple[Any, Any] = (None, None),
    *,
    beta: Any = None,
    **options: Any,
) -> Problem:
    """Return a `Problem` from the tensors of `inputs.read_pair` and the options of the user and of `make_prior`.

    (lengths_x, lengths_y) are a pair.
    """
    main = tensors["x"] if tensors.get("cost") is None else tensors["cost"]
    assert main is not None, "inputs.read_pair gives sequences or a cost"
    other = tensors["y"] if tensors.get("cost") is None else None
    count, rows = main.shape[:2]
    columns = main.shape[2] if other is None else other.shape[1]
    both = inputs.read_both_lengths(*lengths, count, rows, columns, main.device)
    problem = Problem(
        gamma=inputs.read_gamma(gamma, count, main),
        lengths=both,
        prior=make_prior(main, both, rows, columns, **options),
        beta=None if beta is None else inputs.read_beta(beta, count, main),
        **tensors,
    )
    if any(one is not None for one in lengths) and checks.can_read(problem.lengths):
        checks.check_lengths(problem.lengths, rows, columns)
    if problem.prior.relax is not None and checks.can_read(problem.prior.relax):
        prior.check_relax(problem.prior.relax, problem.lengths)
    if problem.prior.ties is not None:
        ties.check_ties(problem.prior, problem.lengths)
    return problem


def make_prior(  # noqa: PLR0913 (one for each option of the prior)
    main: Tensor,
    lengths: Tensor,
    rows: int,
    columns: int,
    *,
    band: Any = None,
    warp_penalty: Any = 0.0,
    relax: Any = None,
    gap_penalty: Any = None,
    gap_opening: Any = 0.0,
    order: str = "path",
    shape: Any = None,
    reach: Any = None,
    anchors: Any = None,
) -> Prior:
    """Return the `Prior` that the user's options describe; ``main`` names dtype and device, ``lengths`` is (2, B)."""
    count = lengths.shape[1]
    if order != "path":
        given = {"band": band, "relax": relax, "gap_penalty": gap_penalty, "anchors": anchors}
        return _unordered(main, rows, columns, order, shape, reach, given, (warp_penalty, gap_opening))
    if shape is not None or reach is not None:
        raise OptionError("shape and reach describe a grid; pass order='grid'.")
    skew = None
    if isinstance(warp_penalty, tuple) and len(warp_penalty) == 2:
        stay_x, stay_y = (inputs.read_per_pair("warp_penalty", one, count, main) for one in warp_penalty)
        warp, skew = 0.5 * (stay_x + stay_y), 0.5 * (stay_y - stay_x)
    elif isinstance(warp_penalty, int | float) and warp_penalty == 0:
        warp = None
    else:
        warp = inputs.read_per_pair("warp_penalty", warp_penalty, count, main)
    opening = _gap_price("gap_opening", gap_opening, count, main)
    if gap_penalty is None and not (isinstance(gap_opening, int | float) and gap_opening == 0):
        raise OptionError("gap_opening needs gap_penalty, the price of each step without a partner (0 makes it free).")
    parsed, relaxed = prior.parse(band, count, rows, columns, main.device), prior.parse_relax(relax, lengths)
    tied = ties.parse_ties(anchors, parsed, lengths, main, rows, columns)
    return Prior(
        parsed,
        warp,
        relaxed if tied is None else ties.clip_relaxed(relaxed, tied, lengths),
        skew,
        None if gap_penalty is None else _gap_price("gap_penalty", gap_penalty, count, main),
        None if gap_penalty is None else opening,
        ties=tied,
    )


def _unordered(
    main: Tensor,
    rows: int,
    columns: int,
    order: str,
    shape: Any,
    reach: Any,
    given: dict[str, Any],
    prices: tuple[Any, Any],
) -> Prior:
    """Return the `Prior` of a set or a grid; ``given`` and ``prices`` are options that belong to paths."""
    if order not in prior.ORDERS:
        raise OptionError(f"order must be one of {prior.ORDERS}; got {order!r}.")
    unfit = [name for name, value in given.items() if value is not None]
    for name, price in zip(("warp_penalty", "gap_opening"), prices, strict=True):
        if not isinstance(price, int | float) or price != 0:
            unfit.append(name)
    if unfit:
        raise OptionError(f"order={order!r} has no paths and does not support {', '.join(unfit)}.")
    if order == "set":
        if shape is not None or reach is not None:
            raise OptionError("shape and reach describe a grid; pass order='grid'.")
        return Prior(order=order)
    if reach is None:
        raise OptionError("order='grid' needs reach, the displacement in tokens that costs one unit of energy.")
    size = reach.numel() if isinstance(reach, Tensor) else 1
    reached = inputs.read_per_pair("reach", reach, size, main)
    if checks.can_read(reached) and not bool((reached > 0).all()):
        raise OptionError(f"reach must be positive; got {float(reached.detach().min())}.")
    displacement = prior.parse_displacement(shape, reached, rows, columns)
    return Prior(order=order, displacement=displacement)


def _gap_price(name: str, value: Any, count: int, like: Tensor) -> Tensor:
    """(B,) numbers that are not negative."""
    price = inputs.read_per_pair(name, value, count, like)
    usable = value >= 0 if type(value) in (int, float) else not checks.can_read(price) or bool((price >= 0).all())
    if not usable:
        raise OptionError(
            f"{name} must not be negative, or leaving steps out would be a gain; got {float(price.detach().min())}."
        )
    return price


def without_autocast(value: Any) -> AbstractContextManager:
    """Disable autocast, which would lose digits; no-op if it is already off."""
    name = value.device.type if isinstance(value, Tensor) else "cpu"
    enabled = torch.amp.is_autocast_available(name) and torch.is_autocast_enabled(name)
    return torch.autocast(name, enabled=False) if enabled else nullcontext()
