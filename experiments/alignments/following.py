"""Streams that are followed through a reference (`udtw.Follower`): error and coverage of the position, and its speed.

A pianist of Vienna 4x22 is followed through the performance of another one, judged at the onsets of notes; and a
generated machine through earlier cycles of its own, judged at every step. The first seconds do not count.
"""

import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import udtw
from experiments.alignments import vienna
from experiments.alignments.pairs import LEVEL, Estimate, Pair, score
from experiments.alignments.synthetic import smooth_between, smooth_series, warp
from experiments.experiment import Results
from experiments.units import Unit
from udtw.demo.document import Document

PART, METHOD = "follow", "udtw.Follower"
RATE, BEGINNING = 10, 10.0
"""Frames per second, and the seconds of the stream that do not count."""
MACHINE, CYCLES, CYCLE_STEPS, NOISE = "cycles of a machine", 6, 100, 0.3
ROWS = (*vienna.PIECES, MACHINE)
PAIRS = 4


def machine(seed: Any = 0) -> Pair:
    """Generate two runs of the same smooth cycles with noise of their own; x is slower and faster than y in turn."""
    rng = np.random.default_rng(seed)
    y = np.tile(smooth_series(rng, steps=CYCLE_STEPS), CYCLES)
    truth = warp(rng, steps=len(y))
    x, y = (one + NOISE * rng.standard_normal(len(y)) for one in (smooth_between(y, truth), y))
    return Pair(MACHINE, x, y, truth, 1000 / RATE)


def units(name: str, seeds: list[int], quick: bool, pairs: int | None) -> list[Unit]:
    """List a unit for each row and seed."""
    count = pairs or (2 if quick else PAIRS)
    return [Unit(name, PART, METHOD, seed, {"row": row, "pairs": count}) for seed in seeds for row in ROWS]


def work(unit: Unit, data_dir: str | os.PathLike | None) -> dict[str, Any]:
    """Follow each pair of a row."""
    row, count = unit.options["row"], unit.options["pairs"]
    if row == MACHINE:
        pairs = [machine([unit.seed, i]) for i in range(count)]
    else:
        every = len(vienna.PIECES)  # the excerpts come in turn
        drawn = vienna.draw_pairs(every * count, RATE, "chroma", unit.seed, data_dir)
        pairs = drawn[vienna.PIECES.index(row) :: every]
    return {"scores": [follow(pair) for pair in pairs]}


def follow(pair: Pair) -> dict[str, Any]:
    """Send x step by step; return errors and hits of the position of the newest step, and the time of the updates."""
    udtw.Follower(pair.y, level=LEVEL).update(pair.x[:2])  # compiles
    follower = udtw.Follower(pair.y, level=LEVEL)
    begin = time.perf_counter()
    places = [follower.update(step) for step in pair.x]
    seconds = time.perf_counter() - begin
    expected, low, high = np.array([(one.expected, one.low, one.high) for one in places]).T
    counted: NDArray = np.arange(len(pair.x)) >= BEGINNING * RATE
    judged = replace(pair, truth=np.where(counted, pair.truth, np.nan))
    checks = score(judged, Estimate(expected, {LEVEL: (low, high)}))
    return {
        "errors": [round(float(one["error"]), 2) for one in checks],
        "held": [one["coverage"][str(LEVEL)] for one in checks],
        "steps": len(places), "seconds": seconds,
    }  # fmt: skip


def report(results: Results, document: Document) -> None:
    """Add the table, if the part was run."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for unit, result in results:
        if unit.dataset == PART:
            rows.setdefault(unit.options["row"], []).extend(result["scores"])
    if rows:
        document.table(
            f"Following a stream (chroma at {RATE} frames per second) after its first {BEGINNING:.0f} seconds",
            ["stream", "pairs", "positions", "median error, ms", "coverage, %", "steps per second"],
            [_line(name, scores) for name, scores in rows.items()],
            "Coverage of 90 % intervals, widened by half a step. Steps per second are those of one thread.",
        )


def _line(name: str, scores: list[dict[str, Any]]) -> list[Any]:
    errors, held = (np.concatenate([one[key] for one in scores]) for key in ("errors", "held"))
    speed = sum(one["steps"] for one in scores) / sum(one["seconds"] for one in scores)
    if not len(errors):
        return [name, len(scores), 0, None, None, f"{speed:.0f}"]
    return [name, len(scores), len(errors), f"{np.median(errors):.0f}", f"{100 * held.mean():.1f}", f"{speed:.0f}"]
