"""Draw two series above each other, with lines between the steps that match."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import LinearSegmentedColormap, PowerNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator, MaxNLocator

from udtw._engine.alignment import Alignment
from udtw._engine.inputs import ArrayLike, read_sequence
from udtw._engine.match import Match
from udtw._engine.matches import Matches, Stretch
from udtw.errors import OptionError, ShapeError
from udtw.plots.alignment import band_alpha, pick_series, value_limits
from udtw.plots.style import (
    FONT,
    MODE_COLOR,
    TITLE_WIDTH,
    X_COLOR,
    Y_COLOR,
    Floats,
    as_array,
    new_figure,
    shade,
)

SHADES = (0.13, 0.4, 0.87)
"""Shades of lines, from doubtful to sure; see `shade`."""
DOUBT_COLOR = MODE_COLOR
FAN_SHADE = 0.5
"""Shade of intervals outside the doubtful stretches, see `shade`."""
LABEL_CHARACTERS = 80
"""Characters of the labels of all times on an axis."""
GAP = 0.55
"""Distance between the series, as a share of the range of their values."""


@dataclass(frozen=True)
class _Curve:
    """Hold one series as drawn: its steps at ``place``, its values times ``factor`` with ``shift`` added."""

    name: str
    values: Floats  # (N, d)
    sigma: Floats | None  # (N,)
    color: str
    place: Floats  # (N,)
    limits: tuple[float, float]
    times: list[str] | None = None
    breaks: Sequence[int] = ()
    shift: float = 0.0
    factor: float = 1.0

    def edge(self, upper: bool) -> Floats:
        """Return the heights (N,) at which match lines touch the series."""
        return (self.values.max(1) if upper else self.values.min(1)) + self.shift


def plot_matches(  # noqa: PLR0913 (the options that users type)
    x: ArrayLike,
    y: ArrayLike,
    alignment: Alignment,
    *,
    matches: Matches | None = None,
    index: int = 0,
    level: float = 0.9,
    of: str = "x",
    lines: int = 60,
    sigma: bool = True,
    intervals: bool = True,
    times: tuple[Sequence[Any] | None, Sequence[Any] | None] = (None, None),
    breaks: tuple[Sequence[int], Sequence[int]] = ((), ()),
    doubtful: bool = True,
    figure: Any = None,
    **figure_options: Any,
) -> Any:
    """Plot two series above each other, with a line from each step to its most probable partner.

    Lines fade where the match is doubtful; fans behind them span the credible intervals of the partners. Stretches
    that are much more doubtful than the rest are orange, and marked at the edge. The axes are labeled "matches". The
    figure is not registered with pyplot: save it with ``savefig``.

    Parameters
    ----------
    x, y : (N,), (N, d) or (B, N, d) and the same with M
        The aligned series. Each feature is a line. Both span the width of the figure; with relaxed ends, x is drawn
        above its partners, and only the surroundings of the matched stretch are shown.
    alignment : Alignment
        Result of `udtw.align` for them.
    matches : Matches, optional
        Matches to draw instead of those of the alignment. With a result of `udtw.match`, its sentence is the title,
        ``level`` and σ are its own, y is drawn in units of x (its axis has its own values), and no lines are drawn if
        its verdict is "none".
    index : int
        Index of the pair in a batch.
    level : float
        Probability that a partner lies in its fan, as in `Alignment.matches`.
    of : "x" or "y"
        Series whose steps are matched.
    lines : int
        Largest number of lines, for evenly spaced steps.
    sigma : bool
        Whether to draw bands of ±σ if var_x or var_y was passed to ``align``.
    intervals : bool
        Whether to draw the fans.
    times : (times of x, times of y)
        Labels of the steps, N and M strings or numbers; None for step numbers.
    breaks : (steps of x, steps of y)
        Steps before which some are missing, where the line of the series is broken.
    doubtful : bool
        Whether to mark the doubtful stretches.
    figure : matplotlib Figure or SubFigure, optional
        Where to draw; a new figure by default.
    **figure_options
        Passed to `matplotlib.figure.Figure`, such as ``figsize``.

    Examples
    --------
    >>> import numpy as np
    >>> import udtw
    >>> from udtw.plots import plot_matches
    >>> x, y = np.sin(np.arange(20) / 3), np.sin(np.arange(24) / 4)
    >>> figure = plot_matches(x, y, udtw.align(x, y, gamma=0.1), lines=10)
    >>> figure.axes[0].get_label(), len(figure.axes[0].collections[-1].get_segments())
    ('matches', 10)
    """
    if lines < 1:
        raise OptionError(f"lines must be 1 or more, the number of match lines; got {lines}.")
    related, title, factor = True, None, 1.0
    if isinstance(matches, Match):
        pair, level, relaxed = _pick_matched(x, y, matches, of), matches.level, matches.noise.open_ends
        related, title = matches.trust.verdict != "none", matches.trust.sentence
        factor = float(np.exp(np.log(np.abs(matches.noise.gain)).mean()))
    else:
        pair = pick_series(x, y, alignment, index)
        relaxed = alignment.paths.relaxed
        matches = matches or alignment.matches(level, of)
    matches = _of_pair(matches, index, len(pair[0 if of == "x" else 1][0]))
    places, window = _places(matches, len(pair[0][0]), len(pair[1][0]), relaxed and related, of)
    for name, own_times, (values, _) in zip("xy", times, pair, strict=True):
        if own_times is not None and len(own_times) != len(values):
            raise OptionError(f"times has {len(own_times)} entries for {name}, which has {len(values)} steps.")
    lower, upper = (
        replace(
            _curve(name, series, place, scale, window, sigma),
            times=None if when is None else [str(one) for one in when],
            breaks=gaps,
        )
        for (name, series, place, scale), when, gaps in zip(
            reversed(list(zip("xy", pair, places, (1.0, factor), strict=True))), times[::-1], breaks[::-1], strict=True
        )
    )
    gap = GAP * max(high - low for low, high in (upper.limits, lower.limits))
    upper = replace(upper, shift=lower.limits[1] + gap - upper.limits[0])
    figure = new_figure((9, 4.2), figure_options) if figure is None else figure
    axes = figure.add_subplot(label="matches")
    axes.set_xlim(window)
    own, other = (upper, lower) if of == "x" else (lower, upper)
    for curve in (upper, lower):
        _draw_series(axes, curve)
    if title is not None:
        figure.suptitle(textwrap.fill(title, TITLE_WIDTH), fontsize=FONT)
    stretches = matches.doubtful() if doubtful and related else []
    if related:
        links = _draw_matches(axes, own, other, matches, stretches, lines, intervals, is_upper=of == "x")
        figure.colorbar(links, ax=axes, pad=0.01, aspect=25, label="probability of the match")
    _label(axes, upper, lower)
    _mark(axes, own, stretches, is_upper=of == "x")
    _draw_legend(figure, upper, lower, level if intervals and related else None, related, bool(stretches))
    return figure


def _pick_matched(x: ArrayLike, y: ArrayLike, match: Match, of: str) -> Any:
    """Return series and σ, as `pick_series`, for a result of `udtw.match`; σ of single features only."""
    if of != "x":
        raise OptionError("udtw.match finds the partners of the steps of x; for those of y call udtw.match(y, x).")
    picked = []
    for name, series, variance in (("x", x, match.noise.var_x), ("y", y, match.noise.var_y)):
        values = read_sequence(name, series)[0][0].detach().cpu().double().numpy()
        picked.append((values, np.sqrt(variance) if values.shape == (len(variance), 1) else None))
    if len(picked[0][0]) != len(match.index):
        raise ShapeError(f"x must be the series that was matched: {len(match.index)} steps; got {len(picked[0][0])}.")
    return tuple(picked)


def _places(
    matches: Matches, n: int, m: int, relaxed: bool, of: str
) -> tuple[tuple[Floats, Floats], tuple[float, float]]:
    """Return the horizontal positions of the steps of x and y, and the visible range.

    Both series span the width of the figure. With relaxed ends, both have the same scale, with x above its partners,
    and only the surroundings of the matched stretch are shown.
    """
    if not relaxed:
        spans = [np.linspace(0, 1, size) if size > 1 else np.array([0.5]) for size in (n, m)]
        return (spans[0], spans[1]), (-0.01, 1.01)
    steps = np.flatnonzero((matches.index >= 0) & (matches.matched >= 0.5))
    steps = steps if len(steps) else np.flatnonzero(matches.index >= 0)
    partners = matches.index[steps]
    in_x, in_y = (steps, partners) if of == "x" else (partners, steps)
    places = np.arange(n, dtype=np.float64) + np.float64(np.median(in_y - in_x)), np.arange(m, dtype=np.float64)
    matched = np.concatenate([places[0][in_x], places[1][in_y]])
    room = max(np.ptp(matched), 1)
    low, high = min(one[0] for one in places), max(one[-1] for one in places)
    return places, (max(low, matched.min() - room) - 0.5, min(high, matched.max() + room) + 0.5)


def _curve(
    name: str, series: tuple[Floats, Floats | None], place: Floats, factor: float, window: Any, sigma: bool
) -> _Curve:
    values = factor * series[0]
    std = factor * series[1] if sigma and series[1] is not None else None
    shown = (place >= window[0]) & (place <= window[1])
    limits = value_limits((values[shown], None if std is None else std[shown]))
    return _Curve(name, values, std, X_COLOR if name == "x" else Y_COLOR, place, limits, factor=factor)


def _of_pair(matches: Matches, index: int, steps: int) -> Matches:
    """Return the matches of one pair, without padding, as NumPy arrays."""
    arrays = {one.name: as_array(getattr(matches, one.name)) for one in fields(Matches)}
    return Matches(**{name: (one if one.ndim == 1 else one[index])[:steps] for name, one in arrays.items()})


def _draw_series(axes: Axes, curve: _Curve) -> None:
    for feature in curve.values.T + curve.shift:
        if curve.sigma is not None:
            low, high = (np.clip(feature + side * curve.sigma, *_room(curve)) for side in (-1, 1))
            alpha = band_alpha(curve.values.shape[1])
            axes.fill_between(curve.place, low, high, color=curve.color, alpha=alpha, linewidth=0)
        alpha = 1 if len(curve.values.T) == 1 else 0.6
        line = (np.insert(one, curve.breaks, np.nan) for one in (curve.place, feature))
        axes.plot(*line, color=curve.color, linewidth=1.4, alpha=alpha, zorder=4)


def _room(curve: _Curve) -> tuple[float, float]:
    """Return the lowest and highest position of the series and its band."""
    low, high = curve.limits
    return low + curve.shift, high + curve.shift


def _mark(axes: Axes, curve: _Curve, doubtful: list[Stretch], *, is_upper: bool) -> None:
    """Draw bars along the outer edge of a series."""
    height = 0.035
    bottom = 1 - height if is_upper else 0.0
    half = 0.5 * (curve.place[-1] - curve.place[0]) / max(len(curve.values) - 1, 1)
    bars = [
        ((first := curve.place[one.first] - half), bottom, curve.place[one.last] + half - first) for one in doubtful
    ]
    for left, low, width in bars:
        axes.add_patch(
            Rectangle((left, low), width, height, color=DOUBT_COLOR, linewidth=0, transform=axes.get_xaxis_transform())
        )


def _draw_matches(
    axes: Axes,
    own: _Curve,
    other: _Curve,
    matches: Matches,
    doubtful: list[Stretch],
    lines: int,
    intervals: bool,
    *,
    is_upper: bool,
) -> ScalarMappable:
    matched = np.flatnonzero(matches.index >= 0)
    chosen = matched[np.unique(np.linspace(0, len(matched) - 1, min(lines, len(matched))).round().astype(int))]
    starts = np.column_stack([own.place[chosen], own.edge(not is_upper)[chosen]])
    heights, partners = other.edge(is_upper), matches.index[chosen]
    ends = np.column_stack([other.place[partners], heights[partners]])
    if intervals:
        spans = zip(starts, matches.low[chosen], matches.high[chosen], strict=True)
        fans = [_fan(start, other, heights, low, high) for start, low, high in spans]
        doubted = {step for one in doubtful for step in range(one.first, one.last + 1)}
        colors = [DOUBT_COLOR if step in doubted else shade(FAN_SHADE) for step in chosen]
        axes.add_collection(PolyCollection(fans, facecolors=colors, alpha=0.13, linewidths=0, zorder=1))
    probability = np.asarray(matches.probability[chosen] * matches.matched[chosen], float)
    order = np.argsort(probability)  # sure lines on top
    segments = np.stack([starts, ends], 1)[order]
    # The same gray for the same probability in every plot; its root, since at γ = 4 few are near 1.
    norm = PowerNorm(0.5, vmin=0, vmax=1)
    widths = 0.5 + 0.9 * np.sqrt(probability[order])
    sure = LinearSegmentedColormap.from_list("udtw.sure", [shade(one) for one in SHADES])
    links = LineCollection(list(segments), cmap=sure, norm=norm, linewidths=widths, zorder=3)
    links.set_array(probability[order])
    axes.add_collection(links)
    return links


def _fan(start: Floats, other: _Curve, heights: Floats, low: int, high: int) -> Floats:
    """Return the outline of a fan from a step to all partners in its interval."""
    steps = np.arange(low, high + 1)
    return np.concatenate([start[None], np.column_stack([other.place[steps], heights[steps]])])


def _label(axes: Axes, upper: _Curve, lower: _Curve) -> None:
    """Label the values of each series on the left at its own height, and its steps above or below."""
    margin = 0.06 * (_room(upper)[1] - _room(lower)[0])  # for the bars of `_mark`
    bottom, top = _room(lower)[0] - margin, _room(upper)[1] + margin
    axes.set_ylim(bottom, top)
    places: list[float] = []
    labels: list[str] = []
    for curve in (lower, upper):
        step = _value_step(lower, upper) if lower.factor == upper.factor else _value_step(curve)
        low, high = (int(np.ceil(one / curve.factor / step)) for one in curve.limits)
        ticks = [step * number for number in range(low, high)]
        places += [tick * curve.factor + curve.shift for tick in ticks]
        labels += [f"{tick:g}" for tick in ticks]
        middle = (sum(_room(curve)) / 2 - bottom) / (top - bottom)
        centered: dict[str, Any] = {"rotation": 90, "ha": "center", "va": "center", "transform": axes.transAxes}
        axes.text(-0.075, middle, f"value of {curve.name}", color=curve.color, **centered)
    axes.yaxis.set_major_locator(FixedLocator(places))
    axes.yaxis.set_major_formatter(FixedFormatter(labels))
    _step_ticks(axes, lower, axes.get_xlim())
    _step_ticks(axes.secondary_xaxis("top"), upper, axes.get_xlim())
    axes.spines["right"].set_visible(False)


def _value_step(*curves: _Curve) -> float:
    """Return one distance of value ticks for all series: that of the smallest one unless another gets too many."""
    limits = [np.divide(curve.limits, curve.factor) for curve in curves]
    steps = sorted(float(np.diff(MaxNLocator(3).tick_values(*one))[0]) for one in limits)
    return steps[0] if max(high - low for low, high in limits) <= 7 * steps[0] else steps[-1]


def _step_ticks(axes: Any, curve: _Curve, window: tuple[float, float]) -> None:
    shown = np.flatnonzero((curve.place >= window[0]) & (curve.place <= window[1]))
    first, last = (int(shown[0]), int(shown[-1])) if len(shown) else (0, len(curve.values) - 1)
    count = 8 if curve.times is None else max(1, min(5, LABEL_CHARACTERS // max(map(len, curve.times))))
    ticks = [int(tick) for tick in MaxNLocator(count, integer=True).tick_values(first, last) if first <= tick <= last]
    texts, label = [str(tick) for tick in ticks], f"step of {curve.name}"
    if curve.times is not None:
        texts, label = [curve.times[tick] for tick in ticks], f"time of {curve.name}"
        days = {text[:11] for text in texts if text[10:11] in (" ", "T")}
        if len(days) == 1 and all(len(text) > 11 for text in texts):  # only the time of day differs
            texts, label = [text[11:] for text in texts], f"{label} on {days.pop()[:10]}"
    axes.xaxis.set_major_locator(FixedLocator(curve.place[ticks].tolist()))
    axes.xaxis.set_major_formatter(FixedFormatter(texts))
    axes.set_xlabel(label, color=curve.color)


def _draw_legend(figure: Figure, upper: _Curve, lower: _Curve, level: float | None, related: bool, doubt: bool) -> None:
    entries: dict[str, Any] = {}
    for curve in (upper, lower):
        line = Line2D([], [], color=curve.color)
        entries[f"{curve.name} ± σ" if curve.sigma is not None else curve.name] = (
            line if curve.sigma is None else (Patch(facecolor=curve.color, alpha=0.25), line)
        )
    if related:
        entries["most probable match"] = Line2D([], [], color=shade(SHADES[-1]), linewidth=1)
    if level is not None:
        entries[f"{100 * level:g} % interval"] = Patch(facecolor=shade(FAN_SHADE), alpha=0.3)
    if doubt:
        entries["doubtful stretch"] = Patch(facecolor=DOUBT_COLOR)
    figure.legend(
        list(entries.values()), list(entries), loc="outside lower center", ncols=5, frameon=False, fontsize=FONT
    )
