"""`Pair`: two series and what is known of their true alignment; `score` judges an estimate by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

LEVEL = 0.9
"""Level of the intervals whose width is reported."""


class Checks(NamedTuple):
    """Positions in x (steps, may lie between two), the true positions in y, and the standard errors of these."""

    at: NDArray
    truth: NDArray
    error: NDArray


@dataclass(frozen=True)
class Pair:
    """Series x (M,) or (M, D) and y (N,) or (N, D), and the true position in y of every step of x.

    Positions are numbers of steps and may lie between two; NaN where a step has no partner or none is known.
    """

    name: str
    x: NDArray
    y: NDArray
    truth: NDArray
    step: float = 1.0
    """Length of a step of y in the unit of errors: 1000 / rate milliseconds, kyr, or 1."""

    def checks(self) -> Checks:
        """Return where and how well the truth is known."""
        at = np.flatnonzero(np.isfinite(self.truth))
        return Checks(at.astype(float), self.truth[at], np.zeros(len(at)))


class Estimate(NamedTuple):
    """What a method says of a pair: for every step of x the expected position in y, and intervals by level.

    NaN where it leaves a step of x unmatched.
    """

    expected: NDArray
    bands: Mapping[float, tuple[NDArray, NDArray]]
    verdict: str | None = None
    stated: float | None = None
    """Coverage of the intervals of `LEVEL` that the method itself expects."""


def score(pair: Pair, estimate: Estimate) -> list[dict[str, Any]]:
    """Return for every check of the pair the error, in the unit of the pair, and whether intervals hold the truth.

    Intervals of whole steps are widened by half a step, since truths lie between steps; where the truth has an error of
    its own, the half width is ``sqrt(half² + (z · error)²)`` with the normal quantile z of the level. A step without an
    estimate has error NaN and misses.
    """
    at, truth, error = pair.checks()
    expected = _between_steps(estimate.expected, at)
    inside, widths = {}, np.full(len(at), np.nan)
    for level, (low, high) in estimate.bands.items():
        first, last = _between_steps(low, at) - 0.5, _between_steps(high, at) + 0.5
        half = np.hypot((last - first) / 2, norm.ppf(0.5 + level / 2) * error)
        inside[level] = np.abs(truth - (first + last) / 2) <= half
        if level == LEVEL:
            widths = (last - first) * pair.step
    return [
        {
            "error": abs(expected[i] - truth[i]) * pair.step,
            "width": widths[i],
            "coverage": {str(level): float(held[i]) for level, held in inside.items()},
        }
        for i in range(len(at))
    ]


def _between_steps(values: NDArray, at: NDArray) -> NDArray:
    """Interpolate linearly between steps; NaN beside a step that is NaN."""
    values = np.asarray(values, float)
    lower = np.floor(at).astype(int)
    upper = np.minimum(lower + 1, len(values) - 1)
    share = at - lower
    return np.where(share > 0, (1 - share) * values[lower] + share * values[upper], values[lower])


def pooled(checks: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means over the checks of a pair; errors and widths over those with an estimate."""
    levels = checks[0]["coverage"]
    matched = [one for one in checks if np.isfinite(one["error"])]
    return {
        "error": float(np.mean([one["error"] for one in matched])) if matched else np.nan,
        "width": float(np.mean([one["width"] for one in matched])) if matched else np.nan,
        "coverage": {level: float(np.mean([one["coverage"][level] for one in checks])) for level in levels},
    }
