"""How time and memory grow: one size is varied, the rest stays. Nothing here is required, all of it is plotted.

A peer is left out from the size on where one call would take longer than `TOO_SLOW`; the result then says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks import fresh, peers
from benchmarks.cases import Setting
from benchmarks.data import Batch
from benchmarks.timing import SWEEP, Call, interleave, once

TOO_SLOW = 5.0
NOT_RUN = "not run: too slow"


@dataclass(frozen=True)
class Size:
    """A training step's size; ``varied`` is the number on the plot's axis."""

    varied: int
    batch: int
    length: int
    dim: int

    @property
    def work(self) -> int:
        return self.batch * self.length**2 * self.dim


LENGTHS = [Size(n, max(1, min(64, 2**20 // n**2)), n, 1) for n in (32, 64, 128, 256, 512, 1024, 2048, 4096)]
BATCHES = [Size(b, b, 128, 1) for b in (1, 8, 64, 256)]
DIMENSIONS = [Size(d, 16, 128, d) for d in (1, 3, 64, 256)]

MEMORY_LENGTHS = (256, 512, 1024, 2048, 4096)
MEMORY_MODES = (("ours", "forward"), ("ours", "backward"), ("tslearn", "backward"), ("plain", "backward"))

Advance = Callable[[], None]


def _steps(batch: Batch) -> dict[str, Callable[[], Call]]:
    return {
        peers.OURS: lambda: peers.train_ours(batch, "precision"),
        peers.TSLEARN: lambda: peers.train_tslearn(batch),
        peers.PLAIN: lambda: peers.train_plain_best(batch)[1],
    }


def _times(sizes: list[Size], setting: Setting, advance: Advance) -> Iterator[dict[str, Any]]:
    """Seconds of a training step by ours, tslearn and plain torch at every size."""
    last: dict[str, tuple[float, int]] = {}  # peer -> (seconds, work) at the size before
    for size in sizes:
        batch = Batch.make(size.batch, size.length, setting.seed, size.dim)
        result: dict[str, Any] = {"varied": size.varied, "batch": size.batch, "length": size.length, "dim": size.dim}
        found: dict[str, Any] = {}
        running: dict[str, Call] = {}
        for name, make in _steps(batch).items():
            seconds, work = last.get(name, (0.0, 1))
            if name != peers.OURS and seconds * max(1.0, size.work / work) > 2 * TOO_SLOW:
                # Half of this growth would still be too slow; not even one call is worth its time.
                found[name] = NOT_RUN
                continue
            call = make()
            call()
            last[name] = once(call), size.work
            if name != peers.OURS and last[name][0] > TOO_SLOW:
                found[name] = f"{NOT_RUN} (one call took {last[name][0]:.1f} s)"
            else:
                running[name] = call
        timings = interleave(running, SWEEP)
        found |= {name: {"median": t.median, "best": t.best, "seconds": t.seconds} for name, t in timings.items()}
        result |= {name: found[name] for name in (peers.OURS, peers.TSLEARN, peers.PLAIN)}
        advance()
        yield result


def by_length(setting: Setting, advance: Advance) -> list[dict[str, Any]]:
    """Lengths 32 to 4096; the batch shrinks so that the number of cells stays about a million."""
    return list(_times(LENGTHS, setting, advance))


def by_batch(setting: Setting, advance: Advance) -> list[dict[str, Any]]:
    """Batches of 1 to 256 pairs of length 128."""
    return list(_times(BATCHES, setting, advance))


def by_dimension(setting: Setting, advance: Advance) -> list[dict[str, Any]]:
    """16 pairs of length 128 with 1 to 256 features."""
    return list(_times(DIMENSIONS, setting, advance))


def memory_by_length(setting: Setting, advance: Advance) -> list[dict[str, Any]]:
    """Peak memory of one pair above baseline, each in a fresh process: distance only, and training steps."""
    results = []
    for length in MEMORY_LENGTHS:
        found = {f"{who} {mode}": fresh.memory(who, mode, length)["megabytes"] for who, mode in MEMORY_MODES}
        results.append({"varied": length, **found})
        advance()
    return results


SWEEPS: dict[str, tuple[Callable[[Setting, Advance], list[dict[str, Any]]], int]] = {
    "sweep-length": (by_length, len(LENGTHS)),
    "sweep-batch": (by_batch, len(BATCHES)),
    "sweep-dimension": (by_dimension, len(DIMENSIONS)),
    "sweep-memory": (memory_by_length, len(MEMORY_LENGTHS)),
}
