"""Average: class means of disturbed series, soft-DTW beside uDTW."""

import numpy as np

from udtw.distances import dtw
from udtw.experiments.demo.data import CLASSES, DISTURBANCE, disturbed_steps, draw
from udtw.experiments.demo.parts import NAMES, Part, Tick, mean_std
from udtw.experiments.demo.sizes import Sizes
from udtw.plots import plot_barycenter
from udtw.timeseries import Barycenter, barycenter

METRICS = ("euclidean", "dtw", "soft_dtw", "udtw")
SHOWN = ("soft_dtw", "udtw")
GAMMA, BETA = 1.0, 1.0


def steps(sizes: Sizes) -> int:
    return sizes.seeds * len(CLASSES)


def average(sizes: Sizes, tick: Tick) -> Part:
    """Means of ``sizes.averaged`` disturbed series, judged by clean series that they have not seen."""
    scores: dict[str, list[list[float]]] = {metric: [] for metric in METRICS}
    figures = []
    for seed in range(sizes.seeds):
        train = draw(sizes, sizes.averaged, seed, 0, disturbed=True)
        clean = draw(sizes, sizes.test, seed, 1, disturbed=False)
        for metric in METRICS:
            scores[metric].append([])
        for label, name in CLASSES.items():
            tick(f"average: {name}")
            series = np.asarray(train.X)[train.y == label]
            means = {metric: _mean(series, metric, sizes) for metric in METRICS}
            unseen = np.asarray(clean.X)[clean.y == label]
            for metric, found in means.items():
                scores[metric][seed].append(_distance(found.mean, unseen))
            if seed == 0:
                figure = plot_barycenter(series, {NAMES[metric]: means[metric] for metric in SHOWN})
                figures.append((figure, f"Means of {len(series)} disturbed {name} series, and σ_μ in red."))
    where = disturbed_steps(sizes.length)
    rows = [
        [NAMES[m], *(mean_std([seed[c] for seed in scores[m]], 2) for c in range(len(CLASSES))),
         mean_std([float(np.mean(seed)) for seed in scores[m]], 2)]
        for m in METRICS
    ]  # fmt: skip
    return Part(
        heading="Average",
        text=f"The mean of {sizes.averaged} series of a class, by each distance (DTW: DBA). During steps {where.start} "
        f"to {where.stop - 1} the sensor of every series fails: noise of standard deviation {DISTURBANCE:g} is added "
        "there, 1 elsewhere. uDTW finds by itself how far each step of its mean can be trusted (σ_μ).",
        title="Class means of disturbed series: DTW a step to undisturbed series not seen (lower is better)",
        columns=["mean by", *CLASSES.values(), "all"],
        rows=rows,
        note=f"Mean ± std over {sizes.seeds} seed(s). γ = {GAMMA:g}, β = {BETA:g}, at most {sizes.mean_iterations} "
        "iterations.",
        figures=figures,
    )


def _mean(series: np.ndarray, metric: str, sizes: Sizes) -> Barycenter:
    return barycenter(series, metric, gamma=GAMMA, beta=BETA, max_iter=sizes.mean_iterations)


def _distance(mean: np.ndarray, unseen: np.ndarray) -> float:
    """Mean DTW (squared differences, divided by the length) of series (n, T) to ``mean`` (L,)."""
    return float(dtw(unseen[..., None], mean[None, :, None], normalize="length").mean())
