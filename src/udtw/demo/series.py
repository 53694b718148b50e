"""Run the parts of the demo on series: align, average, classify and forecast, by every metric."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from udtw._engine.align import align, dtw
from udtw._engine.alignment import Alignment
from udtw._engine.metrics import METRICS
from udtw.data import add_faults, synthetic_control, znormalize
from udtw.data.generators import known_warps
from udtw.demo.common import CLASSES, COMPARED, DISTURBANCE, TRAINED, Part, Sizes, Tick, disturbed_steps, draw
from udtw.demo.document import mean_std
from udtw.plots import plot_alignment, plot_barycenter, plot_forecast, plot_matches
from udtw.plots.style import new_figure
from udtw.timeseries import (
    Barycenter,
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    SequenceForecaster,
    barycenter,
)

ALIGNERS: dict[str, dict[str, Any]] = {
    "DTW": {"gamma": 1e-3},
    "soft-DTW": {"gamma": 4.0},
    "uDTW": {"var_x": "estimate", "var_y": "estimate", "gamma": "auto"},
}
"""γ = 4 is soft-DTW's best on these pairs (``udtw reproduce calibration``); uDTW estimates σ from the series alone."""
SHOWN_ALIGNERS = ("DTW", "uDTW")
LEVEL = 0.9

AVERAGED = ("euclidean", "dtw", "soft_dtw", "udtw")
SHOWN_MEANS = ("soft_dtw", "udtw")
BELL = 2
GAMMA, BETA = 10.0, 1.0
"""γ and β of means: the series are not normalized, events are 6 high, and squared noise differences average 2."""
CONDITIONS = {"with faults": True, "without": False}
CLASSIFIERS = ("1-NN", "centroid")
OBSERVED, STEPS = 36, 60
"""Observed steps and all steps of a control chart."""
SHOWN_CHARTS = {1: "normal", 2: "cyclic", 4: "decreasing trend"}
"""Classes in the forecast figure, one series each."""


@dataclass
class _Scores:
    """Hold the scores of one metric by seed, as means over the classes."""

    distance: list[float] = field(default_factory=list)
    sigma_failing: list[float] = field(default_factory=list)
    sigma_elsewhere: list[float] = field(default_factory=list)


def align_steps(sizes: Sizes) -> int:
    """Count the progress steps of `align_pairs`."""
    return sizes.seeds * len(ALIGNERS)


def align_pairs(sizes: Sizes, tick: Tick) -> Part:
    """Measure the errors of the matches of every method, and how often the intervals hold the true match."""
    errors: dict[str, list[float]] = {name: [] for name in ALIGNERS}
    coverage: dict[str, list[float]] = {name: [] for name in ALIGNERS}
    shown: dict[str, Alignment] = {}
    for seed in range(sizes.seeds):
        data = known_warps(sizes.pairs, 2 * seed + 1)
        x, y = data["x"][..., None], data["y"][..., None]
        for name, options in ALIGNERS.items():
            tick(f"align: {name}")
            alignment = align(x, y, **options)
            matches = alignment.matches(LEVEL)
            errors[name].append(float(np.abs(matches.expected - data["match"]).mean()))
            inside = (data["match"] >= matches.low - 0.5) & (data["match"] <= matches.high + 0.5)
            coverage[name].append(100 * float(inside.mean()))
            if seed == 0:
                shown[name] = alignment
        if seed == 0:
            pair = x, y
            mistakes = {name: np.abs(shown[name].matches().expected - data["match"]).mean(1) for name in SHOWN_ALIGNERS}
    # A typical pair: both errors are near their medians.
    index = int(np.argmin(sum(np.abs(one - np.median(one)) for one in mistakes.values())))
    figure = new_figure((13, 4.6), {})
    sides: Any = figure.subfigures(1, 2)
    for side, name in zip(sides, SHOWN_ALIGNERS, strict=True):
        plot_matches(*pair, shown[name], index=index, intervals=False, doubtful=name != "DTW", figure=side)
        side.suptitle(f"{name}: off by {mistakes[name][index]:.1f} steps on average", fontsize=11)
    steps = x.shape[1]
    return Part(
        heading="Align",
        text=f"{sizes.pairs} pairs of smooth series of {steps} steps, one a warped copy of the other, with a little "
        "noise and a burst of strong noise in each. The true alignment is known, and no method knows where the "
        "bursts are. uDTW estimates the noise of each step from the series itself; matches inside a burst count less, "
        "and its intervals show where it is uncertain.",
        title="Matches against the truth",
        columns=["method", "error of the match, steps", f"true match inside the {100 * LEVEL:g} % interval, %"],
        rows=[
            [name, mean_std(errors[name], 2), "–" if name == "DTW" else mean_std(coverage[name], 1)]
            for name in ALIGNERS
        ],
        note=f"Mean ± std over {sizes.seeds} seed(s). DTW gives one path and no intervals.",
        figures=[
            (
                figure,
                "A typical pair: a line joins each step with its partner, faded where the match is doubtful. DTW runs "
                "through the bursts and drags their surroundings along; uDTW passes over them.",
            )
        ],
    )


def average_steps(sizes: Sizes) -> int:
    """Count the progress steps of `average`."""
    return sizes.seeds * len(CLASSES)


def average(sizes: Sizes, tick: Tick) -> Part:
    """Average ``sizes.averaged`` disturbed series, and compare the means with other, undisturbed series."""
    scores = {metric: _Scores() for metric in AVERAGED}
    where = disturbed_steps(sizes.length)
    failing = np.zeros(sizes.length, bool)
    failing[where] = True
    figures: list[tuple[Any, str]] = []
    for seed in range(sizes.seeds):
        train = draw(sizes, sizes.averaged, seed, 0, disturbed=True)
        clean = draw(sizes, sizes.test, seed, 1, disturbed=False)
        means: dict[str, list[Barycenter]] = {metric: [] for metric in AVERAGED}
        distance: dict[str, list[float]] = {metric: [] for metric in AVERAGED}
        for label, name in CLASSES.items():
            tick(f"average: {name}")
            series, unseen = (np.asarray(data.X)[data.y == label] for data in (train, clean))
            for metric in AVERAGED:
                mean = barycenter(
                    series, metric, gamma=GAMMA, beta=BETA, max_iter=sizes.mean_iterations, weighting="precision"
                )
                means[metric].append(mean)
                distance[metric].append(_distance(mean, unseen))
            if seed == 0:
                figure = plot_barycenter(series, {METRICS[metric].label: means[metric][-1] for metric in SHOWN_MEANS})
                figures.append((figure, f"Means of {len(series)} disturbed {name} series, and σ_μ in red."))
            if seed == 0 and label == BELL:
                figures.append(_aligned(draw(sizes, 1, seed, 2, disturbed=True), means["udtw"][-1]))
        for metric in AVERAGED:
            sigma = np.sqrt([mean.variance for mean in means[metric]])
            scores[metric].distance.append(float(np.mean(distance[metric])))
            scores[metric].sigma_failing.append(float(sigma[:, failing].mean()))
            scores[metric].sigma_elsewhere.append(float(sigma[:, ~failing].mean()))
    return Part(
        heading="Average",
        text=f"The mean of {sizes.averaged} Cylinder-Bell-Funnel series of a class, by each distance (DTW: DBA). "
        f"During steps {where.start} to {where.stop - 1} the sensor of every series fails: noise of standard deviation "
        f"{DISTURBANCE:g} is added there, 1 elsewhere (made for this demo, to have unreliable steps). "
        "uDTW estimates the mean together with the uncertainty σ_μ of each of its steps. The means are compared with "
        "undisturbed series that were not averaged.",
        title="Class means of disturbed series",
        columns=["mean by", "DTW per step to undisturbed series", "σ_μ while the sensor fails", "σ_μ elsewhere"],
        rows=[_row(metric, scores[metric]) for metric in AVERAGED],
        note=f"Lower DTW is better. Mean ± std over {sizes.seeds} seed(s) of the average over the classes. "
        f"γ = {GAMMA:g} is the better of two that were tried; with γ = 1 no aligned mean beats the Euclidean one. "
        f"β = {BETA:g}, at most {sizes.mean_iterations} iterations.",
        figures=figures,
    )


def _row(metric: str, scores: _Scores) -> list[str]:
    sigmas = (scores.sigma_failing, scores.sigma_elsewhere)
    return [
        METRICS[metric].label,
        mean_std(scores.distance, 2),
        *(mean_std(sigma, 2) if metric == "udtw" else "–" for sigma in sigmas),
    ]


def _distance(mean: Barycenter, unseen: np.ndarray) -> float:
    """Return the mean DTW (squared differences, divided by the length) of series (n, T) to the mean (L,)."""
    return float(dtw(unseen[..., None], mean.mean[None, :, None], normalize="length").mean())


def _aligned(data: Any, mean: Barycenter) -> tuple[Any, str]:
    """Align a new disturbed bell with the mean of bells, with ``Σ = 1 + σ²_μ`` written as ``½(1 + (1 + 2σ²_μ))``."""
    x, y = np.asarray(data.X)[data.y == BELL][0], mean.mean
    alignment = align(x, y, np.ones(len(x)), 1 + 2 * mean.variance, gamma=GAMMA, beta=BETA)
    return plot_alignment(x, y, alignment), (
        "A new disturbed bell (x) aligned with the uDTW mean of bells (y): coupling and paths, the variance "
        "Σ = 1 + σ²_μ of each match, and its histogram over all matches and along the paths. Noise costs little "
        "where the mean is uncertain, so the disturbed steps of x are matched there. The most probable path is the "
        f"cheapest of a great many; at γ = {GAMMA:g} the sampled ones show where the probability lies."
    )


def classify_steps(sizes: Sizes) -> int:
    """Count the progress steps of `classify`."""
    return sizes.seeds * len(CONDITIONS) * len(CLASSIFIERS) * len(COMPARED)


def classify(sizes: Sizes, tick: Tick) -> Part:
    """Measure the accuracy of every distance and classifier, on series with and without faults."""
    accuracy: dict[tuple[str, str, str], list[float]] = {}
    for seed in range(sizes.seeds):
        for condition, faulty in CONDITIONS.items():
            parts = [draw(sizes, count, seed, part, False) for part, count in enumerate((sizes.train, sizes.test))]
            series = [np.asarray(data.X) for data in parts]
            if faulty:
                series = [add_faults(X, random_state=2 * seed + part)[0] for part, X in enumerate(series)]
            (X, X_test), (train, test) = map(znormalize, series), parts
            for metric in COMPARED:
                for name in CLASSIFIERS:
                    tick(f"classify: {METRICS[metric].label}, {name}, {condition}")
                    score = _model(name, metric, seed, sizes).fit(X, train.y).score(X_test, test.y)
                    accuracy.setdefault((metric, condition, name), []).append(100 * score)
    return Part(
        heading="Classify",
        text=f"Cylinder-Bell-Funnel with {sizes.train} training series per class of {sizes.length} steps. With faults, "
        "every series, in training and test alike, has one of four at a random place: a burst of noise, spikes, a "
        "drop-out or a drift of the gain (`udtw.data.add_faults`). Each series is scaled to mean 0 and standard "
        "deviation 1. Every distance has the defaults of its classifier; nothing is tuned. uDTW starts from weights "
        "trained on random tasks with faults, and learns from the labels which stretches of a series to trust.",
        title=f"Accuracy in % on {3 * sizes.test} test series",
        columns=["distance", *(f"{model}, {condition}" for condition in CONDITIONS for model in CLASSIFIERS)],
        rows=[
            [
                METRICS[m].label,
                *(mean_std(accuracy[m, condition, model], 1) for condition in CONDITIONS for model in CLASSIFIERS),
            ]
            for m in COMPARED
        ],
        note=f"Mean ± std over {sizes.seeds} seed(s), each with its own training and test series.",
    )


def _model(name: str, metric: str, seed: int, sizes: Sizes) -> Any:
    if name == "centroid":
        return NearestCentroidTimeSeriesClassifier(metric, max_iter=sizes.prototype_iterations, random_state=seed)
    return KNeighborsTimeSeriesClassifier(metric=metric, max_iter=sizes.sigma_iterations, random_state=seed)


def forecast_steps(sizes: Sizes) -> int:
    """Count the progress steps of `forecast`."""
    return sizes.seeds * len(TRAINED)


def forecast(sizes: Sizes, tick: Tick) -> Part:
    """Train forecasters with every loss and seed, and measure squared error and DTW."""
    scores: dict[str, list[dict[str, float]]] = {loss: [] for loss in TRAINED}
    shown: dict[str, tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]] = {}
    for seed in range(sizes.seeds):
        train, test = (
            synthetic_control(count, STEPS, np.random.default_rng([seed, part]))
            for part, count in enumerate((sizes.forecast_train, sizes.test))
        )
        series = np.asarray(train.X)
        past, truth = np.asarray(test.X)[:, :OBSERVED], np.asarray(test.X)[:, OBSERVED:]
        for loss in TRAINED:
            tick(f"forecast: {METRICS[loss].label} loss")
            model = SequenceForecaster(loss, max_iter=sizes.epochs, random_state=seed)
            model.fit(series[:, :OBSERVED], series[:, OBSERVED:])
            future, (low, high) = model.predict(past), model.predict_interval(past)
            scores[loss].append(
                {
                    "mse": float(np.square(future - truth).mean()),
                    "dtw": float(dtw(future[..., None], truth[..., None], normalize="length").mean()),
                    "coverage": 100 * float(((low <= truth) & (truth <= high)).mean()),
                    "width": float((high - low).mean()),
                }
            )
            if seed == sizes.seeds - 1:
                some = [int(np.flatnonzero(test.y == label)[0]) for label in SHOWN_CHARTS]
                shown[loss] = future[some], (low[some], high[some])
    figure = plot_forecast(
        past[some],
        truth[some],
        {METRICS[loss].label: shown[loss][0] for loss in ("udtw", "euclidean")},
        interval={METRICS["udtw"].label: shown["udtw"][1]},
        level=0.9,
        titles=list(SHOWN_CHARTS.values()),
    )
    return Part(
        heading="Forecast",
        text=f"Synthetic control charts, {sizes.forecast_train} training series in each of 6 classes: the last "
        f"{STEPS - OBSERVED} of {STEPS} steps from the first {OBSERVED}. Much of each series is noise, which "
        "cannot be forecast.",
        title=f"Forecasts of {6 * sizes.test} test series (lower is better, except for the coverage)",
        columns=["trained by", "MSE", "DTW per step", "within 90 % interval, %", "its width"],
        rows=[
            [
                METRICS[loss].label,
                *(mean_std([score[m] for score in scores[loss]], 1) for m in ("mse", "dtw", "coverage", "width")),
            ]
            for loss in TRAINED
        ],
        note=f"Mean ± std over {sizes.seeds} seed(s).",
        figures=[(figure, "Forecasts of three test series; the band is the 90 % interval of uDTW.")],
    )
