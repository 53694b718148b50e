"""Sweeps of a batch: tensors in, tensors out. Memory, launches and what relaxed ends need; no checks, no autograd."""

from typing import NamedTuple

import torch
from torch import Tensor

from udtw._kernels.gpu import tiles
from udtw._kernels.gpu.backward import backward_tile
from udtw._kernels.gpu.forward import forward_tile
from udtw._kernels.gpu.hard import hard_tile

FAR = 1 << 30
LIMIT = 1 << 28


class Pairs(NamedTuple):
    """A batch as the kernels read it: the energies of the cells, or sequences from which they are made.

    Energies of cells that no path may use are the largest finite number.
    """

    gamma: Tensor  # (B,)
    lengths: Tensor  # (2, B) int64
    energy: Tensor | None = None  # (B, N, M)
    x: Tensor | None = None  # (B, N, d)
    y: Tensor | None = None  # (B, M, d)
    var_x: Tensor | None = None  # (B, N)
    var_y: Tensor | None = None  # (B, M)
    beta: Tensor | None = None  # (B,): energies are C + β log(Σ/r); of sequences only
    warp: Tensor | None = None  # (B,): ω
    relax: Tensor | None = None  # (4, B) int64
    field: Tensor | None = None  # (B, N, M); of sequences the field is log Σ

    @property
    def main(self) -> Tensor:
        main = self.energy if self.x is None else self.x
        assert main is not None, "there are energies or sequences"
        return main

    @property
    def shape(self) -> tuple[int, int, int]:
        """(B, N, M)."""
        if self.x is not None and self.y is not None:
            return self.x.shape[0], self.x.shape[1], self.y.shape[1]
        count, rows, columns = self.main.shape
        return count, rows, columns

    def contiguous(self) -> "Pairs":
        """Return the same with tensors as the kernels address them."""
        found = {name: None if t is None else t.detach().contiguous() for name, t in self._asdict().items()}
        return Pairs(**found)  # type: ignore[arg-type]


class Weights(NamedTuple):
    """(B,) each: derivatives of the loss in the mean energy and the mean of the field, and what a warp adds to that."""

    energy: Tensor
    field: Tensor
    warp: Tensor


class Kept(NamedTuple):
    """What the backward sweep needs of the forward one; empty where not needed."""

    table: Tensor  # shares of the cells, if there is one tile
    row_values: Tensor  # states between strips, and between columns of tiles
    row_powers: Tensor
    column_values: Tensor
    column_powers: Tensor
    ends: Tensor  # (B, N + M, 2): probability of relaxed ends, and its part in the derivative
    level: Tensor  # (B,): log r


def scratch(like: Tensor, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
    """Memory without values; tests fill it with NaN."""
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)


def _options(pairs: Pairs, means: bool) -> dict:
    return {
        "DIM": 0 if pairs.x is None else pairs.x.shape[2],
        "UNCERTAIN": pairs.x is not None and pairs.var_x is not None,
        "LIKELY": pairs.beta is not None,
        "RELAXED": pairs.relax is not None,
        "MEANS": means,
    }


def cut_of(pairs: Pairs, means: bool) -> tiles.Tiles:
    """Return the tiles of a batch: the more numbers per row, the fewer rows per lane, so that all fit the registers."""
    heavy = pairs.main.dtype == torch.float64 or (means and pairs.relax is not None)
    light = not means and pairs.relax is None and (pairs.x is None or pairs.x.shape[2] == 1)
    return tiles.tiles_for(*pairs.shape, 2 if heavy else 8 if light else 4)


def forward(
    pairs: Pairs, weights: Weights | None = None, keep: bool = False, shares: Tensor | None = None
) -> tuple[Tensor, Kept, Tensor]:
    """(B, 3) free energy, mean energy and mean of the field, NaN where values are not usable; and what is kept.

    Without ``weights`` there are no means. ``shares`` (3, B, N, M) is filled with the transitions. Last are the
    probabilities of relaxed ends (B, N + M), the last row and then the last column.
    """
    pairs = pairs.contiguous()
    means = weights is not None
    cut, main = cut_of(pairs, means), pairs.main
    count, rows, columns = pairs.shape
    out = scratch(main, count, 3)
    nothing = scratch(main, 0)
    level = _level(pairs) if pairs.beta is not None and cut.several else scratch(main, count * (pairs.beta is not None))
    relaxed = pairs.relax is not None
    end_values = scratch(main, count * (rows + columns) if relaxed else 0, 3)
    end_powers = torch.full((end_values.shape[0],), FAR, dtype=torch.int32, device=main.device)
    kept = Kept(
        scratch(main, cut.table_size(4 if means else 2) if keep and not cut.several else 0),
        scratch(main, cut.row_states, 3),
        scratch(main, cut.row_states, dtype=torch.int32),
        scratch(main, cut.column_states, 3),
        scratch(main, cut.column_states, dtype=torch.int32),
        scratch(main, 0),
        level,
    )
    flags = (
        torch.zeros((count, cut.strips, cut.columns), dtype=main.dtype, device=main.device)
        if (relaxed or cut.several)
        else nothing
    )
    for launch in cut.launches():
        _forward_launch(
            pairs, weights, cut, kept, launch, keep=keep and not cut.several, replay=False, out=out, flags=flags,
            end_values=end_values, end_powers=end_powers, shares=shares,
        )  # fmt: skip
    probability = nothing
    if relaxed:
        out, ends, probability = _join_ends(pairs, weights, level, out, end_values, end_powers)
        kept = kept._replace(ends=ends)
    if flags.numel():
        out = out + flags.sum((1, 2))[:, None]
    return out, kept, probability


def _level(pairs: Pairs) -> Tensor:
    """(B,) ``log r``, for several tiles; one tile computes it in its kernel."""
    total = torch.zeros_like(pairs.gamma)
    for variance, length in zip((pairs.var_x, pairs.var_y), pairs.lengths, strict=True):
        assert variance is not None, "β belongs to variances"
        inside = torch.arange(variance.shape[1], device=variance.device) < length[:, None]
        total = total + torch.where(inside, variance, 1).log().sum(1) / length
    return 0.5 * total


def _forward_launch(
    pairs: Pairs, weights: Weights | None, cut: tiles.Tiles, kept: Kept, launch: tuple[int, int, int], *, keep: bool,
    replay: bool, out: Tensor, flags: Tensor, end_values: Tensor, end_powers: Tensor, shares: Tensor | None = None,
) -> None:  # fmt: skip
    diagonal, first, number = launch
    main, count = pairs.main, pairs.shape[0]
    unused = pairs.gamma
    energy = unused if pairs.energy is None else pairs.energy
    field = unused if pairs.field is None else pairs.field
    rows, columns = pairs.shape[1:]
    forward_tile[(count, number)](
        energy, *(unused if t is None else t for t in (pairs.x, pairs.y, pairs.var_x, pairs.var_y)), field,
        pairs.gamma, unused if pairs.beta is None else pairs.beta, kept.level,
        unused if pairs.warp is None else pairs.warp, *((unused,) * 3 if weights is None else weights), pairs.lengths,
        pairs.lengths if pairs.relax is None else pairs.relax,
        out, flags, kept.table, unused if shares is None else shares, end_values, end_powers,
        kept.row_values, kept.row_powers, kept.column_values, kept.column_powers,
        count, rows, columns, rows * columns, columns, rows * columns, columns, first, diagonal, cut.strips,
        cut.columns,
        WARP=pairs.warp is not None,
        FIELD=pairs.x is None and pairs.field is not None,
        KEEP=keep, REPLAY=replay, SHARES=shares is not None,
        **cut.constants(main.dtype), **_options(pairs, weights is not None),
    )  # fmt: skip


def _join_ends(
    pairs: Pairs, weights: Weights | None, level: Tensor, out: Tensor, end_values: Tensor, end_powers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Sum over relaxed ends (B, 3), what the backward sweep adds at each (B, N + M, 2), and their probabilities."""
    count, rows, columns = pairs.shape
    gamma = pairs.gamma.double()
    scale = 1 / (gamma * torch.log(torch.tensor(2.0, dtype=torch.float64)))
    values = end_values.reshape(count, rows + columns, 3).double()
    power = end_powers.reshape(count, rows + columns).double()
    reached = power < LIMIT
    log_z = torch.where(reached, torch.where(reached, values[:, :, 0], 1).log2() - power, -torch.inf)
    log_z = log_z * 0.6931471805599453
    probability = torch.softmax(log_z, 1)
    free = -gamma * torch.logsumexp(log_z, 1)
    free = torch.where((power <= -LIMIT).any(1), torch.nan, free)
    if pairs.beta is not None:
        free = free + 0.5 * pairs.beta.double() * level.double() * pairs.lengths.sum(0)
    result = [free]
    derivative = torch.zeros_like(probability)
    if weights is not None:
        theta = out[:, :1].double()
        energy = torch.where(reached, theta * power + values[:, :, 1], 0) / scale[:, None]
        field = torch.where(reached, values[:, :, 2], 0)
        for mean, weight in ((energy, weights.energy), (field, weights.field)):
            total = (probability * mean).sum(1)
            result.append(total)
            derivative += (weight.double() / gamma)[:, None] * probability * (mean - total[:, None])
    else:
        result += [free, free]
    ends = torch.stack([probability, derivative], 2).to(out.dtype)
    return torch.stack(result, 1).to(out.dtype), ends, probability.to(out.dtype)


class Gradients(NamedTuple):
    """Derivatives, None where not wanted.

    ``totals`` (B, 4) are sums over edges, if steps have a price, and over cells, if variances do; see `backward`.
    """

    energy: Tensor | None
    coupling: Tensor | None
    x: Tensor | None
    y: Tensor | None
    var_x: Tensor | None
    var_y: Tensor | None
    totals: Tensor


def backward(
    pairs: Pairs, kept: Kept, weights: Weights | None, amount: Tensor, *, gain: Tensor | None = None,
    grad: bool = True, coupling: bool = False,
) -> Gradients:  # fmt: skip
    """Gradients of ``amount``·loss, where the loss is the free energy or, with ``weights``, a sum of means.

    ``gain`` is the derivative in the energy that does not act by the probabilities of paths: that of the mean energy,
    or of the free energy and the mean energy together.

    Several tiles are swept forward again from the states between them: at a time only the shares of one diagonal of
    tiles are in memory.
    """
    pairs = pairs.contiguous()
    cut, main = cut_of(pairs, weights is not None), pairs.main
    count, rows, columns = pairs.shape
    fused = pairs.x is not None
    nothing = scratch(main, 0)

    def zeros(wanted: bool, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=main.dtype, device=main.device) if wanted else nothing

    dim = pairs.x.shape[2] if pairs.x is not None else 0
    uncertain = fused and pairs.var_x is not None
    grid = zeros(grad and not fused, count, rows, columns)
    visits = zeros(coupling, count, rows, columns)
    grad_x = zeros(grad and fused, count, cut.columns, rows, dim)
    grad_y = zeros(grad and fused, count, cut.strips, columns, dim)
    grad_var_x = zeros(grad and uncertain, count, cut.columns, rows)
    grad_var_y = zeros(grad and uncertain, count, cut.strips, columns)
    totals = zeros(True, count, cut.strips, cut.columns, 4)
    under, right = scratch(main, cut.row_states, 4), scratch(main, cut.column_states, 4)
    if cut.several:
        kept = kept._replace(table=scratch(main, cut.table_size(2 if weights is None else 4)))
    unused = pairs.gamma
    data = (pairs.x, pairs.y, pairs.var_x, pairs.var_y, pairs.beta)
    for launch in reversed(list(cut.launches())):
        diagonal, first, number = launch
        if cut.several:
            _forward_launch(
                pairs, weights, cut, kept, launch, keep=True, replay=True, out=nothing, flags=nothing,
                end_values=nothing, end_powers=nothing,
            )  # fmt: skip
        backward_tile[(count, number)](
            *(unused if t is None else t for t in data), amount,
            *((unused, unused) if weights is None else (weights.energy if gain is None else gain, weights.field)),
            pairs.lengths, pairs.lengths if pairs.relax is None else pairs.relax, kept.table, kept.ends,
            grid, visits, grad_x, grad_y, grad_var_x, grad_var_y, totals, under, right,
            count, rows, columns, first, diagonal, cut.strips, cut.columns,
            WARP=pairs.warp is not None, GRAD=grad, COUPLING=coupling,
            **cut.constants(main.dtype), **_options(pairs, weights is not None),
        )  # fmt: skip
    return Gradients(
        grid if grad and not fused else None,
        visits if coupling else None,
        grad_x.sum(1) if grad and fused else None,
        grad_y.sum(1) if grad and fused else None,
        grad_var_x.sum(1) if grad and uncertain else None,
        grad_var_y.sum(1) if grad and uncertain else None,
        totals.sum((1, 2)),
    )


def least(pairs: Pairs, with_choice: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(B,) least path energies, the cells (2, B) in which they end, (B, N, M) uint8 choices if asked for."""
    pairs = pairs.contiguous()
    cut, main = cut_of(pairs, False), pairs.main
    count, rows, columns = pairs.shape
    out = scratch(main, count)
    relaxed = pairs.relax is not None
    ends = torch.full((count, rows + columns) if relaxed else (0,), torch.inf, dtype=main.dtype, device=main.device)
    shape = (count, rows, columns) if with_choice else (0, 0, 0)
    choice = torch.zeros(shape, dtype=torch.uint8, device=main.device)
    flags = torch.zeros((count, cut.strips, cut.columns), dtype=main.dtype, device=main.device)
    top, left = scratch(main, cut.row_states), scratch(main, cut.column_states)
    unused = pairs.gamma
    for diagonal, first, number in cut.launches():
        hard_tile[(count, number)](
            main, unused if pairs.warp is None else pairs.warp, pairs.lengths,
            pairs.lengths if pairs.relax is None else pairs.relax, out, ends, choice, flags, top, left,
            count, rows, columns, first, diagonal, cut.strips, cut.columns,
            WARP=pairs.warp is not None, RELAXED=relaxed, CHOICE=with_choice, **cut.constants(main.dtype),
        )  # fmt: skip
    last = pairs.lengths - 1
    if relaxed:
        out, place = ends.min(1)
        in_last_row = place >= rows
        last = torch.stack([torch.where(in_last_row, last[0], place), torch.where(in_last_row, place - rows, last[1])])
    return out + flags.sum((1, 2)), last, choice
