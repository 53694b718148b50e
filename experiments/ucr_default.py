"""UCR classification on the archive's own split, beside published accuracies of the same split.

Series are taken as the archive has them, in full number and length. Parameters are chosen by leave-one-out on the
training part, as the published ones were; uDTW learns its own. DTW without a window has no parameter: it must equal the
published DTW, which shows that the protocol is the same.
"""

import csv
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import wilcoxon

from experiments.estimator_options import estimator_options
from experiments.experiment import Experiment, Results
from experiments.units import Unit
from udtw._engine.metrics import get_metric
from udtw._engine.pairwise import distances
from udtw._engine.series_set import load_series
from udtw.data import available_ucr, load_ucr
from udtw.demo.document import Document
from udtw.errors import DataError
from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

NAME = "ucr-default"
MAX_CELLS = 1_000_000
"""Longest series squared; longer ones are left out, since training on them takes hours."""
MOST_JUDGED = 300
"""Training series that leave-one-out is taken over."""
OURS = "uDTW 1-NN"
Accuracies = dict[str, dict[str, float]]
"""Method to data set to accuracy in %."""
METHODS: dict[str, list[dict[str, Any]]] = {
    "DTW": [{"metric": "dtw"}],
    OURS: [{"metric": "udtw"}],
    "ADTW": [{"metric": "dtw", "warp_penalty": penalty} for penalty in (0.005, 0.02, 0.1, 0.5, 2.0)],
    "sDTW": [{"metric": "soft_dtw", "gamma": gamma} for gamma in (0.01, 0.1, 1.0)],
    "sDTW div.": [{"metric": "soft_dtw_divergence", "gamma": gamma} for gamma in (0.01, 0.1, 1.0)],
    "uDTW prototypes": [{}],
}
"""Method to the settings among which leave-one-out chooses."""
PUBLISHED_DTW, PUBLISHED_FILE = "1NN-DTW", "ucr-default-split.csv"


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """List a unit for each data set and method, the cheaper data sets first."""
    sizes = {name: _size(name, data_dir) for name in datasets or available_ucr(data_dir)}
    names = [name for name, (cells, _) in sizes.items() if datasets or cells <= MAX_CELLS]
    names.sort(key=lambda name: sizes[name][1])
    return [
        Unit(NAME, name, method, seed)
        for seed in seeds
        for name in (names[:2] if quick else names)
        for method in METHODS
    ]


def _size(name: str, data_dir: str | None) -> tuple[int, int]:
    """Return the cells of a pair, and of all pairs of a test and a training series."""
    data = load_ucr(name, data_dir)
    cells = int(data.all.lengths.max()) ** 2
    return cells, cells * len(data.train) * len(data.test)


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Measure the test accuracy with the setting chosen by leave-one-out on the training part."""
    data = load_ucr(unit.dataset, data_dir)
    found: dict[str, Any] = {"published": published_accuracies(unit.dataset, data_dir)}
    X, new = (_filled(part.X) for part in (data.train, data.test))
    y, truth = np.asarray(data.train.y), np.asarray(data.test.y)
    if unit.method == "uDTW prototypes":
        prototypes = NearestCentroidTimeSeriesClassifier(metric_params={"beta": 0.25}, random_state=unit.seed)
        prototypes.fit(X, y)
        return found | {"test": float(prototypes.score(new, truth)), "setting": {}}
    grid = METHODS[unit.method]
    setting = grid[0] if len(grid) == 1 else min(grid, key=lambda one: _left_out(X, y, one, unit.seed))
    options = estimator_options(KNeighborsTimeSeriesClassifier, setting)
    model = KNeighborsTimeSeriesClassifier(random_state=unit.seed, **options).fit(X, y)
    return found | {"test": float(model.score(new, truth)), "setting": setting}


def _filled(series: Any) -> list[np.ndarray]:
    """Interpolate missing values of series (T, 1); missing ends stand for a shorter series and are left out."""
    found = []
    for one in series:
        row = np.asarray(one, dtype=float)
        known = np.flatnonzero(~np.isnan(row))
        if not known.size:
            row, known = np.zeros(1), np.zeros(1, int)
        found.append(np.interp(np.arange(known[-1] + 1), known, row[known])[:, None])
    return found


def _left_out(X: list[np.ndarray], y: np.ndarray, setting: dict[str, Any], seed: int) -> float:
    """Return the leave-one-out error of 1-NN on (some of) the training series."""
    some = np.sort(np.random.default_rng(seed).permutation(len(X))[:MOST_JUDGED])
    metric = get_metric(setting["metric"], **{name: value for name, value in setting.items() if name != "metric"})
    table = distances(load_series("X", [X[i] for i in some]), None, metric)
    np.fill_diagonal(table, np.inf)
    return float((y[some][table.argmin(1)] != y[some]).mean())


def published_accuracies(dataset: str, data_dir: str | None) -> dict[str, float]:
    """Read accuracies in % by method from a CSV file (dataset, method, accuracy) in or beside the data folder."""
    root = Path(data_dir or os.environ.get("UDTW_DATA", "."))
    places = (root / PUBLISHED_FILE, root / "published" / PUBLISHED_FILE, root.parent / "published" / PUBLISHED_FILE)
    path = next((place for place in places if place.is_file()), None)
    found: dict[str, float] = {}
    if path is None:
        return found
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            try:
                if row["dataset"] == dataset:
                    found[row["method"]] = 100 * float(row["accuracy"])
            except (KeyError, TypeError, ValueError) as error:
                raise DataError(f"{path}, line {number}: expected dataset, method, accuracy; got {row}.") from error
    return found


def report(results: Results, document: Document) -> None:
    """Report our accuracies beside published ones, on the data sets that have all of them."""
    ours: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for unit, result in results:
        ours[unit.method][unit.dataset].append(100 * result["test"])
    rows = {method: {name: float(np.mean(v)) for name, v in sets.items()} for method, sets in ours.items()}
    methods = [method for method in METHODS if method in rows]
    document.text(
        "Accuracy in % on the archive's own split into training and test part. Parameters were chosen by leave-one-out "
        "on the training part."
    )
    published: Accuracies = defaultdict(dict)
    for unit, result in results:
        for method, accuracy in result["published"].items():
            published[method][unit.dataset] = accuracy
    if published:
        _beside_published(document, rows, published)
    else:
        document.text(f"No published accuracies: the data folder has no file {PUBLISHED_FILE}.")
    names = sorted(set().union(*(rows[method] for method in methods)))
    columns = [*(rows[method] for method in methods), published[PUBLISHED_DTW]]
    document.table(
        "All data sets",
        ["", *methods, f"published {PUBLISHED_DTW}"],
        [[name, *(_cell(row.get(name)) for row in columns)] for name in names],
    )


def _beside_published(
    document: Document, rows: dict[str, dict[str, float]], published: dict[str, dict[str, float]]
) -> None:
    elastic = {name: sets for name, sets in published.items() if name.startswith("1NN")}
    others = {name: sets for name, sets in published.items() if name not in elastic}
    both = set.intersection(*(set(sets) for sets in (*elastic.values(), *rows.values())))
    names = sorted(both)
    if not names:
        document.text("No data set has results of all our methods and published ones of all 1-NN yet.")
        return
    table = [
        *(("here", name, sets) for name, sets in rows.items()),
        *(("published", name, sets) for name, sets in elastic.items()),
        *(("published", name, sets) for name, sets in others.items() if both <= set(sets)),
    ]
    mine = np.array([rows[OURS][name] for name in names])
    lines = []
    for source, name, sets in table:
        values = np.array([sets[one] for one in names])
        difference = mine - values
        p = wilcoxon(difference).pvalue if np.any(difference) else 1.0
        lines.append((values.mean(), [source, name, f"{values.mean():.2f}", f"{difference.mean():+.2f} (p {p:.3f})"]))
    lines.sort(key=lambda line: -line[0])
    document.table(
        f"Mean over the {len(names)} data sets that have all 1-NN rows",
        ["", "method", "accuracy", f"{OURS} minus this"],
        [line for _, line in lines],
    )
    equal = {name: rows["DTW"][name] - published[PUBLISHED_DTW][name] for name in names}
    document.text(
        f"Our DTW minus the published {PUBLISHED_DTW}: {np.mean(list(equal.values())):+.3f} points on average, at most "
        f"{max(map(abs, equal.values())):.3f}."
    )


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


EXPERIMENT = Experiment(NAME, "UCR classification on the archive's own split", units, work, report, seeds=(0,))
