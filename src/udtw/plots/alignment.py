"""Draw an alignment: two series on the margins of their coupling, the match variance, and its histogram."""

import math
import textwrap
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from numpy.typing import NDArray
from torch import Tensor

from udtw._engine import inputs
from udtw._engine.alignment import Alignment
from udtw._engine.inputs import ArrayLike
from udtw._engine.match import Match
from udtw.errors import OptionError, ShapeError
from udtw.plots.style import (
    FONT,
    MODE_COLOR,
    MODE_WIDTH,
    SAMPLE_COLOR,
    TITLE_WIDTH,
    X_COLOR,
    Y_COLOR,
    Floats,
    as_array,
    check_path_power,
    draw_coupling,
    draw_mode,
    hide_box,
    matrix_height,
    new_figure,
    set_power_ticks,
    tick_label,
)

ALL_COLOR = "#999999"
SAMPLE_WIDTH = 0.6

MATRIX_INCHES, MARGIN_INCHES, HISTOGRAM_INCHES, LEGEND_INCHES = 3.2, 0.9, 2.2, 1.9
LABEL_INCHES = (1.6, 1.3)
"""Room for tick labels, axis labels and color bars, in width and height."""

LOG_FROM_RATIO = 20
"""Ratio of variances above which their scale is logarithmic."""

BINS = 30


@dataclass(frozen=True)
class _Pair:
    """Hold one pair to draw, cropped to its true lengths N and M."""

    x: Floats  # (N, d)
    y: Floats  # (M, d)
    sigma_x: Floats | None  # (N,)
    sigma_y: Floats | None  # (M,)
    coupling: Floats  # (N, M)
    variance: Floats | None  # (N, M); None if Σ is 1 throughout
    mode: NDArray[np.int64]  # (L, 2)
    samples: list[NDArray[np.int64]]


def plot_alignment(
    x: ArrayLike,
    y: ArrayLike,
    alignment: Alignment,
    *,
    match: Match | None = None,
    index: int = 0,
    paths: int = 20,
    seed: int = 0,
    path_power: float = 0.1,
    **figure_options: Any,
) -> Figure:
    """Plot two series, their coupling with the most probable path and sampled paths, and the match variance.

    The axes are labeled "x", "y", "coupling" and "legend"; with variances also "variance" and "histogram". Steps of x
    run down and steps of y run right, on the margins and in the matrices. The figure is not registered with pyplot:
    save it with ``savefig``. For long series use `plot_matches`, which computes no matrix.

    Parameters
    ----------
    x, y : (N,), (N, d) or (B, N, d) and the same with M
        The aligned series. Each feature is a line; a band of ±σ is drawn if var_x or var_y was passed to ``align``.
    alignment : Alignment
        Result of `udtw.align` for them.
    match : Match, optional
        Result of `udtw.match` for them, whose ``alignment`` this is: x and y are drawn in common units, with a step
        more at either end if the ends are open, its sentence is the title, and no paths are drawn if its verdict is
        "none".
    index : int
        Index of the pair in a batch.
    paths : int
        Number of paths to sample, 0 for none; ``seed`` makes them reproducible.
    path_power : float in (0, 1]
        Colors show ``coupling ** path_power`` to make small probabilities visible.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``; by default the cells of the matrices are about
        square.

    Examples
    --------
    >>> import numpy as np
    >>> import udtw
    >>> from udtw.plots import plot_alignment
    >>> x, y = np.sin(np.arange(20) / 3), np.sin(np.arange(24) / 4)
    >>> figure = plot_alignment(x, y, udtw.align(x, y, gamma=0.1), paths=5)
    >>> [axes.get_label() for axes in figure.axes[:4]]
    ['y', 'legend', 'x', 'coupling']
    """
    if paths < 0:
        raise OptionError(f"paths must be 0 or more, the number of paths to sample; got {paths}.")
    check_path_power(path_power)
    if match is not None:
        x, y = in_common_units(x, y, match)
    pair = _pick(x, y, alignment, index, paths, seed)
    if match is not None and match.trust.verdict == "none":
        pair = replace(pair, mode=pair.mode[:0], samples=[])
    width, height = MATRIX_INCHES, matrix_height(MATRIX_INCHES, *pair.coupling.shape)
    right = {"legend": LEGEND_INCHES} if pair.variance is None else {"variance": width, "histogram": HISTOGRAM_INCHES}
    widths = [MARGIN_INCHES, width, *right.values()]
    figure = new_figure((sum(widths) + LABEL_INCHES[0], MARGIN_INCHES + height + LABEL_INCHES[1]), figure_options)
    axes = figure.subplot_mosaic(
        [[".", "y", *["legend"] * len(right)], ["x", "coupling", *right]],
        width_ratios=widths,
        height_ratios=[MARGIN_INCHES, height],
    )
    _draw_margins(axes["x"], axes["y"], pair)
    _draw_coupling(figure, axes["coupling"], pair, path_power)
    if pair.variance is not None:
        _draw_variance(figure, axes["variance"], pair, pair.variance)
        _draw_histogram(axes["histogram"], pair, pair.variance)
    _share_steps(axes, *pair.coupling.shape)
    _draw_legend(axes["legend"], pair)
    if match is not None:
        figure.suptitle(textwrap.fill(match.trust.sentence, TITLE_WIDTH), fontsize=FONT)
    return figure


def in_common_units(x: ArrayLike, y: ArrayLike, match: Match) -> tuple[Floats, Floats]:
    """Return x and y as `Match.alignment` compares them: gain, offset and drift removed, in units of the noise.

    With open ends, both have a step more at either end, which stands for no partner.
    """
    noise, ends = match.noise, 1 if match.noise.open_ends else 0
    first, second = (_floats(inputs.read_sequence(name, one)[0][0]) for name, one in (("x", x), ("y", y)))
    unit = np.asarray(match.alignment.step_variances[0])[ends]
    scale = np.sqrt(np.reshape(noise.var_x, (len(noise.var_x), -1))[0] / unit)
    time = np.linspace(-0.5, 0.5, len(first))[:, None]
    pair = (first - time * noise.drift) / scale, (second * noise.gain + noise.offset) / scale
    if not ends:
        return pair
    means = pair[1].mean(0), pair[0].mean(0)
    padded = [np.concatenate([[mean], one, [mean]]) for one, mean in zip(pair, means, strict=True)]
    return padded[0], padded[1]


def _pick(x: ArrayLike, y: ArrayLike, alignment: Alignment, index: int, paths: int, seed: int) -> _Pair:
    """Return pair ``index`` as NumPy arrays; gradients are left untouched."""
    (of_x, sigma_x), (of_y, sigma_y) = pick_series(x, y, alignment, index)
    n, m = len(of_x), len(of_y)
    coupling, variance = as_array(alignment.coupling), None
    single = alignment.paths.single
    if alignment.uncertain:
        own = as_array(alignment.variance)
        own = own if single else own[index]
        variance = (own if own.ndim == 2 else own.mean(2)).astype(np.float64)[:n, :m]
    drawn, best = alignment.paths.sample(paths, seed) if paths else [], alignment.paths.mode()
    return _Pair(
        x=of_x,
        y=of_y,
        sigma_x=sigma_x,
        sigma_y=sigma_y,
        coupling=(coupling if single else coupling[index]).astype(np.float64)[:n, :m],
        variance=variance,
        mode=np.asarray(best if single else best[index]),
        samples=[np.asarray(path) for path in (drawn if single or not drawn else drawn[index])],
    )


def pick_series(
    x: ArrayLike, y: ArrayLike, alignment: Alignment, index: int
) -> tuple[tuple[Floats, Floats | None], tuple[Floats, Floats | None]]:
    """Return series (N, d) and σ (N,) or None of x and y of one pair, without padding; σ of the mean over features."""
    if not isinstance(alignment, Alignment):
        raise OptionError(f"alignment must be the result of udtw.align; got {type(alignment).__name__}.")
    count, rows, columns = alignment.paths.shape
    if not 0 <= index < count:
        raise OptionError(f"index must be from 0 to {count - 1}, one of the {count} aligned pair(s); got {index}.")
    n, m = alignment.paths.lengths[index]

    def pick_sigma(variances: Any, size: int) -> Floats | None:
        if variances is None:
            return None
        own = as_array(variances) if alignment.paths.single else as_array(variances)[index]
        return np.sqrt(own if own.ndim == 1 else own.mean(1))[:size].astype(np.float64)

    sigma_x, sigma_y = (pick_sigma(one, size) for one, size in zip(alignment.step_variances, (n, m), strict=True))
    return (_series("x", x, index, count, rows)[:n], sigma_x), (_series("y", y, index, count, columns)[:m], sigma_y)


def _series(name: str, value: ArrayLike, index: int, count: int, steps: int) -> Floats:
    """Return the sequence (N, d) of pair ``index``; a single sequence is used for all pairs, as in `align`."""
    tensor, _ = inputs.read_sequence(name, value)
    if tensor.shape[1] != steps or tensor.shape[0] not in (1, count):
        raise ShapeError(
            f"{name} must be the aligned sequence(s): {count} pair(s) of {steps} steps; got shape "
            f"{tuple(tensor.shape)} as (B, N, d)."
        )
    return _floats(tensor[index if tensor.shape[0] > 1 else 0])


def _floats(tensor: Tensor) -> Floats:
    return tensor.detach().cpu().double().numpy()


def _draw_margins(left: Axes, top: Axes, pair: _Pair) -> None:
    """Draw x on the left, with time running down, and y on top, on the same range of values."""
    limits = value_limits((pair.x, pair.sigma_x), (pair.y, pair.sigma_y))
    steps_x, steps_y = np.arange(len(pair.x)), np.arange(len(pair.y))
    line_alpha = 1.0 if pair.x.shape[1] == 1 else 0.6
    for feature in pair.x.T:
        left.plot(feature, steps_x, color=X_COLOR, linewidth=1, alpha=line_alpha)
        if pair.sigma_x is not None:
            low, high = feature - pair.sigma_x, feature + pair.sigma_x
            left.fill_betweenx(steps_x, low, high, color=X_COLOR, alpha=band_alpha(pair.x.shape[1]), linewidth=0)
    for feature in pair.y.T:
        top.plot(steps_y, feature, color=Y_COLOR, linewidth=1, alpha=line_alpha)
        if pair.sigma_y is not None:
            low, high = feature - pair.sigma_y, feature + pair.sigma_y
            top.fill_between(steps_y, low, high, color=Y_COLOR, alpha=band_alpha(pair.x.shape[1]), linewidth=0)
    # Large values point away from the matrix on both margins.
    left.set_xlim(limits[1], limits[0])
    top.set_ylim(limits)
    left.set_xlabel("value of x")
    left.set_ylabel("step of x")
    top.set_ylabel("value of y")
    left.locator_params(axis="x", nbins=2)
    left.tick_params(axis="x", labelsize=FONT)  # the margin is narrow
    top.locator_params(axis="y", nbins=3)
    # On the left, its labels would push x away from the matrix.
    top.yaxis.tick_right()
    top.yaxis.set_label_position("right")
    hide_box(left)
    top.spines[["top", "left"]].set_visible(False)
    top.tick_params(bottom=False, labelbottom=False)


def band_alpha(features: int) -> float:
    """Return the opacity of a band of ±σ, lower for several features because their bands overlap."""
    return max(0.25 / features, 0.02)


def value_limits(*series: tuple[Floats, Floats | None]) -> tuple[float, float]:
    """Return axis limits that hold several series (T, d) and their bands of ±σ (T,), if any.

    The bands extend the range of the series by at most half of it on either side.
    """
    low, high = min(values.min() for values, _ in series), max(values.max() for values, _ in series)
    span = max(high - low, 1e-6 * max(abs(low), abs(high)), 1e-12)
    lows = [low, *((values - sigma[:, None]).min() for values, sigma in series if sigma is not None)]
    highs = [high, *((values + sigma[:, None]).max() for values, sigma in series if sigma is not None)]
    low, high = max(min(lows), low - 0.5 * span), min(max(highs), high + 0.5 * span)
    return float(low - 0.05 * span), float(high + 0.05 * span)


def _draw_coupling(figure: Figure, axes: Axes, pair: _Pair, power: float) -> None:
    image = draw_coupling(axes, pair.coupling, power)
    axes.add_collection(
        LineCollection([path[:, ::-1] for path in pair.samples], colors=SAMPLE_COLOR, linewidths=SAMPLE_WIDTH)
    )
    _draw_mode(axes, pair)
    bar = figure.colorbar(image, ax=axes, location="bottom", aspect=30, pad=0.02)
    bar.set_label("coupling π* (probability of the match)")
    set_power_ticks(bar, power)


def _draw_mode(axes: Axes, pair: _Pair) -> None:
    draw_mode(axes, pair.mode)
    axes.set_xlabel("step of y")
    axes.tick_params(left=False, labelleft=False)


def _draw_variance(figure: Figure, axes: Axes, pair: _Pair, variance: Floats) -> None:
    low, high, logarithmic = variance_range(variance)
    norm = LogNorm(low, high) if logarithmic else Normalize(low, high)
    image = axes.imshow(variance, cmap="cividis", norm=norm, aspect="auto")
    _draw_mode(axes, pair)
    bar = figure.colorbar(image, ax=axes, location="bottom", aspect=30, pad=0.02)
    bar.set_label("match variance Σ")
    if logarithmic:
        _set_log_ticks(bar.ax.xaxis, low, high)


def variance_range(variance: Floats) -> tuple[float, float, bool]:
    """Return the limits of Σ, never empty, and whether its range needs a logarithmic scale."""
    low, high = float(variance.min()), float(variance.max())
    if high <= low * (1 + 1e-6):
        return 0.5 * low, 1.5 * high, False
    return low, high, high > LOG_FROM_RATIO * low


def log_ticks(low: float, high: float) -> list[float]:
    """Return at most five numbers such as 1, 2, 5, 10, … within the limits."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in ((1, 2, 5), (1, 3), (1,)):
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 5:
            break
    return ticks[:: math.ceil(len(ticks) / 5)]


def _set_log_ticks(axis: Axis, low: float, high: float) -> None:
    """Set `log_ticks` in place of matplotlib's ticks, whose labels, such as 2 × 10⁰, overlap."""
    ticks = log_ticks(low, high)
    axis.set_major_locator(FixedLocator(ticks))
    axis.set_major_formatter(FixedFormatter([tick_label(tick) for tick in ticks]))
    axis.set_minor_locator(NullLocator())


def _draw_histogram(axes: Axes, pair: _Pair, variance: Floats) -> None:
    """Draw the distribution of Σ over all N·M matches, and over the matches weighted by ``π*_mn / Σ π*``."""
    low, high, logarithmic = variance_range(variance)
    edges = np.geomspace(low, high, BINS + 1) if logarithmic else np.linspace(low, high, BINS + 1)
    edges[0], edges[-1] = low, high
    every, _ = np.histogram(variance, edges)
    weighted, _ = np.histogram(variance, edges, weights=pair.coupling)
    axes.stairs(every / every.sum(), edges, fill=True, color=ALL_COLOR, alpha=0.6)
    axes.stairs(weighted / weighted.sum(), edges, color=MODE_COLOR, linewidth=1.4)
    axes.set_xscale("log" if logarithmic else "linear")
    if logarithmic:
        _set_log_ticks(axes.xaxis, low, high)
    margin = (high / low) ** 0.02 if logarithmic else 0.02 * (high - low)  # room for the full line of the outer bars
    axes.set_xlim((low / margin, high * margin) if logarithmic else (low - margin, high + margin))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("match variance Σ")
    axes.set_ylabel("share of matches")
    hide_box(axes)


def _share_steps(axes: dict[Any, Axes], n: int, m: int) -> None:
    """Share the axes of the margins and the matrices, so that they zoom and pan together."""
    axes["y"].sharex(axes["coupling"])
    axes["x"].sharey(axes["coupling"])
    if "variance" in axes:
        axes["variance"].sharex(axes["coupling"])
        axes["variance"].sharey(axes["coupling"])
    axes["coupling"].set_xlim(-0.5, m - 0.5)
    axes["coupling"].set_ylim(n - 0.5, -0.5)
    axes["coupling"].locator_params(integer=True, nbins=6)


def _draw_legend(axes: Axes, pair: _Pair) -> None:
    entries: dict[str, Any] = {
        **_series_entry("x", X_COLOR, pair.sigma_x, pair.x.shape[1]),
        **_series_entry("y", Y_COLOR, pair.sigma_y, pair.y.shape[1]),
    }
    if len(pair.mode):
        entries["most probable path"] = Line2D([], [], color=MODE_COLOR, linewidth=MODE_WIDTH)
    if pair.samples:
        label = f"{len(pair.samples)} sampled path{'s' if len(pair.samples) > 1 else ''}"
        entries[label] = Line2D([], [], color=SAMPLE_COLOR, linewidth=2 * SAMPLE_WIDTH)
    if pair.variance is None:
        axes.legend(list(entries.values()), list(entries), loc="center left", frameon=False)
        axes.set_axis_off()
        return
    entries["all matches"] = Patch(facecolor=ALL_COLOR, alpha=0.6)
    entries["weighted by the coupling"] = Patch(facecolor="none", edgecolor=MODE_COLOR, linewidth=1.4)
    axes.legend(list(entries.values()), list(entries), loc="center", ncols=2, frameon=False)
    axes.set_axis_off()


def _series_entry(name: str, color: str, sigma: Floats | None, features: int) -> dict[str, Any]:
    """Return label and handle of a series: a line, on a band if its σ is known."""
    label = f"series {name}" if features == 1 else f"series {name} ({features} features)"
    line = Line2D([], [], color=color)
    return {label: line} if sigma is None else {f"{label} ± σ": (Patch(facecolor=color, alpha=0.25), line)}
