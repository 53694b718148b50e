"""`Problem`: what a backend is asked about, as tensors that `udtw.inputs` has checked."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from udtw import inputs, likelihood, prior
from udtw.prior import Band

COST, LOG_VARIANCE, DEVIATION, ONE = range(4)
"""Built-in fields: C, log Σ, (Σ − 1)² and 1."""
BUILT_IN = 4
"""Fields given by the user are numbered from here on."""
MATRIX_BYTES = 64 * 2**20
"""Bytes of the cost matrices that `Problem.slices` makes at a time."""


@dataclass(frozen=True)
class Problem:
    """A batch of B pairs. The base cost D is ``‖x_m − y_n‖²`` or ``cost``; C is D, or D over the variance.

    ``var_x`` and ``var_y`` come together (Σ is their mean) and exclude ``variance``. With an ``index``, pair b compares
    sequence ``index[0, b]`` of x with sequence ``index[1, b]`` of y; without, sequence b with sequence b.
    """

    gamma: Tensor  # (B,)
    lengths: Tensor  # (2, B) int64
    band: Band
    x: Tensor | None = None  # (B, N, d), or (n_x, N, d) with an index
    y: Tensor | None = None  # (B, M, d), or (n_y, M, d)
    cost: Tensor | None = None  # (B, N, M)
    var_x: Tensor | None = None  # (B, N), or (n_x, N)
    var_y: Tensor | None = None  # (B, M), or (n_y, M)
    variance: Tensor | None = None  # (B, N, M)
    index: Tensor | None = None  # (2, B) int64

    @property
    def main(self) -> Tensor:
        """The sequences or the cost: the tensor whose dtype and device are those of the problem."""
        if self.x is not None:
            return self.x
        assert self.cost is not None, "a Problem has sequences or a cost"
        return self.cost

    @property
    def differentiable(self) -> tuple[Tensor | None, ...]:
        """x, y, cost, var_x, var_y and variance, in the order of every operator and gradient."""
        return self.x, self.y, self.cost, self.var_x, self.var_y, self.variance

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
    def wants_gradient(self) -> bool:
        """Whether a gradient in anything but γ is to be expected."""
        return torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in self.differentiable)

    def base_cost(self) -> Tensor:
        """``D`` (B, N, M)."""
        if self.x is not None and self.y is not None:
            return likelihood.squared_distances(self.x, self.y)
        return self.main

    def pair_variance(self) -> Tensor | None:
        """``Σ`` (B, N, M); None where it is 1 throughout."""
        if self.var_x is not None and self.var_y is not None:
            return likelihood.mean_variance(self.var_x, self.var_y)
        return self.variance

    def weighted_cost(self) -> Tensor:
        """``C = D / Σ`` (B, N, M)."""
        variance = self.pair_variance()
        return self.base_cost() if variance is None else self.base_cost() / variance

    def as_matrix(self, beta: Tensor | None = None, warp_penalty: Tensor | None = None) -> "Problem":
        """The same pairs, described by one matrix: what a cell costs a path.

        That is ``D/Σ``, plus ``β log Σ`` if there is a β (B,), plus 2ω if there is a warp penalty ω (B,): a path of L
        cells from the first to the last cell has ``2L − N − M`` non-diagonal steps, so that penalising these by ω is
        the same as adding 2ω to every cell, up to the constant ω(N + M).
        """
        cost = self.weighted_cost()
        variance = self.pair_variance()
        if beta is not None and variance is not None:
            cost = cost + beta[:, None, None] * variance.log()
        if warp_penalty is not None:
            cost = cost + 2 * warp_penalty[:, None, None]
        return Problem(self.gamma, self.lengths, self.band, cost=cost)

    def field(self, which: int) -> Tensor:
        """Built-in field number ``which``, (B, N, M)."""
        if which == COST:
            return self.weighted_cost()
        variance = self.pair_variance()
        if variance is None or which == ONE:
            return self.main.new_full(self.shape, float(which == ONE))
        return variance.log() if which == LOG_VARIANCE else (variance - 1).square()

    def log_level(self) -> Tensor:
        """``log r`` (B,): the mean log variance of the pair; zero where Σ is 1 throughout."""
        if self.var_x is not None and self.var_y is not None:
            in_x, in_y, _ = inputs.inside(self.lengths, *self.shape[1:], False)
            return likelihood.log_level(self.var_x.log(), self.var_y.log(), in_x, in_y)
        if self.variance is None:
            return torch.zeros_like(self.gamma)
        cells = prior.admissible(self.band, self.lengths, *self.shape[1:])
        return torch.where(cells, self.variance.log(), 0).sum((1, 2)) / cells.sum((1, 2))

    @property
    def few_features(self) -> bool:
        """Whether D is better made by the kernel than by a matrix product; False if D is given."""
        return self.x is not None and self.x.shape[2] <= likelihood.MAX_DIRECT_DIM

    def with_cost_of_many_features(self) -> "Problem":
        """The same problem, with D made once by a matrix product if there are many features."""
        if self.x is None or self.y is None or self.few_features:
            return self
        if inputs.visible(self.x, self.y):
            # The sum is a cheap test: only if it is not finite is the precise, slower check needed.
            for name, tensor in (("x", self.x), ("y", self.y)):
                if not bool(torch.isfinite(tensor.detach().sum())):
                    inputs.check_finite(name, tensor)
        return self.replace(x=None, y=None, cost=self.base_cost())

    def self_pair(self, side: str) -> "Problem":
        """The problem of matching x (or y) with itself."""
        row = 0 if side == "x" else 1
        sequence, variance = getattr(self, side), getattr(self, f"var_{side}")
        lengths = self.lengths[row].expand(2, -1)
        return self.replace(x=sequence, y=sequence, var_x=variance, var_y=variance, lengths=lengths)

    def slices(self) -> Iterator["Problem"]:
        """The pairs of an indexed problem as batches with a cost matrix, each of about `MATRIX_BYTES`."""
        assert self.x is not None, "an index belongs to sequences"
        assert self.y is not None, "an index belongs to sequences"
        assert self.index is not None, "the caller has an index"
        count, rows, columns = self.shape
        size = max(1, MATRIX_BYTES // (rows * columns * self.x.element_size()))
        for part in torch.arange(count).split(size):
            i, j = self.index[:, part]
            yield Problem(
                gamma=self.gamma[part].to(self.x.dtype),
                lengths=self.lengths[:, part],
                band=self.band,
                cost=likelihood.squared_distances(self.x[i], self.y[j]),
                var_x=None if self.var_x is None else self.var_x[i],
                var_y=None if self.var_y is None else self.var_y[j],
            )

    def without_padding(self) -> "Problem":
        """The same problem with zeros (variances: ones) as padding, so that NaN there cannot reach a gradient."""
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
        """The same problem in another floating-point type."""
        names = ("gamma", "x", "y", "cost", "var_x", "var_y", "variance")
        tensors = {name: getattr(self, name) for name in names}
        changes: dict[str, Any] = {name: None if t is None else t.to(dtype) for name, t in tensors.items()}
        return replace(self, **changes)

    def replace(self, **changes) -> "Problem":
        """A copy with some attributes changed."""
        return replace(self, **changes)


def make_problem(
    tensors: dict[str, Tensor | None], gamma: Any = 1.0, lengths: tuple[Any, Any] = (None, None), band: Any = None
) -> Problem:
    """A `Problem` from the tensors of `udtw.inputs.pair` and the user's γ, (lengths_x, lengths_y) and band."""
    main = tensors["x"] if tensors.get("cost") is None else tensors["cost"]
    assert main is not None, "inputs.pair gives sequences or a cost"
    other = tensors["y"] if tensors.get("cost") is None else None
    count, rows = main.shape[:2]
    columns = main.shape[2] if other is None else other.shape[1]
    problem = Problem(
        gamma=inputs.gamma(gamma, count, main),
        lengths=inputs.both_lengths(*lengths, count, rows, columns, main.device),
        band=prior.parse(band, count, rows, columns, main.device),
        **tensors,
    )
    if any(one is not None for one in lengths) and inputs.visible(problem.lengths):
        inputs.check_lengths(problem.lengths, rows, columns)
    return problem


def without_autocast(value: Any) -> AbstractContextManager:
    """Disable autocast, which would lose digits; no-op if it is already off."""
    device_type = value.device.type if isinstance(value, Tensor) else "cpu"
    return torch.autocast(device_type, enabled=False) if torch.is_autocast_enabled(device_type) else nullcontext()
