"""The noise between two series: variances, gain, offset, drift and correlation, estimated from the pair itself.

The model is ``x_m = a·y_{w(m)} + b + c·t_m + ε_m`` for each feature, where t runs from −½ to ½ along x, the warp w is
unknown and ε has a variance that changes along the series and a correlation time. A few rounds of the exact posterior
over warps (a generalized EM) estimate all of it.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from udtw._engine.align import align
from udtw._engine.gap_prices import posterior_with_gaps
from udtw._engine.ties import Tie

Array = NDArray[np.float64]
ROUNDS = 6
"""Rounds of the estimate from each start."""
GAUSSIAN_GAMMA = 4.0
"""The temperature at which exp(−D/(γΣ)) is the Gaussian likelihood of a difference; see docs/mathematics.md."""
DAMPING = 0.8
"""Power of the temper in the rounds: a flat posterior leaves long residuals, which would make it flatter still."""
WINDOW = 6
"""Steps on either side from which a local variance is estimated."""
TINY = 1e-300
LEAST_VARIANCE = 1e-4
"""Share of the variance of a series below which no variance of its noise lies."""

CHI_SQUARE_MEDIAN = 0.455
"""The median of the square of a standard normal number."""
SCALE_RANGE = 3.0
"""Largest factor between the noise of a feature and the usual one, as shares of the features' spreads."""
SURE = 3.0
"""Standard errors by which a drift must differ from none."""
START_STEPS, LAST_ROUNDS = 200, 3
"""Steps on which starts are compared, and rounds on all steps after that."""
PARAMETER_PRICE, OPEN_PRICE, UNMATCHED_PRICE = 10.0, 10.0, 50.0
"""Nats that a gain with an offset, or a drift, and open ends must gain to be kept; open ends as many more as all steps
without a partner cost together. In a series that nearly repeats itself, a shift by a period fits well by leaving out
the rest."""
WORSE = 10.0
"""Nats by which a fit may be worse than none of these and still tell how small the noise is."""
LEAST_MATCHED = 0.5
"""Share of the shorter series that must have partners if the ends are open."""
SLOW = 8.0
"""Correlation time beyond which it is tried whether the quick part of the series tells more."""
REACHES = (4, 12, 36)
"""Steps on either side over which the slow part is taken."""
LONG, GAIN_OF_QUICK = 30, 3.0
"""Series must be this many reaches long, and their quick part tell so many times as much as the whole."""
WARP_PENALTIES = (0.0, 1.0, 2.0, 3.5)
"""Warp penalties that are compared, in units of γ."""
PERSISTENCE, WARP_PRICE = 1.5, 4.0
"""The speed of a warp persists, which independent steps take for evidence of a larger penalty: this much is taken off
again. Beyond it, every unit must gain so many nats."""


@dataclass(frozen=True)
class Switches:
    """Parts of the noise model that may be estimated; what is off stays at gain 1, offset 0 and no drift."""

    gain: bool = True
    offset: bool = True
    drift: bool = True


EVERYTHING = Switches()
NOTHING = Switches(gain=False, offset=False, drift=False)


class Start(NamedTuple):
    """Gain, offset and drift (B, d) from which an estimate begins, and which of them may change."""

    gain: Array
    offset: Array
    drift: Array
    switches: Switches = EVERYTHING


@dataclass(frozen=True)
class Fit:
    """Estimates for a batch of B pairs of equal lengths: x (B, N, d), y (B, M, d).

    ``x`` is without drift and ``y`` has gain and offset of x; both are divided by ``scale``, so that the noise of every
    feature has the variances ``var_x`` (B, N) and ``var_y`` (B, M).
    """

    x: Array
    y: Array
    var_x: Array
    var_y: Array
    scale: Array  # (B, d)
    gain: Array  # (B, d)
    offset: Array  # (B, d)
    drift: Array  # (B, d)
    correlation_time: Array  # (B,)
    effective_features: Array  # (B,)
    open_ends: bool = False
    warp_penalty: float = 0.0
    """ω of the paths, in units of γ."""
    gaps: bool = False
    """Whether steps between the ends may have no partner either."""
    anchors: tuple[Tie, ...] = ()

    def pair(self, index: int) -> "Fit":
        """Return the fit of a single pair of the batch."""
        arrays: dict[str, Any] = {
            name: one[index : index + 1] for name, one in vars(self).items() if isinstance(one, np.ndarray)
        }
        return replace(self, **arrays)

    @property
    def level(self) -> Array:
        """Median variance of each pair, (B,)."""
        return np.median(np.concatenate([self.var_x, self.var_y], 1), 1)

    @property
    def temper(self) -> Array:
        """Factor of γ for noise that repeats itself along the series and across features, (B,)."""
        return self.correlation_time * self.x.shape[2] / self.effective_features

    @cached_property
    def posterior(self) -> tuple[Array, Array, Array]:
        """`posterior` at the temperature of the fit, without a warp penalty."""
        return posterior(self, GAUSSIAN_GAMMA * self.temper)


def column(values: Array) -> Array:
    """Return (B,) as (B, 1)."""
    return values[:, None]


def moving_mean(values: Array, reach: int) -> Array:
    """(B, N): the mean over up to ``reach`` steps on either side."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), 1)
    steps = np.arange(values.shape[1])
    low, high = np.maximum(steps - reach, 0), np.minimum(steps + reach + 1, values.shape[1])
    return (sums[:, high] - sums[:, low]) / (high - low)


def moving_median(values: Array, reach: int) -> Array:
    """(B, N): the median over ``reach`` steps on either side, with the ends repeated."""
    reach = min(reach, (values.shape[1] - 1) // 2)
    padded = np.pad(values, ((0, 0), (reach, reach)), "edge")
    return np.median(np.lib.stride_tricks.sliding_window_view(padded, 2 * reach + 1, axis=1), axis=2)


def roughness(series: Array) -> Array:
    """(B, N, d): the variance of white noise on a smooth series, from second differences over nine steps."""
    if series.shape[1] < 3:
        return np.zeros_like(series)
    bends = np.diff(series, 2, axis=1) ** 2 / 6
    bends = np.concatenate([bends[:, :1], bends, bends[:, -1:]], 1)
    return np.stack([moving_mean(bends[:, :, f], 4) for f in range(series.shape[2])], 2)


def correlation_time(residuals: Array) -> Array:
    """(B,): ``1 + 2 Σ ρ_k`` of residuals (B, N, d) up to the first small ρ; outliers are clipped, features averaged."""
    steps = residuals.shape[1]
    power = np.abs(np.fft.rfft(np.clip(residuals, -2.5, 2.5), 2 * steps, axis=1)) ** 2
    products = np.fft.irfft(power, axis=1)[:, :steps].sum(2)
    rho = products / (products[:, :1] + TINY)
    lags = rho[:, 1 : max(2, steps // 3)]
    large = np.cumprod(lags >= max(0.1, 1.5 / np.sqrt(steps)), 1)
    return 1 + 2 * (lags * large).sum(1)


def effective_features(residuals: Array) -> Array:
    """(B,): the number of independent features of residuals (B, N, d), ``(tr S)²/tr(S²)`` of their covariance."""
    covariance = np.swapaxes(residuals, 1, 2) @ residuals
    trace = np.trace(covariance, axis1=1, axis2=2)
    return np.maximum(1.0, (trace**2 + TINY) / ((covariance**2).sum((1, 2)) + TINY))


def block_edges(count: int, stride: int) -> NDArray[np.int64]:
    """First steps of blocks of ``stride`` steps; the last block also takes the steps that do not fill one."""
    return np.arange(max(1, count // stride)) * stride


def averaged(values: Array, stride: int) -> Array:
    """(B, N // stride, …): means over the blocks of `block_edges`."""
    if stride == 1:
        return values
    edges = block_edges(values.shape[1], stride)
    sizes = np.diff(np.r_[edges, values.shape[1]])
    return np.add.reduceat(values, edges, axis=1) / sizes.reshape(1, -1, *[1] * (values.ndim - 2))


def centers_and_scales(series: Array) -> tuple[Array, Array]:
    """(B, d) medians and scales of series (B, N, d): the scale is that of the quartiles, or the standard deviation."""
    low, center, high = np.quantile(series, [0.25, 0.5, 0.75], axis=1)
    scale, deviation = (high - low) / 1.349, series.std(1)
    return center, np.where(scale > 0.05 * deviation, scale, deviation) + TINY


def slopes(series: Array) -> Array:
    """(B, d): the least-squares change of series (B, N, d) from begin to end."""
    time = np.linspace(-0.5, 0.5, series.shape[1])
    return np.einsum("n,bnd->bd", time, series) / (time @ time)


def posterior(
    fit: Fit, gamma: Array | float, warp_penalty: float = 0.0, inflation: float = 1.0
) -> tuple[Array, Array, Array]:
    """Coupling (B, N, M) of the fitted series and the probabilities (B, N), (B, M) that a step has a partner.

    ``warp_penalty`` is in units of γ. With open ends, both series have a step at either end that matches anything at
    the price of its being unrelated; ``inflation`` is that of the variances of the fit, which this price follows.
    """
    gamma = np.broadcast_to(np.asarray(gamma, np.float64), (len(fit.x),))
    x, y, var_x, var_y = fit.x, fit.y, fit.var_x, fit.var_y
    if fit.gaps:
        return posterior_with_gaps(x, y, var_x, var_y, gamma, warp_penalty, fit.anchors)
    if fit.open_ends:
        x, var_x, y, var_y = with_open_ends(x, var_x, y, var_y, inflation)
    begin = int(fit.open_ends)
    ties = [(i + begin, j + begin, sd) for i, j, sd in fit.anchors] or None
    coupling = np.asarray(
        align(
            x, y, var_x, var_y, gamma=gamma, beta=float(x.shape[2]), warp_penalty=warp_penalty * gamma, anchors=ties
        ).coupling
    ).reshape(len(x), x.shape[1], y.shape[1])
    if not fit.open_ends:
        ones = np.ones(coupling.shape[:2]), np.ones((len(x), coupling.shape[2]))
        return coupling, *ones
    in_x = 1 - (coupling[:, 1:-1, 0] + coupling[:, 1:-1, -1])
    in_y = 1 - (coupling[:, 0, 1:-1] + coupling[:, -1, 1:-1])
    return coupling[:, 1:-1, 1:-1], in_x.clip(0, 1), in_y.clip(0, 1)


def with_open_ends(
    x: Array, var_x: Array, y: Array, var_y: Array, inflation: float = 1.0
) -> tuple[Array, Array, Array, Array]:
    """Return the series with a step added at either end whose value is the other's mean and whose variance is twice
    the other's, times ``inflation``: a match with it costs what an unrelated step costs."""
    sides = []
    for own, var, other in ((x, var_x, y), (y, var_y, x)):
        mean = other.mean(1, keepdims=True)
        wild = 2 * inflation * column(np.maximum(other.var(1).mean(1), LEAST_VARIANCE * var.mean(1)))
        sides += [np.concatenate([mean, own, mean], 1), np.concatenate([wild, var, wild], 1)]
    return sides[0], sides[1], sides[2], sides[3]


def free_energy(fit: Fit, var_x: Array, var_y: Array, gamma: Array) -> Array:
    """(B,): F/γ of the fitted series with variances that may be those of another fit, for comparing fits."""
    beta = float(fit.x.shape[2])
    x, var_x, y, var_y = with_open_ends(fit.x, var_x, fit.y, var_y)
    if fit.open_ends:
        return np.asarray(align(x, y, var_x, var_y, gamma=gamma, beta=beta).loss).reshape(-1) / gamma
    # The same two extra matches, but none of the steps between may use them.
    inner = [np.ascontiguousarray(one[:, 1:-1]) for one in (x, y, var_x, var_y)]
    corner = [one[:, :1] for one in (x, y, var_x, var_y)]
    losses = [np.asarray(align(*parts, gamma=gamma, beta=beta).loss).reshape(-1) for parts in (inner, corner)]
    return (losses[0] + 2 * losses[1]) / gamma


def estimate(
    x: Array,
    y: Array,
    start: Start,
    *,
    extra: tuple[Array | float, Array | float] = (0.0, 0.0),
    open_ends: bool = False,
    gaps: bool = False,
    anchors: tuple[Tie, ...] = (),
    rounds: int = ROUNDS,
) -> Fit:
    """Estimate the noise between x (B, N, d) and y (B, M, d) from a start.

    ``extra``: variances (B, N, d) and (B, M, d) that are known to be there, such as those of interpolated steps.
    """
    time = np.linspace(-0.5, 0.5, x.shape[1])[None, :, None]
    rough_x = roughness(x) + LEAST_VARIANCE * x.var(1, keepdims=True) + extra[0] + TINY
    rough_y = roughness(y) + LEAST_VARIANCE * y.var(1, keepdims=True) + extra[1] + TINY
    gain, offset, drift, switches = start
    scale = _similar_scales(np.sqrt(0.5 * (_typical(rough_x) + gain**2 * _typical(rough_y))), x.std(1) + TINY)
    fit = Fit(
        x, y, np.ones(x.shape[:2]), np.ones(y.shape[:2]), scale, gain, offset, drift,
        np.ones(len(x)), np.full(len(x), float(x.shape[2])), open_ends, gaps=gaps,
        anchors=anchors,
    )  # fmt: skip
    fit = _rescaled(fit, x, y, time)
    var_x, var_y = _floors(fit, (rough_x, rough_y))
    fit = replace(fit, var_x=var_x, var_y=var_y)
    for _ in range(rounds):
        fit = _updated(fit, x, y, time, (rough_x, rough_y), switches)
    return fit


def _similar_scales(scale: Array, spread: Array) -> Array:
    """(B, d) scales whose shares of the spreads differ by `SCALE_RANGE` at most: a feature that is silent most of the
    time is not thereby exact."""
    share = scale / spread
    middle = np.median(share, 1, keepdims=True)
    return spread * share.clip(middle / SCALE_RANGE, middle * SCALE_RANGE)


def _typical(rough: Array) -> Array:
    """(B, d): the median roughness, which spikes do not raise, unless most of the series is flat."""
    return np.maximum(np.median(rough, 1), 0.1 * rough.mean(1))


def _rescaled(fit: Fit, x: Array, y: Array, time: Array) -> Fit:
    scale = fit.scale[:, None]
    return replace(
        fit,
        x=(x - fit.drift[:, None] * time) / scale,
        y=(fit.gain[:, None] * y + fit.offset[:, None]) / scale,
    )


def _updated(fit: Fit, x: Array, y: Array, time: Array, rough: tuple[Array, Array], switches: Switches) -> Fit:
    """Return the fit after one round: the posterior, then everything else given the posterior."""
    coupling, in_x, in_y = posterior(fit, GAUSSIAN_GAMMA * fit.temper**DAMPING)
    partner, var_of_partner = _expected(coupling, fit.y, fit.var_y)
    partner_of_y, var_of_partner_of_y = _expected(np.swapaxes(coupling, 1, 2), fit.x, fit.var_x)
    residual_x, residual_y = fit.x - partner, fit.y - partner_of_y
    total_x, total_y = fit.var_x + var_of_partner, fit.var_y + var_of_partner_of_y
    standard_x = residual_x / np.sqrt(total_x)[..., None] * in_x[..., None]
    standard_y = residual_y / np.sqrt(total_y)[..., None] * in_y[..., None]
    tau = np.maximum(correlation_time(standard_x), correlation_time(standard_y))
    dims = effective_features(np.concatenate([standard_x, standard_y], 1).clip(-2.5, 2.5))
    weight = (in_x + 1e-6) / total_x
    weight /= weight.sum(1, keepdims=True) + TINY
    gain, offset, drift = _regression(fit, x, partner * fit.scale[:, None], weight, switches, time)
    if x.shape[2] > 1:
        share = _noise_where_it_tells(residual_x**2 / total_x[..., None], partner, weight)
        scale = _similar_scales(fit.scale * np.sqrt(share), x.std(1) + TINY)
        residual_x, residual_y = (one * (fit.scale / scale)[:, None] for one in (residual_x, residual_y))
        fit = replace(fit, scale=scale)
    floor_x, floor_y = _floors(fit, rough)
    fit = replace(
        fit,
        var_x=np.maximum(floor_x, _local_variance((residual_x**2).mean(2), in_x, tau)),
        var_y=np.maximum(floor_y, _local_variance((residual_y**2).mean(2), in_y, tau)),
        gain=gain, offset=offset, drift=drift, correlation_time=tau, effective_features=dims,
    )  # fmt: skip
    return _rescaled(fit, x, y, time)


def _floors(fit: Fit, rough: tuple[Array, Array]) -> tuple[Array, Array]:
    """(B, N) and (B, M): the roughness of both series in the units of the fit, below which no variance lies."""
    factors = 1 / fit.scale, fit.gain / fit.scale
    floor_x, floor_y = ((one * factor[:, None] ** 2).mean(2) for one, factor in zip(rough, factors, strict=True))
    return floor_x, floor_y


def _noise_where_it_tells(squares: Array, partner: Array, weight: Array) -> Array:
    """(B, d): mean of standardized squared residuals (B, N, d) where the partner is away from its usual value.

    A feature that is silent most of the time, such as a rare pitch, has hardly any residual there, and as much as the
    others where it sounds; only there it tells where one is.
    """
    telling = (partner - np.median(partner, 1, keepdims=True)) ** 2
    telling = (telling + 1e-3 * telling.mean(1, keepdims=True) + TINY) * weight[..., None]
    return (telling * squares).sum(1) / telling.sum(1) + TINY


def _expected(coupling: Array, values: Array, variances: Array) -> tuple[Array, Array]:
    """(B, N, d) and (B, N): the mean of values (B, M, d) and of variances (B, M) over the partners of each step."""
    ones = np.ones((*variances.shape, 1))
    sums = coupling @ np.concatenate([values, variances[..., None], ones], 2)
    means = sums[..., :-1] / (sums[..., -1:] + TINY)
    return means[..., :-1], means[..., -1]


def _local_variance(squares: Array, inside: Array, tau: Array) -> Array:
    """(B, N): half the squared residuals, smoothed: the rest is the other series' noise.

    The local level is a median, shrunk to that of the series by as much as correlated residuals tell less. A step that
    stands out far beyond its level has a variance of its own.
    """
    squares = np.where(inside > 0.5, squares, np.median(squares, 1, keepdims=True))
    of_series = column(np.median(squares, 1)) / CHI_SQUARE_MEDIAN
    count = (2 * WINDOW + 1) / column(tau)
    level = (4 * of_series + count * moving_median(squares, WINDOW) / CHI_SQUARE_MEDIAN) / (4 + count)
    return 0.5 * (4 * level + squares) / 5


def _regression(
    fit: Fit, x: Array, partner: Array, weight: Array, switches: Switches, time: Array
) -> tuple[Array, Array, Array]:
    """Gain, offset and drift (B, d) from x and its expected partner (B, N, d), which has the old gain and offset.

    Both series are noisy, so the gain is that of the major axis: a ratio of standard deviations without noise.
    """

    def mean(values: Array) -> Array:
        return np.einsum("bn,bnd->bd", weight, values)

    old_gain = np.where(np.abs(fit.gain) > TINY, fit.gain, 1.0)
    partner = (partner - fit.offset[:, None]) / old_gain[:, None]
    level = x - fit.drift[:, None] * time
    mean_x, mean_y = mean(level), mean(partner)
    x_centered, y_centered = level - mean_x[:, None], partner - mean_y[:, None]
    spread_x, spread_y = mean(x_centered**2) + TINY, mean(y_centered**2) + TINY
    gain, offset, drift = fit.gain, fit.offset, fit.drift
    if switches.gain:
        noise_x = np.einsum("bn,bn->b", weight, fit.var_x)[:, None] * fit.scale**2
        noise_y = np.einsum("bm->b", fit.var_y)[:, None] / fit.var_y.shape[1] * fit.scale**2 / old_gain**2 / 2
        axis = np.sqrt(np.maximum(spread_x - noise_x, 0.1 * spread_x) / np.maximum(spread_y - noise_y, 0.1 * spread_y))
        related = mean(x_centered * y_centered) > 0.3 * np.sqrt(spread_x * spread_y)
        gain = np.where(related, axis, gain)
        gain = np.where(np.isfinite(gain) & (gain > 1e-3 * np.abs(old_gain)), gain, old_gain)
    if switches.offset:
        offset = mean_x - gain * mean_y
    if switches.drift:
        rest = x - gain[:, None] * partner - offset[:, None]
        rest = rest - mean(rest)[:, None]
        clock = np.broadcast_to(time, rest.shape)
        clock = clock - mean(clock)[:, None]
        spread = mean(clock**2) + TINY
        slope = mean(clock * rest) / spread
        rest = rest - slope[:, None] * clock
        noise = mean(rest**2)
        flat = rest * np.sqrt(weight * weight.shape[1])[..., None] / np.sqrt(noise + TINY)[:, None]
        count = 1 / (weight**2).sum(1) / correlation_time(flat)
        error = np.sqrt(noise / spread / column(count))
        sure = SURE * (1 + np.log(slope.shape[1]))  # many features are tried
        drift = np.where(np.abs(slope) > sure * error, slope, 0.0)
    return gain, offset, drift


def fit_between(
    x: Array,
    y: Array,
    switches: Switches = EVERYTHING,
    *,
    extra: tuple[Array | float, Array | float] = (0.0, 0.0),
    find_lag: bool = True,
) -> Fit:
    """Fit the noise between one pair, x (1, N, d) and y (1, M, d), from several starts; return the best fit.

    Starts are the series as they are, scaled by median and quartiles, and scaled without their trends. A gain, an
    offset, a drift or open ends must improve the free energy by more than their price.
    """
    stride = round(float(np.sqrt(x.shape[1] * y.shape[1])) / START_STEPS)
    if stride > 1:  # choose the start on a coarse grid, where it shows as well
        short = [one if isinstance(one, float) else averaged(one, stride) / stride for one in extra]
        coarse = fit_between(
            averaged(x, stride), averaged(y, stride), switches, extra=(short[0], short[1]), find_lag=find_lag
        )
        chosen = Switches(has_units(coarse) and switches.gain, has_units(coarse) and switches.offset, switches.drift)
        start = Start(coarse.gain, coarse.offset, coarse.drift, chosen)
        return estimate(x, y, start, extra=extra, open_ends=coarse.open_ends, rounds=LAST_ROUNDS)
    starts = possible_starts(x, y, switches)
    fits = _estimate_all(x, y, starts, extra, open_ends=False)
    if find_lag:
        ends = starts[:1] if len(starts) == 1 else [starts[0], starts[-1]]
        opened = _estimate_all(x, y, ends, extra, open_ends=True)
        fits += [fit for fit in opened if _matched_share(fit) >= LEAST_MATCHED]
    if len(fits) == 1:
        return fits[0]
    plain = fits[len(starts) - 1]
    of_plain = [_energy(fit, plain, plain.temper) for fit in fits]
    # With the noise of a fit that explains less than no gain and offset, any difference would look like evidence.
    limit = of_plain[len(starts) - 1] + WORSE
    possible = [fit for fit, energy in zip(fits, of_plain, strict=True) if energy <= limit]
    sharpest = min(possible, key=lambda fit: float(fit.level[0] * (fit.scale[0] ** 2).mean()))
    # What looks like noise of long memory to the plain fit may be a gain, or the other way round: judge halfway.
    temper = np.sqrt(sharpest.temper * np.maximum(sharpest.temper, plain.temper))

    def price(fit: Fit) -> float:
        parameters = x.shape[2] * (has_units(fit) + bool((fit.drift != 0).any()))
        return _energy(fit, sharpest, temper) + PARAMETER_PRICE * parameters

    closed = [one for one in fits if not one.open_ends]
    opened = [one for one in fits if one.open_ends]
    best = min(closed, key=price)
    if not opened:
        return best
    # What is left out counts against open ends as such: among them, it would favor another shift.
    shifted = min(opened, key=price)
    price_of_ends = OPEN_PRICE + UNMATCHED_PRICE * (1 - _matched_share(shifted))
    return shifted if price(shifted) + price_of_ends < price(best) else best


def _estimate_all(
    x: Array, y: Array, starts: list[Start], extra: tuple[Array | float, Array | float], *, open_ends: bool
) -> list[Fit]:
    """Estimate the noise of one pair from every start, as one batch for all starts that may change the same parts."""
    fits = []
    for switches, group in groupby(starts, key=lambda one: one.switches):
        gains, offsets, drifts = (np.concatenate(one) for one in list(zip(*group, strict=True))[:3])
        start = Start(gains, offsets, drifts, switches)
        copied_x, copied_y = np.repeat(x, len(gains), 0), np.repeat(y, len(gains), 0)
        batch = estimate(copied_x, copied_y, start, extra=extra, open_ends=open_ends)
        fits += [batch.pair(i) for i in range(len(gains))]
    return fits


def _energy(fit: Fit, noise: Fit, temper: Array) -> float:
    """Return F/γ of a fit of one pair with the noise of another one, in nats."""
    factor = fit.scale[:, None] / noise.scale[:, None]
    scaled = replace(fit, x=fit.x * factor, y=fit.y * factor)
    return float(free_energy(scaled, noise.var_x, noise.var_y, GAUSSIAN_GAMMA * temper)[0])


def with_warp_penalty(fit: Fit) -> Fit:
    """Return the fit of one pair with the warp penalty of most evidence: ``Z(ω)`` of the pair over that of no data."""
    penalties = np.array(WARP_PENALTIES) + PERSISTENCE
    x, y, var_x, var_y = fit.x, fit.y, fit.var_x, fit.var_y
    if fit.open_ends:
        x, var_x, y, var_y = with_open_ends(x, var_x, y, var_y)
    gamma = GAUSSIAN_GAMMA * float(fit.temper[0])
    copies = (np.repeat(one, len(penalties), 0) for one in (x, y, var_x, var_y))
    with_data = align(*copies, gamma=gamma, beta=float(x.shape[2]), warp_penalty=penalties * gamma).free_energy
    without = np.array([log_path_count(x.shape[1], y.shape[1], one) for one in penalties])
    evidence = -np.asarray(with_data) / gamma - without - WARP_PRICE * np.array(WARP_PENALTIES)
    return replace(fit, warp_penalty=WARP_PENALTIES[int(evidence.argmax())])


def log_path_count(rows: int, columns: int, penalty: float) -> float:
    """Return log Z of the paths through rows × columns cells without data, each with weight exp(−ω · warps).

    ``(N + M − 2 − k)! / (k! (N − 1 − k)! (M − 1 − k)!)`` paths have k diagonal steps and ``N + M − 2 − 2k`` others.
    """
    down, right = rows - 1, columns - 1
    k = torch.arange(min(down, right) + 1, dtype=torch.float64)
    parts = torch.lgamma(k + 1) + torch.lgamma(down - k + 1) + torch.lgamma(right - k + 1)
    weights = torch.lgamma(down + right - k + 1) - parts - penalty * (down + right - 2 * k)
    return float(weights.logsumexp(0))


def _matched_share(fit: Fit) -> float:
    _, in_x, in_y = fit.posterior
    return float(
        min(in_x.mean(), in_y.mean())
        if in_x.shape[1] == in_y.shape[1]
        else (in_x if in_x.shape[1] < in_y.shape[1] else in_y).mean()
    )


def information(fit: Fit) -> float:
    """Mean squared slope of y over the noise that is left: how much a step tells about the warp."""
    slopes_of_y = np.diff(fit.y[0], axis=0)
    return float((slopes_of_y**2).mean() / (np.mean(fit.var_x[0]) * fit.correlation_time[0] + TINY))


def without_slow_part(series: Array, reach: int) -> Array:
    """(B, N, d) minus its moving mean over ``reach`` steps on either side."""
    return series - np.stack([moving_mean(series[:, :, f], reach) for f in range(series.shape[2])], 2)


def fit_quick_part(base: Fit, x: Array, y: Array, switches: Switches) -> tuple[Fit, int]:
    """Return the fit of the series without their slow parts where these hide more than they tell, and the reach.

    Where the noise is slower than what the series share, as loudness drifts below the onsets of notes, the slow part
    has most of the noise. A reach is taken if the quick part tells more than `GAIN_OF_QUICK` times as much.
    """
    best, chosen = base, 0
    time = float(base.correlation_time[0])
    if time <= SLOW:
        return base, 0
    zero = np.zeros_like(base.offset)
    switches = Switches(switches.gain and has_units(base), offset=False, drift=False)
    for reach in REACHES:
        if reach >= time or LONG * reach > min(x.shape[1], y.shape[1]):
            break
        quick_x, quick_y = without_slow_part(x, reach), without_slow_part(y, reach)
        fit = estimate(quick_x, quick_y, Start(base.gain, zero, zero, switches), open_ends=base.open_ends)
        if information(fit) > (GAIN_OF_QUICK if best is base else 1.0) * information(best):
            best, chosen = fit, reach
    return best, chosen


def has_units(fit: Fit) -> bool:
    """Whether gain or offset differ from none."""
    return bool((fit.gain != 1).any() or (fit.offset != 0).any())


def possible_starts(x: Array, y: Array, switches: Switches) -> list[Start]:
    """Gain, offset and drift (1, d) to start from, and what may be changed."""
    one, zero = np.ones((1, x.shape[2])), np.zeros((1, x.shape[2]))

    def scaled(x: Array, y: Array) -> tuple[Array, Array, bool]:
        (center_x, scale_x), (center_y, scale_y) = centers_and_scales(x), centers_and_scales(y)
        gain = scale_x / scale_y if switches.gain else one
        near = np.abs(center_x - center_y) < 2 * np.maximum(scale_x, scale_y)
        alike = bool((near & (np.abs(np.log(scale_x / scale_y)) < 1)).all())
        return gain, center_x - gain * center_y if switches.offset else zero, alike

    gain, offset, alike = scaled(x, y)
    starts = [Start(gain, offset, zero, switches)] if switches.gain or switches.offset else []
    if switches.drift and x.shape[2] == 1:
        trends, flat = [], []
        for one_series in (x, y):
            trends.append(slopes(one_series))
            time = np.linspace(-0.5, 0.5, one_series.shape[1])[None, :, None]
            flat.append(one_series - trends[-1][:, None] * time)
        if all((one.std(1) > 0.05 * other.std(1)).all() for one, other in zip(flat, (x, y), strict=True)):
            own, shift, _ = scaled(*flat)
            starts.append(Start(own, shift, trends[0] - own * trends[1], switches))
    if alike and starts:
        starts.append(Start(one, zero, zero, switches))
    return [*starts, Start(one, zero, zero, NOTHING)]
