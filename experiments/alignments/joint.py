"""Many series on one axis against pairs of them: 22 pianists of an excerpt, and the means of UCR classes.

"vienna": all 22 performances of an excerpt are matched together; pairs of pianists drawn by the seed are matched by way
of the axis, and on their own by `udtw.match`. Both are judged at the onsets of notes. For UCR sets, the mean of ten
series of a class by `udtw.match_many` and by `barycenter` is judged by the average DTW to other series of the class.
"""

import time
from typing import Any

import numpy as np

import udtw
from experiments import barycenters
from experiments.alignments import vienna
from experiments.alignments.methods import ONLY, match, of_matches
from experiments.alignments.pairs import LEVEL, Estimate, pooled, score
from experiments.experiment import Experiment, Results, chosen_datasets
from experiments.units import Unit
from udtw.data import available_ucr
from udtw.demo.document import Document
from udtw.timeseries import barycenter

NAME = "joint"
VIENNA = "vienna"
RATE = 8
PAIRS = 16
"""Pairs of pianists of an excerpt for each seed."""
JOINT, BY_PAIRS = "udtw.match_many", "udtw.match"
MEANS = (JOINT, "udtw", "dtw", "euclidean")
"""What computes the mean of a class: `udtw.match_many`, or `barycenter` with a metric."""


def units(
    *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None, pairs: int | None = None
) -> list[Unit]:
    """List a unit for each excerpt or class, method and seed; the UCR sets are those that `barycenters` takes."""
    known = available_ucr(data_dir) if datasets is None or set(datasets) != {VIENNA} else []
    found = []
    for name in chosen_datasets(datasets, [VIENNA, *known]):
        if name == VIENNA:
            rows = [{"piece": piece, "pairs": pairs or (2 if quick else PAIRS)} for piece in vienna.PIECES]
            found += [Unit(NAME, name, way, seed, row) for seed in seeds for row in rows for way in (JOINT, BY_PAIRS)]
        else:
            found += [
                Unit(NAME, one.dataset, way, one.seed, {})
                for one in barycenters.units(datasets=[name], seeds=seeds, quick=False, data_dir=data_dir)
                if one.method == "euclidean"
                for way in MEANS
            ]
    return found


def drawn(unit: Unit) -> list[tuple[int, int]]:
    """Return the pairs of pianists of an excerpt, the same for both methods."""
    rng = np.random.default_rng([unit.seed, vienna.PIECES.index(unit.options["piece"]), 22])
    chosen = (rng.choice(np.array(vienna.PIANISTS), 2, replace=False) for _ in range(unit.options["pairs"]))
    return [(int(a), int(b)) for a, b in chosen]


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Score every pair of an excerpt, or the mean of a class."""
    begin = time.perf_counter()
    if unit.dataset != VIENNA:
        return {"dtw": _distance_of_mean(unit, data_dir), "seconds": time.perf_counter() - begin}
    piece, scores = unit.options["piece"], []
    joint = None
    if unit.method == JOINT:
        players = [vienna.load_performance(piece, one, data_dir) for one in vienna.PIANISTS]
        joint = udtw.match_many([vienna.features(one, RATE) for one in players], level=LEVEL)
    for a, b in drawn(unit):
        pair = vienna.pair(piece, (a, b), RATE, data_dir=data_dir)
        scores.append(pooled(score(pair, match(pair)[ONLY] if joint is None else _by_way_of_axis(joint, a - 1, b - 1))))
    return {"scores": scores, "seconds": time.perf_counter() - begin}


def _by_way_of_axis(joint: Any, a: int, b: int) -> Estimate:
    expected, band = of_matches(joint.between(a, b))
    return Estimate(expected, {LEVEL: band}, joint.trust[a].verdict)


def _distance_of_mean(unit: Unit, data_dir: str | None) -> float:
    seen, unseen, _ = barycenters.members(unit.dataset, unit.seed, data_dir)
    mean = udtw.match_many(seen).mean if unit.method == JOINT else barycenter(seen, unit.method).mean
    known = np.isfinite(mean)
    return float(udtw.pairwise(unseen, mean[None, known], metric="dtw").mean()) if len(unseen) else np.nan


def report(results: Results, document: Document) -> None:
    """Report errors and coverage by excerpt, and the distance of class means relative to the Euclidean mean."""
    of_pairs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    of_means: dict[tuple[str, int], dict[str, float]] = {}
    for unit, result in results:
        if unit.dataset == VIENNA:
            rows = of_pairs.setdefault(unit.options["piece"], {})
            rows.setdefault(unit.method, []).extend(result["scores"])
        else:
            of_means.setdefault((unit.dataset, unit.seed), {})[unit.method] = result["dtw"]
    if of_pairs:
        _report_pairs(of_pairs, document)
    whole = {
        key: row for key, row in of_means.items() if set(row) == set(MEANS) and all(map(np.isfinite, row.values()))
    }
    if whole:
        document.table(
            f"Class means: average DTW to unseen series, relative to the Euclidean mean ({len(whole)} classes)",
            ["data set", "seed", *MEANS],
            [[*key, *(f"{row[way] / row['euclidean']:.3f}" for way in MEANS)] for key, row in whole.items()]
            + [["mean", "", *(f"{np.mean([row[w] / row['euclidean'] for row in whole.values()]):.3f}" for w in MEANS)]],
        )


def _report_pairs(of_pairs: dict[str, dict[str, list[dict[str, Any]]]], document: Document) -> None:
    rows, ways, count = [], (JOINT, BY_PAIRS), 0
    means: list[list[float]] = []
    for piece, by_way in of_pairs.items():
        if set(by_way) != set(ways):
            continue
        numbers = [_numbers(by_way[way]) for way in ways]
        means.append([*numbers[0], *numbers[1]])
        count += len(by_way[JOINT])
        rows.append([piece, len(by_way[JOINT]), *_cells(means[-1])])
    if rows:
        rows.append(["all", count, *_cells(np.mean(means, 0).tolist())])
        columns = [f"{way}: {one}" for way in ways for one in ("error", "width", "coverage, %")]
        document.table(
            f"22 pianists of an excerpt, chroma at {RATE} frames per second; errors and widths in ms",
            ["excerpt", "pairs", *columns, "error: joint / pairs"],
            rows,
        )


def _numbers(scores: list[dict[str, Any]]) -> list[float]:
    return [
        float(np.mean([one["error"] for one in scores])),
        float(np.mean([one["width"] for one in scores])),
        100 * float(np.mean([one["coverage"][str(LEVEL)] for one in scores])),
    ]


def _cells(numbers: list[float]) -> list[str]:
    return [f"{one:.1f}" for one in numbers] + [f"{numbers[0] / numbers[3]:.2f}"]


EXPERIMENT = Experiment(
    NAME, "Joint against pairwise alignment, and means of classes", units, work, report, (0,), draws_pairs=True
)
