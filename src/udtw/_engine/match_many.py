"""`match_many`: many series on one latent axis, each with a posterior of its own.

A generalized EM. Each series is matched with the mean of the others on the axis, with the noise, gain, offset and drift
that `udtw._engine.between` estimates; the mean and its variance at each step and feature follow from these matches. A
series is never compared with itself, so that a mean of few series does not look better than it is.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw._engine.align import align
from udtw._engine.between import (
    CHI_SQUARE_MEDIAN,
    GAUSSIAN_GAMMA,
    LEAST_VARIANCE,
    TINY,
    Fit,
    Start,
    Switches,
    averaged,
    correlation_time,
    estimate,
    fit_between,
    has_units,
)
from udtw._engine.even_grid import FIT_CELLS, read_series, resample
from udtw._engine.inputs import order_features, read_array, read_names
from udtw._engine.match import ONE_SIGMA, NoiseBetween, smoothed
from udtw._engine.matches import Matches, tail_of
from udtw._engine.rehearsal import (
    TAILS,
    correlated_noise,
    intervals,
    smooth_noise,
    speed_spread,
    stated_level,
    whole_steps,
)
from udtw._engine.trust import GOOD_P, Trust, judge, outline
from udtw._io import joblib_tasks
from udtw._io.progress import progress_bar
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError

Array = NDArray[np.float64]
STARTS, START_ITERATIONS = 2, 2
"""Series that are tried as the first axis, and iterations after which they are compared."""
ROUNDS = 2
"""Rounds of the estimate of a series' noise in each iteration."""
PRIOR_SERIES = 4.0
"""Weight of the mean spread in the spread at a step, in series."""
LEAST_SPREAD = 0.05
"""Share of the mean spread below which the spread at no step lies."""
SAFETY = 0.5
"""γ is raised by the correlation time to this power: the mean follows part of the noise."""
WARP_PENALTY = 1.5
"""ω of the paths in units of γ: the speed of warps persists, while steps of a path are independent."""
REHEARSALS, TRIALS, MARGIN = 8, 3, 0.2
"""Series that are drawn to find the level at which intervals hold, how often with a new guess of their noise, and the
share of the tails by which they must hold more, since no model is the truth."""


@dataclass(frozen=True)
class _Side:
    """A series beside the axis, all of it in the units of the axis: the series, what it is matched with, and how."""

    x: Array  # (N, d)
    var_x: Array  # (N, d)
    latent: Array  # (L, d)
    var_latent: Array  # (L, d)
    gamma: float
    fit: Fit

    @cached_property
    def coupling(self) -> tuple[Array, Array, Array]:
        """Coupling (N, L) and the probabilities (N,), (L,) that a step has a partner."""
        x, var_x, latent, var_latent = self.x, self.var_x, self.latent, self.var_latent
        if self.fit.open_ends:  # as `between.with_open_ends`, with a variance for each feature
            sides = []
            for own, var, other in ((x, var_x, latent), (latent, var_latent, x)):
                wild = 2 * np.maximum(other.var(0), LEAST_VARIANCE * var.mean(0))[None]
                center = other.mean(0, keepdims=True)
                sides += [np.concatenate([center, own, center]), np.concatenate([wild, var, wild])]
            x, var_x, latent, var_latent = sides
        penalty = WARP_PENALTY * self.gamma
        pair = (one[None] for one in (x, latent, var_x, var_latent))
        found = align(*pair, gamma=self.gamma, beta=1.0, warp_penalty=penalty)
        coupling = np.asarray(found.coupling, np.float64)[0]
        if not self.fit.open_ends:
            return coupling, np.ones(len(x)), np.ones(len(latent))
        inside = 1 - coupling[1:-1, 0] - coupling[1:-1, -1], 1 - coupling[0, 1:-1] - coupling[-1, 1:-1]
        return coupling[1:-1, 1:-1], inside[0].clip(0, 1), inside[1].clip(0, 1)

    @property
    def to_axis(self) -> Array:
        """(N, L): for each step of the series the shares of its partners on the axis."""
        coupling = self.coupling[0]
        return coupling / (coupling.sum(1, keepdims=True) + TINY)

    @property
    def from_axis(self) -> Array:
        """(L, N): for each step of the axis the shares of its partners in the series."""
        coupling = self.coupling[0].T
        return coupling / (coupling.sum(1, keepdims=True) + TINY)

    def place(self) -> Array:
        """(N,): the expected position of each step of the series on the axis, smoothed, increasing."""
        shares, shape = self.to_axis, self.coupling[0].shape
        low, high = (one[0] for one in intervals(shares[None], 1, shape, ONE_SIGMA))
        return smoothed(shares @ np.arange(shape[1]), 0.5 * (high - low)).clip(0, shape[1] - 1.0)


@dataclass(frozen=True)
class _Statement:
    """What a series says of every step of the axis: mean and mean square of its values there, and their weight."""

    mean: Array  # (L, d)
    square: Array  # (L, d)
    weight: Array  # (L,)


@dataclass(frozen=True)
class _Axis:
    """The axis after an iteration: the mean and its spread, and what each series says of it."""

    values: Array  # (L, d)
    spread: Array  # (L, d)
    statements: list[_Statement]

    @classmethod
    def of(cls, statements: list[_Statement]) -> "_Axis":
        weight = np.stack([one.weight for one in statements])[..., None]
        mean, square = (np.stack([getattr(one, name) for one in statements]) for name in ("mean", "square"))
        total = weight.sum(0) + TINY
        values = (weight * mean).sum(0) / total
        spread = (weight * (square - 2 * mean * values + values**2)).sum(0) / total
        return cls(values, np.maximum(spread, TINY), statements)

    def without(self, k: int) -> Array:
        """(L, d): the mean of the other series; where there is none, that of all."""
        weight = np.stack([one.weight for one in self.statements])[..., None]
        total = weight.sum(0) - weight[k]
        others = self.values * weight.sum(0) - weight[k] * self.statements[k].mean
        return np.where(total > 1e-6 * weight.sum(0), others / (total + TINY), self.values)

    def noise(self) -> Array:
        """(L, d): half the mean square of the differences of a series from the mean of the others, smoothed towards
        its mean over the axis: the other half is the series' own noise."""
        weight = np.stack([one.weight for one in self.statements])[..., None]
        squares = np.stack(
            [
                one.square - 2 * one.mean * latent + latent**2
                for one, latent in ((one, self.without(k)) for k, one in enumerate(self.statements))
            ]
        )
        local = (weight * squares).sum(0) / (weight.sum(0) + TINY)
        typical = local.mean(0)
        series = len(self.statements)
        shrunk = (series * local + PRIOR_SERIES * typical) / (series + PRIOR_SERIES)
        least = LEAST_VARIANCE * self.values.var(0) + TINY
        return 0.5 * np.maximum(np.maximum(shrunk, LEAST_SPREAD * typical), least)


def _side(x: Array, fit: Fit, latent: Array, var_latent: Array | None) -> _Side:
    """Put a series (N, d) beside the axis by the fit of the two."""
    time = np.linspace(-0.5, 0.5, len(x))[:, None]
    unit = (fit.scale / fit.gain)[0] ** 2
    tau, features = float(fit.correlation_time[0]), x.shape[1]
    gamma = GAUSSIAN_GAMMA * tau ** (1 + SAFETY) * features / float(fit.effective_features[0])
    if var_latent is None:
        var_latent = fit.var_y[0][:, None] * unit
    plain = (x - fit.drift * time - fit.offset) / fit.gain
    return _Side(plain, fit.var_x[0][:, None] * unit, latent, var_latent, gamma, fit)


def _state(side: _Side) -> _Statement:
    shares, inside = side.from_axis, side.coupling[2]
    noise = (shares @ side.var_x).mean(1)
    return _Statement(shares @ side.x, shares @ side.x**2, inside / (noise + TINY))


def _begin(x: Array, extra: Any, latent: Array, switches: Switches, lag: bool) -> tuple[Fit, _Statement]:
    """Match a series with the series that is the first axis, from several starts."""
    fit = fit_between(x[None], latent[None], switches, extra=(extra, 0.0), find_lag=lag)
    return fit, _state(_side(x, fit, latent, None))


def _go_on(x: Array, extra: Any, latent: Array, noise: Array, before: Fit, moved: tuple[Array, Array]) -> Any:
    """Match a series with the mean of the others; ``moved`` are factor and constant by which the axis has changed."""
    gain = before.gain / moved[0]
    start = Start(gain, before.offset - gain * moved[1], before.drift, _switches_of(before))
    fit = estimate(x[None], latent[None], start, extra=(extra, 0.0), open_ends=before.open_ends, rounds=ROUNDS)
    return fit, _state(_side(x, fit, latent, noise))


def _switches_of(fit: Fit) -> Switches:
    return Switches(has_units(fit), has_units(fit), bool((fit.drift != 0).any()))


@dataclass(frozen=True)
class _Reader:
    """The series on even grids (N, d), and the places (n,) of the user's steps on these."""

    grids: list[Array]
    extra: list[Any]
    places: list[Array]
    usable: list[bool]

    @classmethod
    def read(cls, series: Any) -> "_Reader":
        if isinstance(series, str) or not hasattr(series, "__len__"):
            raise ShapeError("series must be a list of arrays (N,) or (N, d), or one array (K, N) or (K, N, d).")
        if len(series) < 2:
            raise LengthError(f"match_many needs at least two series; got {len(series)}.")
        names = read_names(series[0]) if isinstance(series, list | tuple) else None
        read = [
            _read_with_gaps(f"series[{k}]", order_features(f"series[{k}]", one, "series[0]", names))
            for k, one in enumerate(series)
        ]
        features = [values.shape[1] for values, _ in read]
        if len(set(features)) > 1:
            k = int(np.argmax(np.array(features) != features[0]))
            raise ShapeError(
                f"All series must have the same features; series[0] has {features[0]}, series[{k}] {features[k]}."
            )
        if min(len(values) for values, _ in read) < 3:
            k = int(np.argmin([len(values) for values, _ in read]))
            raise LengthError(f"series[{k}] has {len(read[k][0])} known step(s); match_many needs at least three.")
        usable = [all(bool(values[:, f].std() > 0) for values, _ in read) for f in range(features[0])]
        if not any(usable):
            k = int(np.argmax([(values.std(0) == 0).any() for values, _ in read]))
            raise OptionError(f"series[{k}] is constant: there is nothing to match. Leave it out.")
        even = [resample(values[:, usable], times) for values, times in read]
        long = sorted((len(grid) for grid, _, _ in even), reverse=True)
        stride = max(1, int(np.ceil(np.sqrt(long[0] * long[1] / FIT_CELLS))))
        grids, extras, places = [], [], []
        for grid, extra, at in even:
            grids.append(averaged(grid[None], stride)[0])
            extras.append(extra if isinstance(extra, float) else averaged(extra, stride))
            steps = np.arange(len(grid), dtype=float) if at is None else at
            places.append(((steps + 0.5) / stride - 0.5).clip(0, len(grids[-1]) - 1))
        return cls(grids, extras, places, usable)


def _read_with_gaps(name: str, series: Any) -> tuple[Array, Array | None]:
    """Return the known steps (N, d) and their times, None if they are even and none is missing."""
    try:
        return read_series(name, series)
    except NonFiniteError:
        values = np.asarray(read_array(name, series), np.float64)
        values = values.reshape(len(values), -1)
        known = np.array([bool(np.isfinite(step).all()) for step in values])
        if hasattr(series, "index") or np.isinf(values).any() or not known[[0, -1]].all() or known.sum() < 3:
            raise
        return values[known], np.flatnonzero(known).astype(float)


@dataclass(frozen=True, repr=False)
class JointMatch:
    """What `match_many` found: K series on one axis of L steps."""

    mean: Array
    """The series on the axis, in the units of ``medoid``, (L,) or (L, d)."""
    std: Array
    """Their standard deviation about it at each step."""
    positions: Array
    """(K, L): the expected step of each series at each step of the axis, NaN where it has none."""
    low: NDArray[np.int64]
    """(K, L): the step of the series lies in [low, high] with probability ``level``; −1 where it has none."""
    high: NDArray[np.int64]
    matched: Array
    """(K, L): probability that the series has a step there at all."""
    aligned: Array
    """(K, L) or (K, L, d): each series on the axis, in its own units."""
    noise: list[NoiseBetween]
    """The noise between each series (x) and the axis (y)."""
    trust: list[Trust]
    """How far the match of each series with the mean of the others can be trusted."""
    level: float
    medoid: int
    """The series whose steps and units the axis has."""
    n_iter: int
    _sides: list[_Side]
    _places: list[Array]
    _stated: float

    def __repr__(self) -> str:
        return f"JointMatch({self.sentence!r})"

    @property
    def sentence(self) -> str:
        """All of it in words."""
        wrong = [k for k, one in enumerate(self.trust) if one.verdict == "none"]
        weak = [k for k, one in enumerate(self.trust) if one.verdict == "weak"]
        parts = [f"{len(self.trust)} series on one axis of {len(self.mean)} steps"]
        parts += [f"{name}: series {_list(found)}" for name, found in (("no match", wrong), ("weak", weak)) if found]
        return "; ".join(parts) + "."

    def matches(self, k: int) -> Matches:
        """Return the step of the axis for each step of a series, as `Matches`.

        >>> import udtw
        >>> wave = [0.0, 1.0, 4.0, 1.0, 0.0, 2.0]
        >>> udtw.match_many([wave, wave, wave]).matches(1).index.tolist()
        [0, 1, 2, 3, 4, 5]
        """
        side = replace(self._sides[k])  # a copy: couplings are large, and computed again when they are needed
        found = _Partners(side.to_axis, side.place(), side.coupling[1])
        return found.at(self._places[k], np.arange(len(side.latent), dtype=float), self._stated)

    def between(self, i: int, j: int) -> Matches:
        """Return the step of series j for each step of series i, by way of the axis.

        Expected positions are transitive up to interpolation between steps: from i to j and on to k is from i to k,
        except at ends that one of them lacks.

        >>> import udtw
        >>> wave = [0.0, 1.0, 4.0, 1.0, 0.0, 2.0]
        >>> udtw.match_many([wave, wave, wave]).between(0, 2).index.tolist()
        [0, 1, 2, 3, 4, 5]
        """
        here, there = replace(self._sides[i]), replace(self._sides[j])
        place, back = here.place(), there.place()
        expected = np.interp(place, _rising(back), np.arange(len(back)))
        inside = here.coupling[1] * (here.to_axis @ there.coupling[2])
        found = _Partners(here.to_axis @ there.from_axis, expected, inside)
        return found.at(self._places[i], self._places[j], self._stated)

    def steps_together(self) -> NDArray[np.int64]:
        """Return the alignment as rows (R, K) of steps that belong together, from the first to the last of each series.

        There is a row for every place on the axis where a series has a step; each step of each series is in one.

        >>> import udtw
        >>> wave = [0.0, 1.0, 4.0, 1.0, 0.0, 2.0]
        >>> udtw.match_many([wave, wave, wave]).steps_together()[:2].tolist()
        [[0, 0, 0], [1, 1, 1]]
        """
        onto = [
            np.interp(places, np.arange(len(place)), _rising(place))
            for places, place in zip(self._places, (replace(side).place() for side in self._sides), strict=True)
        ]
        axis = np.unique(np.concatenate(onto))
        rows = np.stack([np.interp(axis, one, np.arange(len(one))) for one in onto], 1)
        rows = np.rint(rows).astype(np.int64)
        rows[0], rows[-1] = 0, [len(one) - 1 for one in onto]
        return rows[np.r_[True, (np.diff(rows, axis=0) != 0).any(1)]]

    def to_frame(self) -> Any:
        """Return a pandas data frame with one row for each series and step of the axis.

        >>> import udtw
        >>> wave = [0.0, 1.0, 4.0, 1.0, 0.0, 2.0]
        >>> list(udtw.match_many([wave, wave]).to_frame().columns)
        ['series', 'axis', 'position', 'low', 'high', 'matched', 'value']
        """
        import pandas

        count, steps = self.positions.shape
        values = self.aligned.reshape(count * steps, -1)
        names = ["value"] if values.shape[1] == 1 else [f"value_{f}" for f in range(values.shape[1])]
        columns = {
            "series": np.repeat(np.arange(count), steps), "axis": np.tile(np.arange(steps), count),
            "position": self.positions.ravel(), "low": self.low.ravel(), "high": self.high.ravel(),
            "matched": self.matched.ravel(),
        }  # fmt: skip
        return pandas.DataFrame(columns | dict(zip(names, values.T, strict=True)))

    def plot(self) -> Any:
        """Draw the series on the axis, their mean and spread, and their warps; a `matplotlib` figure."""
        return import_module("udtw.plots.joint").plot_joint(self)  # a layer above, and an optional one


def _list(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:6])) + (f" and {len(numbers) - 6} more" if len(numbers) > 6 else "")


def _rising(positions: Array) -> Array:
    """(N,): positions that never fall, made to rise, so that they have an inverse."""
    return np.maximum.accumulate(positions) + 1e-6 * np.arange(len(positions))


@dataclass(frozen=True)
class _Partners:
    """Shares (N, M) of the partners of steps on one grid among those of another one, and what they amount to."""

    shares: Array
    expected: Array
    inside: Array

    def at(self, places: Array, others: Array, stated: float) -> Matches:
        """Return matches for steps at ``places`` on the one grid, and with steps at ``others`` on the other one."""
        low, high = (one[0] for one in intervals(self.shares[None], 1, self.shares.shape, stated))
        grid, steps = np.arange(len(self.shares)), np.arange(len(others))
        last = len(others) - 1
        low, high, expected, inside = (np.interp(places, grid, one) for one in (low, high, self.expected, self.inside))
        low, high, expected = (np.interp(one, others, steps) for one in (low, high, expected))
        low, high = whole_steps(low, high)
        low = np.minimum(low, np.floor(expected + 0.5)).clip(0, last)
        high = np.maximum(high, np.ceil(expected - 0.5)).clip(0, last)
        index = np.rint(expected).clip(low, high)
        near = np.rint(np.interp(index, steps, others)).astype(int).clip(0, self.shares.shape[1] - 1)
        probability = self.shares[np.rint(places).astype(int), near]
        alone = inside < 0.5
        counts = [np.where(alone, -1, one).astype(np.int64) for one in (index, low, high)]
        reals = [np.where(alone, np.nan, one) for one in (probability, expected)]
        found = Matches(counts[0], reals[0], reals[1], counts[1], counts[2], inside)
        object.__setattr__(found, "_labels", (None, None))
        return found


def match_many(
    series: Any,
    *,
    level: float = 0.9,
    gain: bool = True,
    offset: bool = True,
    drift: bool = True,
    lag: bool = True,
    max_iter: int = 5,
    progress: bool = False,
) -> JointMatch:
    """Match many series with one another: one latent axis, and for each series where it is on it, with intervals.

    The axis has the steps and units of the series that is nearest to the others (the best of two is kept). Noise, gain,
    offset and drift of each series are estimated as by `udtw.match`, the mean and its spread from all of them.

    Parameters
    ----------
    series : list of (N,) or (N, d), or (K, N), (K, N, d)
        Arrays, tensors, or pandas series and frames of any lengths; an index of times is used for unevenly sampled
        ones. Steps with NaN are gaps: they have positions and no say.
    level : float
        Probability with which the true step lies in [low, high].
    gain, offset, drift : bool
        Whether series may differ by a factor, by a constant and by a slow change.
    lag : bool
        Whether a series may begin or end inside the axis, or outside of it.
    max_iter : int
        Iterations of the mean and the matches.
    progress : bool
        Show a progress bar.

    Returns
    -------
    JointMatch
        With ``mean``, ``std``, ``positions``, ``low``, ``high`` on the axis, ``matches(k)`` of a series with it,
        ``between(i, j)`` of two series, ``noise``, ``trust``, ``to_frame`` and ``plot``.

    Notes
    -----
    Under ``joblib.parallel_config`` with a backend of processes or machines (loky, Dask), each series is one task.

    Examples
    --------
    >>> import numpy as np
    >>> import udtw
    >>> rng = np.random.default_rng(0)
    >>> speeds = [0.8, 0.9, 1.0, 1.1, 1.2]
    >>> series = [np.sin(np.linspace(0, 3, 60) ** s * 3) + 0.1 * rng.standard_normal(60) for s in speeds]
    >>> joint = udtw.match_many(series)
    >>> joint.positions.shape, bool(joint.std.mean() < 0.2)
    ((5, 60), True)
    """
    tail_of(level)  # raises unless it is a probability
    if isinstance(max_iter, bool) or not isinstance(max_iter, int) or max_iter < 1:
        raise OptionError(f"max_iter must be a positive number of iterations; got {max_iter!r}.", parameter="max_iter")
    reader, switches = _Reader.read(series), Switches(gain, offset, drift)
    with np.errstate(all="ignore"):  # quotients of series that are nearly flat are bounded afterwards
        order = _by_distance(reader.grids)
        starts = order[: STARTS if len(order) > 2 else 1]
        first = min(START_ITERATIONS, max_iter)
        total = len(reader.grids) * (first * len(starts) + max_iter - first + 1)
        with progress_bar("matching series", total, progress) as advance:
            runs = [_Run.begin(reader, medoid, switches, lag, advance) for medoid in starts]
            for _ in range(first - 1):
                runs = [run.go_on(reader, advance) for run in runs]
            run = min(runs, key=lambda run: run.misfit(reader))
            for _ in range(max_iter - first):
                run = run.go_on(reader, advance)
            sides = [
                _side(x, fit, run.axis.without(k), run.axis.noise())
                for k, (x, fit) in enumerate(zip(reader.grids, run.fits, strict=True))
            ]
            stated, coverage = _rehearse(sides, level)
            results = _spread(_conclude, [(side, stated, coverage, level) for side in sides], advance)
    return _gather(reader, run, sides, results, (level, stated), max_iter)


def _spread(function: Any, tasks: list[tuple], advance: Any) -> list[Any]:
    """Return the results of independent tasks, from other processes or machines if the user has chosen these."""
    if not joblib_tasks.chosen():
        found = []
        for task in tasks:
            found.append(function(*task))
            advance()
        return found
    by_number = {}
    for number, result in joblib_tasks.spread(function, tasks):
        by_number[number] = result
        advance()
    return [by_number[number] for number in range(len(tasks))]


def _by_distance(grids: list[Array]) -> list[int]:
    """Return the numbers of the series, the one that is nearest to the others (in outline, by DTW) first."""
    shapes = [outline(one) for one in grids]
    table = np.zeros((len(grids), len(grids)))
    for i in range(len(grids)):
        for j in range(i):
            steps = len(shapes[i]) + len(shapes[j])
            table[i, j] = table[j, i] = float(align(shapes[i], shapes[j], band=0.25).loss) / steps
    return np.argsort(table.sum(1), kind="stable").tolist()


@dataclass(frozen=True)
class _Run:
    """The iterations from one series as the first axis."""

    medoid: int
    axis: _Axis
    fits: list[Fit]

    @classmethod
    def begin(cls, reader: _Reader, medoid: int, switches: Switches, lag: bool, advance: Any) -> "_Run":
        latent = reader.grids[medoid]
        tasks = [(reader.grids[k], reader.extra[k], latent, switches, lag) for k in range(len(reader.grids))]
        others = [task for k, task in enumerate(tasks) if k != medoid]
        found = _spread(_begin, others, advance)
        weight = np.median([one.weight for _, one in found], 0)
        found.insert(medoid, (_identity(latent), _Statement(latent, latent**2, weight)))
        advance()
        return cls(medoid, _Axis.of([one for _, one in found]), [fit for fit, _ in found])

    def go_on(self, reader: _Reader, advance: Any) -> "_Run":
        """Do one more iteration; the axis keeps the units of its series."""
        noise, own = self.axis.noise(), self.fits[self.medoid]
        moved = own.gain[0], own.offset[0]
        tasks = [
            (x, extra, moved[0] * self.axis.without(k) + moved[1], moved[0] ** 2 * noise, fit, moved)
            for k, (x, extra, fit) in enumerate(zip(reader.grids, reader.extra, self.fits, strict=True))
        ]
        found = _spread(_go_on, tasks, advance)
        return replace(self, axis=_Axis.of([one for _, one in found]), fits=[fit for fit, _ in found])

    def misfit(self, reader: _Reader) -> float:
        """Return the share of the variance of the series that is left about the mean."""
        varied = np.mean([one.var(0) / fit.gain[0] ** 2 for one, fit in zip(reader.grids, self.fits, strict=True)], 0)
        return float((self.axis.spread.mean(0) / varied).mean())


def _identity(x: Array) -> Fit:
    """Return the fit of the first axis with itself."""
    ones, flat = np.ones((1, len(x))), np.zeros((1, x.shape[1]))
    return Fit(x[None], x[None], ones, ones, flat + 1, flat + 1, flat, flat, np.ones(1), np.full(1, float(x.shape[1])))


def _rehearse(sides: list[_Side], level: float, seed: int = 0) -> tuple[float, float]:
    """Return the level to state so that intervals of ``level`` hold, and how often they will.

    Series are drawn from the model with known warps, and put on the axis as the real ones were.
    """
    chosen = [replace(sides[round(k)]) for k in np.linspace(0, len(sides) - 1, REHEARSALS)]
    factor, stretch = np.ones(len(chosen)), np.ones(len(chosen))
    seen = np.array([_residual_numbers(side) for side in chosen])
    for trial in range(TRIALS):
        rng, drawn, warps = np.random.default_rng(seed), [], []
        for number, side in enumerate(chosen):
            x, warp = _draw(side, factor[number], float(seen[number, 1]) * stretch[number], rng)
            drawn.append(replace(side, x=x))
            warps.append(warp)
        if trial == TRIALS - 1:
            break
        again = np.array([_residual_numbers(side) for side in drawn])
        ratio = np.median(seen / np.maximum(again, TINY), 0)
        factor = factor * np.clip(ratio[0], 0.7, 2)
        stretch = stretch * np.clip(ratio[1], 0.7, 2)
    held = []
    for tail in TAILS:
        inside = []
        for side, warp in zip(drawn, warps, strict=True):
            shares = side.to_axis
            bounds = intervals(shares[None], 1, shares.shape, stated_level(level, tail))
            low, high = whole_steps(*(one[0] for one in bounds))
            inside.append(((warp >= low - 0.5) & (warp <= high + 0.5)).mean())
        held.append(np.mean(inside))
    reached = np.maximum.accumulate(held)
    margin = MARGIN * (1 - level)
    tail = float(np.exp(np.interp(level + margin, reached, np.log(TAILS))))
    coverage = min(level, float(reached[-1]) - margin)
    return stated_level(level, tail), coverage


def _residual_numbers(side: _Side) -> tuple[float, float]:
    """Return the mean square and the correlation time of standardized residuals of a series."""
    shares = side.to_axis
    rest = (side.x - shares @ side.latent) / np.sqrt(side.var_x + shares @ side.var_latent)
    return float(np.median(rest**2)), float(correlation_time(rest[None])[0])


def _draw(side: _Side, factor: float, time: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw a series (N, d) like that of ``side`` from its model, and the position of its steps on the axis."""
    count, path = len(side.x), side.place()
    warp = np.cumsum(np.exp(speed_spread(path) * smooth_noise(rng, count, max(3.0, count / 20))))
    warp = path[0] + (warp - warp[0]) * ((path[-1] - path[0]) / (warp[-1] - warp[0]))
    steps = np.arange(len(side.latent))

    def on_axis(values: Array) -> Array:
        return np.stack([np.interp(warp, steps, one) for one in values.T], 1)

    deviation = np.sqrt(factor * (side.var_x + on_axis(side.var_latent)))
    noise = correlated_noise(rng, side.x.shape, min(max(time, 1.0), 0.25 * count))
    return on_axis(side.latent) + deviation * noise, warp


def _conclude(side: _Side, stated: float, coverage: float, level: float) -> tuple[Any, ...]:
    """Positions, bounds and P(matched) (L,) of a series on the axis, the trust in it, and the variance of its noise."""
    side = replace(side, fit=replace(side.fit))  # keeps what it caches for itself
    place, (_, _, inside) = side.place(), side.coupling
    steps, shape = np.arange(len(inside)), side.coupling[0].shape[::-1]
    positions = np.interp(steps, _rising(place), np.arange(len(place)))
    low, high = (one[0] for one in intervals(side.from_axis[None], 1, shape, stated))
    trust = judge(side.fit, coverage, level, float(np.median(high - low)) / max(len(place) - 1, 1))
    rest = side.x - side.to_axis @ side.latent
    variance = np.median(rest**2, 0) / CHI_SQUARE_MEDIAN * side.fit.gain[0] ** 2
    return positions, low, high, inside, replace(trust, sentence=_say(trust)), variance[None]


def _say(trust: Trust) -> str:
    if trust.verdict == "none":
        return f"No match: {trust.p_value:.0%} of unrelated partners fit the other series as well."
    reason = f"; {trust.p_value:.0%} of unrelated partners fit as well" if trust.p_value > GOOD_P else ""
    reason += "; it repeats itself, so that shifts by a period match about as well" if trust.periodic else ""
    return f"{trust.verdict.capitalize()} match: its partners explain {trust.explained:.0%} of its variance{reason}."


def _gather(
    reader: _Reader, run: _Run, sides: list[_Side], results: list[Any], levels: tuple[float, float], n_iter: int
) -> JointMatch:
    """Return the result for the steps that the user has; ``levels``: asked and stated."""
    positions, low, high, matched = (np.stack([one[part] for one in results]) for part in range(4))
    level, stated = levels
    aligned = np.stack(
        [fit.gain[0] * one.mean + fit.offset[0] for fit, one in zip(run.fits, run.axis.statements, strict=True)]
    )
    for k, places in enumerate(reader.places):
        steps = np.arange(len(places))
        positions[k], low[k], high[k] = (np.interp(one[k], places, steps) for one in (positions, low, high))
        low[k], high[k] = whole_steps(low[k], high[k])
        low[k] = np.minimum(low[k], np.floor(positions[k] + 0.5)).clip(0, steps[-1])
        high[k] = np.maximum(high[k], np.ceil(positions[k] - 0.5)).clip(0, steps[-1])
    alone = matched < 0.5
    flat = len(reader.usable) == 1

    def plain(values: Array) -> Array:
        return values[..., 0] if flat else values

    def number(values: Array) -> Any:
        return float(values[0, 0]) if flat else values[0]

    noise = [
        NoiseBetween(
            var_x=plain(fit.var_x[0][:, None] * fit.scale**2),
            var_y=plain(side.var_latent),
            correlation_time=float(fit.correlation_time[0]),
            variance=number(one[5]),
            gain=number(fit.gain), offset=number(fit.offset), drift=number(fit.drift), open_ends=fit.open_ends,
        )
        for fit, side, one in zip(run.fits, sides, results, strict=True)
    ]  # fmt: skip
    return JointMatch(
        plain(run.axis.values), plain(np.sqrt(run.axis.spread)), np.where(alone, np.nan, positions),
        np.where(alone, -1, low).astype(np.int64), np.where(alone, -1, high).astype(np.int64), matched,
        plain(np.where(alone[..., None], np.nan, aligned)), noise, [one[4] for one in results], level, run.medoid,
        n_iter, [replace(side) for side in sides], reader.places, stated,
    )  # fmt: skip
