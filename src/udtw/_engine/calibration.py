"""`calibrate`: the temperature γ and the warp penalty ω for which the probabilities of matches are those observed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine import inputs
from udtw._engine.align import align
from udtw._engine.alignment import Alignment
from udtw._engine.matches import tail_of
from udtw._engine.series_set import SeriesSet, load_series
from udtw._engine.warped_copies import Truth, drawn_pairs, in_float64, warped_copies
from udtw.errors import LengthError, NonFiniteError, OptionError, PathError, ShapeError

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Levels at which the coverage is observed, beside the chosen one."""
MIN_PAIRS = 3
CELLS_PER_CHUNK = 2_000_000
"""Cells that are aligned at once: bounds the memory, not the result."""
MAX_FACTOR = 1e4
"""Largest factor between the fitted γ and its start."""
MAX_PRICE = 20.0
"""Largest ω/γ. A non-diagonal step is then e⁻²⁰ times as likely as a diagonal one."""


@dataclass(frozen=True, repr=False)
class Calibration:
    """Result of `calibrate`: pass ``gamma`` and ``warp_penalty`` to `udtw.align`.

    >>> from udtw._engine.calibration import Calibration
    >>> fitted = Calibration(4.0, 0.5, 0.9, 0.91, 1.7, (0.5, 0.9), (0.55, 0.91))
    >>> fitted.options
    {'gamma': 4.0, 'warp_penalty': 0.5}
    """

    gamma: float
    """Temperature γ."""
    warp_penalty: float
    """ω ≥ 0, the energy of a non-diagonal step."""
    level: float
    """Stated probability of the intervals behind `coverage`."""
    coverage: float
    """Share of the true matches inside their intervals of probability `level`, with the fitted γ and ω."""
    score: float
    """Mean of ``−log p`` over the true matches, in nats; p is the probability of a match given its step of x."""
    levels: tuple[float, ...]
    """Stated probabilities, ascending."""
    observed: tuple[float, ...]
    """The coverage at each of `levels`; `udtw.plots.plot_calibration` draws both."""
    checked: str = "on true alignments"
    """The alignments on which the coverage was observed, and what they leave unchecked."""

    def __repr__(self) -> str:
        return (
            f"Calibration(gamma={self.gamma:.4g}, warp_penalty={self.warp_penalty:.4g}, {self.coverage:.1%} inside "
            f"intervals of {self.level:.0%}, {self.checked})"
        )

    @property
    def options(self) -> dict[str, float]:
        """``gamma`` and ``warp_penalty`` as keywords of `udtw.align`."""
        return {"gamma": self.gamma, "warp_penalty": self.warp_penalty}


def calibrate(  # noqa: PLR0913 (keyword options of a public function)
    pairs: Sequence[Any],
    true_paths: Sequence[Any] | None = None,
    *,
    warps: Sequence[Any] | None = None,
    var_x: Any = None,
    var_y: Any = None,
    beta: float = 1.0,
    weighting: str = "likelihood",
    gamma: float | None = None,
    warp_penalty: float = 0.0,
    level: float = 0.9,
    band: Any = None,
    speed_std: float = 0.6,
    random_state: int = 0,
) -> Calibration:
    """γ and ω ≥ 0 for which the true matches of ``pairs`` are most probable, and the coverage of their intervals.

    The score is ``−mean log p_mn`` over the true matches (m, n), where ``p_mn = π*_mn / Σ_n π*_mn`` is the probability
    that `Alignment.matches` states. It is minimized over log γ and ω/γ by L-BFGS, with exact gradients. The likelihood
    of whole paths, ``−mean log π(path)/length``, was measured as well and is not used: real warps are smooth, the steps
    of a path are not, and on known warps its 90 % intervals held only 67 to 84 % of the true matches, against 91 to
    96 % here, with smaller errors (``python -m benchmarks.calibration_scores``).

    Parameters
    ----------
    pairs : sequence of (x, y), or of single series
        Series (T,) or (T, d) of any lengths. Without true alignments see Notes.
    true_paths : sequence of (L, 2) integer arrays, optional
        The true path of each pair.
    warps : sequence of (N,) arrays, optional
        Instead of paths, for each pair the true position in y of every step of x: non-decreasing numbers from 0 to
        M − 1, whole or not.
    var_x, var_y : sequence of (N,) arrays, a number or "estimate", optional
        Variances as in `udtw.align`, one array for each pair. For single series ``var_x`` only.
    beta, weighting, band
        As in `udtw.align`. Align with the same ones.
    gamma : float, optional
        Start of the search, if it is better than the usual one: twice the mean cost of the true matches, which is 4 if
        the variances are those of the noise and d = 1.
    warp_penalty : float
        Start of the search for ω.
    level : float
        Stated probability of the intervals whose coverage is reported.
    speed_std : float
        Standard deviation of the logarithm of the speed of random warps (single series only).
    random_state : int
        Seed of random warps and noise (single series only).

    Returns
    -------
    Calibration
        ``gamma``, ``warp_penalty``, ``coverage``, and the coverage at other levels. The coverage is that of ``pairs``
        themselves; two fitted numbers make it hardly too good. Intervals consist of whole steps, so sharp ones hold
        more than they state.

    Notes
    -----
    Pairs without true alignments are fitted as in `udtw.match`; pairs that are drawn from the fit, with the variances,
    correlation and units that are found between the two, take their place.

    A single series x is paired with a warped copy of itself: y = f(w) + noise. Here f is x smoothed (penalised second
    differences; generalized cross-validation chooses the strength), w a random smooth monotone warp, and the noise is
    white with the variance ``var_x`` or, if that is not given as numbers, the local roughness of x. So x keeps
    its own noise, and y does not share it. The result is as good as the warps are typical: choose ``speed_std``
    accordingly.

    Examples
    --------
    >>> import numpy as np
    >>> import udtw
    >>> rng = np.random.default_rng(0)
    >>> series = [np.sin(np.arange(50) / 5 + phase) + 0.2 * rng.standard_normal(50) for phase in range(8)]
    >>> fitted = udtw.calibrate(series)
    >>> 0.8 < fitted.coverage < 1
    True
    >>> a = udtw.align(series[0], series[1], weighting="likelihood", **fitted.options)  # gamma and warp_penalty
    >>> a.matches(level=0.9).low.shape
    (50,)
    """
    tail_of(level)  # raises unless it is a probability
    if true_paths is not None and warps is not None:
        raise OptionError("Give true_paths or warps, not both.")
    if len(pairs) < MIN_PAIRS:
        raise LengthError(f"calibrate needs at least {MIN_PAIRS} pairs, and better dozens; got {len(pairs)}.")
    checked = "on true alignments"
    if true_paths is None and warps is None and all(_is_pair(one) for one in pairs):
        if not (var_x is None or isinstance(var_x, str)) or not (var_y is None or isinstance(var_y, str)):
            raise OptionError("Pairs without true alignments: var_x and var_y are None or 'estimate'.")
        x, y, truth = drawn_pairs(pairs, random_state)
        words, checked = (var_x, var_y), DRAWN
    elif true_paths is None and warps is None:
        checked = COPIES
        x, y, truth = warped_copies(pairs, var_x, var_y, speed_std, random_state)
        words = (var_x, var_x) if isinstance(var_x, str) else (None, None)
    else:
        x, y, words = _loaded(pairs, var_x, var_y)
        lengths = list(zip(x.lengths.tolist(), y.lengths.tolist(), strict=True))
        read, given = (_read_path, true_paths) if true_paths is not None else (_read_warp, warps)
        assert given is not None, "one of the two is given"
        if len(given) != len(pairs):
            raise LengthError(f"One true alignment per pair is needed: {len(pairs)}; got {len(given)}.")
        truth = [read(b, one, *lengths[b]) for b, one in enumerate(given)]
    aligned = _Aligned(x, y, truth, words, {"beta": beta, "weighting": weighting, "band": band})
    starts = [2 * aligned.typical_cost(), *([] if gamma is None else [float(gamma)])]
    if starts[0] <= np.finfo(float).eps * np.square(x.values).mean():
        raise OptionError("All pairs agree up to rounding along their true alignments: there is no noise to fit.")
    if not all(math.isfinite(one) and one > 0 for one in starts):
        raise OptionError(f"gamma, the start of the search, must be a positive number; got {gamma!r}.")
    found_gamma, found_penalty, score = _fit(aligned, starts, float(warp_penalty))
    levels = tuple(sorted({*LEVELS, level}))
    observed = aligned.coverage(levels, found_gamma, found_penalty)
    coverage = observed[levels.index(level)]
    return Calibration(found_gamma, found_penalty, level, coverage, score, levels, observed, checked)


DRAWN = "on pairs drawn from the noise between the given ones: whether they belong together is not checked"
COPIES = "on warped copies with white noise: other noise between two series is not checked"


def _is_pair(one: Any) -> bool:
    return isinstance(one, list | tuple) and len(one) == 2 and np.ndim(one[0]) > 0


@dataclass(frozen=True)
class _Aligned:
    """Pairs with their true matches, and what is known of their alignments for any γ and ω."""

    x: SeriesSet
    y: SeriesSet
    truth: list[Truth]
    words: tuple[Any, Any]
    """``var_x`` and ``var_y`` if they are not arrays."""
    options: dict[str, Any]

    def chunks(self, gamma: Any, penalty: Any) -> Iterator[tuple[Alignment, Tensor, Tensor, Tensor]]:
        """Alignments of a few pairs, and their true matches: pair in the chunk, step of x, position in y, (K,) each."""
        size = max(1, CELLS_PER_CHUNK // (self.x.values.shape[1] * self.y.values.shape[1]))
        for begin in range(0, len(self.x), size):
            chosen = np.arange(begin, min(begin + size, len(self.x)))
            left, right = self.x[chosen], self.y[chosen]
            variances = [
                word if one.variances is None else torch.from_numpy(one.variances)
                for one, word in ((left, self.words[0]), (right, self.words[1]))
            ]
            aligned = align(
                torch.from_numpy(left.values), torch.from_numpy(right.values), *variances, gamma=gamma,
                warp_penalty=penalty, lengths_x=left.lengths, lengths_y=right.lengths, **self.options,
            )  # fmt: skip
            mine = [self.truth[b] for b in chosen]
            pair = np.repeat(np.arange(len(mine)), [len(steps) for steps, _ in mine])
            steps, places = (np.concatenate([one[part] for one in mine]) for part in (0, 1))
            yield aligned, torch.from_numpy(pair), torch.from_numpy(steps), torch.from_numpy(places)

    @property
    def count(self) -> int:
        """True matches of all pairs."""
        return sum(len(steps) for steps, _ in self.truth)

    def typical_cost(self) -> float:
        """Mean of D/Σ over the true matches."""
        total = 0.0
        with torch.no_grad():
            for aligned, pair, step, place in self.chunks(1.0, 0.0):
                total += float(aligned.cost[pair, step, place.round().long()].sum())
        return total / self.count

    def score(self, gamma: Tensor, penalty: Tensor) -> float:
        """``−mean log p`` of the true matches; its gradient is added to those of ``gamma`` and ``penalty``.

        Between two whole positions p is interpolated.
        """
        total = 0.0
        for aligned, pair, step, place in self.chunks(gamma, penalty):
            coupling = aligned.coupling
            low = place.floor().long()
            high = place.ceil().long()
            part = place - low
            p = (1 - part) * coupling[pair, step, low] + part * coupling[pair, step, high]
            p = p / coupling.sum(2)[pair, step]
            # A match of probability zero must not make the score infinite: then it would have no gradient.
            value = -p.clamp_min(torch.finfo(p.dtype).tiny).log().sum() / self.count
            value.backward()
            total += float(value.detach())
        return total

    def coverage(self, levels: Sequence[float], gamma: float, penalty: float) -> tuple[float, ...]:
        """Shares of the true matches inside their intervals; those of positions between steps reach half a step out."""
        inside = np.zeros(len(levels))
        with torch.no_grad():
            for aligned, pair, step, place in self.chunks(gamma, penalty):
                for k, level in enumerate(levels):
                    at = aligned.matches(level)
                    low, high = at.low[pair, step], at.high[pair, step]
                    inside[k] += float(((place >= low - 0.5) & (place <= high + 0.5)).sum())
        return tuple((inside / self.count).tolist())


def _fit(aligned: _Aligned, starts: list[float], penalty: float) -> tuple[float, float, float]:
    """γ, ω and the score. If the least score is at ω < 0, which would reward warping, that for ω = 0."""
    start = min(starts, key=lambda gamma: aligned.score(*(_leaf(one) for one in (gamma, penalty))))
    place, price = _leaf(0.0), _leaf(penalty / start)
    bound = math.log(MAX_FACTOR)

    def values() -> tuple[Tensor, Tensor]:
        # tanh keeps a bold first step of the line search inside what floating-point numbers can hold.
        gamma = start * torch.exp(bound * torch.tanh(place / bound))
        return gamma, gamma * MAX_PRICE * torch.tanh(price / MAX_PRICE)

    score = math.inf
    for free in ([place, price], [place]):
        optimizer = torch.optim.LBFGS(free, max_iter=50, tolerance_change=1e-7, line_search_fn="strong_wolfe")

        def closure(optimizer: torch.optim.LBFGS = optimizer) -> float:
            nonlocal score
            optimizer.zero_grad()
            gamma, omega = values()
            leaves = [one.detach().requires_grad_() for one in (gamma, omega)]
            score = aligned.score(*leaves)
            torch.autograd.backward([gamma, omega], [leaf.grad for leaf in leaves])
            return score

        optimizer.step(closure)
        if float(price.detach()) >= 0:
            break
        price = torch.zeros((), dtype=torch.float64)
    with torch.no_grad():
        gamma, omega = values()
    return float(gamma), float(omega), score


def _leaf(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


def _loaded(pairs: Sequence[Any], var_x: Any, var_y: Any) -> tuple[SeriesSet, SeriesSet, tuple[Any, Any]]:
    """Both sides of all pairs with their variances, and the variances that are a number, "estimate" or None."""
    for b, pair in enumerate(pairs):
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise OptionError(f"With true alignments every pair is (x, y); pair {b} is not.")
    sides, words = [], []
    for name, side, given in (("x", 0, var_x), ("y", 1, var_y)):
        arrays = None if given is None or isinstance(given, str | int | float) else given
        sides.append(in_float64(load_series(name, [pair[side] for pair in pairs], arrays)))
        words.append(given if arrays is None else None)
    x, y = sides
    if x.values.shape[2] != y.values.shape[2]:
        raise ShapeError(f"x and y must have the same features; got {x.values.shape[2]} and {y.values.shape[2]}.")
    return x, y, (words[0], words[1])


def _read_path(b: int, path: Any, n: int, m: int) -> Truth:
    cells = inputs.read_path(f"true_paths[{b}]", path)
    ends = cells[0].tolist(), cells[-1].tolist()
    if ends != ([0, 0], [n - 1, m - 1]):
        raise PathError(f"true_paths[{b}] must go from [0, 0] to [{n - 1}, {m - 1}]; got {ends[0]} to {ends[1]}.")
    return cells[:, 0].numpy(), cells[:, 1].double().numpy()


def _read_warp(b: int, warp: Any, n: int, m: int) -> Truth:
    places = np.asarray(warp, dtype=np.float64)
    if places.shape != (n,):
        raise LengthError(f"warps[{b}] must hold a position for each of the {n} steps of x; got shape {places.shape}.")
    if not np.isfinite(places).all():
        raise NonFiniteError(f"warps[{b}] holds NaN or infinity at step {int(np.argmin(np.isfinite(places)))}.")
    if (np.diff(places) < 0).any():
        at = int(np.argmax(np.diff(places) < 0))
        raise PathError(
            f"warps[{b}] must not decrease; it goes from {places[at]:g} to {places[at + 1]:g} at step {at}."
        )
    rounding = 1e-9 * m
    if places[0] < -rounding or places[-1] > m - 1 + rounding:
        raise PathError(f"warps[{b}] must lie in [0, {m - 1}]; it goes from {places[0]:g} to {places[-1]:g}.")
    return np.arange(n), places.clip(0, m - 1)
