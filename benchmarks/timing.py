"""Interleaved timing: every round measures every contender once, so that a machine's drift meets all of them alike."""

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Call = Callable[[], Any]


@dataclass(frozen=True)
class Effort:
    """How long to measure: ``rounds``, or fewer (but at least ``fewest``) once ``seconds`` have passed."""

    rounds: int
    seconds: float
    fewest: int
    sample_seconds: float = 0.03


QUICK = Effort(rounds=9, seconds=3, fewest=2)
FULL = Effort(rounds=21, seconds=15, fewest=5)
SWEEP = Effort(rounds=5, seconds=2, fewest=2, sample_seconds=0.01)


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one number a round."""

    seconds: list[float]
    calls_per_sample: int = 1

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def best(self) -> float:
        return min(self.seconds)


def once(call: Call) -> float:
    """Seconds of a single call."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def interleave(contenders: Mapping[str, Call], effort: Effort, warm_up: bool = True) -> dict[str, Timing]:
    """Time all contenders in turns: a, b, c, a, b, c, ...

    One untimed call compiles and warms up, unless the caller has done so. The next decides how many calls make one
    sample, so that a sub-millisecond call is averaged over many; where one call is a sample, it is already the first.
    A sample of many calls is preceded by an untimed one, because the first call after another contender's turn pays for
    the caches and threads that the other has just used.
    """
    if warm_up:
        for call in contenders.values():
            call()
    first = {name: once(call) for name, call in contenders.items()}
    counts = {name: max(1, math.ceil(effort.sample_seconds / first[name])) for name in contenders}
    seconds = {name: [first[name]] if counts[name] == 1 else [] for name in contenders}
    collecting = gc.isenabled()
    begin = time.perf_counter()
    for done in range(effort.rounds):
        if done >= effort.fewest and time.perf_counter() - begin > effort.seconds:
            break
        gc.collect()
        gc.disable()  # as timeit does: a collection would be charged to the candidate that happens to run
        try:
            for name, call in contenders.items():
                seconds[name].append(_sample(call, counts[name]))
        finally:
            if collecting:
                gc.enable()
    return {name: Timing(values, counts[name]) for name, values in seconds.items()}


def _sample(call: Call, count: int) -> float:
    if count > 1:
        call()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count


def fastest(candidates: Mapping[str, Call]) -> str:
    """Find the fastest candidate by a few warm calls; slow ones are called fewer times."""
    best = {}
    for name, call in candidates.items():
        call()
        first = once(call)
        best[name] = min([first, *(once(call) for _ in range(min(4, int(0.4 / first))))])
    return min(best, key=lambda name: best[name])
