"""``udtw predict``: use a model that was saved."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.classify import predictions
from udtw.cli.command import IDS, LABELS
from udtw.cli.files import like_training, read_series_table, saved_reading, scaled
from udtw.cli.forecast_file import load_forecaster
from udtw.cli.output import show, working, write_table
from udtw.errors import FileFormatError, OptionError


def predict(
    model: Annotated[
        Path, typer.Argument(help="File or folder that `udtw classify`, `cluster` or `forecast` saved by --model.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New series, in the format of those in training.")],
    reading: Annotated[dict[str, Any], LABELS, IDS],
    out: options.Predictions = None,
    plot: options.Plot = None,
    json: options.Json = False,
) -> None:
    """Classify, assign or forecast new series with a saved model.

    The file is read like the training series; flags override single settings. If a classified file has the label column
    of the training, the accuracy is printed.

    Examples:

    - `udtw predict m.safetensors new.csv --out predictions.csv`

    - `udtw predict forecaster sales.csv --out forecast.csv`
    """
    if model.is_dir():
        load_forecaster(model).predict(file, reading, out=out, plot=plot, as_json=json)
        return
    if plot is not None:
        raise OptionError("--plot belongs to forecasts.")
    _classify(model, file, reading, out, json)


def _classify(model: Path, file: Path, given: dict[str, Any], out: Path | None, as_json: bool) -> None:
    from udtw.timeseries import load_model
    from udtw.timeseries.class_probabilities import Calibration

    estimator, about = load_model(model)
    if about.get("task") not in ("classify", "cluster"):
        raise FileFormatError(f"{model} was not saved by `udtw classify` or `udtw cluster`.")
    reading = replace(saved_reading(about["reading"]), **given)
    table = read_series_table(file, reading, labels=about["task"] == "classify", labels_optional=True)
    table = like_training(table, file, about["names"], about.get("steps"), given)
    # As a list, series of any length are taken, not only those of the training's.
    series = [one.reshape(len(one), -1) for one in scaled(table, about["znormalized"])]
    result: dict[str, Any] = {"model": str(model), "file": str(file), "series": len(table)}
    with working(f"predicting {len(table)} series …"):
        if about["task"] == "cluster":
            clusters = estimator.predict(series).tolist()
            rows = [{"series": name, "cluster": one} for name, one in zip(table.ids, clusters, strict=True)]
            result["sizes"] = {str(one): clusters.count(one) for one in sorted(set(clusters))}
        else:
            distances, winners = estimator.class_distances(series)
            saved = about.get("calibration")
            shares = None if saved is None else Calibration(**saved).probabilities(distances, winners)
            rows, summary = predictions(table, winners, shares, estimator.classes_)
            result |= summary
    if out is not None:
        write_table(out, rows)
    if as_json:
        result["predictions"] = rows
    show(f"Predictions for {file.name}", result, as_json)
