"""Small labelled sets that every test of the estimators can learn."""

import numpy as np


def bumps(per_class: int = 8, length: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes, one bump or two, at random places and paces: (2·per_class, length) and labels "one" and "two"."""
    rng = np.random.default_rng(seed)
    series, labels = [], []
    for name, centres in (("one", [0.5]), ("two", [0.3, 0.7])):
        for _ in range(per_class):
            time = np.linspace(0, 1, length) ** np.exp(rng.uniform(-0.3, 0.3))
            curve = sum(np.exp(-0.5 * ((time - c) / 0.07) ** 2) for c in centres)
            series.append(curve + 0.1 * rng.standard_normal(length))
            labels.append(name)
    return np.array(series), np.array(labels)
