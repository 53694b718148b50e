"""``udtw classify``: train on the training split of a data set, and test."""

import time
from enum import StrEnum
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.cluster import Dask, cluster
from udtw.cli.output import messages, show


class Model(StrEnum):
    knn = "knn"
    centroid = "centroid"


class Objective(StrEnum):
    discriminative = "discriminative"
    frechet = "frechet"


def classify(
    name: Annotated[str, typer.Argument(help="A UCR data set, or `cbf` or `synthetic-control` (generated).")],
    model: Annotated[Model, typer.Option(help="k nearest neighbours, or the nearest class prototype.")] = Model.knn,
    metric: options.Metric = options.MetricName.udtw,
    gamma: options.Gamma = 0.1,
    beta: options.Beta = 0.1,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Neighbours (knn).")] = 1,
    objective: Annotated[
        Objective, typer.Option(help="What prototypes are fitted for: to tell classes apart, or the mean (centroid).")
    ] = Objective.discriminative,
    max_iter: Annotated[
        int | None, typer.Option(min=1, help="Steps of training; by default 150 (knn: σ only) or 300 (centroid).")
    ] = None,
    band: options.Band = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not bring each series to mean 0, std 1 first.")] = False,
    data_dir: options.DataDir = None,
    jobs: Annotated[int, typer.Option(help="Threads of the neighbour search; -1: all cores.")] = 1,
    seed: options.Seed = 0,
    dask: Dask = None,
    json: options.Json = False,
) -> None:
    """Classify: train on the training split, print the accuracy on the test split.

    For udtw the uncertainty is learned in training.

    Examples:

    - `udtw classify cbf`

    - `udtw classify GunPoint --data-dir ~/ucr --model centroid`

    - `udtw classify ECG200 --metric dtw --k 3 --json | jq .accuracy`
    """
    import numpy as np

    from udtw.cli import datasets

    data = datasets.load(name, data_dir, seed=seed, normalize=not raw)
    used: dict[str, Any] = {"metric": str(metric), "band": options.parse_band(band), "gamma": gamma, "beta": beta}
    estimator, extra = _estimator(model, used, k, objective, max_iter, jobs, seed)
    with cluster(dask):
        with messages().status(f"training on {len(data.train)} series …"):
            begin = time.perf_counter()
            estimator.fit(data.train.X, data.train.y)
            fitted = time.perf_counter()
        with messages().status(f"predicting {len(data.test)} series …"):
            guesses = estimator.predict(data.test.X)
            done = time.perf_counter()
    right = guesses == data.test.y
    result = {
        "dataset": data.name,
        "train": len(data.train),
        "test": len(data.test),
        "classes": len(np.unique(data.train.y)),
        "znormalized": not raw,
        "model": str(model),
        **used,
        **extra,
        "seed": seed,
        "accuracy": float(right.mean()),
        "errors": int((~right).sum()),
        "accuracy_by_class": {str(c): float(right[data.test.y == c].mean()) for c in np.unique(data.test.y)},
        "fit_seconds": fitted - begin,
        "predict_seconds": done - fitted,
    }
    show(f"Classification of {data.name}", result, json)


def _estimator(
    model: Model, used: dict[str, Any], k: int, objective: Objective, max_iter: int | None, jobs: int, seed: int
) -> tuple[Any, dict[str, Any]]:
    """The classifier, and what else of it is worth telling."""
    from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

    if model == Model.knn:
        steps = {} if max_iter is None else {"sigma_iter": max_iter}
        knn = KNeighborsTimeSeriesClassifier(k, **used, n_jobs=jobs, random_state=seed, **steps)  # type: ignore[arg-type]
        return knn, {"k": k}
    steps = {} if max_iter is None else {"max_iter": max_iter}
    centroid = NearestCentroidTimeSeriesClassifier(**used, objective=str(objective), random_state=seed, **steps)  # type: ignore[arg-type]
    return centroid, {"objective": str(objective)}
