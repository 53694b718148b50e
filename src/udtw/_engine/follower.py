"""`Follower`: where in a reference a live stream is now, with an interval, while it runs."""

from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw._engine.between import GAUSSIAN_GAMMA, LEAST_VARIANCE, SCALE_RANGE, TINY, effective_features, roughness
from udtw._engine.inputs import order_features, read_array, read_names
from udtw._engine.match import NoiseBetween
from udtw._engine.matches import tail_of
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError

Array = NDArray[np.float64]
LEAST_SKIP = float(np.log(2))
"""Least price ω_x/γ of passing a step of the reference."""
SLOWEST, FASTEST = 0.4, 1.7
"""Mean speeds of the prior; where the noise is learned, it is the speed lately."""
SPEED_STEPS, SPEED_PRIOR, FARTHEST = 100.0, 60.0, 10.0
"""Steps over which the speed is averaged, the steps at speed 1 that are counted with them at first, and the most that
one step counts: a place that is found again is not reached by speed."""
SURE, MOST = 14.0, 2.0
"""Nats in favor of "elsewhere" over "following" beyond which a stream no longer fits, and the most of a single step."""
WORST = 10.0
"""No match costs more than this many nats: spikes and wrong notes, in the stream or the reference, must not decide."""
START_SHARE, START_STEPS = 0.05, 10.0
"""Variance of the noise, as a share of the reference's, that is taken before the stream shows it, and its weight."""
FAR = 100.0
"""Standard deviations of the reference at which a value is cut before it is squared."""
CLIP, SAFETY = 3.0, 0.6
"""Standard deviations at which residuals are cut; γ is raised by the correlation time to this power where the noise is
learned, since following absorbs a part of it."""


@dataclass(frozen=True)
class Place:
    """A position in the reference: the most probable and the expected one, and the interval [low, high]."""

    index: int
    expected: float
    low: int
    high: int

    @classmethod
    def of(cls, probability: Array, tail: float) -> "Place":
        """Summarize the probability of each step of the reference, (N,)."""
        reached, last = np.cumsum(probability), len(probability) - 1
        low, high = np.searchsorted(reached, (tail + 1e-12, 1 - tail - 1e-12))
        expected = float(probability @ np.arange(len(probability)))
        return cls(int(probability.argmax()), expected, min(int(low), last), min(int(high), last))


@dataclass(frozen=True)
class Position(Place):
    """What `Follower.update` returns: the place of the newest step of the stream, and what follows from it."""

    step: int
    """The newest step of the stream, counted from 0."""
    speed: float
    """Steps of the reference per step of the stream, lately."""
    remaining: float
    """Expected number of steps of the stream until the reference ends."""
    fits: bool
    """Whether the stream still fits: False while any other place of the reference explains it better, or none does."""
    lost_at: int | None
    """The step since which it does not; None if it does."""
    smoothed: Place | None
    """Place of step ``step − lag``, in the light of all steps since; None before there is one."""


class Follower:
    """Follow a live stream through a reference: position, interval, time to the end, and whether the stream still fits.

    The forward sweep of the alignment is the filter: the position's distribution is exactly that of
    `PathDistribution.ends` for all steps seen so far, with the end of the reference relaxed. Memory does not grow.

    Parameters
    ----------
    reference : (N,) or (N, d)
        The series that is expected, time first.
    noise : NoiseBetween, optional
        The noise between a stream (x) and the reference (y), as `udtw.match` or `udtw.fit_noise_between` found it; its
        drift is not used. By default variances and correlation are estimated from the reference and the stream itself,
        as it runs.
    level : float
        Probability with which the true position lies in [low, high].
    lag : int
        If positive, every update also tells where the stream was ``lag`` steps ago, in the light of what came since.

    Examples
    --------
    >>> import numpy as np
    >>> import udtw
    >>> reference = np.sin(np.linspace(0, 12, 200) ** 1.1)
    >>> follower = udtw.Follower(reference)
    >>> for value in np.repeat(reference[:100], 2) + 0.05 * np.random.default_rng(0).standard_normal(200):
    ...     now = follower.update(value)
    >>> now.fits, now.low <= 99 <= now.high, bool(150 < now.remaining < 250)
    (True, True, True)
    """

    def __init__(self, reference: Any, *, noise: NoiseBetween | None = None, level: float = 0.9, lag: int = 0) -> None:
        reference, self._names = order_features("reference", reference, "chunk", None), read_names(reference)
        series = np.asarray(read_array("reference", reference), np.float64)
        if series.ndim not in (1, 2):
            raise ShapeError(f"reference must have shape (N,) or (N, d), time first; got {series.shape}.")
        if len(series) < 3:
            raise LengthError(f"reference must have at least three steps; got {len(series)}.")
        if not np.isfinite(series).all():
            raise NonFiniteError(
                f"reference has {int((~np.isfinite(series)).sum())} missing or infinite value(s). Interpolate them."
            )
        if not isinstance(lag, int) or isinstance(lag, bool) or lag < 0:
            raise OptionError(f"lag must be a number of steps, 0 or more; got {lag!r}.", parameter="lag")
        self._tail, self.lag, self._flat = tail_of(level), lag, series.ndim == 1
        series = series.reshape(len(series), -1)
        if not (series.var(0) > 0).any():
            raise OptionError("reference is constant: no position can be told from another. Pass a series that varies.")
        if noise is not None:
            if not isinstance(noise, NoiseBetween):
                raise OptionError(f"noise must be a NoiseBetween or None; got {noise!r}.", parameter="noise")
            series = _numbers("gain", noise.gain, series) * series + _numbers("offset", noise.offset, series)
        self._reference = np.ascontiguousarray(series)
        self._noise = _Noise(self._reference, noise)
        self.restart()

    def __repr__(self) -> str:
        return f"Follower({len(self._reference)} steps of reference, {self._seen} steps of stream)"

    def restart(self, anywhere: bool = False) -> None:
        """Begin again at the first step of the reference, or ``anywhere`` in it; what was learned of the noise stays.

        >>> import numpy as np
        >>> import udtw
        >>> follower = udtw.Follower(np.arange(50.0) ** 2)
        >>> follower.restart(anywhere=True)
        >>> now = follower.update([900.0, 961.0, 1024.0])
        >>> now.low <= 32 <= now.high
        True
        """
        steps = len(self._reference)
        self._corners = np.full(steps, 0.0 if anywhere else -np.inf)  # a path may begin here
        self._corners[0] = 0.0
        self._state = np.full(steps, -np.inf)
        self._recent: deque[tuple[Array, Array, tuple[float, float]]] = deque(maxlen=self.lag + 1)
        self._advanced, self._taken, self._against = SPEED_PRIOR, SPEED_PRIOR, 0.0
        self._seen, self._since, self._lost = 0, 0, False
        self.probability = np.zeros(steps)
        """(N,): the probability that the stream is now at each step of the reference."""
        self._noise.forget_last()

    @property
    def smoothed_probability(self) -> Array | None:
        """(N,): probabilities of the partners of the step ``lag`` steps ago; None before there is one."""
        if len(self._recent) <= self.lag:
            return None
        from udtw._kernels.cpu.follow import look_back

        later = np.zeros(len(self._reference))
        look_back(np.stack([one[1] for one in self._recent]), np.array([one[2] for one in self._recent]), later)
        weight = self._recent[0][0] + later
        weight = np.exp(weight - weight.max())
        return weight / weight.sum()

    def update(self, chunk: Any) -> Position:
        """Take one step or several of the stream; return the position of the newest.

        ``chunk`` is a number or (d,) for one step, or (n,) or (n, d) for several, with n = 0 allowed once there was a
        step. NaN marks a feature that is missing in a step. A chunk that is refused or interrupted changes nothing.
        """
        steps = self._read(chunk)
        before = vars(self) | {"_recent": self._recent.copy(), "_noise": copy(self._noise)}
        try:
            for step in steps:
                self._advance(step)
        except BaseException:
            vars(self).update(before)
            raise
        return self._position()

    def _read(self, chunk: Any) -> Array:
        """(n, d): the steps of a chunk, all of them checked."""
        chunk, features = order_features("chunk", chunk, "reference", self._names), self._reference.shape[1]
        values = np.asarray(read_array("chunk", chunk), np.float64)
        if values.ndim < 2:
            values = values.reshape(-1, 1) if self._flat or features == 1 else values.reshape(1, -1)
        if values.ndim != 2 or values.shape[1] != features:
            raise ShapeError(
                f"chunk must have the {features} feature(s) of the reference: shape ({features},) for one step or (n, "
                f"{features}) for several; got {np.shape(chunk)}."
            )
        if np.isinf(values).any():
            row = int(np.isinf(values).any(1).argmax())
            raise NonFiniteError(f"chunk[{row}] holds an infinite value. Mark a value that is missing by NaN.")
        if not len(values) and not self._seen:
            raise LengthError("chunk has no step, and none was seen before; pass at least one.")
        return values

    def _advance(self, step: Array) -> None:
        """Add a row to the sweep, and update the speed, the evidence against the stream, and the noise."""
        from udtw._kernels.cpu.follow import advance, measure, predict

        known = ~np.isnan(step)
        step, weight = np.where(known, step, 0.0), np.where(known, self._noise.weights(), 0.0)
        row, energy, prices = np.empty_like(self._state), np.empty_like(self._state), self._prices()
        nearest = measure(step, self._reference, weight, energy)
        if self._seen:
            following, anywhere = predict(self._state, energy, nearest, *prices)
            foreign = min(nearest - 2 * self._noise.spread @ weight, 500.0)
            self._weigh(np.logaddexp(anywhere, foreign) - np.log(2) - following)
        np.minimum(energy, WORST, out=energy)
        advance(self._corners, self._state, energy, *prices, row)
        self._state, self._corners = row, np.concatenate([[-np.inf], row[:-1]])
        self._recent.append((row, energy, prices))
        before, weights = self.probability, np.exp(row)
        self.probability = weights / weights.sum()
        if self._seen:
            kept, moved = 1 - 1 / SPEED_STEPS, float((self.probability - before) @ np.arange(len(row)))
            self._advanced = kept * self._advanced + min(max(moved, -FARTHEST), FARTHEST)
            self._taken = kept * self._taken + 1
        if self._against < SURE / 2:  # elsewhere, residuals tell nothing of the noise
            # The step chooses its partner by its whole likelihood: residuals of a wrong position are not noise.
            weights = row - (self._noise.gamma / GAUSSIAN_GAMMA - 1) * energy
            self._noise.learn(step, known, weights, self._reference)
        self._seen += 1

    def _prices(self) -> tuple[float, float]:
        """ω_y/γ of waiting at a step of the reference and ω_x/γ of passing another one.

        With weights w of waiting and p of passing the mean speed is ``(1 + wp)/(1 − p)² / (w + (1 + wp)/(1 − p))``,
        solved for w. What a right match costs on average is taken off, since a path that passes more has more.
        """
        speed = min(max(self._advanced / self._taken, SLOWEST), FASTEST) if self._noise.learning else 1.0
        passing = speed / (speed + 2)
        rest = (1 - speed * (1 - passing)) / (1 - passing) ** 2
        waiting = rest / (speed - passing * rest)
        return -float(np.log(waiting)), max(-float(np.log(passing)) - self._noise.usual, LEAST_SKIP)

    def _weigh(self, against: float) -> None:
        """Add a step's evidence that the stream is elsewhere, (nats), and decide whether it is lost or found again."""
        if self._against == 0:
            self._since = self._seen
        self._against = float(np.clip(self._against + np.clip(against, -MOST, MOST), 0.0, 2 * SURE))
        self._lost = self._against > (0 if self._lost else SURE)

    def _position(self) -> Position:
        probability = self.probability
        place, smoothed = Place.of(probability, self._tail), self.smoothed_probability if self.lag else None
        speed = float(self._advanced / self._taken)
        left = len(probability) - 1 - place.expected
        return Position(
            **vars(place),
            step=self._seen - 1,
            speed=speed,
            remaining=left / max(speed, TINY),
            fits=not self._lost,
            lost_at=self._since if self._lost else None,
            smoothed=None if smoothed is None else Place.of(smoothed, self._tail),
        )


class _Noise:
    """The noise between a stream and the reference: given, or learned from the steps that were followed."""

    def __init__(self, reference: Array, given: NoiseBetween | None) -> None:
        self.spread, features = reference.var(0), reference.shape[1]
        self.dims = float(effective_features(np.diff(reference, axis=0)[None] / np.sqrt(self.spread + TINY))[0])
        self.learning, self._last = given is None, np.zeros(features)
        self.time = 2.0 if given is None else given.correlation_time
        if given is not None:
            self.variance = _numbers("variance", given.variance, reference)
            return
        self._least = np.median(roughness(reference[None])[0], 0) + LEAST_VARIANCE * self.spread
        self.variance = np.maximum(self._least, START_SHARE * self.spread)
        self._count = np.full(features, START_STEPS)
        self._squares = self.variance * START_STEPS
        self._products, self._power = START_STEPS / 3, START_STEPS  # which is the correlation time 2
        self._covariance = START_STEPS / features * np.eye(features)
        self._reference_squared = reference**2

    @property
    def gamma(self) -> float:
        """The temperature: that of a Gaussian, times the steps and the features that repeat each other."""
        time = self.time ** (1 + SAFETY) if self.learning else self.time
        return GAUSSIAN_GAMMA * time * max(1, int(np.count_nonzero(self.spread))) / self.dims

    @property
    def usual(self) -> float:
        """The expected E/γ of a right match."""
        return 2 * np.count_nonzero(self.spread) / self.gamma

    def weights(self) -> Array:
        """(d,): ``1/(Σ_f γ)``, 0 for features that are constant in the reference."""
        return np.where(self.spread > 0, 1 / (self.variance * self.gamma + TINY), 0.0)

    def _similar(self, variance: Array) -> Array:
        """(d,): variances whose shares of the spreads differ by few times: a silent feature is not thereby exact."""
        share = np.sqrt(variance / (self.spread + TINY))
        middle = np.median(share[self.spread > 0])
        return self.spread * share.clip(middle / SCALE_RANGE, middle * SCALE_RANGE) ** 2

    def forget_last(self) -> None:
        """Begin a stretch whose first step follows no other."""
        self._last = np.zeros_like(self._last)

    def learn(self, step: Array, known: NDArray, log_weights: Array, reference: Array) -> None:
        """Update what is learned by one step and the weights of its partners; arrays are replaced, not changed."""
        if not self.learning:
            return
        probability = np.exp(log_weights - log_weights.max())
        probability /= probability.sum()
        mean = probability @ reference
        step = np.clip(step, mean - FAR * np.sqrt(self.spread), mean + FAR * np.sqrt(self.spread))
        squares = (step - mean) ** 2 + np.maximum(probability @ self._reference_squared - mean**2, 0.0)
        self._squares = self._squares + np.where(known, np.minimum(squares / 2, CLIP**2 * self.variance), 0.0)
        self._count = self._count + known
        self.variance = self._similar(np.maximum(self._least, self._squares / self._count))
        standard = np.where(known, (step - mean) / np.sqrt(2 * self.variance + TINY), 0.0).clip(-CLIP, CLIP)
        self._products += float(standard @ self._last) / len(standard)
        self._power += float(standard @ standard) / len(standard)
        rho = min(max(self._products / self._power, 0.0), 0.95)
        self.time, self._last = (1 + rho) / (1 - rho), standard
        self._covariance = self._covariance + np.outer(standard, standard) / len(standard)
        self.dims = max(1.0, float(np.trace(self._covariance) ** 2 / (self._covariance**2).sum()))


def _numbers(name: str, value: Any, series: Array) -> Array:
    """(d,): one number of the noise for each feature of the reference; `match` has none for those that are constant."""
    numbers, varying = np.atleast_1d(np.asarray(value, np.float64)), series.var(0) > 0
    if numbers.shape == (varying.sum(),) != varying.shape:
        full = np.ones(len(varying))  # features that are constant have no weight
        full[varying] = numbers
        return full
    if numbers.shape not in ((1,), varying.shape):
        raise ShapeError(
            f"noise.{name} holds {len(numbers)} numbers, but the reference has {len(varying)} features, of which "
            f"{varying.sum()} vary. Fit the noise on streams with the features of the reference."
        )
    return np.broadcast_to(numbers, varying.shape).copy()
