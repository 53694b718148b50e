"""Does one of two series have a stretch that the other one lacks?

Both explanations, that every step between the ends has a partner and that some have none, are compared by the free
energy of the pair under the noise of the second one.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw._engine.align import align
from udtw._engine.between import (
    GAUSSIAN_GAMMA,
    LAST_ROUNDS,
    PARAMETER_PRICE,
    START_STEPS,
    Fit,
    Start,
    Switches,
    averaged,
    estimate,
    has_units,
    possible_starts,
)
from udtw._engine.gap_prices import WARPING, align_with_gaps, gap_options, sharpened
from udtw._engine.ties import Tie, tied_blocks

Array = NDArray[np.float64]
Extra = tuple[Array | float, Array | float]
EVIDENCE = 3.0
"""Nats that gaps must gain, beyond the price of opening each."""
FEWEST = 4
"""Steps with partners without which nothing is left to compare."""


def own_start(fit: Fit, switches: Switches) -> Start:
    """Return the start at what a fit found; what it did not need stays out."""
    units = has_units(fit)
    chosen = Switches(units and switches.gain, units and switches.offset, switches.drift)
    return Start(fit.gain, fit.offset, fit.drift, chosen)


def fit_with_gaps(
    base: Fit, x: Array, y: Array, switches: Switches, extra: Extra, anchors: tuple[Tie, ...] = ()
) -> Fit:
    """Return the fit of one pair that leaves steps without partners, or ``base`` if there is no evidence for it."""
    fit = _best_fit(base, x, y, switches, extra, anchors)
    return fit if gained_by_gaps(fit, base) > EVIDENCE else base


def _best_fit(base: Fit, x: Array, y: Array, switches: Switches, extra: Extra, anchors: tuple[Tie, ...]) -> Fit:
    stride = round(float(np.sqrt(x.shape[1] * y.shape[1])) / START_STEPS)
    if stride > 1:  # as without gaps, the start is chosen on a coarse grid
        small_x, small_y = averaged(x, stride), averaged(y, stride)
        short = [one if isinstance(one, float) else averaged(one, stride) / stride for one in extra]
        ties = tied_blocks(anchors, stride, (small_x.shape[1], small_y.shape[1]))
        found = _best_fit(base, small_x, small_y, switches, (short[0], short[1]), ties)
        start = own_start(found, switches)
        return estimate(x, y, start, extra=extra, gaps=True, anchors=anchors, rounds=LAST_ROUNDS)
    starts = [own_start(base, switches)]
    if has_units(base):  # without them, a gain would fit what is left by leaving out the rest
        starts += possible_starts(x, y, switches)
    fits = [estimate(x, y, start, extra=extra, gaps=True, anchors=anchors) for start in starts]
    sharpest = min(fits, key=lambda fit: float(fit.level[0] * (fit.scale[0] ** 2).mean()))

    def price(fit: Fit) -> float:
        factor = fit.scale[:, None] / sharpest.scale[:, None]
        gamma = GAUSSIAN_GAMMA * sharpest.temper
        energy = align_with_gaps(fit.x * factor, fit.y * factor, sharpest.var_x, sharpest.var_y, gamma).free_energy
        parameters = x.shape[2] * (has_units(fit) + bool((fit.drift != 0).any()))
        return float((energy / gamma)[0]) + PARAMETER_PRICE * parameters

    return min(fits, key=price)


def gained_by_gaps(fit: Fit, base: Fit) -> float:
    """Return the nats that gaps gain between the first and the last match of a fit of one pair.

    Unmatched steps at the ends do not count as gaps: open ends describe them. Residuals of the ``base`` without gaps
    that are correlated may be smooth differences between the series, so neighbors count as little as they do there.
    """
    _, in_x, in_y = fit.posterior
    inside_x, inside_y = np.flatnonzero(in_x[0] > 0.5), np.flatnonzero(in_y[0] > 0.5)
    if min(len(inside_x), len(inside_y)) < FEWEST:
        return -np.inf
    rows, columns = (slice(one[0], one[-1] + 1) for one in (inside_x, inside_y))
    gamma = GAUSSIAN_GAMMA * np.maximum(fit.temper, base.temper)
    var_x, var_y = sharpened(fit.x, fit.y, fit.var_x, fit.var_y)
    prices = gap_options(fit.x, fit.y, var_x, var_y, gamma)
    x, y, var_x, var_y = fit.x[:, rows], fit.y[:, columns], var_x[:, rows], var_y[:, columns]
    options: dict[str, Any] = {"gamma": gamma, "beta": float(x.shape[2]), "warp_penalty": WARPING * gamma}
    closed, opened = (align(x, y, var_x, var_y, **options | more).free_energy for more in ({}, prices))
    return float(((closed - opened) / gamma)[0])


def without_gaps(fit: Fit) -> Fit:
    """Return the fit of the steps that have partners, as if there were no others: for rehearsals."""
    if not fit.gaps:
        return fit
    _, in_x, in_y = fit.posterior
    rows, columns = in_x[0] > 0.5, in_y[0] > 0.5
    if min(rows.sum(), columns.sum()) < FEWEST:
        rows, columns = np.ones_like(rows), np.ones_like(columns)
    return replace(
        fit, x=fit.x[:, rows], y=fit.y[:, columns], var_x=fit.var_x[:, rows], var_y=fit.var_y[:, columns],
        gaps=False, anchors=(),
    )  # fmt: skip
