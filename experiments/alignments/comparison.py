"""Real and generated pairs whose true alignment is known: errors, and whether intervals hold what they promise.

Seven parts, a table each: piano performances ("vienna"), sediment cores ("cores"), generated pairs in which one thing
at a time differs ("synthetic"), pairs that have nothing to do with one another ("unrelated"), those of `left_out` in
which some steps have no partner ("stretches", "notes"), and streams ("follow"). A unit is one row of a table by one
method, on pairs drawn by the seed.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.alignments import cores, following, left_out, synthetic, vienna
from experiments.alignments.methods import LEVELS, METHODS, ONLY, PEERS, available
from experiments.alignments.pairs import LEVEL, Pair, pooled, score
from experiments.experiment import Experiment, Results, chosen_datasets
from experiments.units import Unit
from udtw.demo.document import Document
from udtw.errors import OptionError
from udtw.plots import plot_calibration

NAME = "alignments"
SEEDS = (0, 1, 2, 3, 4)
ROWS: dict[str, list[dict[str, Any]]] = {
    "vienna": [{"feature": feature, "rate": rate} for feature in vienna.FEATURES for rate in vienna.RATES],
    "cores": [{"core": name} for name in cores.CORES],
    "synthetic": [
        {"regime": regime, "strength": strength}
        for regime in synthetic.REGIMES
        for strength in synthetic.STRENGTHS.values()
    ],
    "unrelated": [{"kind": kind} for kind in synthetic.UNRELATED],
}
"""Part to what its rows are."""
PAIRS = {"vienna": 4, "cores": 1, "synthetic": 10, "unrelated": 25}
"""Pairs of a row for each seed; there is one pair for each core."""
OURS = "udtw.match"
RIVALS = {
    "vienna": ("align (estimated noise)", "DTW", "soft-DTW", "librosa"),
    "cores": ("align (estimated noise)", "DTW", "soft-DTW", "BIGMACS"),
    "synthetic": ("align (estimated noise)", "DTW", "soft-DTW", "fdasrsf"),
    "unrelated": (),
}
FEW = {"fdasrsf": 2}
"""Pairs of slow methods, of the first seed and the middle strength only."""
TITLES = {
    "vienna": "Piano performances (Vienna 4x22), at note onsets; errors in ms",
    "cores": "Sediment cores against Prob-Stack, at dated depths; errors in kyr",
    "synthetic": "Generated pairs of 100 steps; errors in steps",
    "unrelated": "Pairs that have nothing to do with one another: share of each verdict, %",
}
NOTES = {
    "cores": "Errors are medians over dated depths. BIGMACS was given the radiocarbon ages as well (its ages reach "
    "depths with radiocarbon alone), so its columns show what both sources give together."
}
VERDICTS = ("good", "weak", "none")


def units(
    *, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None, pairs: int | None = None
) -> list[Unit]:
    """List a unit for each row, method and seed; the cores are the same for every seed and stand there once."""
    if pairs is not None and pairs < 1:
        raise OptionError(f"--pairs must be at least 1; got {pairs}.")
    found = []
    chosen = chosen_datasets(datasets, [*ROWS, *left_out.ROWS, following.PART])
    for part in filter(ROWS.__contains__, chosen):
        for method in (OURS, *filter(available, RIVALS[part])):
            for seed in seeds[:1] if part == "cores" or method in FEW else seeds:
                for row in ROWS[part]:
                    count = PAIRS[part] if part == "cores" else pairs or (2 if quick else PAIRS[part])
                    if method in FEW:
                        count = min(count, FEW[method])
                    if method not in FEW or row["strength"] == 1.0:
                        found.append(Unit(NAME, part, method, seed, row | {"pairs": count}))
    if following.PART in chosen:
        found += following.units(NAME, seeds, quick, pairs)
    return found + left_out.units(NAME, [part for part in chosen if part in left_out.ROWS], seeds, quick, pairs)


def draw_pairs(unit: Unit, data_dir: str | None) -> list[Pair]:
    """Return the pairs of a unit, the same for all methods."""
    row, seed = unit.options, unit.seed
    count = row["pairs"]
    if unit.dataset == "vienna":
        return vienna.draw_pairs(count, row["rate"], row["feature"], seed, data_dir)
    if unit.dataset == "cores":
        return [cores.load_core(row["core"], data_dir)]
    if unit.dataset == "synthetic":
        return synthetic.pairs(row["regime"], row["strength"], count, seed)
    return [synthetic.unrelated_pair(row["kind"], [seed, i], data_dir) for i in range(count)]


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Score each pair (of each dated depth for cores), by the parameter that is chosen in the report."""
    if unit.dataset in left_out.ROWS:
        return left_out.work(unit, data_dir)
    if unit.dataset == following.PART:
        return following.work(unit, data_dir)
    found: dict[str, list[dict[str, Any]]] = {}
    begin = time.perf_counter()
    for pair in draw_pairs(unit, data_dir):
        for parameter, estimate in METHODS[unit.method](pair).items():
            about = {"verdict": estimate.verdict, "stated": estimate.stated}
            checks = score(pair, estimate)
            if unit.dataset != "cores":
                checks = [pooled(checks)] if checks else [{}]
            found.setdefault(parameter, []).extend(one | about for one in checks)
    return {"scores": found, "seconds": time.perf_counter() - begin}


Scores = list[dict[str, Any]]
ByParameter = dict[str, Scores]
Table = dict[str, dict[str, Scores]]
"""Method to row to scores."""


def at_best(scores: ByParameter, others: ByParameter | None = None) -> Scores:
    """Return the scores at the parameter with the least mean error on ``others``.

    By default the parameter for either half of the pairs is chosen on the other half.
    """
    if set(scores) == {ONLY}:
        return scores[ONLY]
    if others is not None:
        return scores[_best_parameter(others)]
    halves = [{name: of[half::2] for name, of in scores.items()} for half in (0, 1)]
    chosen = []
    for own, other in (halves, halves[::-1]):
        # With a single pair there is no other half.
        chosen += own[_best_parameter(other if any(other.values()) else own)]
    return chosen


def _best_parameter(scores: ByParameter) -> str:
    errors = {name: _values(of, "error") for name, of in scores.items()}
    means = {name: of[np.isfinite(of)].mean() if np.isfinite(of).any() else np.inf for name, of in errors.items()}
    return min(means, key=means.__getitem__)


def _values(scores: Scores, name: str) -> NDArray:
    return np.array([np.nan if one.get(name) is None else one[name] for one in scores], float)


def coverage(scores: Scores, level: float = LEVEL) -> NDArray:
    """Return the coverage of each pair in %."""
    return np.array([100 * one["coverage"][str(level)] for one in scores if str(level) in one.get("coverage", {})])


def with_spread(values: NDArray, digits: int, statistic: Any = np.mean) -> str | None:
    """``value ± standard deviation`` of the statistic over bootstrap samples of the pairs; None without values."""
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    text = f"{statistic(values):.{digits}f}"
    if len(values) < 2:
        return text
    rng = np.random.default_rng(0)
    samples = statistic(values[rng.integers(len(values), size=(500, len(values)))], axis=1)
    return f"{text} ± {samples.std():.{digits}f}"


def row_name(options: dict[str, Any]) -> str:
    """Return the name of a row in a table."""
    if "regime" in options:
        return f"{options['regime']} × {options['strength']:g}"
    if "rate" in options:
        return f"{options['feature']}, {options['rate']} per s"
    return options["core"] if "core" in options else options["kind"]


def table_of(part: str, results: Results) -> Table:
    """Return the scores of a part over all seeds, in the order of `ROWS`, at the best parameter of each row."""
    by: dict[str, dict[str, ByParameter]] = {}
    own = [(unit, result) for unit, result in results if unit.dataset == part]
    most: dict[tuple[str, int], int] = {}
    for unit, _ in own:
        most[unit.method, unit.seed] = max(unit.options["pairs"], most.get((unit.method, unit.seed), 0))
    for unit, result in own:
        # Runs with fewer pairs drew some of the same ones.
        if unit.options["pairs"] == most[unit.method, unit.seed]:
            row = row_name(unit.options)
            there = by.setdefault(unit.method, {}).setdefault(row, {})
            for parameter, scores in result["scores"].items():
                there.setdefault(parameter, []).extend(scores)
    order = [row_name(row) for row in ROWS[part]]
    table: Table = {}
    for method in filter(by.__contains__, METHODS):
        rows = {row: by[method][row] for row in order if row in by[method]}
        table[method] = {
            row: at_best(scores, joined(rows, row) if part == "cores" and len(rows) > 1 else None)
            for row, scores in rows.items()
        }
    return table


def joined(rows: dict[str, ByParameter], without: str) -> ByParameter:
    """Return the scores of all rows but one, by parameter."""
    parameters = next(iter(rows.values()))
    return {name: [one for row, of in rows.items() if row != without for one in of[name]] for name in parameters}


def report(results: Results, document: Document) -> None:
    """Add a table and a reliability picture for each part."""
    left_out.report(results, document)
    following.report(results, document)
    if all(unit.dataset in (*left_out.ROWS, following.PART) for unit, _ in results):
        return
    document.text(
        "Coverage: share of true positions inside 90 % intervals, widened by half a step since true positions lie "
        "between steps; where the truth has an error of its own (radiocarbon), it is added in quadrature. Values are "
        "means over pairs ± their standard deviation over bootstrap samples of the pairs. DTW and soft-DTW get "
        "standardized series (chroma as it is); soft-DTW has the best of six γ for each row, chosen for either half of "
        "the pairs on the other half, for a core on the other cores. Widths count both ends. "
        + "".join(f"{name} is not installed here and has no column. " for name in PEERS if not available(name))
    )
    for part in ROWS:
        table = table_of(part, results)
        if part == "unrelated" and table:
            _report_verdicts(table[OURS], document)
        elif table:
            _report_part(part, table, document)


def _report_part(part: str, table: Table, document: Document) -> None:
    middle = np.median if part == "cores" else np.mean
    rows = list(dict.fromkeys(row for of in table.values() for row in of))
    everything = {
        method: {**of, "all": [one for scores in of.values() for one in scores]} for method, of in table.items()
    }
    columns, cells = ["", "pairs" if part != "cores" else "dated depths"], []
    for method in table:
        has_bands = len(coverage(everything[method]["all"]))
        columns += [f"{method}: coverage"] * bool(has_bands)
        columns += ["lowest tenth", "stated", "width", '"none", %'] if method == OURS else []
        columns.append(f"{'error' if method == OURS else f'{method}: error'}")
    for row in (*rows, "all"):
        line: list[Any] = [row, max(len(of.get(row, ())) for of in everything.values())]
        for method, of in everything.items():
            scores = of.get(row, [])
            if len(coverage(of["all"])):
                line.append(with_spread(coverage(scores), 1))
            if method == OURS:
                line += _own_cells(scores, part)
            line.append(with_spread(_values(scores, "error"), 2 if part != "vienna" else 0, middle))
        cells.append(line)
    document.table(TITLES[part], columns, cells, NOTES.get(part))
    levels, curves = _curves(everything, rows)
    if curves:
        import matplotlib.pyplot as plt

        figure = plot_calibration(levels, curves)
        document.figure(figure, f"{TITLES[part].split(';')[0]}: stated and observed coverage, all rows together")
        plt.close(figure)


def _own_cells(scores: Scores, part: str) -> list[str | None]:
    """Return the lowest tenth of the pairs, the stated coverage, the width, and the share of the verdict none."""
    if not scores:
        return [None] * 4
    stated, width = _values(scores, "stated"), _values(scores, "width")
    none = np.mean([one.get("verdict") == "none" for one in scores])
    return [
        f"{np.quantile(coverage(scores), 0.1):.0f}" if part != "cores" else None,
        f"{100 * np.nanmean(stated):.1f}" if np.isfinite(stated).any() else None,
        f"{np.nanmean(width):.3g}" if np.isfinite(width).any() else None,
        f"{100 * none:.1f}",
    ]


def _curves(table: Table, rows: Sequence[str]) -> tuple[list[float], dict[str, list[float]]]:
    """Return the levels of all methods with intervals, and the observed coverage at these.

    One curve for each method over all rows, and one for the worst row of ours.
    """
    scores = {method: of["all"] for method, of in table.items() if len(coverage(of["all"]))}
    ours = table.get(OURS, {})
    means = {row: coverage(ours[row]).mean() for row in rows if row in ours}
    if len(means) > 1:
        worst = min(means, key=means.__getitem__)
        scores[f"{OURS}, lowest row: {worst}"] = ours[worst]
    levels = [level for level in LEVELS if all(len(coverage(of, level)) for of in scores.values())]
    curves = {name: [float(coverage(of, level).mean()) / 100 for level in levels] for name, of in scores.items()}
    return levels, curves


def _report_verdicts(of: dict[str, Scores], document: Document) -> None:
    everything = {**of, "all": [one for scores in of.values() for one in scores]}
    document.table(
        TITLES["unrelated"],
        ["", "pairs", *VERDICTS],
        [
            [row, len(scores), *(f"{100 * np.mean([one['verdict'] == v for one in scores]):.1f}" for v in VERDICTS)]
            for row, scores in everything.items()
        ],
    )


EXPERIMENT = Experiment(
    NAME, "Alignments whose truth is known: errors and coverage", units, work, report, SEEDS, draws_pairs=True
)
