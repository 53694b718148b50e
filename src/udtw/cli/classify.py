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
    metric: options.Metric = "udtw",
    gamma: options.Gamma = None,
    beta: options.Beta = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Neighbours (knn).")] = 1,
    objective: Annotated[
        Objective, typer.Option(help="What prototypes are: fitted to separate the classes, or class means (centroid).")
    ] = Objective.discriminative,
    max_iter: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps (knn: of σ only).", show_default="that of the classifier"),
    ] = None,
    band: options.Band = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not scale each series to mean 0, std 1 first.")] = False,
    data_dir: options.DataDir = None,
    jobs: Annotated[int, typer.Option(help="Threads of the neighbour search; -1: all cores.")] = 1,
    seed: options.Seed = 0,
    dask: Dask = None,
    json: options.Json = False,
) -> None:
    """Train a classifier on the training split and print its accuracy on the test split.

    With udtw the uncertainty is learned in training.

    Examples:

    - `udtw classify cbf`

    - `udtw classify GunPoint --data-dir ~/ucr --model centroid`

    - `udtw classify ECG200 --metric dtw --k 3 --json | jq .accuracy`
    """
    import numpy as np

    from udtw.cli.files import load_dataset
    from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

    data = load_dataset(name, data_dir, seed=seed, normalize=not raw)
    common: dict[str, Any] = {"metric": metric, "band": options.parse_band(band), "random_state": seed}
    common |= options.given(gamma=gamma, beta=beta)
    estimator: Any
    extra: dict[str, Any]
    if model == Model.knn:
        steps = options.given(sigma_iter=max_iter)
        estimator, extra = KNeighborsTimeSeriesClassifier(k, n_jobs=jobs, **common, **steps), {"k": k}
    else:
        steps, extra = options.given(max_iter=max_iter), {"objective": str(objective)}
        estimator = NearestCentroidTimeSeriesClassifier(**common, **steps, **extra)
    params = estimator.get_params()
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
        **{name: params[name] for name in ("metric", "band", "gamma", "beta")},
        **extra,
        "seed": seed,
        "accuracy": float(right.mean()),
        "errors": int((~right).sum()),
        "accuracy_by_class": {str(c): float(right[data.test.y == c].mean()) for c in np.unique(data.test.y)},
        "fit_seconds": fitted - begin,
        "predict_seconds": done - fitted,
    }
    show(f"Classification of {data.name}", result, json)
