"""``udtw predict``: use a model that was saved."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options
from udtw.cli.output import messages, show


def predict(
    model: Annotated[
        Path, typer.Argument(help="What `udtw classify`, `cluster` or `forecast` saved by --model: a file or a folder.")
    ],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="New series, in the format of those in training.")],
    out: Annotated[Path | None, typer.Option(help="Write the predictions here (.csv, .tsv or .json).")] = None,
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

    The file is read as the training series were; flags say what is different. If a classified file has the label column
    of the training, the accuracy is printed.

    Examples:

    - `udtw predict m.safetensors new.csv --out predictions.csv`

    - `udtw predict forecaster sales.csv --out forecast.csv`
    """
    from udtw.cli.files import check_table_name

    if out is not None:
        check_table_name(out)
    given = options.given(
        label_column=label_column, id_column=id_column, time_column=time_column, transpose=transpose, decimal=decimal,
        missing=None if missing is None else str(missing),
        columns=None if columns is None else tuple(options.parse_list(columns) or ()),
    )  # fmt: skip
    if model.is_dir():
        from udtw.cli.forecast_file import load_forecaster

        load_forecaster(model).predict(file, given, out=out, plot=plot, as_json=json)
        return
    from udtw.errors import OptionError

    if plot is not None:
        raise OptionError("--plot belongs to forecasts.")
    _classify(model, file, given, out, json)


def _classify(model: Path, file: Path, given: dict[str, Any], out: Path | None, as_json: bool) -> None:
    import numpy as np

    from udtw.cli.classify import _accuracy, prediction_rows
    from udtw.cli.files import read_series_table, saved_reading, write_table
    from udtw.data import znormalize
    from udtw.errors import FileFormatError, ShapeError
    from udtw.timeseries import load_model

    estimator, about = load_model(model)
    if about.get("task") not in ("classify", "cluster"):
        raise FileFormatError(f"{model} was not saved by `udtw classify` or `udtw cluster`.")
    reading = replace(saved_reading(about["reading"]), **given)
    table = read_series_table(file, reading, labels=about["task"] == "classify", labels_optional=True)
    if len(table.series[0].names) != len(about["names"]):
        raise ShapeError(
            f"{file} has {len(table.series[0].names)} feature(s) per step ({', '.join(table.series[0].names)}), but "
            f"the model was trained with {len(about['names'])} ({', '.join(about['names'])}). Choose them with "
            "--columns."
        )
    series: Any = znormalize(table.values) if about["znormalized"] else table.values
    # As a list, series of any length are taken, not only those of the training's.
    series = [one if one.ndim == 2 else one[:, None] for one in series]
    result: dict[str, Any] = {"model": str(model), "file": str(file), "series": len(table)}
    with messages().status(f"predicting {len(table)} series …"):
        if about["task"] == "cluster":
            found = estimator.predict(series)
            rows = [{"series": name, "cluster": int(one)} for name, one in zip(table.ids, found, strict=True)]
            result["sizes"] = {str(one): int((found == one).sum()) for one in np.unique(found)}
        else:
            shares = estimator.predict_proba(series)
            found = estimator.classes_[shares.argmax(1)]
            truth = None if table.labels is None else np.array(table.labels)
            rows = prediction_rows(table.ids, truth, found, shares, estimator.classes_)
            result["predicted"] = {str(one): int((found == one).sum()) for one in estimator.classes_}
            if truth is not None:
                result |= _accuracy(found, truth)
    if out is not None:
        write_table(out, rows)
    if as_json:
        result["predictions"] = rows
    show(f"Predictions for {file.name}", result, as_json)
