"""``udtw forecast``: train a forecaster and test it."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from udtw._engine.align import dtw
from udtw._engine.matches import tail_of
from udtw._engine.metrics import get_metric, metric_names
from udtw.cli import forecast_file, options, training
from udtw.cli.command import IDS, Force
from udtw.cli.files import dataset_name, load_dataset, scaled
from udtw.cli.output import save_figure, show, working, writing
from udtw.data.table import AS_IT_IS, ReadOptions
from udtw.data.table_files import is_file_name
from udtw.errors import LengthError, OptionError

SHOWN = 6


def forecast(
    name: Annotated[
        str,
        typer.Argument(
            metavar="FILE|NAME",
            help="A file of one long series (rows are steps) or of many (with --id-column), whose future is forecast; "
            "or a UCR data set, `cbf` or `synthetic-control` (generated), for a test.",
        ),
    ],
    loss: Annotated[
        str | None,
        options.name_option(
            "Distance between forecast and truth in training",
            "metric",
            metric_names,
            show_default="of a file: euclidean or udtw, by the error on its validation part; of data sets: udtw",
        ),
    ] = None,
    horizon: Annotated[
        float | None,
        typer.Option(
            help="Steps to forecast; of data sets also a share of each series (below 1).",
            show_default="0.4 for data sets",
        ),
    ] = None,
    past: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of past steps that a forecast uses (files).",
            show_default="twice the horizon, or four seasons",
        ),
    ] = None,
    season: Annotated[
        int | None,
        typer.Option(
            min=1, help="Steps after which a series repeats, 1 for none (files).", show_default="found in the series"
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Probability of the intervals from low to high.")] = 0.9,
    gamma: options.Gamma = None,
    beta: options.Beta = None,
    max_epochs: Annotated[int, typer.Option(min=1, help="Maximum number of passes over the training series.")] = 100,
    raw: Annotated[bool, typer.Option("--raw", help="Do not scale each series to mean 0, std 1 first.")] = False,
    data_dir: options.DataDir = None,
    seed: options.Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Save the training to this file after every epoch, and resume from it if it exists."),
    ] = None,
    devices: training.Devices = 1,
    accelerator: training.Accelerator = "cpu",
    strategy: training.Strategy = "auto",
    reading: Annotated[ReadOptions, IDS] = AS_IT_IS,
    out: Annotated[Path | None, options.table_option("the forecast of a file")] = None,
    plot: options.Plot = None,
    model: Annotated[
        Path | None,
        typer.Option(
            "--model",
            "--save",
            help="Save the forecaster to this folder (JSON and safetensors).",
            rich_help_panel=options.WRITES,
        ),
    ] = None,
    force: Force = False,
    json: options.Json = False,
) -> None:
    """Forecast the future of your own series; or, for a data set, the end of each test series from its beginning.

    A file is one long series, or many (`--id-column`). The forecaster learns from windows of them. It is first trained
    without the last `--horizon` steps, so that its error on these can be printed beside that of simpler forecasts: the
    last value, the last season and, if statsmodels is installed, Theta and exponential smoothing (ETS); then with all.
    A row of `--out` has the step (and its time, if there is a time column), the forecast, its standard deviation, and
    the interval from low to high that holds the true value with probability `--level`.

    For data sets MSE is the squared error per step; DTW tolerates errors in time; the coverage is the share of true
    values within intervals of `--level`, which are calibrated on series that were set aside in training.

    Examples:

    - `udtw forecast sales.csv --horizon 24 --out forecast.csv --plot forecast.png --model forecaster`

    - `udtw forecast power.csv --horizon 48 --season 48`

    - `udtw forecast stores.csv --id-column store --time-column day --columns sales --horizon 7 --out forecast.csv`

    - `udtw forecast synthetic-control --plot forecast.png`

    - `udtw forecast ECG5000 --data-dir ~/ucr --loss euclidean --horizon 56 --json`

    - `torchrun --nproc-per-node 2 --no-python udtw forecast ECG5000 --data-dir ~/ucr --checkpoint training`

    - `udtw forecast ECG5000 --data-dir ~/ucr --model folder`, and in Python `SequenceForecaster.load("folder")`
    """
    from udtw.timeseries import SequenceForecaster
    from udtw.timeseries.forecaster import loss_options
    from udtw.timeseries.forecaster_files import check_folder

    tail_of(level)
    if model is not None and not force:
        check_folder(model)
    given: dict[str, Any] = {
        "metric_params": options.given(gamma=gamma, beta=beta),
        "max_iter": max_epochs,
        "random_state": seed,
    }
    if is_file_name(name):
        for flag, wanted in (("--checkpoint", checkpoint is not None), ("--devices", devices != 1)):
            if wanted:
                raise OptionError(f"{flag} belongs to data sets, and {name} is a file.")
        _own_file(
            Path(name), reading, horizon, past, season, level, lambda: SequenceForecaster(loss or "auto", **given),
            out=out, plot=plot, model=model, as_json=json,
        )  # fmt: skip
        return
    for flag, value in (("--out", out), ("--past", past), ("--season", season)):
        if value is not None:
            raise OptionError(f"{flag} belongs to files, and {name} is a data set.")
    loss = loss or "udtw"
    horizon = 0.4 if horizon is None else horizon
    train, test = (_equally_long(name, scaled(part, not raw)) for part in load_dataset(name, data_dir, seed))
    cut = _cut(train.shape[1], horizon)
    forecaster = SequenceForecaster(loss, **given)
    fabric = training.launch(accelerator, devices, strategy)
    with working(f"training on {len(train)} series …"):
        forecaster.fit(train[:, :cut], train[:, cut:], checkpoint_path=checkpoint, fabric=fabric)
    if fabric is not None and not fabric.is_global_zero:
        return
    observed, truth = test[:, :cut], test[:, cut:]
    future, (low, high) = forecaster.predict(observed), forecaster.predict_interval(observed, level)
    deep = (future, truth) if truth.ndim == 3 else (future[..., None], truth[..., None])
    if model is not None:
        with writing(model, "--model"):
            forecaster.save(model, force=True)
    if plot is not None:
        from udtw.plots import plot_forecast

        some = np.linspace(0, len(test) - 1, min(SHOWN, len(test))).astype(int)
        label = get_metric(loss).label
        figure = plot_forecast(
            observed[some], truth[some], {label: future[some]}, interval=(low[some], high[some]), level=level
        )
        save_figure(figure, plot)
    used = loss_options(forecaster)
    result: dict[str, Any] = {
        "dataset": dataset_name(name),
        "train": len(train),
        "test": len(test),
        "znormalized": not raw,
        "observed_steps": cut,
        "forecast_steps": truth.shape[1],
        "loss": loss,
        **{name: used[name] for name in ("gamma", "beta", "warp_penalty")},
        "epochs": forecaster.n_iter_,
        "seed": seed,
        "mse": float(np.square(future - truth).mean()),
        "dtw": float(dtw(*deep).mean()),
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "interval_width": float((high - low).mean()),
    }
    show(f"Forecast of {dataset_name(name)}", result, json)


def _own_file(
    file: Path, reading: Any, horizon: float | None, past: int | None, season: int | None, level: float, make: Any, *,
    out: Path | None, plot: Path | None, model: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Train on the series of a file and forecast what follows them."""
    if horizon is None or horizon < 1 or horizon != int(horizon):
        shown = "nothing" if horizon is None else f"{horizon:g}"
        raise OptionError(f"--horizon must be the number of steps to forecast, such as 24; got {shown}.")
    series, ids = forecast_file.read_long_series(file, reading)
    trained, result = forecast_file.train(series, reading, int(horizon), past, season, level, make)
    if model is not None:
        trained.save(model)
    trained.report(file, series, ids, result, out=out, plot=plot, as_json=as_json)


def _equally_long(name: str, series: Any) -> Any:
    """Return ``series`` as an array (n, T) or (n, T, d); raise `LengthError` if lengths differ."""
    if isinstance(series, list):
        raise LengthError(
            f"The series of {name} differ in length; a forecaster needs the same length of past and future for all."
        )
    return series


def _cut(steps: int, horizon: float) -> int:
    """Return the step at which the future begins; past and future have at least one step."""
    if 1 <= horizon < steps and horizon == int(horizon):
        return steps - int(horizon)
    if not 0 < horizon < 1:
        raise OptionError(
            f"--horizon must be a whole number of steps below {steps}, or a share between 0 and 1; got {horizon:g}."
        )
    return min(max(steps - round(horizon * steps), 1), steps - 1)
