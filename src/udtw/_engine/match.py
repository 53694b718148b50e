"""`match`: which steps of two series belong together, with intervals that hold and a verdict on the whole."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from udtw._engine.align import align
from udtw._engine.alignment import Alignment
from udtw._engine.between import (
    GAUSSIAN_GAMMA,
    TINY,
    Fit,
    Start,
    Switches,
    averaged,
    block_edges,
    estimate,
    fit_between,
    fit_quick_part,
    with_open_ends,
    with_warp_penalty,
    without_slow_part,
)
from udtw._engine.even_grid import EvenPair, interpolated
from udtw._engine.gap_evidence import fit_with_gaps, own_start, without_gaps
from udtw._engine.gap_prices import WARPING, gap_options, sharpened
from udtw._engine.inputs import read_array, read_labels
from udtw._engine.matches import Matches, Stretch, tail_of
from udtw._engine.prior import parse
from udtw._engine.rehearsal import (
    Tempered,
    intervals,
    refined,
    rehearse,
    tempered_posterior,
    tempering,
    whole_steps,
)
from udtw._engine.ties import Tie, leave_ends_open, read_ties, tied_blocks
from udtw._engine.trust import GOOD_P, LITTLE, Trust, judge
from udtw.errors import LengthError, ShapeError

Array = NDArray[np.float64]
ONE_SIGMA = 0.6827
SMOOTHING = 2.0
"""Standard deviations of its steps over which the expected warp is smoothed."""


@dataclass(frozen=True)
class NoiseBetween:
    """The noise between two series: ``x_m = gain·y_w(m) + offset + drift·t_m + ε_m``, t from −½ to ½ along x.

    Numbers are floats for one feature and arrays (d,) for several.

    >>> import udtw
    >>> udtw.match([0.0, 1.0, 4.0, 1.0, 0.0, 2.0], [0.0, 1.0, 4.0, 1.0, 0.0, 2.0]).noise.gain
    1.0
    """

    var_x: Array
    """Variance of the noise of each step of x, (N,) or (N, d), in the units of x."""
    var_y: Array
    """Variance of the noise of each step of y, (M,) or (M, d), in the units of y."""
    correlation_time: float
    """Steps of x over which the noise repeats itself; 1 for white noise."""
    gain: Any
    offset: Any
    drift: Any
    variance: Any
    """Typical variance of the noise of each series, in the units of x."""
    open_ends: bool
    """Whether steps at the ends have no partner: one series begins or ends later than the other."""
    gaps: bool = False
    """Whether steps between the ends have no partner, which only ``match(gaps=True)`` looks for."""


@dataclass(frozen=True, repr=False)
class Match(Matches):
    """What `match` found: the fields of `Matches`, the noise between the series, and how far to trust it."""

    matched_y: Any
    """Probability that a step of y has a partner, (M,)."""
    level: float
    """Stated probability of the intervals [low, high]."""
    noise: NoiseBetween
    trust: Trust
    alignment: Alignment
    """The alignment of every step with the noise found, in common units. `index` and `expected` rest on it; `low` and
    `high` also count what correlated noise hides, so that they are wider than its own intervals."""
    _series: tuple[Array, Array]
    _shares: Array
    """(N', M'): probability that the partner of a block of steps of x lies in a block of y."""
    _stride: int
    _times: tuple[Array | None, Array | None] = (None, None)

    def __repr__(self) -> str:
        return f"Match({self.trust.sentence!r})"

    def warp(self, values: Any) -> tuple[Any, Any]:
        """Bring values on y's steps, (M,) or (M, k), to the steps of x: their mean and standard deviation.

        Both are taken over the partners that each step of x may have (law of total variance). If ``values`` is a torch
        tensor, so are the results, and gradients reach it. Steps without a partner have NaN.

        >>> import udtw
        >>> m = udtw.match([0.0, 1.0, 4.0, 1.0, 0.0, 2.0], [0.0, 1.0, 4.0, 1.0, 0.0, 2.0])
        >>> mean, std = m.warp([0.0, 10.0, 20.0, 30.0, 40.0, 50.0])
        >>> mean.round(-1).tolist(), std.shape
        ([0.0, 10.0, 20.0, 30.0, 40.0, 50.0], (6,))
        """
        tensor = values if isinstance(values, Tensor) else torch.tensor(read_array("values", values))
        columns, (at_x, at_y) = len(self._series[1]), self._times
        steps = columns if at_y is None else len(at_y)
        if tensor.ndim not in (1, 2) or tensor.shape[0] != steps:
            raise ShapeError(
                f"values must have one row for each of the {steps} steps of y; got shape {tuple(tensor.shape)}."
            )
        flat = tensor.reshape(steps, -1)
        if at_y is not None:  # from uneven times to the even grid
            flat = interpolated(flat, at_y, np.arange(columns))
        weights = torch.as_tensor(self._row_weights(), dtype=flat.dtype, device=flat.device)
        edges = block_edges(columns, self._stride)
        sizes = np.diff(np.r_[edges, columns])
        groups = torch.as_tensor(np.repeat(np.arange(len(edges)), sizes), device=flat.device)
        counts = torch.as_tensor(sizes, dtype=flat.dtype, device=flat.device)[:, None]
        center = flat.detach().mean(0)

        def of_blocks(series: Tensor) -> Tensor:
            zeros = torch.zeros(len(edges), series.shape[1], dtype=series.dtype, device=series.device)
            return zeros.index_add(0, groups, series) / counts

        mean = weights @ of_blocks(flat - center) + center
        square = weights @ of_blocks((flat - center).square())
        deviation = (square - (mean - center).square()).clamp_min(0).sqrt()
        if at_x is not None:
            grid = np.arange(len(mean), dtype=np.float64)
            mean, deviation = interpolated(mean, grid, at_x), interpolated(deviation, grid, at_x)
        alone = torch.as_tensor(np.asarray(self.index) < 0, device=flat.device)[:, None]
        mean, deviation = mean.masked_fill(alone, torch.nan), deviation.masked_fill(alone, torch.nan)
        shape = (len(mean), *tensor.shape[1:])
        results = mean.reshape(shape), deviation.reshape(shape)
        return results if isinstance(values, Tensor) else (results[0].numpy(), results[1].numpy())

    def _row_weights(self) -> Array:
        """(N, M'): the shares of every step of x, interpolated between blocks."""
        return refined(self._shares.T, self._stride, len(self._series[0])).T

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row per step of x, as `Matches.to_frame`."""
        frame = Matches(**{one.name: getattr(self, one.name) for one in fields(Matches)})
        object.__setattr__(frame, "_labels", getattr(self, "_labels", (None, None)))
        return frame.to_frame()

    def plot(self) -> Any:
        """Draw both series and their matches; a `matplotlib` figure."""
        plots = import_module("udtw.plots")  # a layer above, and an optional one
        return plots.plot_matches(*self._series, self.alignment, matches=self)


def match(  # noqa: PLR0913 (switches for the parts of the noise model)
    x: Any,
    y: Any,
    *,
    level: float = 0.9,
    noise: NoiseBetween | None = None,
    gain: bool = True,
    offset: bool = True,
    drift: bool = True,
    lag: bool = True,
    gaps: bool = False,
    anchors: Any = None,
    band: Any = None,
) -> Any:
    """Match two series: which steps belong together, how sure that is, and whether they match at all.

    The noise between the series is estimated from the pair itself: variances, gain, offset, drift, correlation and a
    lag. For an explicit, differentiable alignment with your own variances use `udtw.align`.

    Parameters
    ----------
    x, y : (N,), (N, d), or (B, N, d) for a list of matches
        Arrays, tensors, or pandas series and frames. An index of times is used for unevenly sampled series.
    level : float
        Probability with which the true partner lies in [low, high].
    noise : NoiseBetween, optional
        What was found before, on this pair or by `fit_noise_between` on others.
    gain, offset, drift : bool
        Whether y may differ from x by a factor, by a constant and by a slow change. Off: they do not.
    lag : bool
        Whether steps at the ends may stay without a partner if that fits much better.
    gaps : bool
        Whether stretches of one series may have no partner in the other: something missing, inserted, or replaced by
        a burst. They are left out if there is evidence for them; otherwise the match is that without gaps.
        ``matched`` is then the probability that a step of x has a partner, and ``matched_y`` that of the steps of y.
    anchors : list of (i, j, sd), optional
        Tie points: step i of x belongs to step j of y, give or take sd steps; None or 0 is exact. See `udtw.align`.
    band : optional
        Restrict the paths of `Match.alignment`, as in `udtw.align`.

    Returns
    -------
    Match
        ``index``, ``expected``, ``probability``, ``low``, ``high`` and ``matched`` for every step of x, with ``noise``,
        ``trust``, ``warp``, ``to_frame`` and ``plot``. A list of them for batches.

    Examples
    --------
    >>> import numpy as np
    >>> import udtw
    >>> rng = np.random.default_rng(0)
    >>> wave = np.sin(np.linspace(0, 9, 80) ** 1.2)
    >>> x, y = 1.5 * wave + 2 + 0.1 * rng.standard_normal(80), wave + 0.1 * rng.standard_normal(80)
    >>> m = udtw.match(x, y)
    >>> m.trust.verdict, bool(1.3 < m.noise.gain < 1.7)
    ('good', True)
    """
    tail_of(level)  # raises unless it is a probability
    batch = [np.ndim(one) == 3 and not hasattr(one, "iloc") for one in (x, y)]
    if all(batch):
        if len(x) != len(y):
            raise ShapeError(f"Batches must have the same number of pairs; got {len(x)} and {len(y)}.")
        options = {
            "noise": noise, "gain": gain, "offset": offset, "drift": drift, "lag": lag, "gaps": gaps,
            "band": band,
        }  # fmt: skip
        tables: list[Any] = [None] if anchors is None else list(read_ties(anchors, len(x)))
        triples = zip(x, y, tables if len(tables) == len(x) else tables * len(x), strict=True)
        return [match(one, other, level=level, anchors=tied, **options) for one, other, tied in triples]
    pair = EvenPair.read(x, y)
    parse(band, 1, len(pair.x), len(pair.y), torch.device("cpu"))  # raises unless it is a band
    switches, ties = Switches(gain, offset, drift), pair.ties(anchors)
    with np.errstate(all="ignore"):  # quotients of series that are nearly flat are bounded afterwards
        fitted = replace(_fit_pair(pair, switches, lag, level, noise, gaps, ties), anchors=ties)
        result = _matched(pair, fitted, level, band)
    if isinstance(x, Tensor):
        tensors: dict[str, Any] = {one.name: torch.as_tensor(getattr(result, one.name)) for one in fields(Matches)}
        result = replace(result, **tensors, matched_y=torch.as_tensor(result.matched_y))
    object.__setattr__(result, "_labels", (read_labels(x), read_labels(y)))
    return result


@dataclass(frozen=True)
class _Fitted:
    """The fit of the series (``base``), and the one of the parts on which the match rests."""

    base: Fit
    fit: Fit
    tempered: Tempered
    reach: int
    """Blocks of steps on either side over which slow parts are taken away; 0 if they are kept."""
    anchors: tuple[Tie, ...] = ()
    """Of all steps; those of the fits are of its blocks."""


def _fit_pair(
    pair: EvenPair,
    switches: Switches,
    lag: bool,
    level: float,
    noise: NoiseBetween | None,
    gaps: bool,
    anchors: tuple[Tie, ...],
) -> _Fitted:
    """Fit the noise on the reduced grid, and find how the posterior must be tempered."""
    x, y = (averaged(one[None], pair.reduction) for one in (pair.x, pair.y))
    extra = tuple(one if isinstance(one, float) else averaged(one, pair.reduction) for one in pair.extra)
    ties = tied_blocks(anchors, pair.reduction, (x.shape[1], y.shape[1]))
    if noise is None:
        base = fit_between(x, y, switches, extra=extra, find_lag=lag)  # type: ignore[arg-type]
        if ties:
            base = _tied(base, x, y, switches, extra, lag, ties)
        with_gaps = fit_with_gaps(base, x, y, switches, extra, ties) if gaps else base  # type: ignore[arg-type]
        if with_gaps.gaps:
            return _Fitted(with_gaps, with_gaps, rehearse(without_gaps(with_gaps), level), 0)
        fit, reach = fit_quick_part(base, x, y, switches)
        fit = replace(with_warp_penalty(fit), anchors=ties)
        return _Fitted(base if reach else fit, fit, rehearse(fit, level), reach)
    gain, offset, typical = (
        np.broadcast_to(np.atleast_1d(one), (x.shape[2],))[None].astype(float)
        for one in (noise.gain, noise.offset, noise.variance)
    )
    fixed = Switches(gain=False, offset=False, drift=switches.drift)
    start = Start(gain, offset, 0 * gain, fixed)
    fit = estimate(x, y, start, extra=extra, open_ends=noise.open_ends, anchors=ties)  # type: ignore[arg-type]
    fit = fit_with_gaps(fit, x, y, fixed, extra, ties) if gaps else fit  # type: ignore[arg-type]
    factor = (typical / fit.scale**2).mean(1) / fit.level
    fit = replace(fit, var_x=fit.var_x * factor[:, None], var_y=fit.var_y * factor[:, None])
    tempered = tempering(1.0, max(1.0, noise.correlation_time / pair.reduction), fit, level)
    return _Fitted(fit, fit, tempered, 0)


def _tied(base: Fit, x: Array, y: Array, switches: Switches, extra: Any, lag: bool, ties: tuple[Tie, ...]) -> Fit:
    """Estimate the noise anew on the paths that keep the ties."""
    opened = base.open_ends or (lag and leave_ends_open(ties, x.shape[1], y.shape[1]))
    return estimate(x, y, own_start(base, switches), extra=extra, open_ends=opened, anchors=ties)


def _matched(pair: EvenPair, fitted: _Fitted, level: float, band: Any) -> Match:
    """Put together what was found: positions from the alignment, intervals from the tempered posterior."""
    fit, tempered, reduction = fitted.fit, fitted.tempered, pair.reduction
    rows, last = len(pair.x), len(pair.y) - 1
    shares, in_x, in_y = tempered_posterior(fit, tempered)
    shape = fit.x.shape[1], fit.y.shape[1]
    low, high = (one[0] for one in intervals(shares, tempered.stride, shape, tempered.stated))
    inside = refined(in_x, tempered.stride, shape[0])[0]
    inside_y = _spread(refined(in_y, tempered.stride, shape[1])[0], reduction, len(pair.y))
    low, high, inside = (_spread(one, reduction, rows) for one in (low, high, inside))
    low, high = whole_steps(*((one + 0.5) * reduction - 0.5 for one in (low, high)))
    low, high = low.clip(0, last), high.clip(0, last)
    alignment, expected, index = _align_steps(pair, fitted, band)
    # The quick parts of several features are sharper than the steps: both neighbors of the partner count.
    slack = 0 if fitted.reach and fit.x.shape[2] > 1 else 1
    low, high = np.minimum(low, np.floor(expected + slack)), np.maximum(high, np.ceil(expected - slack))
    index = index.clip(low, high)
    for i, j, sd in fitted.anchors:
        if not sd:
            index[i] = expected[i] = low[i] = high[i] = j
    values = {
        "index": index, "probability": _probability(index, shares[0], pair, fitted), "expected": expected,
        "low": low, "high": high, "matched": inside,
    }  # fmt: skip
    trust = judge(
        fitted.base, tempered.coverage, level, float(np.median(values["high"] - values["low"])) / max(last, 1)
    )
    if pair.apart and trust.verdict == "good":
        trust = replace(trust, verdict="weak")
    if any(one is not None for one in pair.times):
        values = _at_samples(values, pair)
        inside_y = inside_y if pair.times[1] is None else np.interp(pair.times[1], np.arange(len(inside_y)), inside_y)
    alone = values["matched"] < 0.5
    counts = {name: np.where(alone, -1, values[name]).astype(np.int64) for name in ("index", "low", "high")}
    reals = {name: np.where(alone, np.nan, values[name]) for name in ("probability", "expected")}
    result = Match(
        **counts, **reals, matched=values["matched"], matched_y=inside_y, level=level,
        noise=_describe(pair, fitted), trust=trust, alignment=alignment, _series=(pair.x, pair.y), _shares=shares[0],
        _stride=tempered.stride * reduction, _times=pair.times,
    )  # fmt: skip
    return replace(result, trust=replace(trust, sentence=_sentence(result, pair.apart)))


def _probability(index: Array, shares: Array, pair: EvenPair, fitted: _Fitted) -> Array:
    """(N,): probability of the most probable partner: the share of its block of steps, divided among these."""
    stride, columns = fitted.tempered.stride, fitted.fit.y.shape[1]
    edges = block_edges(columns, stride)
    sizes = np.diff(np.r_[edges, columns]) * pair.reduction
    block = np.searchsorted(edges, np.minimum(index.astype(int) // pair.reduction, columns - 1), "right") - 1
    row = np.minimum(np.arange(len(index)) // pair.reduction, fitted.fit.x.shape[1] - 1)
    return refined(shares.T, stride, fitted.fit.x.shape[1]).T[row, block] / sizes[block]


def _spread(values: Array, reduction: int, count: int) -> Array:
    """(count,): values of blocks, repeated for their steps."""
    return values[np.minimum(np.arange(count) // reduction, len(values) - 1)]


def _align_steps(pair: EvenPair, fitted: _Fitted, band: Any) -> tuple[Alignment, Array, Array]:
    """Align every step with the noise of the fit; also return expected and most probable partners."""
    fit, x, y = fitted.fit, pair.x, pair.y
    if fitted.reach:
        x, y = (without_slow_part(one[None], fitted.reach * pair.reduction)[0] for one in (x, y))
    time = np.linspace(-0.5, 0.5, len(pair.x))[:, None]
    x = (x - fit.drift * time) / fit.scale
    y = (fit.gain * y + fit.offset) / fit.scale
    var_x, var_y = _spread(fit.var_x[0], pair.reduction, len(x)), _spread(fit.var_y[0], pair.reduction, len(y))
    if fit.open_ends:
        x, var_x, y, var_y = (one[0] for one in with_open_ends(x[None], var_x[None], y[None], var_y[None]))
    gamma = GAUSSIAN_GAMMA * float(fit.temper[0]) * pair.reduction
    if fit.gaps:
        alignment = _align_with_gaps(x, y, var_x, var_y, gamma, band=band, anchors=fitted.anchors or None)
    else:
        begin = int(fit.open_ends)
        ties = [(i + begin, j + begin, sd) for i, j, sd in fitted.anchors] or None
        options = {"beta": float(x.shape[1]), "warp_penalty": fit.warp_penalty * gamma, "band": band, "anchors": ties}
        alignment = align(x, y, var_x, var_y, gamma=gamma, **options)
    matches = alignment.matches(level=ONE_SIGMA)
    expected, index, low, high = (
        np.asarray(one, np.float64) for one in (matches.expected, matches.index, matches.low, matches.high)
    )
    if fit.gaps:
        in_x, in_y = (np.asarray(alignment.matches(of=side).matched) for side in "xy")
        return alignment, *_smoothed_between_gaps(expected, 0.5 * (high - low), in_x, in_y)
    expected = smoothed(expected, 0.5 * (high - low))
    if fit.open_ends:
        last = len(pair.y) - 1.0
        expected, index = (expected[1:-1] - 1).clip(0, last), (index[1:-1] - 1).clip(0, last)
    return alignment, expected, index


def smoothed(expected: Array, deviation: Array) -> Array:
    """(N,): lines fitted to positions of known standard deviation over twice their median deviation, increasing.

    A warp is smoother than paths of independent steps, whose expectation follows the noise.
    """
    steps = len(expected)
    width = float(np.clip(SMOOTHING * np.median(deviation), 0.3, max(0.3, steps / 6)))
    offsets = np.arange(-int(3 * width) - 1, int(3 * width) + 2)
    places = np.arange(steps)[:, None] + offsets
    inside = (places >= 0) & (places < steps)
    places = places.clip(0, steps - 1)
    weights = np.exp(-0.5 * (offsets / width) ** 2) * inside / (deviation[places] ** 2 + 0.05)
    of_ones, of_steps, of_squares = weights.sum(1), weights @ offsets, weights @ offsets**2
    values = weights * expected[places]
    level = (of_squares * values.sum(1) - of_steps * (values @ offsets)) / (of_ones * of_squares - of_steps**2 + TINY)
    return np.maximum.accumulate(level)


def _align_with_gaps(x: Array, y: Array, var_x: Array, var_y: Array, gamma: float, **options: Any) -> Alignment:
    pair = x[None], y[None], var_x[None], var_y[None]
    var_x, var_y = sharpened(*pair)
    prices = gap_options(x[None], y[None], var_x, var_y, np.array([gamma]))
    numbers: dict[str, Any] = {name: float(one[0]) for name, one in prices.items()}
    return align(
        x, y, var_x[0], var_y[0], gamma=gamma, beta=float(x.shape[1]), warp_penalty=WARPING * gamma, **numbers,
        **options,
    )  # fmt: skip


def _smoothed_between_gaps(expected: Array, deviation: Array, in_x: Array, in_y: Array) -> tuple[Array, Array]:
    """(N,): positions smoothed from gap to gap, and the steps next to them; between matches for unmatched steps."""
    matched, left_out = np.flatnonzero(in_x > 0.5), np.r_[0, np.cumsum(in_y < 0.5)]
    if not len(matched):
        return np.zeros(len(expected)), np.zeros(len(expected))
    left_out_before = left_out[np.rint(expected[matched]).astype(int)]
    cuts = np.flatnonzero((np.diff(matched) > 1) | (np.diff(left_out_before) > 0)) + 1
    parts = [
        smoothed(expected[part], deviation[part]) if len(part) > 3 else expected[part]
        for part in np.split(matched, cuts)
    ]
    expected = np.maximum.accumulate(np.interp(np.arange(len(expected)), matched, np.concatenate(parts)))
    return expected, np.rint(expected)


def _at_samples(values: dict[str, Array], pair: EvenPair) -> dict[str, Array]:
    """Return what was found on even grids for the steps that the user has."""
    at_x, at_y = pair.times
    if at_x is not None:
        values = {name: np.interp(at_x, np.arange(len(one)), one) for name, one in values.items()}
    if at_y is not None:
        steps = np.arange(len(at_y))
        for name, rounding in (("index", np.rint), ("low", np.floor), ("high", np.ceil), ("expected", None)):
            place = np.interp(values[name], at_y, steps)
            values[name] = place if rounding is None else rounding(place)
    return values | {name: np.rint(values[name]) for name in ("index", "low", "high")}


def _describe(pair: EvenPair, fitted: _Fitted) -> NoiseBetween:
    """Return the noise in the units of the series, on the grid of its steps."""
    base, fit, tempered = fitted.base, fitted.fit, fitted.tempered

    def plain(values: Array) -> Any:
        return float(values[0, 0]) if values.shape[1] == 1 else values[0]

    square = fit.scale**2 * tempered.raw_inflation
    var_x = _spread(fit.var_x[0], pair.reduction, len(pair.x))[:, None] * square
    var_y = _spread(fit.var_y[0], pair.reduction, len(pair.y))[:, None] * square / (fit.gain**2 + TINY)
    if fit.x.shape[2] == 1:
        var_x, var_y = var_x[:, 0], var_y[:, 0]
    time = tempered.correlation_time * pair.reduction if tempered.correlation_time > 1.2 else tempered.correlation_time
    return NoiseBetween(
        var_x, var_y, float(time), plain(base.gain), plain(base.offset), plain(base.drift),
        plain(square * fit.level[:, None]), fit.open_ends, fit.gaps,
    )  # fmt: skip


def _sentence(match: Match, apart: bool) -> str:
    """Say in words what was found; ``apart``: the times of the series overlap nowhere."""
    trust, noise = match.trust, match.noise
    if trust.verdict == "none":
        reason = (
            "x looks like y turned upside down (its gain would be negative); pass -y if that is meant"
            if trust.mirrored
            else f"{trust.p_value:.0%} of unrelated partners fit x as well as y does"
        )
        return f"No match: {reason}. Do not read the intervals."
    parts = []
    if np.ndim(noise.gain) == 0 and (noise.gain != 1 or noise.offset != 0):
        sign = "+" if noise.offset >= 0 else "-"  # ASCII, so that any terminal can print it
        parts.append(f"x is {noise.gain:.3g} * y {sign} {abs(noise.offset):.3g}")
        parts[-1] += f" (gain {noise.gain:.3g}, offset {noise.offset:.3g})"
    elif np.ndim(noise.gain) and ((noise.gain != 1).any() or (noise.offset != 0).any()):
        parts.append("gain and offset differ by feature")
    if np.any(noise.drift):
        parts.append("x drifts" + (f" by {noise.drift:.3g}" if np.ndim(noise.drift) == 0 else ""))
    size = float(np.sqrt(np.mean(noise.variance)))
    time = noise.correlation_time
    parts.append(f"noise {size:.2g}" + (f", correlated over {time:.0f} steps" if time >= 1.5 else ""))
    if noise.gaps:
        left_out = [int((np.asarray(one) < 0.5).sum()) for one in (match.matched, match.matched_y)]
        parts.append(f"{left_out[0]} steps of x and {left_out[1]} of y have no partner")
    elif noise.open_ends:
        alone = int((np.asarray(match.index) < 0).sum())
        parts.append(f"{alone} steps of x have no partner in y" if alone else "y begins or ends outside of x")
    if apart:
        parts.append("their dates overlap nowhere")
    if trust.explained < LITTLE:
        parts.append(f"y explains only {trust.explained:.0%} of x")
    if trust.coverage < match.level - 0.05:
        parts.append(f"in rehearsals the intervals hold {trust.coverage:.0%}, not {match.level:.0%}")
    if trust.periodic:
        parts.append("y repeats itself, so that shifts by a period match about as well")
    doubtful = match.doubtful()[:3]
    if doubtful:
        parts.append(f"doubtful: {_list_stretches(doubtful)}")
    start = "Good match" if trust.verdict == "good" else "Weak match"
    if trust.verdict == "weak" and trust.p_value > GOOD_P:
        parts.insert(0, f"{trust.p_value:.0%} of unrelated partners fit as well")
    return f"{start}: {'; '.join(parts)}."


def _list_stretches(stretches: list[Stretch]) -> str:
    alone = len(stretches) == 1 and stretches[0].first == stretches[0].last
    return ("step " if alone else "steps ") + ", ".join(
        f"{one.first}" if one.first == one.last else f"{one.first} to {one.last}" for one in stretches
    )


def fit_noise_between(pairs: Sequence[Any], **options: Any) -> NoiseBetween:
    """Fit the noise between the two series of every pair, and return its typical form for `match` of other pairs.

    Numbers are medians over the pairs; ``options`` are the switches of `match`.

    >>> import numpy as np
    >>> import udtw
    >>> rng = np.random.default_rng(0)
    >>> waves = [np.sin(np.linspace(k, k + 9, 60)) for k in range(3)]
    >>> pairs = [(w + 0.1 * rng.standard_normal(60), w + 0.1 * rng.standard_normal(60)) for w in waves]
    >>> 0.003 < udtw.fit_noise_between(pairs).variance < 0.03
    True
    """
    if not len(pairs):
        raise LengthError("fit_noise_between needs at least one pair (x, y).")
    noises = [match(*one, **options).noise for one in pairs]
    middle = {
        name: np.median([getattr(one, name) for one in noises], 0)
        for name in ("correlation_time", "gain", "offset", "drift", "variance")
    }
    numbers: dict[str, Any] = {name: float(one) if np.ndim(one) == 0 else one for name, one in middle.items()}
    empty = np.zeros(0)
    half = sum(one.open_ends for one in noises) > len(noises) / 2
    return NoiseBetween(empty, empty, open_ends=half, **numbers)
