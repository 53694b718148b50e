"""Forecast: the end of a control chart from its beginning, trained by four losses."""

import numpy as np

from udtw.align import dtw
from udtw.data import synthetic_control
from udtw.experiments.demo.parts import NAMES, Part, Tick, mean_std
from udtw.experiments.demo.sizes import Sizes
from udtw.plots import plot_forecast
from udtw.timeseries import SequenceForecaster

LOSSES = ("euclidean", "soft_dtw", "soft_dtw_divergence", "udtw")
OBSERVED, STEPS = 36, 60
SHOWN = (1, 2, 4)
"""Classes in the figure, one series each: normal, cyclic, decreasing trend."""


def steps(sizes: Sizes) -> int:
    return sizes.seeds * len(LOSSES)


def forecast(sizes: Sizes, tick: Tick) -> Part:
    """One forecaster a loss and seed, judged by the squared error and by DTW."""
    scores: dict[str, list[dict[str, float]]] = {loss: [] for loss in LOSSES}
    shown: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for seed in range(sizes.seeds):
        train, test = (
            synthetic_control(count, STEPS, np.random.default_rng([seed, part]))
            for part, count in enumerate((sizes.forecast_train, sizes.test))
        )
        series = np.asarray(train.X)
        past, truth = np.asarray(test.X)[:, :OBSERVED], np.asarray(test.X)[:, OBSERVED:]
        for loss in LOSSES:
            tick(f"forecast: {NAMES[loss]} loss")
            model = SequenceForecaster(loss, max_epochs=sizes.epochs, random_state=seed)
            model.fit(series[:, :OBSERVED], series[:, OBSERVED:])
            future, std = model.predict(past, return_std=True)
            scores[loss].append(
                {
                    "mse": float(np.square(future - truth).mean()),
                    "dtw": float(dtw(future[..., None], truth[..., None], normalize="length").mean()),
                    "coverage": 100 * float((np.abs(future - truth) < 2 * std).mean()),
                }
            )
            if seed == sizes.seeds - 1:
                some = [int(np.flatnonzero(test.y == label)[0]) for label in SHOWN]
                shown[loss] = future[some], std[some]
    figure = plot_forecast(
        past[some],
        truth[some],
        {NAMES[loss]: shown[loss][0] for loss in ("udtw", "euclidean")},
        {NAMES["udtw"]: shown["udtw"][1]},
        titles=["normal", "cyclic", "decreasing trend"],
    )
    return Part(
        heading="Forecast",
        text=f"Synthetic control charts, {sizes.forecast_train} training series in each of 6 classes: the last "
        f"{STEPS - OBSERVED} of {STEPS} steps from the first {OBSERVED}. Much of each series is noise, which no "
        "forecast can foresee.",
        title=f"Forecasts of {6 * sizes.test} test series (lower is better, but for the coverage)",
        columns=["trained by", "MSE", "DTW a step", "within 2 std, %"],
        rows=[
            [NAMES[loss], *(mean_std([score[m] for score in scores[loss]], 1) for m in ("mse", "dtw", "coverage"))]
            for loss in LOSSES
        ],
        note=f"Mean ± std over {sizes.seeds} seed(s); the coverage of a right Gaussian would be 95 %.",
        figures=[(figure, "Forecasts of three test series; the band is ± 2 standard deviations.")],
    )
