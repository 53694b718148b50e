"""UCR classification: k-NN and nearest centroid with every metric, tuned on validation, reported on test.

Every data set is joined, at most `MAX_SERIES` series are drawn (stratified, by seed), and split 50/25/25. Missing
values are interpolated, other lengths resampled to the longest (so that Euclidean can take part), series z-normalised.
A unit is one (data set, method, seed, setting); it reports validation and test, and the report chooses settings by
validation.
"""

from typing import Any

import numpy as np

from udtw.data import available_ucr, load_ucr, split_by_seed, znormalize
from udtw.experiments.document import Document
from udtw.experiments.ucr_report import report_tables
from udtw.experiments.ucr_settings import GAMMAS, GRIDS
from udtw.experiments.units import Unit
from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier
from udtw.timeseries.resample import resample

TITLE = "UCR classification"
NAME = "ucr"
MAX_SERIES, MAX_LENGTH, MAX_CLASSES = 240, 300, 20
NEIGHBORS = (1, 3, 5)
FRECHET_ITER, ADAM_ITER, SIGMA_ITER = 30, 120, 100


def units(*, datasets: list[str] | None, seeds: list[int], quick: bool, data_dir: str | None) -> list[Unit]:
    """All units; by seed first, so that an interrupted run has whole tables of fewer seeds."""
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
    """Short enough, and few enough classes, for the whole table to be computed in hours on two cores."""
    whole = load_ucr(name, data_dir).all
    return int(whole.lengths.max()) <= MAX_LENGTH and len(np.unique(whole.y)) <= MAX_CLASSES


def work(unit: Unit, data_dir: str | None) -> dict[str, Any]:
    """Accuracy of one setting: ``{"validation": {...}, "test": {...}}`` by K, or "centroid"."""
    kind, metric = unit.method.split(" ")
    parts = prepare(unit.dataset, unit.seed, data_dir)
    if kind == "knn":
        return _knn(metric, unit.options, unit.seed, parts)
    return _centroid(metric, kind, unit.options, unit.seed, parts)


Parts = list[tuple[np.ndarray, np.ndarray]]


def prepare(name: str, seed: int, data_dir: str | None) -> Parts:
    """Training, validation and test part, each (X (n, T) float32, y)."""
    whole = load_ucr(name, data_dir).all
    y = np.asarray(whole.y)
    rng = np.random.default_rng(seed)
    if len(y) > MAX_SERIES:
        shares = (MAX_SERIES / len(y), 1 - MAX_SERIES / len(y))
        chosen = split_by_seed(y, int(rng.integers(2**31)), shares)[0]
    else:
        chosen = np.arange(len(y))
    longest = int(whole.lengths.max())
    rows = [resample(_filled(np.asarray(whole.X[i], dtype=float))[:, None], longest)[:, 0] for i in chosen]
    X = znormalize(np.stack(rows)).astype(np.float32)
    return [(X[part], y[chosen][part]) for part in split_by_seed(y[chosen], seed)]


def _filled(series: np.ndarray) -> np.ndarray:
    """Missing values by linear interpolation; a series without any value is zero."""
    known = np.flatnonzero(~np.isnan(series))
    if known.size == 0:
        return np.zeros_like(series)
    return np.interp(np.arange(len(series)), known, series[known])


def _knn(metric: str, setting: dict[str, Any], seed: int, parts: Parts) -> dict[str, Any]:
    (X, y), *others = parts
    most = min(max(NEIGHBORS), len(y))
    options = {"sigma_iter": SIGMA_ITER, "random_state": seed} | setting
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
        metric, objective=objective, max_iter=steps, random_state=seed, **setting
    ).fit(X, y)
    return {
        name: {"centroid": float(model.score(new, truth))}
        for name, (new, truth) in zip(("validation", "test"), others, strict=True)
    }


def report(results: list[tuple[Unit, dict[str, Any]]], document: Document) -> None:
    """The paper's table beside ours, ranks and Wilcoxon tests, and every data set."""
    document.text(
        f"Accuracy in %. At most {MAX_SERIES} series a data set, drawn and split 50/25/25 by seed; settings chosen on "
        f"validation ({len(GAMMAS)} for sDTW, its divergence and uDTW), reported on test."
    )
    report_tables(results, document)
