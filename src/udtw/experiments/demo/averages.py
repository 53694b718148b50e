"""Average: class means of disturbed series, soft-DTW beside uDTW, and a new series aligned with such a mean."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from udtw.align import align, dtw
from udtw.experiments.demo.data import CLASSES, DISTURBANCE, disturbed_steps, draw
from udtw.experiments.demo.parts import NAMES, Part, Tick, mean_std
from udtw.experiments.demo.sizes import Sizes
from udtw.plots import plot_alignment, plot_barycenter
from udtw.timeseries import Barycenter, barycenter

METRICS = ("euclidean", "dtw", "soft_dtw", "udtw")
SHOWN = ("soft_dtw", "udtw")
BELL = 2
GAMMA, BETA = 10.0, 1.0
"""The series are not normalised: events are 6 high, and a squared difference of noise is 2 on average."""


@dataclass
class _Scores:
    """Of one metric, by seed: means over the classes."""

    distance: list[float] = field(default_factory=list)
    sigma_failing: list[float] = field(default_factory=list)
    sigma_elsewhere: list[float] = field(default_factory=list)


def steps(sizes: Sizes) -> int:
    return sizes.seeds * len(CLASSES)


def average(sizes: Sizes, tick: Tick) -> Part:
    """Means of ``sizes.averaged`` disturbed series, judged by undisturbed series that they have not seen."""
    scores = {metric: _Scores() for metric in METRICS}
    where = disturbed_steps(sizes.length)
    failing = np.zeros(sizes.length, bool)
    failing[where] = True
    figures: list[tuple[Any, str]] = []
    for seed in range(sizes.seeds):
        train = draw(sizes, sizes.averaged, seed, 0, disturbed=True)
        clean = draw(sizes, sizes.test, seed, 1, disturbed=False)
        found: dict[str, list[Barycenter]] = {metric: [] for metric in METRICS}
        distance: dict[str, list[float]] = {metric: [] for metric in METRICS}
        for label, name in CLASSES.items():
            tick(f"average: {name}")
            series, unseen = (np.asarray(data.X)[data.y == label] for data in (train, clean))
            for metric in METRICS:
                mean = barycenter(series, metric, gamma=GAMMA, beta=BETA, max_iter=sizes.mean_iterations)
                found[metric].append(mean)
                distance[metric].append(_distance(mean, unseen))
            if seed == 0:
                figure = plot_barycenter(series, {NAMES[metric]: found[metric][-1] for metric in SHOWN})
                figures.append((figure, f"Means of {len(series)} disturbed {name} series, and σ_μ in red."))
            if seed == 0 and label == BELL:
                figures.append(_aligned(draw(sizes, 1, seed, 2, disturbed=True), found["udtw"][-1]))
        for metric in METRICS:
            sigma = np.sqrt([mean.variance for mean in found[metric]])
            scores[metric].distance.append(float(np.mean(distance[metric])))
            scores[metric].sigma_failing.append(float(sigma[:, failing].mean()))
            scores[metric].sigma_elsewhere.append(float(sigma[:, ~failing].mean()))
    return Part(
        heading="Average",
        text=f"The mean of {sizes.averaged} Cylinder-Bell-Funnel series of a class, by each distance (DTW: DBA). "
        f"During steps {where.start} to {where.stop - 1} the sensor of every series fails: noise of standard deviation "
        f"{DISTURBANCE:g} is added there, 1 elsewhere (made for this demo, to have steps that cannot be trusted). "
        "uDTW estimates along with its mean how far each step of it can be trusted, σ_μ. The means are compared with "
        "undisturbed series that they have not seen.",
        title="Class means of disturbed series",
        columns=["mean by", "DTW a step to undisturbed series", "σ_μ while the sensor fails", "σ_μ elsewhere"],
        rows=[_row(metric, scores[metric]) for metric in METRICS],
        note=f"Lower DTW is better. Mean ± std over {sizes.seeds} seed(s) of the average over the classes. "
        f"γ = {GAMMA:g} is the better of two that were tried; with γ = 1 no aligned mean beats the Euclidean one. "
        f"β = {BETA:g}, at most {sizes.mean_iterations} iterations.",
        figures=figures,
    )


def _row(metric: str, scores: _Scores) -> list[str]:
    sigmas = (scores.sigma_failing, scores.sigma_elsewhere)
    return [
        NAMES[metric],
        mean_std(scores.distance, 2),
        *(mean_std(sigma, 2) if metric == "udtw" else "–" for sigma in sigmas),
    ]


def _distance(mean: Barycenter, unseen: np.ndarray) -> float:
    """Mean DTW (squared differences, divided by the length) of series (n, T) to the mean (L,)."""
    return float(dtw(unseen[..., None], mean.mean[None, :, None], normalize="length").mean())


def _aligned(data: Any, mean: Barycenter) -> tuple[Any, str]:
    """A new disturbed bell on the mean of bells, with ``Σ = 1 + σ²_μ`` written as ``½(1 + (1 + 2σ²_μ))``."""
    x, y = np.asarray(data.X)[data.y == BELL][0], mean.mean
    alignment = align(x, y, np.ones(len(x)), 1 + 2 * mean.variance, gamma=GAMMA, beta=BETA)
    return plot_alignment(x, y, alignment), (
        "A new disturbed bell (x) aligned with the uDTW mean of bells (y): coupling and paths, the variance "
        "Σ = 1 + σ²_μ of each match, and its histogram over all matches and along the paths. Noise costs little "
        "where the mean is uncertain, so the disturbed steps of x gather there. The most probable path is the cheapest "
        f"of a great many; at γ = {GAMMA:g} the sampled ones show where the probability lies."
    )
