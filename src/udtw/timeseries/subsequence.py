"""SubsequenceSearch: exact search for a query in a long series, with credible intervals for begin and end."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from udtw._engine import inputs, likelihood
from udtw._engine.align import AUTO_GAMMA
from udtw._engine.checks import make_range_error
from udtw._engine.distribution import PathDistribution
from udtw._engine.metrics import Metric, get_metric
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet, load_one_series
from udtw._io.progress import progress_bar
from udtw._kernels.backends import choose
from udtw.errors import LengthError, OptionError, ShapeError

TOLERANCE = 0.1
"""Widening of a match on either side in `SubsequenceMatch.probability`, as a share of the query's length."""
NORMALIZE = (None, "length", "window")
PENALTY = 1.25
"""Default ω in units of γ, measured by `benchmarks.search_coverage`: with 3 the intervals are too narrow."""
LEAST_NOISE = 1e-3
"""Least variance of the noise, as a share of the variance of the query."""
BAR_STEPS = 2**17
"""Steps of the stream between two updates of the progress bar."""
BLOCK = 1024
"""Candidates per block. The least cost of each block is kept, so that a search reads all minima and one block."""


@dataclass(frozen=True)
class SubsequenceMatch:
    """Occurrence of a query in the stream: steps [begin, end], both included.

    The probabilities are those of the query's path in the steps around the match, up to one length of the query on
    either side, given that the path covers the middle of the match.

    >>> from udtw.timeseries import SubsequenceSearch
    >>> [match] = SubsequenceSearch([1.0, 2.0, 1.0], gamma=0.1).search([0.0, 0.0, 1.0, 2.0, 1.0, 0.0], k=1)
    >>> match.begin, match.end, match.distance, match.begin_interval
    (2, 4, 0.0, (2, 2))
    """

    begin: int
    end: int
    distance: float
    """Least energy of a path, divided by the query's length with ``normalize="length"``."""
    probability: float
    """Probability that the path lies within the match widened by a tenth of the query's length on either side."""
    begin_interval: tuple[int, int]
    """Equal-tailed interval [low, high] that contains the begin of the path with probability ``level``."""
    end_interval: tuple[int, int]
    """The same for the end of the path."""
    query: int
    """Index of the query; 0 if there is one."""


class SubsequenceSearch:
    """Search the best disjoint occurrences of a query in a long series, by exact DTW with free begin and end.

    A path aligns every step of the query with steps of the stream, may begin and end anywhere in it, and has the energy

    ``Σ_{(m,n)∈Π} [ D_mn/Σ_mn + β log(Σ_mn/r) ] + ω · (number of non-diagonal steps)``,

    with squared distances D and ``Σ_mn = ½[σ²(query_m) + σ²(stream_n)]``; r is the geometric mean of the variances of
    the query. Without variances Σ = 1. Each step of the stream is the end of one candidate, the path of least energy
    that ends there; of equal ones that whose last steps are diagonal, or else along the query. The result is chosen
    greedily: the best candidate, then the best that does not overlap it, and so on. For each match, the distribution
    ``∝ exp(−energy/γ)`` of the paths near it determines its probability and the intervals of its begin and end.

    The search reads the stream once, with memory for one anti-diagonal. For the choice and the posteriors it keeps the
    stream itself and, per query, an energy and a begin for each step: 8 (d + 2) bytes per step in float64.

    Parameters
    ----------
    query : (N,) or (N, d) array, or a list of such arrays
        One query, or several, which may differ in length. A list of numbers is one query.
    gamma : float, optional
        Temperature γ > 0 of the posteriors, in units of the energy. It does not change the matches. By default 4 times
        the variance of the noise, as found from the roughness of the series and from what the best match leaves; 4 with
        variances.
    warp_penalty : float, optional
        ω ≥ 0. With 0 a query may be compressed to a few steps of the stream, or stretched, at no extra cost. By default
        1.25 γ.
    var_query : (N,) array or a number, optional
        Variances σ² of the query's steps; a list with one entry per query if there are several. If only the query or
        only the stream has variances, those of the other are 1.
    beta : float
        β ≥ 0. Used with variances.
    normalize : None, "length" or "window"
        "length" divides the energy of a match by the length of its query, so that queries of different lengths compete
        on equal terms. "window" searches for the shape alone: the query, and each window of the stream of 0.7 to 1.4
        times its length, are scaled to mean 0 and standard deviation 1, as a matrix profile does, and compared from end
        to end. It takes neither variances nor chunks.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.timeseries import SubsequenceSearch
    >>> query = np.sin(np.linspace(0, 2 * np.pi, 40))
    >>> stream = np.zeros(1000)
    >>> stream[300:340] += query
    >>> stream[600:680] += 0.9 * np.sin(np.linspace(0, 2 * np.pi, 80))
    >>> search = SubsequenceSearch(query, gamma=0.05, warp_penalty=0.01)
    >>> [(match.begin, match.end, round(match.distance, 3)) for match in search.search(stream, k=2)]
    [(300, 339, 0.0), (601, 678, 0.546)]

    The matches of a stream that arrives in chunks are the same:

    >>> for chunk in np.split(stream, 10):
    ...     search = search.update(chunk)
    >>> search.matches(k=2) == search.search(stream, k=2)
    True
    """

    def __init__(
        self,
        query: Any,
        *,
        gamma: float | None = None,
        warp_penalty: float | None = None,
        var_query: Any = None,
        beta: float = 1.0,
        normalize: str | None = None,
    ) -> None:
        if normalize not in NORMALIZE:
            raise OptionError(f"normalize must be one of {NORMALIZE}; got {normalize!r}.")
        some = torch.empty(0, dtype=torch.float64)
        self.gamma = None if gamma is None else float(inputs.read_gamma(gamma, 1, some))
        self.warp_penalty = None if warp_penalty is None else _not_negative("warp_penalty", warp_penalty)
        if normalize == "window" and var_query is not None:
            raise OptionError("normalize='window' changes the units of the series; leave var_query out.")
        self.beta = _not_negative("beta", beta)
        self.normalize = normalize
        self.queries, self._names = _load_queries(query, var_query)
        features = {steps.shape[1] for steps, _ in self.queries}
        if len(features) > 1:
            raise ShapeError(f"All queries must have the same number of features; got {sorted(features)}.")
        self.reset()

    def reset(self) -> Self:
        """Discard the stream passed to `update`."""
        self._stream: _Stream | None = None
        return self

    def search(
        self, stream: Any, k: int = 10, level: float = 0.9, *, var_stream: Any = None, progress: bool = False
    ) -> list[SubsequenceMatch]:
        """Return the ``k`` best disjoint matches in a stream, best first; fewer if the stream is too short.

        The stream passed to `update` is neither used nor changed.

        Parameters
        ----------
        stream : (M,) or (M, d) array
        k : int
        level : float
            Probability of the intervals, such as 0.9.
        var_stream : (M,) array or a number, optional
            Variances σ² of the stream's steps.
        progress : bool
            Show a progress bar.
        """
        _check_request(k, level)
        steps, noise = self._load("stream", stream, var_stream)
        if self.normalize == "window":
            if noise is not None:
                raise OptionError("normalize='window' changes the units of the stream; leave var_stream out.")
            return self._search_windows(steps, k, level)
        gamma = self._temperature(noise is not None, steps)
        for again in (True, False):
            own = _Stream(self, steps.dtype, noise is not None, self._penalty(gamma))
            own.append(steps, noise, progress)
            noise_gamma = self._temperature_of_best(own, gamma)
            if not again or noise_gamma <= 2 * gamma or self.warp_penalty is not None:
                break
            gamma = noise_gamma  # the noise is larger than estimated from the roughness: repeat with a larger penalty
        return self._matches(own, k, level, max(gamma, noise_gamma))

    def _temperature(self, noisy: bool, *streams: np.ndarray) -> float:
        """Return γ: the one given, 4 with variances, or 4 times the variance of the noise by the series' roughness."""
        if self.gamma is not None:
            return self.gamma
        if noisy or any(own is not None for _, own in self.queries):
            return AUTO_GAMMA
        queries = [steps for steps, _ in self.queries]
        least = LEAST_NOISE * float(np.mean([one.var(0).mean() for one in queries]))
        tensors = [torch.from_numpy(one.astype(np.float64)) for one in (*queries, *streams) if len(one) > 2]
        rough = [float(likelihood.roughness(one).mean()) for one in tensors]
        return AUTO_GAMMA * max(least, float(np.mean(rough)) if rough else 0.0) or 1.0

    def _penalty(self, gamma: float) -> float:
        return PENALTY * gamma if self.warp_penalty is None else self.warp_penalty

    def _temperature_of_best(self, stream: "_Stream", gamma: float) -> float:
        """Return the larger of ``gamma`` and 4 times the variance that the best match leaves, unless γ was given."""
        if self.gamma is not None or stream.uncertain:
            return gamma
        costs = [stream.candidates(number)[0].min() / len(steps) for number, (steps, _) in enumerate(self.queries)]
        return max(gamma, 0.5 * AUTO_GAMMA * float(min(costs)))

    def _search_windows(self, stream: np.ndarray, k: int, level: float) -> list[SubsequenceMatch]:
        """Return the best disjoint normalized windows, with posteriors under the scale of each."""
        queries = [normalized(steps.astype(np.float64)) for steps, _ in self.queries]
        stream = stream.astype(np.float64)
        shape = SubsequenceSearch(queries)
        gamma = shape._temperature(False) if self.gamma is None else self.gamma
        for again in (True, False):
            metric = get_metric("dtw", warp_penalty=self._penalty(gamma))
            windows = best_windows(queries, stream, k, metric)
            left = min(
                (0.5 * AUTO_GAMMA * cost / len(queries[number]) for number, _, _, cost in windows), default=gamma
            )
            if not again or self.gamma is not None or left <= 2 * gamma or self.warp_penalty is not None:
                break
            gamma = left
        if self.gamma is None:
            gamma = max(gamma, left)
        matches = []
        for number, begin, end, distance in windows:
            inside = stream[begin : end + 1]
            scaled = (stream - inside.mean(0)) / np.where(inside.std(0) > 0, inside.std(0), 1.0)
            posterior = _posterior(
                partial(_squared, queries[number], scaled), len(queries[number]), len(stream), begin, end, level, gamma,
                self._penalty(gamma),
            )  # fmt: skip
            matches.append(SubsequenceMatch(begin, end, distance, *posterior, number))
        return matches

    def update(self, chunk: Any, *, var_chunk: Any = None, progress: bool = False) -> Self:
        """Continue the stream by ``chunk`` (L,) or (L, d), with variances if the steps before had variances.

        The results of `matches` do not depend on how the stream was divided into chunks. The search runs in float32 if
        the queries and the first chunk are float32. An interrupted update leaves the stream unchanged.
        """
        if self.normalize == "window":
            raise OptionError("normalize='window' needs the whole stream; call search(stream).")
        steps, noise = self._load("chunk", chunk, var_chunk)
        if self._stream is None:
            penalty = self._penalty(self._temperature(noise is not None))
            self._stream = _Stream(self, steps.dtype, noise is not None, penalty)
        self._stream.append(steps, noise, progress)
        return self

    def _load(self, name: str, data: Any, variances: Any) -> tuple[np.ndarray, np.ndarray | None]:
        data = inputs.order_features(name, data, "query", self._names)
        steps, noise = load_one_series(name, data, variances)
        features = self.queries[0][0].shape[1]
        if steps.shape[1] != features:
            raise ShapeError(f"The query has {features} feature(s) per step, but {name} has shape {steps.shape}.")
        return steps, noise

    def matches(self, k: int = 10, level: float = 0.9) -> list[SubsequenceMatch]:
        """Return the ``k`` best matches in the stream so far, as `search` would."""
        _check_request(k, level)
        if self._stream is None:
            raise LengthError("No stream yet. Call update(chunk) first, or search(stream).")
        gamma = self._temperature_of_best(self._stream, self._temperature(self._stream.noisy))
        return self._matches(self._stream, k, level, gamma)

    def _matches(self, stream: "_Stream", k: int, level: float, gamma: float) -> list[SubsequenceMatch]:
        candidates = []
        for number, (steps, _) in enumerate(self.queries):
            energies, starts = stream.candidates(number)
            candidates.append(Candidates(energies / (len(steps) if self.normalize == "length" else 1), starts))
        matches = []
        for number, begin, end, distance in best_disjoint(candidates, k):
            posterior = _posterior(
                partial(stream.energy, number), len(self.queries[number][0]), len(stream), begin, end, level, gamma,
                stream.warp_penalty,
            )  # fmt: skip
            matches.append(SubsequenceMatch(begin, end, distance, *posterior, number))
        return matches


def _posterior(
    energy_of: Callable[[int, int], Tensor], length: int, steps: int, begin: int, end: int, level: float, gamma: float,
    warp_penalty: float,
) -> tuple[float, tuple[int, int], tuple[int, int]]:  # fmt: skip
    """Return the probability of one match and the intervals of its begin and end, which contain these."""
    low, high = max(0, begin - length), min(steps, end + length + 1)
    middle = (begin + end) // 2 - low
    energy = energy_of(low, high)

    def paths(first: int, stop: int) -> PathDistribution:
        """Return the paths within columns [first, stop) of the window that cover its middle."""
        relax = (0, 0, middle - first, stop - 1 - middle)
        return PathDistribution(energy[:, first:stop], gamma, warp_penalty=warp_penalty, relax=relax)

    every = paths(0, high - low)
    spare = int(np.ceil(TOLERANCE * length))
    near = paths(max(0, begin - low - spare), min(high - low, end + 1 - low + spare))
    probability = torch.exp((every.soft_min - near.soft_min) / gamma).clamp(max=1)
    intervals = [_interval(share.sum(0), level) for share in (every.starts, every.ends)]
    begins, ends = (
        (min(low + first, at), max(low + last, at)) for (first, last), at in zip(intervals, (begin, end), strict=True)
    )
    return float(probability), begins, ends


class _Stream:
    """Stream so far, with the energies and begins of each query's paths by their end."""

    def __init__(self, search: SubsequenceSearch, dtype: np.dtype, noisy: bool, warp_penalty: float) -> None:
        choose("numba", torch.empty(0))  # raises a named error if Numba does not work
        from udtw._kernels.cpu.stream import StreamSweep

        self.queries, self.beta, self.warp_penalty = search.queries, search.beta, warp_penalty
        self.noisy = noisy
        self.uncertain = noisy or any(own is not None for _, own in self.queries)
        self.dtype = np.result_type(dtype, *(query for query, _ in self.queries))
        self.levels = [0.0 if own is None else float(np.log(own).mean()) for _, own in self.queries]
        self.sweeps = [
            StreamSweep(query.astype(self.dtype), warp_penalty, self._variances(own, len(query)), self.beta, level)
            for (query, own), level in zip(self.queries, self.levels, strict=True)
        ]
        self.steps, self.variances = _Growing(self.dtype, (self.queries[0][0].shape[1],)), _Growing(self.dtype)
        self.energies = [_Growing(self.dtype) for _ in self.queries]
        self.starts = [_Growing(np.dtype(np.int64)) for _ in self.queries]

    def __len__(self) -> int:
        return len(self.steps)

    def _variances(self, own: np.ndarray | None, steps: int) -> np.ndarray | None:
        if not self.uncertain:
            return None
        return np.ones(steps, self.dtype) if own is None else own.astype(self.dtype)

    def append(self, steps: np.ndarray, noise: np.ndarray | None, progress: bool) -> None:
        if (noise is not None) != self.noisy:
            raise OptionError("Pass variances with all chunks of a stream, or with none.")
        steps, noise = steps.astype(self.dtype, copy=False), self._variances(noise, len(steps))
        arrays = [self.steps, self.variances, *self.energies, *self.starts]
        sweeps, sizes = [sweep.copy() for sweep in self.sweeps], [len(array) for array in arrays]
        try:
            with progress_bar("search", len(steps), progress) as advance:
                for begin in range(0, len(steps), BAR_STEPS):
                    part = slice(begin, begin + BAR_STEPS)
                    self._append(steps[part], None if noise is None else noise[part])
                    advance(min(BAR_STEPS, len(steps) - begin))
        except BaseException:
            self.sweeps = sweeps
            for array, size in zip(arrays, sizes, strict=True):
                array.shorten(size)
            raise

    def _append(self, steps: np.ndarray, noise: np.ndarray | None) -> None:
        for number, sweep in enumerate(self.sweeps):
            energies, starts = self._checked(*sweep.update(steps, noise))
            self.energies[number].append(energies)
            self.starts[number].append(starts)
        self.steps.append(steps)
        if noise is not None:
            self.variances.append(noise)

    def _checked(self, energies: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not np.isfinite(energies).all():
            raise make_range_error(torch.from_numpy(energies[:0]).dtype)
        return energies, starts

    def candidates(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the least energies and begins of the paths of one query that end in each step."""
        energies, starts = self._checked(*self.sweeps[number].rest())
        return (
            np.concatenate([self.energies[number].array, energies]),
            np.concatenate([self.starts[number].array, starts]),
        )

    def energy(self, number: int, low: int, high: int) -> Tensor:
        """Return the energy of each cell of a query and the steps [low, high): (N, high − low) float64."""

        def tensor(array: np.ndarray) -> Tensor:
            return torch.from_numpy(array.astype(np.float64))[None]

        query, own = self.queries[number]
        cost = likelihood.squared_distances(tensor(query), tensor(self.steps.array[low:high]))[0]
        own = self._variances(own, len(query))
        if own is None:
            return cost
        variance = likelihood.mean_variance(tensor(own), tensor(self.variances.array[low:high]))[0]
        return cost / variance + self.beta * (variance.log() - self.levels[number])


class Candidates:
    """Candidate matches, one per end: the interval [starts[j], j] at ``costs[j]``, for ends j = 0, 1, ... (M,).

    ``starts`` must not decrease. Those of least paths do not: of two paths, one that begins earlier and ends later
    shares a cell with the other, and from there back both are the same path.
    """

    def __init__(self, costs: np.ndarray, starts: np.ndarray) -> None:
        blocks = -(-len(costs) // BLOCK)
        self.starts = starts
        self.costs = np.full((blocks, BLOCK), np.inf)
        self.costs.reshape(-1)[: len(costs)] = costs
        self.least = self.costs.min(axis=1)

    def best(self) -> tuple[float, int]:
        """Return the least cost and its end, the earliest of equals; +inf if no candidate is left."""
        block = int(self.least.argmin())
        return float(self.least[block]), block * BLOCK + int(self.costs[block].argmin())

    def exclude(self, begin: int, end: int) -> None:
        """Drop all candidates that overlap [begin, end]: those that end from ``begin`` on and begin up to ``end``."""
        stop = int(np.searchsorted(self.starts, end, side="right"))
        self.costs.reshape(-1)[begin:stop] = np.inf
        blocks = slice(begin // BLOCK, -(-stop // BLOCK))
        self.least[blocks] = self.costs[blocks].min(axis=1)


def best_disjoint(candidates: list[Candidates], k: int) -> list[tuple[int, int, int, float]]:
    """Choose up to ``k`` disjoint intervals (which of the candidates, begin, end, cost), greedily by cost.

    Of equal costs the earlier end is chosen, then the earlier of the candidates. Candidates that overlap the result are
    excluded.
    """
    chosen: list[tuple[int, int, int, float]] = []
    while len(chosen) < k:
        best = [own.best() for own in candidates]
        number = min(range(len(best)), key=lambda n: best[n])
        cost, end = best[number]
        if cost == np.inf:
            break
        begin = int(candidates[number].starts[end])
        chosen.append((number, begin, end, cost))
        for own in candidates:
            own.exclude(begin, end)
    return chosen


class _Growing:
    """Array that grows along its first axis, with spare room."""

    def __init__(self, dtype: np.dtype, shape: tuple[int, ...] = ()) -> None:
        self._room, self._size = np.empty((0, *shape), dtype), 0

    def __len__(self) -> int:
        return self._size

    @property
    def array(self) -> np.ndarray:
        return self._room[: self._size]

    def append(self, values: np.ndarray) -> None:
        size = self._size + len(values)
        if size > len(self._room):
            larger = np.empty((max(size, 3 * self._size // 2), *self._room.shape[1:]), self._room.dtype)
            larger[: self._size] = self.array
            self._room = larger
        self._room[self._size : size] = values
        self._size = size

    def shorten(self, size: int) -> None:
        self._size = size


def _load_queries(query: Any, variances: Any) -> tuple[list[tuple[np.ndarray, np.ndarray | None]], list[str] | None]:
    """Return steps (N, d) and variances (N,) or None of each query, and the names of the features of a data frame."""
    several = (isinstance(query, list | tuple) and any(np.ndim(one) for one in query)) or np.ndim(query) == 3
    if not several:
        names = inputs.read_names(query)
        return [load_one_series("query", inputs.order_features("query", query, "stream", None), variances)], names
    if len(query) == 0:
        raise LengthError("query is empty; pass at least one query.")
    if variances is None or isinstance(variances, int | float):
        variances = [variances] * len(query)
    if not isinstance(variances, list | tuple) or len(variances) != len(query):
        raise ShapeError(f"var_query must be one number, or a list of the variances of each of {len(query)} queries.")
    names = inputs.read_names(query[0])
    queries = [inputs.order_features(f"query[{n}]", one, "query[0]", names) for n, one in enumerate(query)]
    return [load_one_series(f"query[{n}]", one, variances[n]) for n, one in enumerate(queries)], names


def _squared(query: np.ndarray, stream: np.ndarray, low: int, high: int) -> Tensor:
    """Return the squared distances of a query and the steps [low, high) of a stream, (N, high − low)."""
    x, y = (torch.from_numpy(np.ascontiguousarray(one))[None] for one in (query, stream[low:high]))
    return likelihood.squared_distances(x, y)[0]


def _interval(share: Tensor, level: float) -> tuple[int, int]:
    """Return the equal-tailed interval of indices for a distribution (M,)."""
    reached = share.cumsum(0) / share.sum()
    tail, rounding = 0.5 * (1 - level), 1e-9
    return int((reached < tail + rounding).sum()), int((reached < 1 - tail - rounding).sum())


def _not_negative(name: str, value: float) -> float:
    number = float(value)
    if not 0 <= number < np.inf:
        raise OptionError(f"{name} must be a finite number, 0 or more; got {value!r}.", parameter=name)
    return number


def _check_request(k: int, level: float) -> None:
    if k < 1:
        raise OptionError(f"k must be at least 1; got {k!r}.", parameter="k")
    if not 0 < level < 1:
        raise OptionError(f"level must lie between 0 and 1, such as 0.9; got {level!r}.", parameter="level")


LENGTHS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.4)
"""Lengths of the windows as shares of the query's."""
LEAST_DEVIATION = 0.01
"""Windows whose deviation is a smaller share of the stream's are flat, and not compared."""
CHUNK_CELLS = 20_000_000
"""Cells of the pairs that are evaluated at once, those of the least bounds first."""


@dataclass(frozen=True)
class Windows:
    """Windows of one length in a stream: their means and standard deviations, (n, d) each."""

    length: int
    mean: np.ndarray
    std: np.ndarray

    @classmethod
    def of(cls, stream: np.ndarray, length: int) -> "Windows":
        """Compute the moments of all windows of a stream (M, d) by sums over it."""
        centered = stream - stream.mean(0)  # so that the sums lose no digits
        sums = [np.cumsum(np.vstack([np.zeros(stream.shape[1]), one]), 0) for one in (centered, centered**2)]
        mean, square = ((one[length:] - one[:-length]) / length for one in sums)
        std = np.sqrt(np.maximum(square - mean**2, 0))
        return cls(length, mean + stream.mean(0), std)

    def values(self, stream: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """Return normalized windows, (len(starts), length, d)."""
        steps = stream[starts[:, None] + np.arange(self.length)]
        std = self.std[starts]
        return (steps - self.mean[starts][:, None]) / np.where(std > 0, std, 1.0)[:, None]


def normalized(query: np.ndarray) -> np.ndarray:
    """Return a query (N, d) with mean 0 and standard deviation 1 of each feature."""
    std = query.std(0)
    return (query - query.mean(0)) / np.where(std > 0, std, 1.0)


def best_windows(
    queries: list[np.ndarray], stream: np.ndarray, k: int, metric: Metric
) -> list[tuple[int, int, int, float]]:
    """Return the k best disjoint windows (query, begin, end, distance) under a DTW metric, greedily.

    Queries are `normalized`. The candidates are all windows whose length is a share `LENGTHS` of a query's. Each has a
    lower bound of its distance; exact values are computed in the order of these until the least of all is exact, so
    that the result is that of comparing all of them.
    """
    flat = LEAST_DEVIATION * stream.std(0)
    kinds: list[tuple[int, Windows]] = []
    for number, query in enumerate(queries):
        sizes = sorted({max(2, round(share * len(query))) for share in LENGTHS})
        kinds += [(number, Windows.of(stream, size)) for size in sizes if size <= len(stream)]
    counts = [len(windows.mean) for _, windows in kinds]
    if not counts:
        return []
    begins = np.concatenate([np.arange(count) for count in counts])
    kind = np.repeat(np.arange(len(kinds)), counts)
    lengths = np.array([windows.length for _, windows in kinds])[kind]
    bounds = []
    for number, windows in kinds:
        ends = np.arange(len(windows.mean)) + windows.length - 1
        scale = np.where(windows.std > 0, windows.std, 1.0)
        first, last = ((stream[at] - windows.mean) / scale for at in (ends - windows.length + 1, ends))
        query = queries[number]
        bound = np.square(first - query[0]).sum(1) + np.square(last - query[-1]).sum(1)
        bound += abs(windows.length - len(query)) * float(metric.params.get("warp_penalty", 0.0))
        bounds.append(np.where((windows.std > flat).any(1), 0.999999 * bound, np.inf))
    value = np.concatenate(bounds)
    exact = np.zeros(len(value), bool)
    chunk = max(64, CHUNK_CELLS // max(len(one) ** 2 for one in queries))
    chosen: list[tuple[int, int, int, float]] = []
    while len(chosen) < k:
        best = int(value.argmin())
        if value[best] == np.inf:
            break
        if not exact[best]:
            open_ones = np.flatnonzero(~exact & (value < np.inf))
            few = open_ones[np.argpartition(value[open_ones], min(chunk, len(open_ones)) - 1)[:chunk]]
            for which in np.unique(kind[few]):
                number, windows = kinds[which]
                some = few[kind[few] == which]
                pairs = _as_set(windows.values(stream, begins[some]))
                value[some] = distances(_as_set(queries[number][None]), pairs, metric)[0]
            exact[few] = True
            continue
        begin, end = int(begins[best]), int(begins[best] + lengths[best] - 1)
        chosen.append((kinds[kind[best]][0], begin, end, float(value[best])))
        value[(begins <= end) & (begins + lengths > begin)] = np.inf
    return chosen


def _as_set(values: np.ndarray) -> SeriesSet:
    return SeriesSet(np.ascontiguousarray(values), np.full(len(values), values.shape[1]), None)
