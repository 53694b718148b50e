"""UCR classification: k-NN and nearest centroid with every metric, tuned on validation, reported on test.

The train and test files of a data set are joined, at most `MAX_SERIES` series are drawn (stratified, by seed) and split
50/25/25. Missing values are interpolated, shorter series are resampled to the longest (so that the Euclidean distance
can take part), and all are z-normalized. A unit is one data set, method, seed and setting with its accuracy on
validation and test; the report chooses settings by validation.
"""

from collections import defaultdict
from typing import Any

import numpy as np
from scipy.stats import rankdata, wilcoxon

from experiments import published
from experiments.estimator_options import estimator_options
from experiments.experiment import Experiment, Results
from experiments.units import Unit
from udtw._engine.metrics import METRICS
from udtw.data import available_ucr, load_ucr, split_by_seed, znormalize
from udtw.demo.document import Document
from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier
from udtw.timeseries.base import resample

NAME = "ucr"
MAX_SERIES, MAX_LENGTH, MAX_CLASSES = 240, 300, 20
NEIGHBORS = (1, 3, 5)
FRECHET_ITER, ADAM_ITER, SIGMA_ITER = 30, 120, 400
GAMMAS = (0.1, 0.01, 1.0)
COLUMNS = {
    "K = 1": ("knn", "1"),
    "K = 3": ("knn", "3"),
    "K = 5": ("knn", "5"),
    "centroid, Fréchet": ("frechet", "centroid"),
    "centroid, discriminative": ("discriminative", "centroid"),
}
"""Column of the report to the kind of classifier and the key of its accuracies."""

Parts = list[tuple[np.ndarray, np.ndarray]]
Grids = dict[str, dict[str, list[dict[str, Any]]]]
"""Kind of classifier to metric to settings."""
Scores = dict[tuple[str, str], dict[str, float]]
"""(metric, column) to data set to test accuracy in %, the mean over seeds."""

ROWS: dict[str, tuple[str, str]] = {
    **{name: (name, METRICS[name].label) for name in published.UCR},
    "udtw-paper": ("udtw", "uDTW, paper's weighting"),
}
"""Row of the tables to its metric and its label."""

_COMMON: dict[str, list[dict[str, Any]]] = {
    metric: [{"gamma": gamma} for gamma in GAMMAS] if "gamma" in METRICS[metric].params else [{}]
    for metric in published.UCR
    if metric not in ("dtw", "udtw")
}


def _udtw(
    *settings: tuple[float, str | None], weighting: str = "likelihood", beta: float = 0.1
) -> list[dict[str, Any]]:
    """Return the settings of uDTW from γ and the kind of σ."""
    return [{"gamma": gamma, "beta": beta, "sigma": sigma, "weighting": weighting} for gamma, sigma in settings]


# All metrics with γ have the same number of settings.
GRIDS: Grids = {
    "knn": _COMMON
    | {
        "dtw": [{"band": band} for band in (None, 0.05, 0.1, 0.2)],
        "udtw": _udtw((0.1, "local"), (1.0, "local"), (0.1, "context"), beta=0.25),
        "udtw-paper": _udtw((0.1, None), (0.1, "series"), (1.0, None), weighting="precision"),
    },
    "frechet": _COMMON
    | {
        "dtw": [{"band": band} for band in (None, 0.1)],
        "udtw": _udtw((0.1, None), (0.1, "free"), (0.01, "free")),
        "udtw-paper": _udtw((0.1, None), (0.1, "free"), (0.01, "free"), weighting="precision"),
    },
    "discriminative": _COMMON
    | {
        "dtw": [{"band": band} for band in (None, 0.1)],
        "udtw": _udtw((1.0, "free"), (0.1, "local"), (0.1, "context")),
        "udtw-paper": _udtw((1.0, "free"), (0.1, "free"), (0.1, "context"), weighting="precision"),
    },
}
"""The settings among which validation chooses."""


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """List all units, ordered by seed, so that an interrupted run has complete tables of fewer seeds."""
    names = datasets or [name for name in available_ucr(data_dir) if _small(name, data_dir)]
    found = []
    for seed in seeds:
        for name in names:
            for kind, grids in GRIDS.items():
                for metric, grid in grids.items():
                    settings = grid[:1] if quick else grid
                    found += [Unit(NAME, name, f"{kind} {metric}", seed, setting) for setting in settings]
    return found


def _small(name: str, data_dir: str | None) -> bool:
    """Return whether the series are short and the classes few, so that the whole table takes hours on two cores."""
    whole = load_ucr(name, data_dir).all
    return int(whole.lengths.max()) <= MAX_LENGTH and len(np.unique(whole.y)) <= MAX_CLASSES


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Measure the accuracy of one setting: ``{"validation": {...}, "test": {...}}`` by K, or "centroid"."""
    kind, row = unit.method.split(" ")
    metric = ROWS[row][0]
    parts = load_parts(unit.dataset, unit.seed, data_dir)
    if kind == "knn":
        return _knn(metric, unit.options, unit.seed, parts)
    return _centroid(metric, kind, unit.options, unit.seed, parts)


def load_parts(name: str, seed: int, data_dir: str | None, max_series: int | None = None) -> Parts:
    """Return training, validation and test part, each (X (n, T) float32, y); `MAX_SERIES` in all unless given."""
    max_series = max_series or MAX_SERIES
    whole = load_ucr(name, data_dir).all
    y = np.asarray(whole.y)
    rng = np.random.default_rng(seed)
    if len(y) > max_series:
        shares = (max_series / len(y), 1 - max_series / len(y))
        chosen = split_by_seed(y, int(rng.integers(2**31)), shares)[0]
    else:
        chosen = np.arange(len(y))
    longest = int(whole.lengths.max())
    rows = [resample(_filled(np.asarray(whole.X[i], dtype=float))[:, None], longest)[:, 0] for i in chosen]
    X = znormalize(np.stack(rows)).astype(np.float32)
    return [(X[part], y[chosen][part]) for part in split_by_seed(y[chosen], seed)]


def _filled(series: np.ndarray) -> np.ndarray:
    """Interpolate missing values of a series linearly; zeros if it has no value at all."""
    known = np.flatnonzero(~np.isnan(series))
    if known.size == 0:
        return np.zeros_like(series)
    return np.interp(np.arange(len(series)), known, series[known])


def _knn(metric: str, setting: dict[str, Any], seed: int, parts: Parts) -> dict[str, Any]:
    (X, y), *others = parts
    most = min(max(NEIGHBORS), len(y))
    settings = {"sigma_iter": SIGMA_ITER, "random_state": seed} | setting
    options = estimator_options(KNeighborsTimeSeriesClassifier, settings)
    model = KNeighborsTimeSeriesClassifier(most, metric=metric, **options).fit(X, y)
    result: dict[str, Any] = {}
    for name, (new, truth) in zip(("validation", "test"), others, strict=True):
        found = model.search(new)
        result[name] = {
            str(k): float((model.classes_[model.votes(found.first(min(k, most))).argmax(1)] == truth).mean())
            for k in NEIGHBORS
        }
        result["saved"] = found.saved
    return result


def _centroid(metric: str, objective: str, setting: dict[str, Any], seed: int, parts: Parts) -> dict[str, Any]:
    (X, y), *others = parts
    by_means = objective == "frechet" and setting.get("sigma") is None
    steps = FRECHET_ITER if by_means else ADAM_ITER
    model = NearestCentroidTimeSeriesClassifier(
        metric, objective=objective, max_iter=steps, random_state=seed,
        **estimator_options(NearestCentroidTimeSeriesClassifier, setting),
    ).fit(X, y)  # fmt: skip
    return {
        name: {"centroid": float(model.score(new, truth))}
        for name, (new, truth) in zip(("validation", "test"), others, strict=True)
    }


def chosen_scores(results: Results, grids: Grids = GRIDS) -> tuple[Scores, dict[str, dict[str, int]]]:
    """Return the test accuracy of the setting with the best validation accuracy, and the choices of uDTW settings.

    Ties on the validation part of a data set are broken by the mean validation accuracy over all data sets, then by
    the order of the grid. Results of settings that are not in the grid (any more) are ignored.
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


def _mean_validation(results: Results) -> dict[tuple[str, Any], dict[str, float]]:
    """Map (method, setting) to mean validation accuracy by K, or "centroid"."""
    found: dict[tuple[str, Any], list[dict[str, float]]] = defaultdict(list)
    for unit, result in results:
        found[unit.method, unit.params].append(result["validation"])
    return {which: {key: float(np.mean([r[key] for r in runs])) for key in runs[0]} for which, runs in found.items()}


def complete_seeds(results: Results, grids: Grids = GRIDS) -> tuple[Results, dict[str, list[int]]]:
    """Return the results of seeds that are complete for a kind of classifier, and these seeds by kind.

    A seed is complete if it has every unit that any seed has. An interrupted run would otherwise compare means over
    different seeds. If no seed is complete, all are kept.
    """
    done: dict[str, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for unit, _ in results:
        kind, metric = unit.method.split(" ")
        if unit.options in grids[kind][metric]:
            done[kind][unit.seed].add((unit.dataset, unit.method, unit.params))
    seeds = {}
    for kind, found in done.items():
        all_units = set.union(*found.values())
        seeds[kind] = sorted(seed for seed in found if found[seed] == all_units) or sorted(found)
    kept = [(unit, result) for unit, result in results if unit.seed in seeds.get(unit.method.split(" ")[0], ())]
    return kept, seeds


def complete_sets(scores: Scores) -> list[str]:
    """Return the data sets with results of every method; only these can be compared."""
    found = [set(sets) for sets in scores.values()]
    return sorted(set.intersection(*found)) if found else []


def report(results: Results, document: Document) -> None:
    """Report our accuracies beside the paper's, ranks, Wilcoxon tests, and all data sets."""
    document.text(
        f"Accuracy in %. At most {MAX_SERIES} series per data set, drawn and split 50/25/25 by seed; settings chosen "
        f"on validation ({len(GAMMAS)} for sDTW, its divergence and uDTW), reported on test."
    )
    results, seeds = complete_seeds(results)
    scores, used = chosen_scores(results)
    names = complete_sets(scores)
    if not names:
        document.text("No data set has results of all methods yet.")
        return
    columns = [column for column in COLUMNS if any(which[1] == column for which in scores)]
    metrics = [row for row in ROWS if any(which[0] == row for which in scores)]
    table = {(m, c): np.array([scores[m, c][name] for name in names]) for m in metrics for c in columns}
    document.table(
        f"Mean ± standard deviation over {len(names)} data sets",
        ["", *columns],
        [
            *([ROWS[m][1], *(f"{table[m, c].mean():.1f} ± {table[m, c].std():.1f}" for c in columns)] for m in metrics),
            ["seeds", *(", ".join(map(str, seeds[COLUMNS[c][0]])) for c in columns)],
        ],
        note="The standard deviation is over data sets, of the mean over seeds.",
    )
    document.table(
        "The paper's own numbers (its selection of data sets)",
        ["", "K = 1", "K = 3", "K = 5", "centroid"],
        [[METRICS[m].label, *values] for m, values in published.UCR.items()],
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
            f"All data sets: {column}",
            ["", *(ROWS[m][1] for m in metrics)],
            [[name, *(f"{scores[m, column][name]:.1f}" for m in metrics)] for name in names],
        )


def _ranks(
    document: Document, table: dict[tuple[str, str], np.ndarray], metrics: list[str], columns: list[str]
) -> None:
    ranks = {c: rankdata([-table[m, c] for m in metrics], axis=0).mean(1) for c in columns}
    document.table(
        "Average rank (1 is best)",
        ["", *columns],
        [[ROWS[m][1], *(f"{ranks[c][i]:.2f}" for c in columns)] for i, m in enumerate(metrics)],
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
        rows.append([ROWS[m][1], *cells])
    document.table(
        "uDTW minus each other metric: mean, and p of the two-sided Wilcoxon signed-rank test over data sets",
        ["against", *columns],
        rows,
    )


EXPERIMENT = Experiment(NAME, "UCR classification", units, work, report)
