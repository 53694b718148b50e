"""Do two series match at all, and in which words is that said?

The free energy of the pair is compared with that of the same x and 199 partners that share everything with y but the
order of its steps: y reversed, shifted in circles and, for one feature, turned upside down. The share of these that fit
at least as well is a p-value that needs no labels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from udtw._engine.between import (
    CHI_SQUARE_MEDIAN,
    GAUSSIAN_GAMMA,
    TINY,
    Fit,
    averaged,
    centers_and_scales,
    effective_features,
    free_energy,
    roughness,
    slopes,
)

Array = NDArray[np.float64]
PARTNERS = 199
STEPS = 128
"""Both series are averaged to at most about this many steps: whether they match shows in their outline."""
NOISE = 0.3
"""Variance of the noise, in units of the series' own, at which pairs are compared."""
OUTLIER = 3.0
GOOD_P, NONE_P = 0.0075, 0.4
"""A match is good below the first p-value, and none above the second."""
CLOSE, LITTLE = 0.98, 0.5
"""Shares of the variance of x: a match that explains more than the first is too close to call it none, whatever the
partners, and one that explains less than the second is not good."""
PERIODIC = 0.8
"""Autocorrelation beyond which shifts by a period match about as well."""


@dataclass(frozen=True)
class Trust:
    """How far a match can be trusted.

    >>> from udtw._engine.trust import Trust
    >>> Trust("none", 0.7, 0.9, 0.1, False, False, "No match.").verdict
    'none'
    """

    verdict: str
    """"good", "weak" or "none"."""
    p_value: float
    """Share of unrelated partners that fit x at least as well as y does."""
    coverage: float
    """Share of the true matches that the intervals are expected to hold, by rehearsal on pairs drawn from the model."""
    explained: float
    """Share of the variance of x that its partners in y explain."""
    mirrored: bool
    """Whether y turned upside down would fit far better."""
    periodic: bool
    """Whether y repeats itself, so that shifts by a period match about as well."""
    sentence: str
    """All of it in words."""


def outline(series: Array) -> Array:
    """(N', d): the series averaged to about `STEPS` steps, without trend, standardized, outliers cut."""
    return standardized(averaged(series[None], max(1, series.shape[0] // STEPS)))[0]


def standardized(series: Array) -> Array:
    """(B, N, d) without trend, with median 0 and scale 1, cut at three scales."""
    series = series - slopes(series)[:, None] * np.linspace(-0.5, 0.5, series.shape[1])[None, :, None]
    center, scale = centers_and_scales(series)
    scale = np.maximum(scale, 0.7 * series.std(1))
    return ((series - center[:, None]) / scale[:, None]).clip(-OUTLIER, OUTLIER)


def compare_with_unrelated(x: Array, y: Array, seed: int = 0) -> tuple[float, bool]:
    """Return the p-value of a pair (N, d), (M, d), and whether y turned upside down fits far better."""
    if any(_is_line(one) for one in (x, y)):
        return 1.0, False
    x, y = outline(x), outline(y)
    rng = np.random.default_rng(seed)
    edge = max(1, len(y) // 20)
    ramp = np.linspace(0, 1, len(y))[:, None]
    line = y[:edge].mean(0) + (y[-edge:].mean(0) - y[:edge].mean(0)) * ramp
    partners = []
    for k in range(PARTNERS):
        turned = np.roll(y - line, int(rng.integers(0, len(y))), 0)[::-1]
        sign = -1 if y.shape[1] == 1 and k % 4 > 1 else 1
        partners.append((line if k % 2 else line[::-1]) + sign * turned)
    others = np.concatenate([y[None], standardized(np.stack([-y, *partners]))])
    same = np.repeat(x[None], len(others), 0)
    unit, zero = np.ones((len(others), x.shape[1])), np.zeros((len(others), x.shape[1]))
    fit = Fit(
        same, others, roughness(same).mean(2) + NOISE, roughness(others).mean(2) + NOISE,
        unit, unit, zero, zero, unit[:, 0], unit[:, 0], open_ends=True,
    )  # fmt: skip
    dims = float(effective_features(np.concatenate([x, y])[None])[0])
    energy = free_energy(fit, fit.var_x, fit.var_y, np.full(len(others), GAUSSIAN_GAMMA * x.shape[1] / dims))
    mirrored = bool(energy[1] < energy[2:].min() and energy[1] < energy[0] - 10)
    return (1 + int((energy[2:] <= energy[0]).sum())) / (1 + PARTNERS), mirrored


def _is_line(series: Array) -> bool:
    """Whether nothing is left of a series (N, d) without its trend: any steady warp fits a trend."""
    time = np.linspace(-0.5, 0.5, len(series))[:, None]
    rest = series - series.mean(0) - slopes(series[None]) * time
    return bool((rest.std(0) <= 0.02 * series.std(0)).all())


def is_periodic(series: Array) -> bool:
    """Whether the outline of a series (N, d) repeats itself: a high autocorrelation after it has fallen."""
    shape = outline(series)
    count = len(shape)
    power = np.abs(np.fft.rfft(shape - shape.mean(0), 2 * count, axis=0)) ** 2
    products = np.fft.irfft(power, axis=0)[:count].sum(1)
    rho = products / (products[0] + TINY) * count / np.arange(count, 0, -1)
    fallen = np.flatnonzero(rho < 0.3)
    return bool(len(fallen) and (rho[fallen[0] : count * 2 // 3] > PERIODIC).any())


def judge(fit: Fit, coverage: float, level: float, width: float) -> Trust:
    """Return how far the match of a fitted pair can be trusted, still without its sentence.

    ``width``: median width of the intervals as a share of y.
    """
    coupling, in_x, in_y = fit.posterior
    rows, columns = in_x[0] > 0.5, in_y[0] > 0.5
    if rows.sum() < 4 or columns.sum() < 4:
        rows, columns = np.ones(len(rows), bool), np.ones(len(columns), bool)
    rest = (fit.x[0] - coupling[0] @ fit.y[0] / (coupling[0].sum(1, keepdims=True) + TINY))[rows]
    explained = 1 - np.median(rest**2) / CHI_SQUARE_MEDIAN / (fit.x[0][rows].var() + TINY)
    p_value, mirrored = compare_with_unrelated(fit.x[0][rows], fit.y[0][columns])
    if p_value > GOOD_P and not mirrored:  # a mirrored pair may have been fitted by a part only
        mirrored = compare_with_unrelated(fit.x[0], fit.y[0])[1]
    periodic = is_periodic(fit.y[0][columns])
    if mirrored or (p_value > NONE_P and explained < CLOSE and not periodic):
        verdict = "none"
    elif p_value > GOOD_P or periodic or explained < LITTLE or width > 0.25 or coverage < level - 0.1:
        verdict = "weak"
    else:
        verdict = "good"
    return Trust(verdict, p_value, coverage, float(np.clip(explained, 0, 1)), mirrored, periodic, "")
