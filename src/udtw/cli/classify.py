"""``udtw classify``: train on labeled series, a data set or your own files, and test."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from udtw.cli import options
from udtw.cli.command import IDS, LABELS
from udtw.cli.files import dataset_name, like_training, load_dataset, read_series_table, saved_form, scaled
from udtw.cli.output import note, show, working, write_table, writing
from udtw.cli.training import Dask, dask_cluster
from udtw.data.series_files import SeriesTable
from udtw.data.table import AS_IT_IS, ReadOptions
from udtw.data.table_files import is_file_name
from udtw.errors import DataError, OptionError


class Classifier(StrEnum):
    knn = "knn"
    centroid = "centroid"


class Objective(StrEnum):
    discriminative = "discriminative"
    frechet = "frechet"


def classify(
    name: Annotated[
        str | None, typer.Argument(help="A UCR data set, or `cbf` or `synthetic-control` (generated).")
    ] = None,
    train: Annotated[
        Path | None,
        typer.Option(help="Your own labeled series: one per row, or (with --id-column) one row per step."),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Series to classify, with or without labels.")] = None,
    out: options.Predictions = None,
    model: Annotated[Path | None, options.model_option("the classifier")] = None,
    classifier: Annotated[
        Classifier, typer.Option(help="k nearest neighbors, or the nearest class prototype.")
    ] = Classifier.knn,
    metric: options.Metric = "udtw",
    gamma: options.Gamma = None,
    beta: options.Beta = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Number of neighbors (knn).")] = 1,
    objective: Annotated[
        Objective,
        typer.Option(help="How prototypes are found (centroid): fitted to separate the classes, or as class means."),
    ] = Objective.discriminative,
    max_iter: Annotated[
        int | None,
        typer.Option(min=1, help="Training steps (knn: of σ only).", show_default="that of the classifier"),
    ] = None,
    band: options.Band = None,
    raw: Annotated[bool, typer.Option("--raw", help="Do not scale each series to mean 0, std 1 first.")] = False,
    reading: Annotated[ReadOptions, LABELS, IDS] = AS_IT_IS,
    data_dir: options.DataDir = None,
    jobs: Annotated[int, typer.Option(help="Threads of the neighbor search; -1: all cores.")] = 1,
    seed: options.Seed = 0,
    dask: Dask = None,
    json: options.Json = False,
) -> None:
    """Train a classifier on labeled series, and classify others; with udtw the uncertainty is learned in training.

    The series are those of a data set, or your own files: one series per row with a column of labels (wide), or one row
    per step with a column that names the series (long, `--id-column`). A row of `--out` has the series, its label if it
    is known, the predicted class, and the probability of each class. Probabilities are calibrated: the classifier is
    also trained on two thirds of the series and judged on the others (each third in turn, if that is quick).
    `mean_probability` beside the accuracy shows whether they hold.

    Examples:

    - `udtw classify --train train.csv --test test.csv --label-column y --out predictions.csv --model m.safetensors`

    - `udtw classify --train long.csv --id-column sensor --label-column state --model m.safetensors`

    - `udtw classify cbf`

    - `udtw classify GunPoint --data-dir ~/ucr --classifier centroid`

    - `udtw classify ECG200 --metric dtw --k 3 --json | jq .accuracy`
    """
    from udtw.timeseries import save_model
    from udtw.timeseries.class_probabilities import calibrate_classes

    _check_request(name, train, test, out, model)
    known, new = _own_tables(train, test, reading) if train is not None else load_dataset(str(name), data_dir, seed)
    known_values, new_values = (None if table is None else scaled(table, not raw) for table in (known, new))
    if train is not None and len({len(one) for table in (known, new) if table is not None for one in table.series}) > 1:
        # A table (n, T) would have to have the steps of the other one.
        known_values, new_values = _as_lists(known_values), _as_lists(new_values)
    params = {"band": options.parse_band(band), **options.given(gamma=gamma, beta=beta)}
    common: dict[str, Any] = {"metric": metric, "metric_params": params, "random_state": seed}
    estimator, extra = _estimator(classifier, common, k, jobs, objective, max_iter)
    title = train.name if train is not None else dataset_name(str(name))
    with dask_cluster(dask):
        with working(f"training on {len(known)} series …"):
            begin = time.perf_counter()
            estimator.fit(known_values, known.labels)
            fitted = time.perf_counter()
        with working("training on two thirds of the series, to calibrate probabilities on the others …"):
            calibration = calibrate_classes(estimator, known_values, np.asarray(known.labels), seed)
        if calibration is None:
            note("no class has three series, so that probabilities cannot be calibrated; they are left out")
        if model is not None:
            about = {
                "task": "classify", "znormalized": not raw, **saved_form(known, reading),
                "calibration": None if calibration is None else vars(calibration),
            }  # fmt: skip
            with writing(model, "--model"):
                save_model(model, estimator, about)
        result: dict[str, Any] = {
            "dataset": title,
            "train": len(known),
            "test": 0 if new is None else len(new),
            "classes": len(estimator.classes_),
            "znormalized": not raw,
            "classifier": str(classifier),
            "metric": metric,
            **{key: estimator.metric_.params.get(key) for key in ("band", "gamma", "beta")},
            **extra,
            "seed": seed,
        }
        if new is not None:
            with working(f"predicting {len(new)} series …"):
                begun = time.perf_counter()
                distances, winners = estimator.class_distances(new_values)
            result["predict_seconds"] = time.perf_counter() - begun
            shares = None if calibration is None else calibration.probabilities(distances, winners)
            rows, summary = predictions(new, winners, shares, estimator.classes_)
            result |= summary
            if out is not None:
                write_table(out, rows)
            if json and name is None:
                result["predictions"] = rows
    if calibration is not None:
        result["held_out"] = {
            "series": calibration.held_out, "accuracy": calibration.accuracy,
            "mean_probability": calibration.mean_probability,
        }  # fmt: skip
    result["fit_seconds"] = fitted - begin
    show(f"Classification of {title}", result, json)


def _check_request(name: str | None, train: Path | None, test: Path | None, out: Path | None, model: Any) -> None:
    """Raise for options that contradict each other."""
    if name is not None and is_file_name(name):
        raise OptionError(f"Give your own files as --train {name} --test FILE --label-column NAME.")
    if (name is None) == (train is None):
        raise OptionError("Give either the name of a data set, such as cbf, or your own files by --train and --test.")
    if name is not None and test is not None:
        raise OptionError(f"--test belongs to --train; the data set {name} has its own test series.")
    if train is not None and test is None and (out is not None or model is None):
        raise OptionError("Nothing to classify without --test: give --test FILE, or --model FILE to save the model.")
    if str(train) == str(test) == "-":
        raise OptionError("Only one of --train and --test can come from standard input.")


def _own_tables(train: Path, test: Path | None, reading: ReadOptions) -> tuple[SeriesTable, SeriesTable | None]:
    """Read the labeled series of training and, if given, those of the test; raise for files that do not fit."""
    first = read_series_table(train, reading, labels=True)
    if first.labels is None:
        raise OptionError(f"{train} has no labels: name their column with --label-column (a name, or a number from 1).")
    classes = set(first.labels.tolist())
    if len(classes) < 2:
        raise DataError(
            f"{train}: all {len(first)} series have the label {str(first.labels[0])!r}; two classes are needed."
        )
    if test is None:
        return first, None
    second = read_series_table(test, reading, labels=True, labels_optional=True)
    second = like_training(second, test, first.names, first.step_names, {})
    if second.labels is None:
        return first, second
    sizes = [{len(one) for one in table.series} for table in (first, second)]
    numbered = (reading.label_column or "").isdigit()
    if numbered and all(len(one) == 1 for one in sizes) and min(sizes[1]) == min(sizes[0]) - 1:
        raise DataError(
            f"{test} has one column less than {train}. --label-column {reading.label_column} is a number, so that its "
            "first values would be taken for labels: give it a header, or a column of labels."
        )
    unknown = sorted(set(second.labels.tolist()) - classes)
    if unknown:
        note(f"{test.name}: the labels {', '.join(unknown[:5])} do not occur in {train.name}, and count as errors")
    return first, second


def _estimator(
    classifier: Classifier, common: dict[str, Any], k: int, jobs: int, objective: Objective, max_iter: int | None
) -> tuple[Any, dict[str, Any]]:
    from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

    if classifier == Classifier.knn:
        return KNeighborsTimeSeriesClassifier(k, n_jobs=jobs, **common, **options.given(max_iter=max_iter)), {"k": k}
    extra: dict[str, Any] = {"objective": str(objective)}
    return NearestCentroidTimeSeriesClassifier(**common, **options.given(max_iter=max_iter), **extra), extra


def predictions(
    table: SeriesTable, winners: Any, shares: Any, classes: Any
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a row per series, and how many were assigned to each class or, if labels are known, the accuracy.

    A row has the label if it is known, the predicted class, and the probability of every class, if there are ``shares``
    (n, C). Beside the accuracy is the mean probability of the classes assigned, which is equal if these are reliable.
    """
    guesses, labels = classes[winners], table.labels
    if shares is None:
        shares = np.empty((len(winners), 0))
    rows = [
        {
            "series": one.id,
            **({} if labels is None else {"label": str(one.label)}),
            "predicted": str(guess),
            **({"probability": float(share.max())} if len(share) else {}),
            **{f"p_{name}": float(part) for name, part in zip(classes, share, strict=False)},
        }
        for one, guess, share in zip(table.series, guesses, shares, strict=True)
    ]
    if labels is None:
        return rows, {"predicted": {str(one): int((guesses == one).sum()) for one in classes}}
    right = guesses == labels
    return rows, {
        "accuracy": float(right.mean()),
        **({"mean_probability": float(shares.max(1).mean())} if shares.size else {}),
        "errors": int((~right).sum()),
        "accuracy_by_class": {str(one): float(right[labels == one].mean()) for one in sorted(set(labels.tolist()))},
    }


def _as_lists(series: Any) -> Any:
    return None if series is None else [one.reshape(len(one), -1) for one in series]
