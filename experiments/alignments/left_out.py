"""Pairs in which some steps have no partner: how well these are found, and what their probabilities are worth.

"stretches": generated pairs in which x lacks a stretch of y, has one of its own, or both, by `udtw.match` with and
without gaps. "notes": two performances of Vienna 4x22, in which pianists left out notes or played others.
"""

import os
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import udtw
from experiments.alignments import vienna
from experiments.alignments.methods import of_matches
from experiments.alignments.notes import match_notes
from experiments.alignments.pairs import LEVEL, Estimate, Pair, pooled, score
from experiments.alignments.synthetic import NOISE, STEPS, smooth_between, smooth_series, warp
from experiments.experiment import Results
from experiments.units import Unit
from udtw.demo.document import Document
from udtw.errors import OptionError

KINDS = ("nothing", "missing", "inserted", "both", "replaced")
SHARES = (0.05, 0.1, 0.2, 0.3)
MARGIN = 5
"""Steps of x at either end that stay."""
ROWS: dict[str, list[dict[str, Any]]] = {
    "stretches": [{"kind": KINDS[0], "share": 0.0}, *({"kind": k, "share": s} for k in KINDS[1:] for s in SHARES)],
    "notes": [{"piece": piece} for piece in vienna.PIECES],
}
"""Part to what its rows are."""
PAIRS = {"stretches": 10, "notes": 4}
GAPS, WITHOUT, NOTES = "udtw.match(gaps=True)", "udtw.match", "udtw.align with gaps"
METHODS = {"stretches": (GAPS, WITHOUT), "notes": (NOTES,)}
BINS = np.linspace(0, 1, 11)


class Stretches(NamedTuple):
    """A pair, and which steps of x and of y have partners."""

    pair: Pair
    in_x: NDArray
    in_y: NDArray


def pair_with_stretches(kind: str, share: float, seed: Any = 0) -> Stretches:
    """Generate a pair with white noise of 0.1 in which a stretch of that share of the steps has no partner.

    "missing": cut out of x; "inserted": put into x, a smooth series of its own; "both", at different places;
    "replaced": a stretch of x becomes a smooth series of its own.
    """
    if kind not in KINDS or not 0 <= share <= 0.5:
        raise OptionError(f"kind must be one of {', '.join(KINDS)}, share at most 0.5; got {kind!r}, {share!r}.")
    rng = np.random.default_rng(seed)
    y, truth = smooth_series(rng), warp(rng)
    x = smooth_between(y, truth)
    x, y = (one + NOISE * rng.standard_normal(STEPS) for one in (x, y))
    count, places, in_y = round(share * STEPS), np.arange(STEPS), np.ones(STEPS, bool)
    if kind in ("missing", "both"):
        first = int(rng.integers(MARGIN, STEPS - count - MARGIN))
        in_y = (places <= truth[first - 1] + 0.5) | (places >= truth[first + count] - 0.5)
        x, truth = (np.delete(one, slice(first, first + count)) for one in (x, truth))
    own = smooth_series(rng, steps=count) + NOISE * rng.standard_normal(count) if count else np.zeros(0)
    if kind in ("inserted", "both"):
        first = int(rng.integers(MARGIN, len(x) - MARGIN))
        x, truth = np.insert(x, first, own), np.insert(truth, first, np.full(count, np.nan))
    if kind == "replaced":
        first = int(rng.integers(MARGIN, STEPS - count - MARGIN))
        last = first + count - 1
        in_y = (places <= truth[first] - 0.5) | (places >= truth[last] + 0.5)
        x[first : last + 1], truth[first : last + 1] = own, np.nan
    return Stretches(Pair(f"{kind} {share:g}", x, y, truth), np.isfinite(truth), in_y)


def units(name: str, parts: list[str], seeds: list[int], quick: bool, pairs: int | None) -> list[Unit]:
    """List a unit for each row, method and seed of these parts."""
    return [
        Unit(name, part, method, seed, row | {"pairs": pairs or (2 if quick else PAIRS[part])})
        for part in parts for method in METHODS[part] for seed in seeds for row in ROWS[part]
    ]  # fmt: skip


def work(unit: Unit, data_dir: str | os.PathLike | None) -> dict[str, Any]:
    """Score each pair of a row."""
    row, numbers = unit.options, range(unit.options["pairs"])
    if unit.dataset == "stretches":
        seeds = [[unit.seed, int(1000 * row["share"]), KINDS.index(row["kind"]), i] for i in numbers]
        drawn = (pair_with_stretches(row["kind"], row["share"], seed) for seed in seeds)
        return {"scores": [score_stretches(one, unit.method == GAPS) for one in drawn]}
    rng = np.random.default_rng([unit.seed, 4, 22, vienna.PIECES.index(row["piece"])])
    pianists = (rng.choice(np.array(vienna.PIANISTS), 2, replace=False) for _ in numbers)
    return {"scores": [score_notes(row["piece"], (int(a), int(b)), data_dir) for a, b in pianists]}


def score_stretches(drawn: Stretches, gaps: bool) -> dict[str, Any]:
    """Return error and coverage over steps of x with a partner, and what was said of each step of both series."""
    pair = drawn.pair
    found = udtw.match(pair.x, pair.y, level=LEVEL, gaps=gaps)
    expected, band = of_matches(found)
    scored = pooled(score(pair, Estimate(expected, {LEVEL: band})))
    left_out = 1 - np.concatenate([found.matched, found.matched_y])
    return {
        "error": scored["error"], "coverage": scored["coverage"][str(LEVEL)], "used": bool(found.noise.gaps),
        "left_out": left_out.round(4).tolist(), "truth": (~np.r_[drawn.in_x, drawn.in_y]).tolist(),
    }  # fmt: skip


def score_notes(piece: str, pianists: tuple[int, int], data_dir: str | os.PathLike | None) -> dict[str, Any]:
    """Return the probabilities for the notes of the first performance, and which of them the second one lacks."""
    x, y = (vienna.load_performance(piece, pianist, data_dir) for pianist in pianists)
    truth = np.ones(len(x.pitch), bool)
    truth[[x.matched[note][1] for note in x.matched.keys() & y.matched.keys()]] = False
    found = match_notes(x, y)
    costs = {name: np.minimum(cost, 1e3).round(4).tolist() for name, cost in found.costs.items()}
    return {"left_out": (1 - found.matched).round(5).tolist(), "truth": truth.tolist(), "costs": costs}


def average_precision(score: NDArray, truth: NDArray) -> float:
    """Return the area under precision over recall, without interpolation; steps of equal score come together."""
    order = np.argsort(-score, kind="stable")
    last = np.r_[np.flatnonzero(np.diff(score[order])), len(score) - 1]
    hits = np.cumsum(truth[order])[last]
    return float((np.diff(np.r_[0, hits]) * hits / (last + 1)).sum() / truth.sum())


def f1_score(left_out: NDArray, truth: NDArray) -> float:
    """Return F1 of the steps that are left out with a probability above one half."""
    found = left_out > 0.5
    return 2 * float((found & truth).sum()) / max(1, int(found.sum() + truth.sum()))


def calibration_error(stated: NDArray, truth: NDArray) -> float:
    """Return the mean distance of stated and observed shares over ten bins, weighted by their counts."""
    place = np.digitize(stated, BINS[1:-1])
    return sum(abs((stated - truth)[place == k].sum()) for k in range(len(BINS) - 1)) / len(stated)


def least_brier_of_thresholds(cost: NDArray, truth: NDArray) -> float:
    """Return the least share of errors of all rules that leave out what costs more than a threshold."""
    ordered = truth[np.argsort(-cost, kind="stable")]
    errors = np.r_[0, np.cumsum(1 - 2 * ordered.astype(int))] + truth.sum()
    return float(errors.min()) / len(truth)


def _joined(scores: list[dict[str, Any]], name: str) -> NDArray:
    return np.concatenate([np.asarray(one[name]) for one in scores])


def report(results: Results, document: Document) -> None:
    """Add a table for each part."""
    scores: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for unit, result in results:
        if unit.dataset in ROWS:
            name = unit.options.get("piece") or f"{unit.options['kind']} {100 * unit.options['share']:.0f} %"
            scores.setdefault((unit.dataset, unit.method, name), []).extend(result["scores"])
    names = [name for part, method, name in scores if (part, method) == ("stretches", GAPS)]
    if names:
        lines = [
            _line_of_stretches(name, *(scores["stretches", m, name] for m in METHODS["stretches"])) for name in names
        ]
        gapped = [name for name in names if not name.startswith((KINDS[0], KINDS[-1]))]
        for title, chosen in (("missing, inserted, both", gapped), ("all", names)):
            both = ([s for name in chosen for s in scores["stretches", m, name]] for m in METHODS["stretches"])
            lines.append(_line_of_stretches(title, *both))
        document.table(
            "Generated pairs in which a stretch has no partner",
            [
                "x and y", "pairs", "gaps found, %", "F1", "error with gaps", "without", "ratio",
                "coverage with gaps", "without", "Brier score", "calibration error",
            ],
            lines,
            "Errors in steps and coverage of 90 % intervals, over steps with a partner. F1, the Brier score and the "
            "calibration error (ten bins) are those of `matched` and `matched_y` of all steps.",
        )  # fmt: skip
    pieces = [name for part, _, name in scores if part == "notes"]
    if pieces:
        by_piece = {name: scores["notes", NOTES, name] for name in pieces}
        by_piece["all"] = [one for of in by_piece.values() for one in of]
        document.table(
            "Notes that the other pianist did not play (Vienna 4x22)",
            [
                "piece", "notes", "without a partner", "average precision", "of the cost", "Brier score",
                "best threshold on a cost", "calibration error",
            ],
            [_line_of_notes(name, of) for name, of in by_piece.items()],
            "Costs are the distances in time to the next note of that pitch, on the time axis of `udtw.match` of the "
            "chroma and on the one refined by the notes; the better one counts.",
        )  # fmt: skip


def _line_of_stretches(name: str, ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> list[Any]:
    left_out, truth = _joined(ours, "left_out"), _joined(ours, "truth")
    means = {
        key: [float(np.nanmean([one[key] for one in of])) for of in (ours, others)] for key in ("error", "coverage")
    }
    return [
        name, len(ours), f"{100 * np.mean([one['used'] for one in ours]):.0f}",
        f"{f1_score(left_out, truth):.2f}" if truth.any() else None,
        *(f"{one:.2f}" for one in means["error"]), f"{means['error'][0] / means['error'][1]:.2f}",
        *(f"{100 * one:.1f}" for one in means["coverage"]),
        f"{np.mean((left_out - truth) ** 2):.4f}", f"{calibration_error(left_out, truth):.3f}",
    ]  # fmt: skip


def _line_of_notes(name: str, scores: list[dict[str, Any]]) -> list[Any]:
    left_out, truth = _joined(scores, "left_out"), _joined(scores, "truth")
    costs = [_joined([one["costs"] for one in scores], cost) for cost in scores[0]["costs"]]
    precision = [
        f"{max(average_precision(one, truth) for one in of):.2f}" if truth.any() else None for of in ([left_out], costs)
    ]
    return [
        name, len(truth), int(truth.sum()), *precision, f"{np.mean((left_out - truth) ** 2):.4f}",
        f"{min(least_brier_of_thresholds(one, truth) for one in costs):.4f}",
        f"{calibration_error(left_out, truth):.4f}",
    ]  # fmt: skip
