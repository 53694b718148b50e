"""``udtw predict``: use a model that was saved."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.classify import predictions
from udtw.cli.files import check_features, read_series_table, saved_reading, scaled
from udtw.cli.forecast_file import load_forecaster
from udtw.cli.output import messages, show, write_table
from udtw.errors import FileFormatError, OptionError


def predict(
    model: Annotated[
        Path, typer.Argument(help="File or folder that `udtw classify`, `cluster` or `forecast` saved by --model.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New series, in the format of those in training.")],
    out: options.Predictions = None,
    label_column: options.LabelColumn = None,
    id_column: options.IdColumn = None,
    columns: options.Columns = None,
    time_column: options.TimeColumn = None,
    transpose: Annotated[
        bool | None,
        typer.Option("--transpose/--no-transpose", help="Exchange rows and columns first.", show_default="as trained"),
    ] = None,
    missing: Annotated[
        options.MissingPolicy | None,
        typer.Option(help="Missing cells: raise, omit or interpolate.", show_default="as in training"),
    ] = None,
    decimal: options.Decimal = None,
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
    given = options.given(
        label_column=label_column, id_column=id_column, time_column=time_column, transpose=transpose, decimal=decimal,
        missing=None if missing is None else str(missing),
        columns=None if columns is None else tuple(options.parse_list(columns) or ()),
    )  # fmt: skip
    if model.is_dir():
        load_forecaster(model).predict(file, given, out=out, plot=plot, as_json=json)
        return
    if plot is not None:
        raise OptionError("--plot belongs to forecasts.")
    _classify(model, file, given, out, json)


def _classify(model: Path, file: Path, given: dict[str, Any], out: Path | None, as_json: bool) -> None:
    from udtw.timeseries import load_model

    estimator, about = load_model(model)
    if about.get("task") not in ("classify", "cluster"):
        raise FileFormatError(f"{model} was not saved by `udtw classify` or `udtw cluster`.")
    reading = replace(saved_reading(about["reading"]), **given)
    table = read_series_table(file, reading, labels=about["task"] == "classify", labels_optional=True)
    check_features(file, table.names, about["names"])
    # As a list, series of any length are taken, not only those of the training's.
    series = [one.reshape(len(one), -1) for one in scaled(table, about["znormalized"])]
    result: dict[str, Any] = {"model": str(model), "file": str(file), "series": len(table)}
    with messages().status(f"predicting {len(table)} series …"):
        if about["task"] == "cluster":
            clusters = estimator.predict(series).tolist()
            rows = [{"series": name, "cluster": one} for name, one in zip(table.ids, clusters, strict=True)]
            result["sizes"] = {str(one): clusters.count(one) for one in sorted(set(clusters))}
        else:
            rows, summary = predictions(table, estimator.predict_proba(series), estimator.classes_)
            result |= summary
    if out is not None:
        write_table(out, rows)
    if as_json:
        result["predictions"] = rows
    show(f"Predictions for {file.name}", result, as_json)
