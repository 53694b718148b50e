"""Run the parts of the demo on series: align, average, classify and forecast, by every metric."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from udtw._engine.align import align, dtw
from udtw._engine.match import match
from udtw._engine.metrics import METRICS
from udtw.data import add_faults, synthetic_control, znormalize
from udtw.data.generators import TYPICAL_PAIR, known_warps
from udtw.demo.common import (
    CLASSES,
    COMPARED,
    DISTURBANCE,
    TRAINED,
    Comparison,
    Part,
    Sizes,
    Tick,
    disturbed_steps,
    draw,
    seeds_in_words,
)
from udtw.demo.document import mean_std
from udtw.plots import plot_barycenter, plot_forecast
from udtw.plots.style import MODE_COLOR, WRONG_COLOR, X_COLOR, Y_COLOR, probability_shade, shade
from udtw.timeseries import (
    Barycenter,
    KNeighborsTimeSeriesClassifier,
    NearestCentroidTimeSeriesClassifier,
    SequenceForecaster,
    barycenter,
)

Floats = NDArray[np.float64]
SOFT_GAMMA = 4.0
"""Best of 0.3, 1, 2, 4 and 8 for soft-DTW on 300 pairs (mean errors 4.8, 3.1, 2.3, 2.0 and 2.2 steps)."""
WRONG_STEPS = 3
ALIGNERS = ("DTW", "soft-DTW", "uDTW")
LEVEL = 0.9

AVERAGED = ("euclidean", "dtw", "soft_dtw", "udtw")
SHOWN_MEANS = ("soft_dtw", "udtw")
BELL = 2
GAMMA, BETA = 10.0, 1.0
"""γ and β of means: the series are not normalized, events are 6 high, and squared noise differences average 2."""
CONDITIONS = {"with faults": True, "without faults": False}
CAVEATS = {
    "with faults": "Its network saw such faults before, in random tasks. On 27 UCR data sets: 78.7 against 66.3.",
    "without faults": "On 27 UCR data sets: 84.4 against 83.0, which is not significant.",
}
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


@dataclass(frozen=True)
class Panel:
    """Hold what one method says of a pair: its partners (N,), how probable they are, and the doubtful stretches."""

    name: str
    expected: Floats
    partners: Floats
    probability: Floats
    doubtful: list[tuple[int, int]]
    interval: tuple[Floats, Floats] | None = None
    """90 % intervals of the partners, if the method has any."""

    def error(self, truth: Floats) -> float:
        """Return the mean distance to the true partners in steps."""
        return float(np.nanmean(np.abs(self.expected - truth)))

    def coverage(self, truth: Floats) -> float:
        """Return the share of true partners that the intervals hold if they are half a step wider."""
        if self.interval is None:
            return np.nan
        low, high = self.interval
        return float(np.mean((low - 0.5 <= truth) & (truth <= high + 0.5)))


def compare(x: Floats, y: Floats) -> list[Panel]:
    """Align a pair by the three methods; uDTW is `udtw.match` without any option."""
    rows, columns = np.asarray(align(x, y, gamma=1e-3).paths.mode()).T
    on_path = np.bincount(rows, columns) / np.bincount(rows)
    soft, found = align(x, y, gamma=SOFT_GAMMA).matches(), match(x, y)
    stretches = [(one.first, one.last) for one in found.doubtful()]
    return [
        Panel("DTW", on_path, on_path, np.ones(len(x)), []),
        Panel("soft-DTW", soft.expected, soft.index, soft.probability, [], (soft.low, soft.high)),
        Panel("uDTW", found.expected, found.index, found.probability, stretches, (found.low, found.high)),
    ]


def draw_matches(panel: Panel, x: Floats, y: Floats, truth: Floats, axes: Axes) -> None:
    """Draw x above y; lines are black by probability, red where they are wrong, under orange bars where doubtful."""
    shift = y.max() - x.min() + 0.9
    steps = np.flatnonzero(panel.partners >= 0)
    wrong = np.abs(panel.partners - truth)[steps] > WRONG_STEPS
    ends = [[(i, x[i] + shift), (panel.partners[i], np.interp(panel.partners[i], np.arange(len(y)), y))] for i in steps]
    colors = [
        WRONG_COLOR if bad else probability_shade(panel.probability[i]) for i, bad in zip(steps, wrong, strict=True)
    ]
    axes.add_collection(LineCollection(ends, colors=colors, linewidths=1.1))
    axes.plot(x + shift, color=X_COLOR, linewidth=1.8)
    axes.plot(y, color=Y_COLOR, linewidth=1.8)
    top = x.max() + shift + 0.5
    for first, last in panel.doubtful:
        axes.plot([first - 0.4, last + 0.4], [top, top], color=MODE_COLOR, linewidth=5, solid_capstyle="butt")
    axes.set_title(f"{panel.name}: {panel.error(truth):.1f} steps off", fontsize=15, color=shade(1), loc="left")
    for name, values, color in (("x", x + shift, X_COLOR), ("y", y, Y_COLOR)):
        axes.text(-1.2, values[0], name, color=color, ha="right", va="center", fontsize=14)
    axes.set_ylim(y.min() - 0.3, top + 0.3)
    axes.set_axis_off()


def picture(method: int | None = None) -> Figure:
    """Draw the typical pair by one method, or by all three side by side."""
    data = known_warps(TYPICAL_PAIR + 1, 0)
    x, y, truth = (data[name][TYPICAL_PAIR] for name in ("x", "y", "match"))
    panels = compare(x, y)
    shown = panels if method is None else [panels[method]]
    figure = Figure(figsize=(4.6 * len(shown), 3.6), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        draw_matches(panel, x, y, truth, axes)
    return figure


def align_steps(sizes: Sizes) -> int:
    """Count the progress steps of `align_pairs`."""
    return sizes.seeds


def align_pairs(sizes: Sizes, tick: Tick) -> Part:
    """Measure the errors of the matches of every method, and how often the intervals hold the true match."""
    errors: dict[str, list[float]] = {name: [] for name in ALIGNERS}
    coverage: dict[str, list[float]] = {name: [] for name in ALIGNERS}
    data = known_warps(sizes.seeds * sizes.pairs, 0)
    for seed in range(sizes.seeds):
        tick("align: DTW, soft-DTW, uDTW")
        some = slice(seed * sizes.pairs, (seed + 1) * sizes.pairs)
        pairs = zip(data["x"][some], data["y"][some], data["match"][some], strict=True)
        found = [[(one.error(truth), one.coverage(truth)) for one in compare(x, y)] for x, y, truth in pairs]
        for name, (error, covered) in zip(ALIGNERS, np.mean(found, 0), strict=True):
            errors[name].append(float(error))
            coverage[name].append(100 * float(covered))
    return Part(
        heading="Align",
        text=f"{len(data['x'])} pairs of smooth series of {data['x'].shape[1]} steps, one a warped copy of the other, "
        "with a little noise and a burst of strong noise in each. The true alignment is known, and no method knows "
        "where the bursts are. uDTW is `udtw.match` without any option: it estimates the noise of each step from the "
        "pair; matches inside a burst count less, and it says which stretches are doubtful.",
        title="Matches against the truth",
        columns=["method", "error of the match, steps", f"true match inside the {100 * LEVEL:g} % interval, %"],
        rows=[
            [name, mean_std(errors[name], 1), "–" if name == "DTW" else mean_std(coverage[name], 1)]
            for name in ALIGNERS
        ],
        note=("" if sizes.seeds == 1 else f"Mean ± standard deviation over {sizes.seeds} times {sizes.pairs} pairs. ")
        + "DTW gives one path and no intervals; soft-DTW has the γ that is best for it on such pairs.",
        figures=[
            (
                picture(),
                "A typical pair of 300, not the best one: its errors are nearest to the medians of all three methods. "
                "The darker a line, the more probable the match; red lines are more than three steps off, and orange "
                "marks what uDTW calls doubtful.",
            )
        ],
        compared=[Comparison("Align series with bursts of noise", "steps off, lower is better", errors, lower=True)],
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
            if seed == 0 and label == BELL:
                figure = plot_barycenter(series, {METRICS[metric].label: means[metric][-1] for metric in SHOWN_MEANS})
                figures.append((figure, f"Means of {len(series)} disturbed {name} series, and σ_μ in red."))
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
        note=f"Lower DTW is better. Mean {seeds_in_words(sizes.seeds)} of the average over the classes. "
        f"γ = {GAMMA:g} is the better of two that were tried; with γ = 1 no aligned mean beats the Euclidean one. "
        f"β = {BETA:g}, at most {sizes.mean_iterations} iterations.",
        figures=figures,
        compared=[
            Comparison(
                "Average series of a failing sensor",
                "DTW per step to undisturbed series, lower is better",
                {METRICS[metric].label: scores[metric].distance for metric in AVERAGED},
                lower=True,
                caveat="On UCR data sets without faults DBA is nearer: 0.55 of the Euclidean mean's DTW against 0.60.",
            )
        ],
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
        note=f"Mean {seeds_in_words(sizes.seeds)}. Each seed has its own training and test series.",
        figures=[(_bars(accuracy), "Accuracy of 1-NN with faults, and without (hollow).")],
        compared=[
            Comparison(
                f"Classify series {condition}",
                "accuracy of 1-NN in %",
                {METRICS[metric].label: accuracy[metric, condition, "1-NN"] for metric in COMPARED},
                caveat=caveat,
            )
            for condition, caveat in CAVEATS.items()
        ],
    )


def _bars(accuracy: dict[tuple[str, str, str], list[float]]) -> Figure:
    """Draw the accuracy of 1-NN by every distance, with faults and without."""
    figure = Figure((7, 0.45 * len(COMPARED) + 0.9), layout="constrained")
    axes = figure.subplots()
    for place, metric in enumerate(reversed(COMPARED)):
        faulty, clean = (float(np.mean(accuracy[metric, condition, "1-NN"])) for condition in CONDITIONS)
        axes.barh(place, faulty, color=X_COLOR if metric == "udtw" else "0.65")
        axes.barh(place, clean, fill=False, edgecolor="0.2")
        axes.text(1, place, f"{faulty:.0f}", color="white" if metric == "udtw" else "black", va="center", fontsize=10)
    axes.set_yticks(range(len(COMPARED)), [METRICS[metric].label for metric in reversed(COMPARED)])
    axes.set_xlim(0, 100)
    axes.set_xlabel("accuracy in %")
    return figure


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
        note=f"Mean {seeds_in_words(sizes.seeds)}.",
        figures=[(figure, "Forecasts of three test series; the band is the 90 % interval of uDTW.")],
        compared=[
            Comparison(
                "Forecast control charts",
                "mean squared error, lower is better",
                {METRICS[loss].label: [score["mse"] for score in scores[loss]] for loss in TRAINED},
                lower=True,
                caveat="On ECG5000 the Euclidean loss has the lowest squared error.",
            )
        ],
    )
