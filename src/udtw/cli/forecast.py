"""``udtw forecast``: learn to continue series, and compare with how they went on."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from udtw.cli import options, training
from udtw.cli.output import messages, note, save_figure, show

SHOWN = 6


class Loss(StrEnum):
    euclidean = "euclidean"
    soft_dtw = "soft_dtw"
    soft_dtw_divergence = "soft_dtw_divergence"
    udtw = "udtw"


def forecast(
    name: Annotated[str, typer.Argument(help="A UCR data set, or `cbf` or `synthetic-control` (generated).")],
    loss: Annotated[Loss, typer.Option(help="Distance between forecast and truth in training.")] = Loss.udtw,
    horizon: Annotated[float, typer.Option(help="Share of each series to forecast, between 0 and 1.")] = 0.4,
    gamma: options.Gamma = 0.1,
    beta: options.Beta = 0.1,
    max_epochs: Annotated[int, typer.Option(min=1, help="Passes over the training series at most.")] = 100,
    raw: Annotated[bool, typer.Option("--raw", help="Do not bring each series to mean 0, std 1 first.")] = False,
    data_dir: options.DataDir = None,
    seed: options.Seed = 0,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the training in this file after every epoch, and go on from it if it is there."),
    ] = None,
    devices: training.Devices = 1,
    accelerator: training.Accelerator = "cpu",
    strategy: training.Strategy = "auto",
    plot: options.Plot = None,
    save: Annotated[
        Path | None, typer.Option(help="Keep the forecaster in this folder (JSON and safetensors).")
    ] = None,
    json: options.Json = False,
) -> None:
    """Forecast the end of each test series from its beginning, after learning from the training series.

    MSE is the squared error a step; DTW forgives errors in time; the coverage is the share of true values within two
    standard deviations of the forecast (0.95 if they were Gaussian and right).

    Examples:

    - `udtw forecast synthetic-control --plot forecast.png`

    - `udtw forecast ECG5000 --data-dir ~/ucr --loss euclidean --horizon 0.4 --json`

    - `torchrun --nproc-per-node 2 --no-python udtw forecast ECG5000 --data-dir ~/ucr --checkpoint training`

    - `udtw forecast ECG5000 --data-dir ~/ucr --save model`, and in Python `SequenceForecaster.load("model")`
    """
    import numpy as np

    from udtw.align import dtw
    from udtw.cli import datasets
    from udtw.timeseries import SequenceForecaster

    data = datasets.load(name, data_dir, seed=seed, normalize=not raw)
    train, test = (_equally_long(name, part.X) for part in (data.train, data.test))
    cut = _cut(train.shape[1], horizon)
    model = SequenceForecaster(str(loss), gamma=gamma, beta=beta, max_epochs=max_epochs, random_state=seed)
    fabric = training.launch(accelerator, devices, strategy)
    with messages().status(f"training on {len(train)} series …"):
        model.fit(train[:, :cut], train[:, cut:], checkpoint_path=checkpoint, fabric=fabric)
    if fabric is not None and not fabric.is_global_zero:
        return
    past, truth = test[:, :cut], test[:, cut:]
    future, std = model.predict(past, return_std=True)
    deep = (future, truth) if truth.ndim == 3 else (future[..., None], truth[..., None])
    if save is not None:
        model.save(save)
        note(f"wrote {save}")
    if plot is not None:
        from udtw.plots import plot_forecast

        some = np.linspace(0, len(test) - 1, min(SHOWN, len(test))).astype(int)
        save_figure(plot_forecast(past[some], truth[some], {str(loss): future[some]}, {str(loss): std[some]}), plot)
    result: dict[str, Any] = {
        "dataset": data.name,
        "train": len(train),
        "test": len(test),
        "znormalized": not raw,
        "observed_steps": cut,
        "forecast_steps": truth.shape[1],
        "loss": str(loss),
        "gamma": gamma,
        "beta": beta,
        "epochs": model.n_iter_,
        "seed": seed,
        "mse": float(np.square(future - truth).mean()),
        "dtw": float(dtw(*deep).mean()),
        "coverage": float((np.abs(future - truth) < 2 * std).mean()),
    }
    show(f"Forecast of {data.name}", result, json)


def _equally_long(name: str, series: Any) -> Any:
    """(n, T) or (n, T, d)"""
    from udtw.errors import LengthError

    if isinstance(series, list):
        raise LengthError(f"The series of {name} differ in length; a forecaster needs one length of past and future.")
    return series


def _cut(steps: int, horizon: float) -> int:
    """Where the future begins; past and future have a step at least."""
    from udtw.errors import OptionError

    if not 0 < horizon < 1:
        raise OptionError(f"--horizon must lie between 0 and 1; got {horizon:g}.")
    return min(max(steps - round(horizon * steps), 1), steps - 1)
