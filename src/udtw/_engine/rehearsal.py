"""Rehearsal of a match: the fitted model draws pairs with known warps, and the same estimate is tried on them.

An alignment absorbs a part of the noise, so that variances and correlation time come out low, the more the smoother the
noise. Pairs drawn from the fitted model show by how much, and how many of their true matches the intervals hold.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from udtw._engine.between import (
    GAUSSIAN_GAMMA,
    TINY,
    Fit,
    Start,
    Switches,
    averaged,
    block_edges,
    estimate,
    has_units,
    moving_mean,
    posterior,
)
from udtw._engine.ties import tied_blocks

Array = NDArray[np.float64]
REPLICATES, TRIALS, TRIAL_ROUNDS = 6, 3, 4
WINDOW = 160
"""Longest stretch of x that is drawn."""
SPEED_STD, SPEED_STEPS = 0.6, 20.0
"""Standard deviation of the log speed of a warp before anything is seen, and how many independent steps outweigh it."""
DAMPING = 0.7
SAFETY = 0.5
"""Variances are inflated by the correlation time to this power: what the drawn pairs do not show."""
TAILS = (3.0, 2.5, 2.0, 1.6, 1.3, 1.0, 0.75, 0.5, 0.35, 0.2, 0.1, 0.05)
"""Multiples of the tails outside of an interval that are tried: one of them covers drawn pairs as often as asked."""
MARGIN, MARGIN_OF_FEW, MARGIN_OF_FEATURES = 0.2, 0.8, 0.3
"""Shares of the tails by which rehearsed intervals hold more than the level, since no model is the truth, and what is
added if there are hardly any independent steps, and if there are many features."""


@dataclass(frozen=True)
class Tempered:
    """How a posterior must be tempered to hold what it states.

    Series are averaged over ``stride`` steps, variances multiplied by ``inflation`` (of which ``raw_inflation`` is what
    the drawn pairs showed), and an interval that shall hold
    ``level`` is taken at ``stated``; on drawn pairs it then holds ``coverage``.
    """

    stride: int
    inflation: float
    raw_inflation: float
    correlation_time: float
    warp_penalty: float
    gamma: float
    level: float
    stated: float
    coverage: float


def rehearse(fit: Fit, level: float, seed: int = 0) -> Tempered:
    """Return how the posterior of one fitted pair must be tempered so that intervals of ``level`` hold."""
    seen_level, seen_time = float(fit.level[0]), float(fit.correlation_time[0])
    true_level, true_time = seen_level, seen_time
    changed = has_units(fit)
    switches = Switches(changed, changed, bool((fit.drift != 0).any()))
    ones, model = np.ones((REPLICATES, fit.x.shape[2])), Model.of(fit)
    for trial in range(TRIALS):
        x, y, warps = draw_pairs(model, true_level, true_time, np.random.default_rng(seed))
        refit = estimate(x, y, Start(ones, 0 * ones, 0 * ones, switches), rounds=TRIAL_ROUNDS)
        if trial == TRIALS - 1:
            break
        seen_again = float(np.median(refit.level * (refit.scale**2).mean(1)))
        time_again = float(np.exp(np.log(refit.correlation_time).mean()))
        true_level *= float(np.clip((seen_level / seen_again) ** DAMPING, 0.5, 3))
        if seen_time > 1.05:
            ratio = (seen_time - 0.9) / (time_again - 0.9)
            true_time = 1 + (true_time - 1) * float(np.clip(ratio**DAMPING, 0.5, 3))
            true_time = min(true_time, 0.25 * fit.x.shape[1])
    tempered = tempering(max(1.0, true_level / seen_level), true_time, fit, level)
    shares, _, _ = tempered_posterior(refit, tempered)
    bounds_at = quantiles(shares, tempered.stride, (x.shape[1], y.shape[1]))
    bounds = [whole_steps(*bounds_at(stated_level(level, tail))) for tail in TAILS]
    held = np.array([((warps >= low - 0.5) & (warps <= high + 0.5)).mean() for low, high in bounds])
    few = SPEED_STEPS / (SPEED_STEPS + independent_steps(fit))
    margin = (1 - level) * (MARGIN + MARGIN_OF_FEW * few + MARGIN_OF_FEATURES * (1 - 1 / fit.x.shape[2]))
    tail, covered = _tail_that_holds(held, level + margin)
    return replace(tempered, stated=stated_level(level, tail), coverage=covered - margin)


def stated_level(level: float, tail: float) -> float:
    """Return the level whose intervals leave out that many times as much as those of ``level``, up to 95 %."""
    return 1 - min((1 - level) * tail, 0.95)


def independent_steps(fit: Fit) -> float:
    """Return the number of steps of x over the correlation time of the noise."""
    return fit.x.shape[1] / float(fit.correlation_time[0])


def _tail_that_holds(held: Array, wanted: float) -> tuple[float, float]:
    """Return the share of the tails at which drawn pairs are covered as often as wanted, and how often they are."""
    held = np.maximum.accumulate(held)
    place = int(np.searchsorted(held, wanted))
    if place in (0, len(held)):
        place = min(place, len(held) - 1)
        return TAILS[place], float(held[place])
    share = (wanted - held[place - 1]) / (held[place] - held[place - 1])
    return float(np.exp(np.interp(share, [0, 1], np.log(TAILS[place - 1 : place + 1])))), wanted


def tempering(inflation: float, time: float, fit: Fit, level: float) -> Tempered:
    """Return the tempering for noise of a correlation time whose variance was estimated too low by ``inflation``.

    The path prior takes independent steps. Where noise is correlated, a grid of steps of about a quarter of the
    correlation time makes both the residuals nearly independent and the prior as wide as real warps are.
    """
    stride = 1 if time < 2 else int(np.clip(round(time / 4), 2, max(2, fit.x.shape[1] // 20)))
    safe = inflation * min(time**SAFETY, 4.0)
    gamma, penalty = (1.5 * GAUSSIAN_GAMMA, 0.0) if stride == 1 else (2 * GAUSSIAN_GAMMA, 0.5)
    penalty += fit.warp_penalty * (1.0 if stride == 1 else 0.5)
    return Tempered(stride, safe, inflation, time, penalty, gamma, level, level, np.nan)


@dataclass(frozen=True)
class Model:
    """What pairs are drawn from: the part of a fitted pair that matches, what both series share, and the warp."""

    common: Array
    """(M, d): the mean of y and of its partners, noise included."""
    path: Array
    """(N,): expected position in y of every step of x."""
    var_x: Array
    var_y: Array
    spread: float
    """Standard deviation of the log speed of a warp."""

    @classmethod
    def of(cls, fit: Fit) -> "Model":
        """Return the model of a fit of one pair."""
        coupling, in_x, in_y = fit.posterior
        rows, columns = _matched_part(in_x[0]), _matched_part(in_y[0])
        coupling = coupling[0, rows, columns] + TINY
        x, y = fit.x[0, rows], fit.y[0, columns]
        path = coupling @ np.arange(len(y)) / coupling.sum(1)
        spread, seen = speed_spread(path), independent_steps(fit)
        spread = float(np.sqrt((seen * spread**2 + SPEED_STEPS * SPEED_STD**2) / (seen + SPEED_STEPS)))
        partner = coupling.T @ x / coupling.sum(0)[:, None]
        return cls(0.5 * (y + partner), path, fit.var_x[0, rows], fit.var_y[0, columns], spread)


def draw_pairs(model: Model, level: float, time: float, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Draw x (R, N, d), y (R, M, d) and the true position in y of every step of x (R, N) from the fitted model."""
    signal = denoised(model.common, 0.5 * level, time)
    path, var_x, var_y = model.path, model.var_x, model.var_y
    usual = np.median(np.r_[var_x, var_y])
    count = min(len(path), WINDOW)
    span = max(3, min(len(signal), round(count * len(signal) / len(path))))
    drawn_x: list[Array] = []
    drawn_y: list[Array] = []
    warps: list[Array] = []
    for _ in range(REPLICATES):
        first = int(rng.integers(0, len(path) - count + 1))
        begin = int(np.clip(round(path[first]), 0, len(signal) - span))
        warp = np.cumsum(np.exp(model.spread * smooth_noise(rng, count, max(3.0, len(path) / 20))))
        warp = ((warp - warp[0]) * ((span - 1) / (warp[-1] - warp[0]))).clip(0, span - 1)
        window = signal[begin : begin + span]
        clean = np.stack([np.interp(warp, np.arange(span), one) for one in window.T], 1)
        for series, var, out in (
            (clean, var_x[first : first + count], drawn_x),
            (window, var_y[begin : begin + span], drawn_y),
        ):
            deviation = np.sqrt(level * var / usual)
            out.append(series + deviation[:, None] * correlated_noise(rng, series.shape, time))
        warps.append(warp)
    return np.stack(drawn_x), np.stack(drawn_y), np.stack(warps)


def speed_spread(path: Array) -> float:
    """Return the standard deviation of the log speed of a warp, from its deciles."""
    reach = max(3, len(path) // 20)
    if len(path) <= reach + 1:
        return SPEED_STD
    slow, fast = np.quantile(np.log(((path[reach:] - path[:-reach]) / reach).clip(0.05)), [0.1, 0.9])
    return float(1.1 * (fast - slow) / 2.56)


def _matched_part(probability: Array) -> slice:
    """Return the steps from the first to the last that has a partner; all, if there are hardly any."""
    inside = np.flatnonzero(probability > 0.5)
    return slice(0, len(probability)) if len(inside) < 4 else slice(int(inside[0]), int(inside[-1]) + 1)


def smooth_noise(rng: np.random.Generator, count: int, width: float) -> Array:
    """Draw Gaussian noise (count,) of unit variance, smooth over ``width`` steps."""
    reach = int(3 * width)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    return np.convolve(rng.standard_normal(count + 2 * reach), kernel / np.linalg.norm(kernel), "valid")


def spectrum(time: float, frequencies: NDArray) -> Array:
    """Spectral density of autoregressive noise of unit variance and that correlation time."""
    rho = (time - 1) / (time + 1)
    return (1 - rho**2) / (1 + rho**2 - 2 * rho * np.cos(2 * np.pi * frequencies))


def correlated_noise(rng: np.random.Generator, shape: tuple[int, int], time: float) -> Array:
    """Draw autoregressive noise (N, d) of unit variance."""
    steps = shape[0]
    waves = np.fft.rfft(rng.standard_normal((2 * steps, shape[1])), axis=0)
    waves = waves * np.sqrt(spectrum(time, np.fft.rfftfreq(2 * steps)))[:, None]
    return np.fft.irfft(waves, 2 * steps, axis=0)[:steps]


def denoised(signal: Array, level: float, time: float) -> Array:
    """(M, d): the Wiener estimate of a signal from itself plus noise of that variance and correlation time."""
    mean, pad = signal.mean(0), min(len(signal) - 1, 50)
    padded = np.pad(signal - mean, ((pad, pad), (0, 0)), "reflect")
    waves = np.fft.rfft(padded, axis=0)
    power = moving_mean((np.abs(waves) ** 2 / len(padded)).T, 2).T + TINY
    noise = level * spectrum(time, np.fft.rfftfreq(len(padded)))[:, None]
    gain = np.maximum(power - noise, 0.02 * power) / power
    return np.fft.irfft(waves * gain, len(padded), axis=0)[pad : pad + len(signal)] + mean


def coarse(fit: Fit, tempered: Tempered) -> Fit:
    """Return the fitted pairs on the grid of the tempered posterior, with the variances of block means."""
    stride, time = tempered.stride, tempered.correlation_time
    rho = (time - 1) / (time + 1)
    lags = np.abs(np.subtract.outer(np.arange(stride), np.arange(stride)))
    factor = tempered.inflation * float((rho**lags).mean())
    x, y = averaged(fit.x, stride), averaged(fit.y, stride)
    return replace(
        fit, x=x, y=y,
        var_x=averaged(fit.var_x, stride) * factor, var_y=averaged(fit.var_y, stride) * factor,
        anchors=tied_blocks(fit.anchors, stride, (x.shape[1], y.shape[1])),
    )  # fmt: skip


def tempered_posterior(fit: Fit, tempered: Tempered) -> tuple[Array, Array, Array]:
    """Shares (B, N', M') of each block of y among the partners of a block of x, and P(matched) (B, N'), (B, M')."""
    small = coarse(fit, tempered)
    gamma = tempered.gamma * small.x.shape[2] / small.effective_features
    coupling, in_x, in_y = posterior(small, gamma, tempered.warp_penalty, tempered.inflation)
    return coupling / (coupling.sum(2, keepdims=True) + TINY), in_x, in_y


def quantiles(shares: Array, stride: int, shape: tuple[int, int]) -> Callable[[float], tuple[Array, Array]]:
    """Return a function of a level that gives `intervals`, for several levels of the same shares."""
    rows, columns = shape
    edges = np.r_[block_edges(columns, stride), columns] - 0.5
    reached = np.pad(np.cumsum(shares, 2), ((0, 0), (0, 0), (1, 0)))

    def bounds(level: float) -> tuple[Array, Array]:
        tails = 0.5 - level / 2, 0.5 + level / 2
        low, high = (refined(_quantile(reached, edges, tail), stride, rows) for tail in tails)
        return low, high

    return bounds


def intervals(shares: Array, stride: int, shape: tuple[int, int], level: float) -> tuple[Array, Array]:
    """Bounds (B, N) of the intervals of a level, between the steps of y, for shares (B, N', M') of its blocks.

    The position is taken as uniform within a block.
    """
    return quantiles(shares, stride, shape)(level)


def whole_steps(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the first and last step of intervals whose bounds lie between steps.

    Bounds are rounded to the nearest: always rounding outwards would cover more than the level.
    """
    middle = np.rint(0.5 * (low + high))
    return np.minimum(np.rint(low + 0.5), middle), np.maximum(np.rint(high - 0.5), middle)


def _quantile(reached: Array, edges: Array, share: float) -> Array:
    """(B, N'): where cumulative probabilities (B, N', M' + 1) at ``edges`` reach a share."""
    after = np.clip((reached < share).sum(2), 1, len(edges) - 1)
    above, below = (np.take_along_axis(reached, at[..., None], 2)[..., 0] for at in (after, after - 1))
    part = ((share - below) / (above - below + TINY)).clip(0, 1)
    return edges[after - 1] + part * (edges[after] - edges[after - 1])


def refined(values: Array, stride: int, rows: int) -> Array:
    """(…, N): values of the blocks of x, (…, N'), interpolated at every step."""
    edges = block_edges(rows, stride)
    centers = 0.5 * (edges + np.r_[edges[1:], rows] - 1)
    if len(centers) == rows:
        return values
    place = np.interp(np.arange(rows), centers, np.arange(len(centers)))
    below = np.minimum(place.astype(int), len(centers) - 2) if len(centers) > 1 else np.zeros(rows, int)
    above = np.minimum(below + 1, len(centers) - 1)
    part = place - below
    return values[..., below] * (1 - part) + values[..., above] * part
