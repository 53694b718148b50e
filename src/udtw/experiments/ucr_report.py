"""The tables of the UCR experiment."""

from collections import defaultdict
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

from udtw.experiments.document import Document
from udtw.experiments.ucr_settings import GRIDS, Grids
from udtw.experiments.units import Unit

METRICS = ("euclidean", "dtw", "soft_dtw", "soft_dtw_divergence", "udtw")
LABELS = dict(zip(METRICS, ("Euclidean", "DTW", "sDTW", "sDTW div.", "uDTW"), strict=True))
COLUMNS = {
    "K = 1": ("knn", "1"),
    "K = 3": ("knn", "3"),
    "K = 5": ("knn", "5"),
    "centroid, Fréchet": ("frechet", "centroid"),
    "centroid, discriminative": ("discriminative", "centroid"),
}
PAPER = {
    "euclidean": (71.2, 72.3, 73.0, 61.3),
    "dtw": (74.2, 75.0, 75.4, 65.9),
    "soft_dtw": (76.2, 77.2, 78.0, 70.5),
    "soft_dtw_divergence": (78.6, 79.5, 80.1, 70.9),
    "udtw": (80.0, 81.2, 83.3, 72.2),
}

Scores = dict[tuple[str, str], dict[str, float]]
"""(metric, column) -> data set -> test accuracy in %, the mean over seeds."""


def chosen_scores(
    results: list[tuple[Unit, dict[str, Any]]], grids: Grids = GRIDS
) -> tuple[Scores, dict[str, dict[str, int]]]:
    """Test accuracy of the setting with the best validation accuracy, and how often each setting of uDTW was chosen.

    Of settings that are equally good on the validation part of a data set, the one with the best mean validation
    accuracy over all data sets wins, then the first of the grid. Results of settings that the grid does not have (any
    more) take no part.
    """
    grouped: dict[tuple[str, str, str, int], dict[int, tuple[Unit, dict[str, Any]]]] = defaultdict(dict)
    for unit, result in results:
        kind, metric = unit.method.split(" ")
        grid = grids[kind][metric]
        if unit.options in grid:
            grouped[kind, metric, unit.dataset, unit.seed][grid.index(unit.options)] = unit, result
    overall = _mean_validation(results)
    by_seed: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    used: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for (kind, metric, dataset, _), found in grouped.items():
        runs = [found[place] for place in sorted(found)]
        for column, (wanted, key) in COLUMNS.items():
            if wanted == kind:
                unit, best = max(
                    runs, key=lambda run: (run[1]["validation"][key], overall[run[0].method, run[0].params][key])
                )
                by_seed[metric, column][dataset].append(100 * best["test"][key])
                if metric == "udtw":
                    used[column][", ".join(f"{k} {v}" for k, v in unit.options.items())] += 1
    scores = {which: {name: float(np.mean(v)) for name, v in sets.items()} for which, sets in by_seed.items()}
    return scores, used


def _mean_validation(results: list[tuple[Unit, dict[str, Any]]]) -> dict[tuple[str, Any], dict[str, float]]:
    """(method, setting) -> mean validation accuracy by K, or "centroid"."""
    found: dict[tuple[str, Any], list[dict[str, float]]] = defaultdict(list)
    for unit, result in results:
        found[unit.method, unit.params].append(result["validation"])
    return {which: {key: float(np.mean([r[key] for r in runs])) for key in runs[0]} for which, runs in found.items()}


def whole_seeds(
    results: list[tuple[Unit, dict[str, Any]]], grids: Grids = GRIDS
) -> tuple[list[tuple[Unit, dict[str, Any]]], dict[str, list[int]]]:
    """Results of seeds that a kind of classifier has finished, as far as any seed has; and these seeds by kind.

    An interrupted run would otherwise compare means over different seeds. Where no seed has all, all are kept.
    """
    done: dict[str, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for unit, _ in results:
        kind, metric = unit.method.split(" ")
        if unit.options in grids[kind][metric]:
            done[kind][unit.seed].add((unit.dataset, unit.method, unit.params))
    seeds = {}
    for kind, found in done.items():
        every = set.union(*found.values())
        seeds[kind] = sorted(seed for seed in found if found[seed] == every) or sorted(found)
    kept = [(unit, result) for unit, result in results if unit.seed in seeds.get(unit.method.split(" ")[0], ())]
    return kept, seeds


def complete_sets(scores: Scores) -> list[str]:
    """Data sets that every method has results for; only they can be compared."""
    found = [set(sets) for sets in scores.values()]
    return sorted(set.intersection(*found)) if found else []


def report_tables(results: list[tuple[Unit, dict[str, Any]]], document: Document) -> None:
    results, seeds = whole_seeds(results)
    scores, used = chosen_scores(results)
    names = complete_sets(scores)
    if not names:
        document.text("No data set has results of every method yet.")
        return
    columns = [column for column in COLUMNS if any(which[1] == column for which in scores)]
    metrics = [metric for metric in METRICS if any(which[0] == metric for which in scores)]
    table = {(m, c): np.array([scores[m, c][name] for name in names]) for m in metrics for c in columns}
    document.table(
        f"Mean ± standard deviation over {len(names)} data sets",
        ["", *columns],
        [
            *([LABELS[m], *(f"{table[m, c].mean():.1f} ± {table[m, c].std():.1f}" for c in columns)] for m in metrics),
            ["seeds", *(", ".join(map(str, seeds[COLUMNS[c][0]])) for c in columns)],
        ],
        note="The spread is that between data sets, of the mean over seeds.",
    )
    document.table(
        "The paper's own numbers (its selection of data sets)",
        ["", "K = 1", "K = 3", "K = 5", "centroid"],
        [[LABELS[m], *values] for m, values in PAPER.items()],
    )
    _ranks(document, table, metrics, columns)
    if "udtw" in metrics:
        _against_udtw(document, table, metrics, columns)
        document.table(
            "How often validation chose each setting of uDTW",
            ["", "setting", "times"],
            [[c, setting, times] for c in columns for setting, times in sorted(used[c].items(), key=lambda x: -x[1])],
        )
    for column in columns:
        document.table(
            f"Every data set: {column}",
            ["", *(LABELS[m] for m in metrics)],
            [[name, *(f"{scores[m, column][name]:.1f}" for m in metrics)] for name in names],
        )


def _ranks(
    document: Document, table: dict[tuple[str, str], np.ndarray], metrics: list[str], columns: list[str]
) -> None:
    ranks = {c: rankdata([-table[m, c] for m in metrics], axis=0).mean(1) for c in columns}
    document.table(
        "Average rank (1 is best)",
        ["", *columns],
        [[LABELS[m], *(f"{ranks[c][i]:.2f}" for c in columns)] for i, m in enumerate(metrics)],
    )


def _against_udtw(
    document: Document, table: dict[tuple[str, str], np.ndarray], metrics: list[str], columns: list[str]
) -> None:
    rows = []
    for m in metrics:
        if m == "udtw":
            continue
        cells = []
        for c in columns:
            difference = table["udtw", c] - table[m, c]
            p = wilcoxon(difference).pvalue if np.any(difference) else 1.0
            cells.append(f"{difference.mean():+.1f} (p {p:.3f})")
        rows.append([LABELS[m], *cells])
    document.table(
        "uDTW minus each other metric: mean, and p of the two-sided Wilcoxon signed-rank test over data sets",
        ["against", *columns],
        rows,
    )
