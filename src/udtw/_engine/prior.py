"""Admissible paths and their prior probability: bands, prices per operation and relaxed ends.

A band is an int radius or a float fraction (Sakoe-Chiba), ``"itakura"``, or a boolean mask. Radius and parallelogram
are measured on the *slanted* diagonal from the first to the last cell, so unequal lengths always have a path:

- radius r: cells whose distance from the slanted diagonal, counted in steps of the **shorter** sequence, is at most r
  (rounded to the nearest cell, so that r = 0 is the diagonal itself). For equal lengths this is ``|i − j| ≤ r``;
- fraction f in [0, 1]: radius ``ceil(f · (shorter length − 1))``; 1 admits everything;
- ``"itakura"``: slopes between ½ and 2 in relative time, seen from either end, together with the radius-0 band.
"""

import numbers
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw.errors import BandError, LengthError, OptionError, ShapeError

STEPS = ((1, 1), (1, 0), (0, 1))
"""The steps of a path."""
CORNER, UP, LEFT = range(3)
"""Number in `STEPS` of the step that led to a cell. Ties go to the first."""
NONE, RADIUS, FRACTION, ITAKURA, MASK = range(5)
ITAKURA_SLOPE = 2.0
_CHOICES = "A band is an int radius, a float fraction of the shorter length, 'itakura', or a boolean (N, M) mask."


@dataclass(frozen=True)
class Band:
    """A parsed band: its kind, its number if it has one, its mask (1 or B, N, M) if it is one."""

    kind: int = NONE
    value: float = 0.0
    mask: Tensor | None = None


@dataclass(frozen=True)
class Prior:
    """The prior distribution of the paths of B pairs."""

    band: Band = Band()
    warp_penalty: Tensor | None = None  # (B,): ω, the mean energy of a non-diagonal step; None is zero
    relax: Tensor | None = None  # (4, B) int64: steps that may stay unmatched at x begin, x end, y begin, y end
    warp_skew: Tensor | None = None  # (B,): half of what staying in y costs more than staying in x; None is zero
    gap_penalty: Tensor | None = None  # (B,): δ, the energy of a step without a partner; None: each has one
    gap_opening: Tensor | None = None  # (B,): κ, the energy of a run of such steps of one series; comes with δ
    order: str = "path"  # of `ORDERS`; without the order of a path there is nothing but this and `displacement`
    displacement: Tensor | None = None  # (1 or B, N, M): what a match costs for the distance of its places on a grid
    ties: Tensor | None = None  # (1 or B, N, M): nats that a match costs for tie points, see `ties.parse_ties`

    @property
    def prices(self) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]:
        """ω, its skew, δ and κ."""
        return self.warp_penalty, self.warp_skew, self.gap_penalty, self.gap_opening

    @property
    def gaps(self) -> bool:
        """Whether steps may stay unmatched inside, for a price."""
        return self.gap_penalty is not None

    @property
    def skewed_ends(self) -> bool:
        """Whether the skew of ω depends on the path: without gaps and relaxed ends it adds the same to all."""
        return self.warp_skew is not None and self.relax is not None

    def with_prices(self, change: Callable[[Tensor], Tensor]) -> "Prior":
        """Return the same prior with every price changed."""
        warp, skew, penalty, opening = (None if one is None else change(one) for one in self.prices)
        return replace(self, warp_penalty=warp, warp_skew=skew, gap_penalty=penalty, gap_opening=opening)

    def of_pairs(self, part: Tensor, dtype: torch.dtype) -> "Prior":
        """Return the prior of some of the pairs, in another floating-point type."""
        places = self.displacement
        return replace(
            self.with_prices(lambda price: price[part].to(dtype)),
            relax=None if self.relax is None else self.relax[:, part],
            displacement=None if places is None else (places if len(places) == 1 else places[part]).to(dtype),
        )

    def step_prices(self, like: Tensor) -> Tensor:
        """(2, B): what the steps (1, 0), staying in y, and (0, 1), staying in x, cost; ``like`` is (B,)."""
        mean = torch.zeros_like(like) if self.warp_penalty is None else self.warp_penalty
        if self.warp_skew is None:
            return torch.stack([mean, mean])
        return torch.stack([mean + self.warp_skew, mean - self.warp_skew])


ORDERS = ("path", "set", "grid")
"""Whether the partners of successive steps follow each other, lie anywhere, or lie near the step's place on a grid."""


def parse_displacement(shape: Any, reach: Tensor, rows: int, columns: int) -> Tensor:
    """(1 or B, N, M): ``|place_m − place_n|²/reach²`` on a grid of ``shape`` (height, width), read row by row."""
    sizes = list(shape) if isinstance(shape, tuple | list) else []
    if len(sizes) != 2 or not all(isinstance(size, numbers.Integral) and int(size) > 0 for size in sizes):
        raise OptionError(f"order='grid' needs shape=(height, width), the sides of the grid of tokens; got {shape!r}.")
    height, width = sizes
    if rows != height * width or columns != height * width:
        raise ShapeError(
            f"A grid of shape {(height, width)} has {height * width} tokens; got sequences of {rows} and {columns}."
        )
    place = torch.arange(rows, device=reach.device)
    places = torch.stack([place // width, place % width], 1).to(reach)
    return (places[:, None] - places[None, :]).square().sum(2) / reach[:, None, None].square()


ENDS = ("x begin", "x end", "y begin", "y end")
RELAXED = {"x": (1, 1, 0, 0), "y": (0, 0, 1, 1), "both": (1, 1, 1, 1)}
"""Ends that a name of ``relax`` opens, of `ENDS`."""


def parse_relax(relax: Any, lengths: Tensor) -> Tensor | None:
    """(4, B) counts of steps that may stay unmatched, from what the user wrote; ``lengths`` is (2, B)."""
    if relax is None:
        return None
    choices = "relax is None, 'x', 'y', 'both', or four counts (x begin, x end, y begin, y end)."
    if isinstance(relax, str):
        if relax not in RELAXED:
            raise OptionError(f"relax={relax!r} is not supported. {choices}", parameter="relax")
        return (lengths.repeat_interleave(2, 0) - 1) * torch.tensor(RELAXED[relax], device=lengths.device)[:, None]
    counts = relax if isinstance(relax, Tensor) else np.asarray(relax)
    if tuple(counts.shape) != (4,):
        raise OptionError(f"relax={relax!r} has shape {tuple(counts.shape)}. {choices}", parameter="relax")
    numbers = [float(count) for count in counts]
    if not all(count.is_integer() and count >= 0 for count in numbers):
        raise OptionError(
            f"relax={relax!r} must hold whole numbers that are not negative. {choices}", parameter="relax"
        )
    return torch.tensor(numbers, device=lengths.device).long()[:, None].expand(4, lengths.shape[1])


def own_relax(relax: Any, lengths: Tensor) -> Tensor | None:
    """`parse_relax` for comparing series with themselves, (2, B) equal lengths: counts that are too large are cut."""
    counts = parse_relax(relax, lengths)
    return None if counts is None else torch.minimum(counts, lengths.repeat_interleave(2, 0) - 1)


def symmetric(relax: Any) -> bool:
    """Whether exchanging x and y changes nothing."""
    return relax is None or relax == "both" or (not isinstance(relax, str) and list(relax[:2]) == list(relax[2:]))


def check_relax(relax: Tensor, lengths: Tensor) -> None:
    """Raise `LengthError` unless every relaxation (4, B) leaves a step to match."""
    wrong = relax >= lengths.repeat_interleave(2, 0)
    if bool(wrong.any()):
        end, b = torch.nonzero(wrong)[0].tolist()
        raise LengthError(
            f"relax allows {int(relax[end, b])} unmatched steps at {ENDS[end]}, but that series of pair {b} has "
            f"{int(lengths[end // 2, b])} steps; at most {int(lengths[end // 2, b]) - 1} can stay unmatched.",
            parameter="relax",
        )


def gap_energy(steps: Tensor, free: Tensor, penalty: Tensor, opening: Tensor) -> Tensor:
    """Return the energy of a run of unmatched ``steps`` of one series, of which the ``free`` ones cost nothing."""
    paid = (steps - free).clamp_min(0)
    return penalty * paid + opening * (paid > 0)


def outer_energy(left_out: tuple[Tensor, Tensor], free: Tensor, penalty: Tensor, opening: Tensor) -> Tensor:
    """Return the energy of leaving out so many steps of x and of y at one end, where (2, B) are ``free``.

    As without gaps, an end is relaxed in one series at a time: in the one where this saves more.
    """
    x_steps, y_steps = left_out
    free_x, free_y, penalty, opening = (
        price.reshape(-1, *[1] * (x_steps.ndim - 1)) for price in (*free, penalty, opening)
    )
    none = torch.zeros_like(free_x)
    x_relaxed = gap_energy(x_steps, free_x, penalty, opening) + gap_energy(y_steps, none, penalty, opening)
    y_relaxed = gap_energy(x_steps, none, penalty, opening) + gap_energy(y_steps, free_y, penalty, opening)
    return torch.minimum(x_relaxed, y_relaxed)


def starts_and_ends(relax: Tensor | None, lengths: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """(B, N, M) bool: cells in which a path may start, and in which it may end."""
    i = torch.arange(rows, device=lengths.device)[:, None]
    j = torch.arange(columns, device=lengths.device)
    n, m = lengths[:, :, None, None]
    x_begin, x_end, y_begin, y_end = torch.zeros_like(lengths).repeat(2, 1) if relax is None else relax
    first = ((i == 0) & (j <= y_begin[:, None, None])) | ((j == 0) & (i <= x_begin[:, None, None]))
    last_row = (i == n - 1) & (j < m) & (j >= m - 1 - y_end[:, None, None])
    last_column = (j == m - 1) & (i < n) & (i >= n - 1 - x_end[:, None, None])
    return first, last_row | last_column


def parse(band: Any, count: int, rows: int, columns: int, device: torch.device) -> Band:
    """Return a `Band` from what the user wrote."""
    if band is None:
        return Band()
    if isinstance(band, str):
        if band != "itakura":
            raise BandError(f"band={band!r} is not supported; the only name is 'itakura'. {_CHOICES}")
        return Band(ITAKURA)
    if isinstance(band, bool):
        raise BandError(f"band={band} is neither a radius nor a mask. {_CHOICES}")
    if isinstance(band, numbers.Integral):
        if band < 0:
            raise BandError(f"band={band} is a negative radius. {_CHOICES}")
        return Band(RADIUS, float(band))
    if isinstance(band, numbers.Real):
        band = float(band)
        if not 0 <= band <= 1:
            raise BandError(f"band={band} is not a fraction between 0 and 1; a radius must be an int. {_CHOICES}")
        return Band(FRACTION, float(band))
    mask = band if isinstance(band, Tensor) else torch.from_numpy(np.array(band))
    if mask.dtype != torch.bool:
        raise BandError(f"A band mask must be boolean; got dtype {mask.dtype}. {_CHOICES}")
    mask = mask[None] if mask.ndim == 2 else mask
    if mask.ndim != 3 or tuple(mask.shape[1:]) != (rows, columns) or mask.shape[0] not in (1, count):
        raise BandError(
            f"A band mask must have shape ({rows}, {columns}) or ({count}, {rows}, {columns}); got {tuple(mask.shape)}."
        )
    return Band(MASK, 0.0, mask.to(device))


def intervals(kind: int, value: float, lengths: Tensor, rows: int) -> Tensor | None:
    """First and one past the last admissible column of each row, (2, B, rows); None where every cell is admissible.

    ``lengths`` is (2, B). Rows past a pair's length hold no meaning.
    """
    if kind in (NONE, MASK):
        return None
    n, m = lengths[:, :, None]
    i = torch.arange(rows, device=lengths.device)
    whole = n == 1  # m == 1 has no other column anyway
    radius = torch.ceil(value * (torch.minimum(n, m) - 1).double()).long() if kind == FRACTION else int(value)
    start, stop = _radius_rows(i, n, m, 0 if kind == ITAKURA else radius)
    if kind == ITAKURA:
        low, high = _itakura_rows(i, n, m)
        start, stop = torch.minimum(start, low), torch.maximum(stop, high)
    start = torch.where(whole, 0, start.clamp_min(0))
    return torch.stack([start, torch.where(whole, m, torch.minimum(stop, m))])


def _radius_rows(i: Tensor, n: Tensor, m: Tensor, radius: Tensor | int) -> tuple[Tensor, Tensor]:
    """Columns j with ``|i(m − 1) − j(n − 1)| ≤ (radius + ½)·max(n − 1, m − 1)``, in whole numbers."""
    slack = (2 * radius + 1) * (torch.maximum(n, m) - 1)
    centre, unit = 2 * i * (m - 1), 2 * (n - 1).clamp_min(1)
    start = -torch.div(slack - centre, unit, rounding_mode="floor")
    return start, torch.div(centre + slack, unit, rounding_mode="floor") + 1


def _itakura_rows(i: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    time = i / (n - 1).clamp_min(1).double()
    upper = torch.minimum(ITAKURA_SLOPE * time, 1 - (1 - time) / ITAKURA_SLOPE)
    lower = torch.maximum(time / ITAKURA_SLOPE, 1 - ITAKURA_SLOPE * (1 - time))
    rounding = 1e-9
    start = torch.ceil(lower * (m - 1) - rounding).long()
    return start, torch.floor(upper * (m - 1) + rounding).long() + 1


def admissible(band: Band, lengths: Tensor, rows: int, columns: int) -> Tensor:
    """(B, N, M) bool: inside the lengths and the band."""
    device = lengths.device
    i = torch.arange(rows, device=device)
    j = torch.arange(columns, device=device)
    inside = (i < lengths[0, :, None])[:, :, None] & (j < lengths[1, :, None])[:, None, :]
    if band.mask is not None:
        return inside & band.mask
    limits = intervals(band.kind, band.value, lengths, rows)
    if limits is None:
        return inside
    start, stop = limits
    return inside & (j >= start[:, :, None]) & (j < stop[:, :, None])


def check_mask(mask: np.ndarray, lengths: np.ndarray, relax: np.ndarray | None = None) -> None:
    """Raise `BandError` unless every pair has a path through its mask (1 or B, N, M)."""
    count, rows, columns = lengths.shape[1], *mask.shape[1:]
    borders = starts_and_ends(
        None if relax is None else torch.from_numpy(relax), torch.from_numpy(lengths), rows, columns
    )
    first, last = (border.expand(count, -1, -1).numpy() for border in borders)
    reached = np.zeros((count, rows, columns), bool)
    column = np.arange(columns)
    for i in range(rows):
        allowed = np.broadcast_to(mask[:, i], (count, columns))
        entered = first[:, i].copy()
        if i > 0:
            entered |= reached[:, i - 1]
            entered[:, 1:] |= reached[:, i - 1, :-1]
        entered &= allowed
        # A cell is reached if it, or a cell left of it in the same unbroken run of allowed cells, was entered.
        last_entry = np.maximum.accumulate(np.where(entered, column, -1), axis=1)
        last_gap = np.maximum.accumulate(np.where(allowed, -1, column), axis=1)
        reached[:, i] = allowed & (last_entry > last_gap)
    ends = (reached & last).any((1, 2))
    if not ends.all():
        b = int(np.argmin(ends))
        n, m = lengths[:, b].tolist()
        raise BandError(
            f"The mask leaves no path for pair {b}: from cell (0, 0) the last cell ({n - 1}, {m - 1}) cannot be "
            "reached by steps (1, 0), (0, 1), (1, 1) over True cells. Admit more cells, or pass band=None."
        )
