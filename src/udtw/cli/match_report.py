"""What ``udtw align`` reports: the numbers of the pair and its matches, as rows, as JSON and in words."""

from dataclasses import asdict, dataclass
from functools import cache
from math import exp, isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from udtw._engine.match import Match
from udtw._engine.matches import Matches, Stretch, tail_of
from udtw._engine.prior import parse_relax
from udtw._engine.trust import Trust
from udtw.data.series_files import Series

if TYPE_CHECKING:
    from udtw.cli.align import Aligned

SHOWN = 5
"""Number of doubtful stretches that are printed."""
SURE = 0.5
"""A match of this probability is more likely than all others together."""
MATRIX_CELLS = 2**22
"""The best path, which takes a matrix of N × M choices, is walked up to this size only."""


@dataclass(frozen=True)
class End:
    """Where a matched stretch begins or ends: the median, and the interval around it."""

    index: int
    low: int
    high: int

    def counted_by(self, steps: np.ndarray) -> "End":
        """Return the same end in the steps of the file, ``steps`` (T,)."""
        return End(*(int(steps[at]) for at in (self.index, self.low, self.high)))

    def __str__(self) -> str:
        return f"{self.index} (between {self.low} and {self.high})" if self.low < self.high else str(self.index)


@dataclass(frozen=True)
class Report:
    """The numbers of two compared series and the matches of the steps of one of them, ``of``, in the other."""

    numbers: dict[str, Any]
    """Metric, parameters, distance and other values by name."""
    of: str
    level: float
    soft: bool
    """Whether the paths have probabilities."""
    columns: dict[str, np.ndarray]
    """One value per step for each column of the table of matches; empty for a metric without paths."""
    doubtful: list[Stretch]
    stretches: dict[str, tuple[End, End]]
    """For each series with relaxed ends: where its matched stretch begins and ends."""
    trust: Trust | None = None
    """Verdict of `udtw.match`; None for an alignment with explicit settings."""
    omitted: bool = False
    """Whether steps of a file were left out, so that the steps of the verdict's sentence are not those of the file."""

    @property
    def sure_share(self) -> float:
        """Share of the matched steps whose most probable partner has at least probability `SURE`."""
        probability = self.columns["probability"]
        return float((probability[np.isfinite(probability)] >= SURE).mean())

    @property
    def mean_steps(self) -> float:
        """Mean number of steps in an interval."""
        low, high = self.columns["low"], self.columns["high"]
        return float((high - low + 1)[low >= 0].mean())

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per step; what a step without a partner lacks is None."""

        def cell(value: Any, name: str) -> Any:
            if isinstance(value, str):
                return value or None
            missing = value < 0 if name in ("j", "low", "high") else isnan(value)
            return None if missing else value

        names = list(self.columns)
        return [
            {name: cell(value, name) for name, value in zip(names, values, strict=True)}
            for values in zip(*(column.tolist() for column in self.columns.values()), strict=True)
        ]

    def matches_as_json(self) -> dict[str, Any]:
        """Return the matches, and how sure they are, for ``--json``."""
        if not self.columns:
            return {}
        matches: dict[str, Any] = {"of": self.of, "level": self.level}
        if self.soft:
            matches |= {"sure_share": self.sure_share, "mean_interval": self.mean_steps}
            matches["doubtful"] = [
                {"first": one.first, "last": one.last, "low": one.low, "high": one.high} for one in self.doubtful
            ]
        if self.stretches:
            matches["stretch"] = {name: {"begin": vars(a), "end": vars(b)} for name, (a, b) in self.stretches.items()}
        return matches | {"matches": self.rows()}

    def lines(self, title: str) -> list[str]:
        """Return what is printed: how sure the matches are, where they are doubtful, and last the distance."""
        if self.trust is not None:
            return self._match_lines(self.trust, title)
        numbers = self.numbers
        metric, steps, features = numbers["metric"], numbers["steps"], numbers["features"]
        named = f"{metric}, γ = {numbers['gamma']:g}" if "gamma" in numbers else metric
        free_energy = f", free energy {numbers['free_energy']:.6g}" if "weighting" in numbers else ""
        lines = [
            f"{title}: {steps[0]:,} and {steps[1]:,} steps of {features} feature{'s' * (features > 1)}, {named}",
            *(f"matched are steps {first} to {last} of {name}" for name, (first, last) in self.stretches.items()),
        ]
        if self.soft:
            lines += self._doubt_lines()
        elif self.columns:
            length = numbers["best_path_length"]
            path = f"one path of {length} matches" if length else "one path"
            lines.append(f"{metric} has {path} and no probabilities; --metric udtw says how sure each match is")
        return [*lines, f"distance {numbers['distance']:.6g}{free_energy}"]

    def _match_lines(self, trust: Trust, title: str) -> list[str]:
        """Return the verdict and, unless it is "none", what the intervals are worth and where they are wide."""
        steps, features = self.numbers["steps"], self.numbers["features"]
        sizes = f"{steps[0]:,} and {steps[1]:,} steps of {features} feature{'s' * (features > 1)}"
        lines = [trust.sentence, f"{title}: {sizes}"]
        if self.omitted:
            lines.append("steps in the first line are counted without those left out of the files")
        distance = f"distance {self.numbers['distance']:.6g}"
        if trust.verdict == "none":
            return [*lines, distance]
        expected = f"; expected to hold {trust.coverage:.0%} of the true partners" if isfinite(trust.coverage) else ""
        interval = f"the {100 * self.level:g} % intervals hold {self.mean_steps:.3g} steps on average{expected}"
        return [*lines, *self._doubt_lines(interval), distance]

    def _doubt_lines(self, sure: str = "") -> list[str]:
        own, other = ("x", "y") if self.of == "x" or self.trust is not None else ("y", "x")
        sure = sure or (
            f"{self.sure_share:.0%} of the steps of {self.of} have a match of probability {SURE} or more; "
            f"the {100 * self.level:g} % intervals hold {self.mean_steps:.3g} steps on average"
        )
        if not self.doubtful:
            return [sure, "no stretch is much more doubtful than the rest"]
        lines = [sure, "doubtful stretches:"]
        longest = sorted(self.doubtful, key=lambda one: (one.last - one.first + 1) * (one.high - one.low), reverse=True)
        for one in sorted(longest[:SHOWN]):
            steps = f"steps {one.first} to {one.last}" if one.first < one.last else f"step {one.first}"
            lines.append(f"  {steps} of {own}{self._times(one)}: between {one.low} and {one.high} of {other}")
        if len(longest) > SHOWN:
            lines.append(f"  and {len(longest) - SHOWN} smaller ones")
        return lines

    def _times(self, stretch: Stretch) -> str:
        """Return the times of a stretch in brackets, if there are any."""
        if "time_i" not in self.columns:
            return ""
        first, last = (self.columns["time_i"][np.searchsorted(self.columns["i"], one)] for one in stretch[:2])
        return f" ({first} to {last})" if first != last else f" ({first})"


def make_report(aligned: "Aligned", x: Series, y: Series, level: float, of: str) -> Report:
    """Return the `Report` of two series that have been compared.

    Steps are counted as in the files, in which some may have been left out for missing values.
    """
    numbers = _numbers(aligned)
    if aligned.alignment is None:
        return Report(numbers, of, level, False, {}, [], {})
    matches = aligned.alignment.matches(level, of)
    own, other = (x, y) if of == "x" else (y, x)
    doubtful = _in_file(matches.doubtful() if aligned.soft else [], own, other)
    steps = {"x": x.steps, "y": y.steps}
    stretches = {
        name: (first.counted_by(steps[name]), last.counted_by(steps[name]))
        for name, (first, last) in _stretches(aligned, level).items()
    }
    columns = _columns(matches, own, other, aligned.variances if of == "x" else aligned.variances[::-1])
    return Report(numbers, of, level, aligned.soft, columns, doubtful, stretches)


def make_match_report(match: Match, x: Series, y: Series, of: str) -> Report:
    """Return the `Report` of a match of x and y; ``of`` names the series of the user whose steps those of x are."""
    alignment, noise = match.alignment, match.noise
    numbers = asdict(match.trust) | {
        "noise": {name: getattr(noise, name) for name in ("gain", "offset", "drift", "correlation_time")}
        | {"variance": noise.variance, "open_ends": noise.open_ends},
        "metric": "udtw",
        "steps": [len(x), len(y)],
        "features": x.values.shape[1],
    }
    numbers |= {name: float(getattr(alignment, name)) for name in ("distance", "regularizer", "loss", "free_energy")}
    columns = _columns(match, x, y, (noise.var_x, noise.var_y))
    omitted = any(one.steps[-1] + 1 > len(one) for one in (x, y))
    return Report(
        numbers, of, match.level, True, columns, _in_file(match.doubtful(), x, y), {}, match.trust, omitted
    )  # fmt: skip


def warped_rows(match: Match, x: Series, y: Series) -> list[dict[str, Any]]:
    """Return y on the steps of x: a row per step with mean and standard deviation of each column, None if unmatched."""
    mean, std = match.warp(y.values)
    matched = np.asarray(match.index) >= 0
    rows = []
    for k, step in enumerate(x.steps.tolist()):
        row: dict[str, Any] = {"i": step}
        if x.time_text:
            row[x.time_name or "time"] = x.time_text[k]
        for f, name in enumerate(y.names):
            row[f"{name}_mean"], row[f"{name}_std"] = (
                (float(mean[k, f]), float(std[k, f])) if matched[k] else (None,) * 2
            )
        rows.append(row)
    return rows


def _in_file(stretches: list[Stretch], own: Series, other: Series) -> list[Stretch]:
    """Return stretches in the steps of the files."""
    return [
        Stretch(*own.steps[[one.first, one.last]].tolist(), *other.steps[[one.low, one.high]].tolist())
        for one in stretches
    ]


def _numbers(aligned: "Aligned") -> dict[str, Any]:
    """Return everything about the pair as a whole."""
    metric, alignment = aligned.metric, aligned.alignment
    numbers: dict[str, Any] = {
        "metric": metric.name,
        "steps": [len(aligned.x), len(aligned.y)],
        "features": aligned.x.shape[1],
    }
    if alignment is None:
        return numbers | {"distance": aligned.distance}
    names = ("band", "gamma", "beta", "warp_penalty", "relax", "weighting")
    numbers |= {name: aligned.udtw.params[name] for name in names if name in metric.params}
    numbers |= {"distance": aligned.distance, "regularizer": 0.0, "loss": aligned.distance}
    if metric.uncertain:
        numbers |= {"regularizer": float(alignment.regularizer), "loss": float(alignment.loss)}
    best = len(alignment.paths.mode()) if len(aligned.x) * len(aligned.y) <= MATRIX_CELLS else None
    if not aligned.soft:
        length = float(alignment.paths.length) if best is None else float(best)
        return numbers | {"entropy": 0.0, "path_length": length, "best_path_length": best}
    return numbers | {
        "free_energy": float(alignment.free_energy),
        "entropy": max(float(alignment.paths.entropy), 0.0),
        "warps": float(alignment.warps),
        "path_length": float(alignment.paths.length),
        "best_path_length": best,
    }


def _columns(matches: Matches, own: Series, other: Series, variances: tuple[Any, Any]) -> dict[str, np.ndarray]:
    """Return the columns of the table of matches, of the steps of ``own`` with their partners in ``other``."""

    def in_file(index: np.ndarray) -> np.ndarray:
        return np.where(index >= 0, other.steps[index], -1)

    columns = {"i": own.steps, "j": in_file(matches.index)}
    if own.time_text or other.time_text:
        columns["time_i"] = np.array(own.time_text or [""] * len(own.steps), object)
        partners = np.array([*(other.time_text or [""] * len(other.steps)), ""], object)
        columns["time_j"] = partners[matches.index]  # a step without a partner has index −1: the last, empty one
    columns |= {"probability": matches.probability, "low": in_file(matches.low), "high": in_file(matches.high)}
    expected = np.interp(matches.expected, np.arange(len(other.steps)), other.steps)
    columns |= {"expected": np.where(np.isnan(matches.expected), np.nan, expected), "matched": matches.matched}
    if variances[0] is not None:
        of_own, of_other = (np.sqrt(one).reshape(len(one), -1) for one in variances)
        names = [""] if of_own.shape[1] == 1 else [f"_{name}" for name in own.names]
        for feature, name in enumerate(names):
            columns[f"sigma_i{name}"] = of_own[:, feature]
            columns[f"sigma_j{name}"] = np.where(matches.index >= 0, of_other[matches.index, feature], np.nan)
    return columns


def _stretches(aligned: "Aligned", level: float) -> dict[str, tuple[End, End]]:
    """Return where the matched stretch of each series with relaxed ends begins and ends, by the free energy alone.

    ``P(at most k steps stay unmatched at an end) = Z(relaxed by k) / Z``, which needs no matrix of probabilities.
    """
    lengths = len(aligned.x), len(aligned.y)
    relax = parse_relax(aligned.udtw.params["relax"], torch.tensor(lengths)[:, None])
    if relax is None or aligned.alignment is None:
        return {}
    counts = tuple(relax[:, 0].tolist())
    tail, gamma, whole = tail_of(level), aligned.udtw.params["gamma"], float(aligned.alignment.free_energy)

    def end(which: int) -> End:
        @cache
        def share(count: int) -> float:
            if count == counts[which]:
                return 1.0
            fewer = tuple(count if one == which else allowed for one, allowed in enumerate(counts))
            return exp(min((whole - float(aligned.relaxed(fewer).free_energy)) / gamma, 0.0))

        def quantile(probability: float) -> int:
            low, high = 0, counts[which]
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if share(middle) >= probability else (middle + 1, high)
            return low

        unmatched = [quantile(one) for one in (tail, 0.5, 1 - tail)]
        if which % 2:
            low, index, high = (lengths[which // 2] - 1 - one for one in reversed(unmatched))
        else:
            low, index, high = unmatched
        return End(index, low, high)

    return {
        name: (end(2 * side), end(2 * side + 1))
        for side, name in enumerate("xy")
        if counts[2 * side] or counts[2 * side + 1]
    }
