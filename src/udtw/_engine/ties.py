"""Tie points: steps of x whose partner is known, exactly or with a standard deviation.

A soft tie (i, j, sd) adds ``γ·(n − j)²/(2·sd²)`` to the energy of each match of step i with a step n. Its strength is
in nats, whatever γ is: it multiplies the probability of a path by a Gaussian of the partners of step i. A hard one is
the limit of sd → 0: step j is the only partner of step i.
"""

import math
import numbers
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from udtw._engine.prior import NONE, Band, Prior, admissible, check_mask
from udtw.errors import BandError, OptionError

_FORMS = "anchors are ties (i, j, sd): step i of x belongs to step j of y, give or take sd steps; None or 0 is exact."


WITHIN = 12**-0.5
"""Standard deviation of a place within a block of steps, in blocks."""


class Tie(NamedTuple):
    """Step i of x, its partner j in y, and the standard deviation of j; 0 is hard."""

    i: int
    j: int
    sd: float


def read_ties(anchors: Any, count: int) -> list[list[Tie]]:
    """Return the ties of all pairs, or of each of ``count`` pairs, in the order of their steps."""
    if isinstance(anchors, Tensor):
        anchors = anchors.detach().cpu().numpy()
    tables = list(anchors.to_numpy() if hasattr(anchors, "to_numpy") else anchors)
    if not (tables and all(_holds_rows(one) for one in tables)):
        return [sorted(map(_read_tie, tables))]
    if len(tables) != count:
        raise OptionError(
            f"anchors hold ties for {len(tables)} pairs, and there are {count}; pass one list of ties for all pairs, "
            "or one for each.",
            parameter="anchors",
        )
    return [sorted(map(_read_tie, one)) for one in tables]


def ties_of_pair(anchors: Any, rows: int, columns: int) -> tuple[Tie, ...]:
    """Return the checked ties of one pair of series of so many steps; none if ``anchors`` is None."""
    if anchors is None:
        return ()
    (ties,) = read_ties(anchors, 1)
    _check_order(ties)
    _check_places(ties, [[rows, columns]], None)
    return tuple(ties)


def leave_ends_open(ties: Sequence[Tie], rows: int, columns: int) -> bool:
    """Whether exact ties leave steps at an end of one series without a partner."""
    last = rows - 1, columns - 1
    return any(not sd and ((i == 0) != (j == 0) or (i == last[0]) != (j == last[1])) for i, j, sd in ties)


def tied_blocks(ties: Sequence[Tie], stride: int, counts: tuple[int, int]) -> tuple[Tie, ...]:
    """Return the ties between ``counts`` blocks of ``stride`` steps, no place of which is more exact than a block."""
    if stride == 1:
        return tuple(ties)
    last_x, last_y = (count - 1 for count in counts)
    return tuple(
        Tie(min(i // stride, last_x), min(j // stride, last_y), math.hypot(sd / stride, WITHIN)) for i, j, sd in ties
    )


def _holds_rows(one: Any) -> bool:
    """Whether this is a list of ties and not a tie."""
    if isinstance(one, np.ndarray):
        return one.ndim == 2
    return isinstance(one, list | tuple) and all(isinstance(row, Sequence | np.ndarray) for row in one)


def _read_tie(given: Any) -> Tie:
    parts = list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else []
    if len(parts) not in (2, 3):
        raise OptionError(f"{given!r} is not a tie; {_FORMS}", parameter="anchors")
    sd = 0.0 if len(parts) == 2 or parts[2] is None else parts[2]
    if not all(isinstance(one, numbers.Real) and not isinstance(one, bool) for one in (*parts[:2], sd)):
        raise OptionError(f"The tie {tuple(parts)} holds what is not a number; {_FORMS}", parameter="anchors")
    if not (math.isfinite(sd) and sd >= 0):
        raise OptionError(
            f"The standard deviation of the tie {tuple(parts)} must be finite and not negative; {_FORMS}",
            parameter="anchors",
        )
    i, j = (float(one) for one in parts[:2])
    if not (i.is_integer() and j.is_integer()):
        raise OptionError(f"The tie {tuple(parts)} must join whole steps; {_FORMS}", parameter="anchors")
    return Tie(int(i), int(j), float(sd))


def _check_order(ties: list[Tie]) -> None:
    """Raise `OptionError` for ties that cross, or that give a step two partners; they are sorted by their steps."""
    for one, other in pairwise(ties):
        same = one.i == other.i
        if (one.sd == other.sd == 0 and one.j != other.j) if same else one.j > other.j:
            problem = "give one step two partners" if same else "cross"
            raise OptionError(
                f"The ties {tuple(one)} and {tuple(other)} {problem}, which no path can follow; remove one of them.",
                parameter="anchors",
            )


def _check_places(ties: list[Tie], sizes: list[list[int]], inside: Tensor | None) -> None:
    """Raise unless ties lie inside all pairs of these sizes, and inside their band (pairs, N, M)."""
    for tie in ties:
        beyond = [size for size in sizes if not (0 <= tie.i < size[0] and 0 <= tie.j < size[1])]
        if beyond:
            raise OptionError(
                f"The tie {tuple(tie)} lies outside the series, which have {beyond[0][0]} and {beyond[0][1]} steps, "
                "counted from 0.",
                parameter="anchors",
            )
        if inside is not None and not bool(inside[:, tie.i, tie.j].all()):
            raise BandError(
                f"The tie {tuple(tie)} lies outside the band. Widen the band, or remove the tie.", parameter="anchors"
            )


def parse_ties(anchors: Any, band: Band, lengths: Tensor, like: Tensor, rows: int, columns: int) -> Tensor | None:
    """(1 or B, N, M): nats that a match costs, ∞ where hard ties forbid it, −∞ where they demand it.

    ``lengths`` is (2, B); dtype and device are those of ``like``.
    """
    if anchors is None:
        return None
    tables, sizes = read_ties(anchors, lengths.shape[1]), lengths.T.tolist()
    inside = None if band.kind == NONE else admissible(band, lengths, rows, columns)
    nats = torch.zeros((len(tables), rows, columns), dtype=like.dtype, device=like.device)
    place = torch.arange(columns, dtype=like.dtype, device=like.device)
    for b, ties in enumerate(tables):
        own = slice(None) if len(tables) == 1 else slice(b, b + 1)
        _check_order(ties)
        _check_places(ties, sizes[own], None if inside is None else inside[own])
        for i, j, sd in ties:
            if sd > 0:
                nats[b, i] += 0.5 * ((place - j) / sd).square()
        for i, j, sd in ties:
            if sd == 0:
                nats[b, :i, j + 1 :] = nats[b, i + 1 :, :j] = nats[b, i] = torch.inf
                nats[b, i, j] = -torch.inf
    return nats if bool(nats.any()) else None


def clip_relaxed(relax: Tensor | None, ties: Tensor, lengths: Tensor) -> Tensor | None:
    """Return relaxed ends (4, B) that leave no step with a hard tie unmatched; ``lengths`` is (2, B)."""
    hard = ties.isneginf()
    if relax is None or not bool(hard.any()):
        return relax
    clipped = relax.clone()
    for side, steps in enumerate((hard.any(2), hard.any(1))):
        used = steps.expand(relax.shape[1], -1)
        place = torch.arange(used.shape[1], device=used.device)
        first = torch.where(used, place, used.shape[1]).amin(1)
        after = lengths[side] - 1 - torch.where(used, place, 0).amax(1)
        after = torch.where(used.any(1), after, lengths[side])
        clipped[2 * side] = torch.minimum(relax[2 * side], first)
        clipped[2 * side + 1] = torch.minimum(relax[2 * side + 1], after)
    return clipped


def check_ties(prior: Prior, lengths: Tensor) -> None:
    """Raise `BandError` where hard ties leave no path; ``lengths`` is (2, B)."""
    ties = prior.ties
    assert ties is not None, "the caller has ties"
    if prior.gaps or not bool(ties.isinf().any()):
        return
    mask = admissible(prior.band, lengths, *ties.shape[1:])
    relax = None if prior.relax is None else prior.relax.cpu().numpy()
    try:
        check_mask((mask & ~ties.isposinf()).cpu().numpy(), lengths.cpu().numpy(), relax)
    except BandError as error:
        raise BandError(
            f"The exact ties leave no path: {error} Every step needs a partner, also the first and the last, and those "
            "between two ties. Give the ties a standard deviation, relax the ends, or allow gaps (gap_penalty).",
            parameter="anchors",
        ) from None
