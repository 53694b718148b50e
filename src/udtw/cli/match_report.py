"""The matches of an alignment as rows, as JSON and in words."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from math import exp, isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udtw._engine.matches import Stretch, tail_of

if TYPE_CHECKING:
    from udtw._engine.alignment import Alignment
    from udtw.data.series_files import Series

SHOWN = 5
"""Doubtful stretches that are told in words."""
SURE = 0.5
"""A match of this probability is more likely than all others together."""


@dataclass(frozen=True)
class End:
    """Where a matched stretch begins or ends: the median, and the interval around it."""

    index: int
    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.index} (between {self.low} and {self.high})" if self.low < self.high else str(self.index)


@dataclass(frozen=True)
class Report:
    """Matches of the steps of one series, ``of``, in the other."""

    of: str
    level: float
    soft: bool
    """Whether the paths have probabilities."""
    columns: dict[str, np.ndarray]
    doubtful: list[Stretch]
    stretches: dict[str, tuple[End, End]]
    """Of each series with relaxed ends: where its matched stretch begins and ends."""

    @property
    def sure_share(self) -> float:
        """Share of the matched steps whose most probable partner has at least probability `SURE`."""
        probability = self.columns["probability"]
        return float((probability[np.isfinite(probability)] >= SURE).mean())

    @property
    def mean_steps(self) -> float:
        """Steps that the intervals hold on average."""
        low, high = self.columns["low"], self.columns["high"]
        return float((high - low + 1)[low >= 0].mean())

    def rows(self) -> list[dict[str, Any]]:
        """A row per step; what a step without a partner lacks is None."""

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

    def as_json(self) -> dict[str, Any]:
        """What ``--json`` says beside the distance."""
        said: dict[str, Any] = {"of": self.of, "level": self.level}
        if self.soft:
            said |= {"sure_share": self.sure_share, "mean_interval": self.mean_steps}
            said["doubtful"] = [one._asdict() for one in self.doubtful]
        if self.stretches:
            said["stretch"] = {name: {"begin": vars(a), "end": vars(b)} for name, (a, b) in self.stretches.items()}
        return said | {"matches": self.rows()}

    def write(self, path: Path) -> None:
        """Write the rows as a table."""
        from udtw.cli.files import write_table

        write_table(path, self.rows())

    def _time_of(self, stretch: Stretch) -> str:
        """The times of a stretch in brackets, if there are any."""
        if "time_i" not in self.columns:
            return ""
        first, last = (self.columns["time_i"][np.searchsorted(self.columns["i"], one)] for one in stretch[:2])
        return f" ({first} to {last})" if first != last else f" ({first})"

    def stretch_lines(self) -> list[str]:
        """Which part of a series with relaxed ends is matched."""
        return [f"matched are steps {a} to {b} of {name}" for name, (a, b) in self.stretches.items()]

    def lines(self) -> list[str]:
        """How sure the matches are, and which stretches are doubtful."""
        other = "y" if self.of == "x" else "x"
        lines = [
            f"{self.sure_share:.0%} of the steps of {self.of} have a match of probability {SURE} or more; "
            f"the {100 * self.level:g} % intervals hold {self.mean_steps:.3g} steps on average"
        ]
        if not self.doubtful:
            return [*lines, "no stretch is much more doubtful than the rest"]
        longest = sorted(self.doubtful, key=lambda one: (one.last - one.first + 1) * (one.high - one.low), reverse=True)
        lines.append("doubtful stretches:")
        for one in sorted(longest[:SHOWN]):
            steps = f"steps {one.first} to {one.last}" if one.first < one.last else f"step {one.first}"
            time = self._time_of(one)
            lines.append(f"  {steps} of {self.of}{time}: between {one.low} and {one.high} of {other}")
        if len(longest) > SHOWN:
            lines.append(f"  and {len(longest) - SHOWN} smaller ones")
        return lines


def make_report(
    found: "Alignment", refit: Callable[[tuple[int, ...]], "Alignment"], pair: tuple["Series", "Series"], level: float,
    of: str, *, soft: bool,
) -> Report:  # fmt: skip
    """The `Report` of the ``pair`` x, y; ``refit`` aligns it again with other counts of ``relax``.

    Steps are counted as in the files, in which some may have been left out for missing values.
    """
    matches = found.matches(level, of)
    own, other = pair if of == "x" else pair[::-1]

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
    variances = found.step_variances if of == "x" else found.step_variances[::-1]
    if variances[0] is not None:
        columns["sigma_i"] = np.sqrt(variances[0])
        columns["sigma_j"] = np.where(matches.index >= 0, np.sqrt(variances[1])[matches.index], np.nan)
    stretches = {} if found.paths._problem.prior.relax is None else _stretches(found, refit, level)
    steps = dict(zip("xy", (one.steps for one in pair), strict=True))

    def end_in_file(name: str, end: End) -> End:
        return End(*(int(steps[name][at]) for at in (end.index, end.low, end.high)))

    stretches = {name: (end_in_file(name, a), end_in_file(name, b)) for name, (a, b) in stretches.items()}
    doubtful = [
        Stretch(*own.steps[[one.first, one.last]].tolist(), *other.steps[[one.low, one.high]].tolist())
        for one in (matches.doubtful() if soft else [])
    ]
    return Report(of, level, soft, columns, doubtful, stretches)


def _stretches(
    found: "Alignment", refit: Callable[[tuple[int, ...]], "Alignment"], level: float
) -> dict[str, tuple[End, End]]:
    """Begin and end of the matched stretch of each series with relaxed ends, by the free energy alone.

    ``P(at most k steps stay unmatched at an end) = Z(relaxed by k) / Z``, which needs no matrix of probabilities.
    """
    problem = found.paths._problem
    assert problem.prior.relax is not None, "the caller has relaxed ends"
    counts = tuple(int(one) for one in problem.prior.relax[:, 0])
    tail, gamma, whole = tail_of(level), float(problem.gamma), float(found.free_energy)

    def end(which: int, steps: int) -> End:
        @cache
        def share(count: int) -> float:
            if count == counts[which]:
                return 1.0
            fewer = tuple(count if one == which else allowed for one, allowed in enumerate(counts))
            return exp(min((whole - float(refit(fewer).free_energy)) / gamma, 0.0))

        def quantile(probability: float) -> int:
            low, high = 0, counts[which]
            while low < high:
                middle = (low + high) // 2
                low, high = (low, middle) if share(middle) >= probability else (middle + 1, high)
            return low

        unmatched = [quantile(one) for one in (tail, 0.5, 1 - tail)]
        low, index, high = unmatched if which % 2 == 0 else [steps - 1 - one for one in reversed(unmatched)]
        return End(index, low, high)

    lengths = dict(zip("xy", problem.lengths[:, 0].tolist(), strict=True))
    return {
        name: (end(2 * side, lengths[name]), end(2 * side + 1, lengths[name]))
        for side, name in enumerate("xy")
        if counts[2 * side] or counts[2 * side + 1]
    }
