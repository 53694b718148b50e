"""Classify: few noisy training series, five distances, two classifiers."""

from typing import Any

import numpy as np

from udtw.data import znormalize
from udtw.experiments.demo.data import DISTURBANCE, disturbed_steps, draw
from udtw.experiments.demo.parts import NAMES, Part, Tick, mean_std
from udtw.experiments.demo.sizes import Sizes
from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

CONDITIONS = {"as published": False, "disturbed": True}
MODELS = ("1-NN", "centroid")


def steps(sizes: Sizes) -> int:
    return sizes.seeds * len(CONDITIONS) * len(MODELS) * len(NAMES)


def classify(sizes: Sizes, tick: Tick) -> Part:
    """Accuracy of every distance and classifier, on series as published and on disturbed ones."""
    accuracy: dict[tuple[str, str, str], list[float]] = {}
    for seed in range(sizes.seeds):
        for condition, disturbed in CONDITIONS.items():
            train, test = (
                draw(sizes, count, seed, part, disturbed) for part, count in enumerate((sizes.train, sizes.test))
            )
            for metric in NAMES:
                for name in MODELS:
                    tick(f"classify: {NAMES[metric]}, {name}, {condition}")
                    model = _model(name, metric, seed, sizes).fit(znormalize(np.asarray(train.X)), train.y)
                    score = model.score(znormalize(np.asarray(test.X)), test.y)
                    accuracy.setdefault((metric, condition, name), []).append(100 * score)
    where = disturbed_steps(sizes.length)
    return Part(
        heading="Classify",
        text=f"Cylinder-Bell-Funnel with {sizes.train} training series a class of {sizes.length} steps, once as "
        f"published and once with a sensor that fails during steps {where.start} to {where.stop - 1} (noise of "
        f"standard deviation {DISTURBANCE:g} added), in training and test alike. Each series is brought to mean 0 and "
        "standard deviation 1. Every distance has the same training budget and the defaults of its classifier; "
        "nothing is tuned.",
        title=f"Accuracy in % on {3 * sizes.test} test series",
        columns=["distance", *(f"{model}, {condition}" for condition in CONDITIONS for model in MODELS)],
        rows=[
            [NAMES[m], *(mean_std(accuracy[m, condition, model], 1) for condition in CONDITIONS for model in MODELS)]
            for m in NAMES
        ],
        note=f"Mean ± std over {sizes.seeds} seed(s), each with its own training and test series.",
    )


def _model(name: str, metric: str, seed: int, sizes: Sizes) -> Any:
    if name == "centroid":
        return NearestCentroidTimeSeriesClassifier(metric, max_iter=sizes.prototype_iterations, random_state=seed)
    return KNeighborsTimeSeriesClassifier(metric=metric, sigma_iter=sizes.sigma_iterations, random_state=seed)
