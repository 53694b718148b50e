"""``udtw forecast``: train a forecaster and test it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options, training
from udtw.cli.output import messages, note, save_figure, show
from udtw.metrics import metric_names

SHOWN = 6
LEVEL = 0.9
"""Coverage of the intervals."""


def forecast(
    name: Annotated[str, typer.Argument(help="A UCR data set, or `cbf` or `synthetic-control` (generated).")],
    loss: Annotated[
        str, options.name_option("Distance between forecast and truth in training", "metric", metric_names)
    ] = "udtw",
    horizon: Annotated[float, typer.Option(help="Steps to forecast, or a share of each series (below 1).")] = 0.4,
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
    plot: options.Plot = None,
    save: Annotated[
        Path | None, typer.Option(help="Save the forecaster to this folder (JSON and safetensors).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Forecast the end of each test series from its beginning, after learning from the training series.

    MSE is the squared error per step; DTW tolerates errors in time; the coverage is the share of true values within
    90 % intervals, which are calibrated on series that were set aside in training.

    Examples:

    - `udtw forecast synthetic-control --plot forecast.png`

    - `udtw forecast ECG5000 --data-dir ~/ucr --loss euclidean --horizon 56 --json`

    - `torchrun --nproc-per-node 2 --no-python udtw forecast ECG5000 --data-dir ~/ucr --checkpoint training`

    - `udtw forecast ECG5000 --data-dir ~/ucr --save model`, and in Python `SequenceForecaster.load("model")`
    """
    import numpy as np

    from udtw.align import dtw
    from udtw.cli.files import load_dataset
    from udtw.metrics import get_metric
    from udtw.timeseries import SequenceForecaster
    from udtw.timeseries.forecaster_options import loss_options

    data = load_dataset(name, data_dir, seed=seed, normalize=not raw)
    train, test = (_equally_long(name, part.X) for part in (data.train, data.test))
    cut = _cut(train.shape[1], horizon)
    given = options.given(gamma=gamma, beta=beta)
    model = SequenceForecaster(loss, **given, max_epochs=max_epochs, random_state=seed)
    fabric = training.launch(accelerator, devices, strategy)
    with messages().status(f"training on {len(train)} series …"):
        model.fit(train[:, :cut], train[:, cut:], checkpoint_path=checkpoint, fabric=fabric)
    if fabric is not None and not fabric.is_global_zero:
        return
    past, truth = test[:, :cut], test[:, cut:]
    future, (low, high) = model.predict(past), model.predict_interval(past, LEVEL)
    deep = (future, truth) if truth.ndim == 3 else (future[..., None], truth[..., None])
    if save is not None:
        model.save(save)
        note(f"wrote {save}")
    if plot is not None:
        from udtw.plots import plot_forecast

        some = np.linspace(0, len(test) - 1, min(SHOWN, len(test))).astype(int)
        label = get_metric(loss).label
        figure = plot_forecast(
            past[some], truth[some], {label: future[some]}, interval=(low[some], high[some]), level=LEVEL
        )
        save_figure(figure, plot)
    used = loss_options(model)
    result: dict[str, Any] = {
        "dataset": data.name,
        "train": len(train),
        "test": len(test),
        "znormalized": not raw,
        "observed_steps": cut,
        "forecast_steps": truth.shape[1],
        "loss": loss,
        **{name: used[name] for name in ("gamma", "beta", "warp_penalty")},
        "epochs": model.n_iter_,
        "seed": seed,
        "mse": float(np.square(future - truth).mean()),
        "dtw": float(dtw(*deep).mean()),
        "coverage": float(((low <= truth) & (truth <= high)).mean()),
        "interval_width": float((high - low).mean()),
    }
    show(f"Forecast of {data.name}", result, json)


def _equally_long(name: str, series: Any) -> Any:
    """``series`` as an array (n, T) or (n, T, d)."""
    from udtw.errors import LengthError

    if isinstance(series, list):
        raise LengthError(
            f"The series of {name} differ in length; a forecaster needs the same length of past and future for all."
        )
    return series


def _cut(steps: int, horizon: float) -> int:
    """The step at which the future begins; past and future have at least one step."""
    from udtw.errors import OptionError

    if 1 <= horizon < steps and horizon == int(horizon):
        return steps - int(horizon)
    if not 0 < horizon < 1:
        raise OptionError(
            f"--horizon must be a whole number of steps below {steps}, or a share between 0 and 1; got {horizon:g}."
        )
    return min(max(steps - round(horizon * steps), 1), steps - 1)
