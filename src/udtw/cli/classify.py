"""``udtw classify``: train on labelled series, a data set or your own files, and test."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.cluster import Dask, cluster
from udtw.cli.output import messages, note, show

if TYPE_CHECKING:
    from udtw.data.series_files import ReadOptions
    from udtw.data.series_tables import SeriesTable


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
        typer.Option(help="Your own labelled series: one per row, or (with --id-column) one row per step."),
    ] = None,
    test: Annotated[Path | None, typer.Option(help="Series to be classified, with labels or without.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the predictions here (.csv, .tsv or .json).")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Save the classifier here (.safetensors), for `udtw predict`.")
    ] = None,
    classifier: Annotated[
        Classifier, typer.Option(help="k nearest neighbours, or the nearest class prototype.")
    ] = Classifier.knn,
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
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    columns: options.Columns = None,
    time_column: options.TimeColumn = None,
    transpose: options.Transpose = False,
    missing: options.Missing = options.MissingPolicy.raise_,
    decimal: options.Decimal = None,
    data_dir: options.DataDir = None,
    jobs: Annotated[int, typer.Option(help="Threads of the neighbour search; -1: all cores.")] = 1,
    seed: options.Seed = 0,
    dask: Dask = None,
    json: options.Json = False,
) -> None:
    """Train a classifier on labelled series, and classify others; with udtw the uncertainty is learned in training.

    The series are those of a data set, or your own files: one series per row with a column of labels (wide), or one row
    per step with a column that names the series (long, `--id-column`). A row of `--out` has the series, its label if it
    is known, the predicted class, and the probability of each class.

    Examples:

    - `udtw classify --train train.csv --test test.csv --label-column y --out predictions.csv --model m.safetensors`

    - `udtw classify --train long.csv --id-column sensor --label-column state --model m.safetensors`

    - `udtw classify cbf`

    - `udtw classify GunPoint --data-dir ~/ucr --classifier centroid`

    - `udtw classify ECG200 --metric dtw --k 3 --json | jq .accuracy`
    """
    import numpy as np

    from udtw.cli.files import check_table_name, load_dataset, read_options, write_table
    from udtw.data import UCRData

    _check_request(name, train, test, out, model)
    if out is not None:
        check_table_name(out)
    tables: tuple[Any, Any] = (None, None)
    reading = read_options(
        columns, missing, label_column=label_column, id_column=id_column, time_column=time_column, transpose=transpose,
        decimal=decimal,
    )  # fmt: skip
    if name is not None:
        data = load_dataset(name, data_dir, seed=seed, normalize=not raw)
    else:
        assert train is not None, "_check_request has seen to it"
        tables = _own_tables(train, test, reading)
        known = [table for table in tables if table is not None]
        lengths = {len(one.values) for table in known for one in table.series}
        parts = [_labelled(table, not raw, as_list=len(lengths) > 1) for table in known]
        data = UCRData(train.name, parts[0], parts[-1])
    common: dict[str, Any] = {"metric": metric, "band": options.parse_band(band), "random_state": seed}
    common |= options.given(gamma=gamma, beta=beta)
    estimator, extra = _estimator(classifier, common, k, jobs, objective, max_iter)
    params = estimator.get_params()
    with cluster(dask):
        with messages().status(f"training on {len(data.train)} series …"):
            begin = time.perf_counter()
            estimator.fit(data.train.X, data.train.y)
            fitted = time.perf_counter()
        if model is not None:
            about = {"task": "classify", "znormalized": not raw, "reading": vars(reading)}
            _save(
                model, estimator, about | {"names": tables[0].series[0].names if tables[0] is not None else ["value"]}
            )
        result: dict[str, Any] = {
            "dataset": data.name,
            "train": len(data.train),
            "test": len(data.test) if name is not None or test is not None else 0,
            "classes": len(np.unique(data.train.y)),
            "znormalized": not raw,
            "classifier": str(classifier),
            **{key: params[key] for key in ("metric", "band", "gamma", "beta")},
            **extra,
            "seed": seed,
        }
        if result["test"]:
            with messages().status(f"predicting {len(data.test)} series …"):
                shares = estimator.predict_proba(data.test.X)
                done = time.perf_counter()
            guesses = estimator.classes_[shares.argmax(1)]
            truth = data.test.y if name is not None or tables[1].labels is not None else None
            if truth is not None:
                result |= _accuracy(guesses, truth)
            result["predict_seconds"] = done - fitted
            ids = tables[1].ids if tables[1] is not None else [str(row) for row in range(len(data.test))]
            rows = prediction_rows(ids, truth, guesses, shares, estimator.classes_)
            if out is not None:
                write_table(out, rows)
            if json and name is None:
                result["predictions"] = rows
            elif truth is None:
                result["predicted"] = {str(one): int((guesses == one).sum()) for one in estimator.classes_}
    result["fit_seconds"] = fitted - begin
    show(f"Classification of {data.name}", result, json)


def _check_request(name: str | None, train: Path | None, test: Path | None, out: Path | None, model: Any) -> None:
    """Raise for options that contradict each other."""
    from udtw.data.table_files import is_file_name
    from udtw.errors import OptionError

    if name is not None and is_file_name(name):
        raise OptionError(f"Give your own files as --train {name} --test FILE --label-column NAME.")
    if (name is None) == (train is None):
        raise OptionError("Give either the name of a data set, such as cbf, or your own files by --train and --test.")
    if name is not None and test is not None:
        raise OptionError(f"--test belongs to --train; the data set {name} has its own test series.")
    if train is not None and test is None and (out is not None or model is None):
        raise OptionError("Without --test nothing is classified: give --test FILE, or --model FILE to save the model.")
    if str(train) == str(test) == "-":
        raise OptionError("Only one of --train and --test can come from standard input.")
    if model is not None:
        check_model_name(model)


def check_model_name(path: Path) -> None:
    """Raise `OptionError` unless a model can be saved under that name."""
    from udtw.errors import OptionError

    if path.suffix.lower() != ".safetensors":
        hint = " The kind of classifier is chosen by --classifier." if str(path) in list(Classifier) else ""
        raise OptionError(f"--model {path.name}: a model is saved under a name that ends in .safetensors.{hint}")


def _own_tables(train: Path, test: Path | None, reading: "ReadOptions") -> "tuple[SeriesTable, SeriesTable | None]":
    from udtw.cli.files import read_series_table
    from udtw.errors import DataError, OptionError

    first = read_series_table(train, reading, labels=True)
    if first.labels is None:
        raise OptionError(f"{train} has no labels: name their column with --label-column (a name, or a number from 1).")
    if len(set(first.labels)) < 2:
        raise DataError(f"{train}: all {len(first)} series have the label {first.labels[0]!r}; two classes are needed.")
    if test is None:
        return first, None
    second = read_series_table(test, reading, labels=True, labels_optional=True)
    numbered = (reading.label_column or "").isdigit() and second.labels is not None
    sizes = [{len(one.values) for one in table.series} for table in (first, second)]
    if numbered and all(len(one) == 1 for one in sizes) and min(sizes[1]) == min(sizes[0]) - 1:
        raise DataError(
            f"{test} has one column less than {train}. --label-column {reading.label_column} is a number, so that its "
            "first values would be taken for labels: give it a header, or a column of labels."
        )
    if second.labels is not None:
        unknown = sorted(set(second.labels) - set(first.labels))
        if unknown:
            note(f"{test.name}: the labels {', '.join(unknown[:5])} do not occur in {train.name}, and count as errors")
    return first, second


def _labelled(table: "SeriesTable", normalize: bool, as_list: bool) -> Any:
    import numpy as np

    from udtw.data import LabelledSeries, znormalize

    labels = np.array(table.labels if table.labels is not None else [""] * len(table))
    series: Any = znormalize(table.values) if normalize else table.values
    # A table (n, T) would have to have the steps of the other one.
    return LabelledSeries([one.reshape(len(one), -1) for one in series] if as_list else series, labels)


def _estimator(
    classifier: Classifier, common: dict[str, Any], k: int, jobs: int, objective: Objective, max_iter: int | None
) -> tuple[Any, dict[str, Any]]:
    from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

    if classifier == Classifier.knn:
        steps = options.given(sigma_iter=max_iter)
        return KNeighborsTimeSeriesClassifier(k, n_jobs=jobs, **common, **steps), {"k": k}
    extra: dict[str, Any] = {"objective": str(objective)}
    return NearestCentroidTimeSeriesClassifier(**common, **options.given(max_iter=max_iter), **extra), extra


def _save(path: Path, estimator: Any, about: dict[str, Any]) -> None:
    from udtw.timeseries import save_model

    save_model(path, estimator, about)
    note(f"wrote {path}")


def _accuracy(guesses: Any, truth: Any) -> dict[str, Any]:
    import numpy as np

    right = guesses == truth
    return {
        "accuracy": float(right.mean()),
        "errors": int((~right).sum()),
        "accuracy_by_class": {str(one): float(right[truth == one].mean()) for one in np.unique(truth)},
    }


def prediction_rows(ids: list[str], truth: Any, guesses: Any, shares: Any, classes: Any) -> list[dict[str, Any]]:
    """A row per series: its label if known, the predicted class, and the probability of every class."""
    return [
        {
            "series": name,
            **({} if truth is None else {"label": str(truth[row])}),
            "predicted": str(guesses[row]),
            "probability": float(shares[row].max()),
            **{f"p_{one}": float(share) for one, share in zip(classes, shares[row], strict=True)},
        }
        for row, name in enumerate(ids)
    ]
