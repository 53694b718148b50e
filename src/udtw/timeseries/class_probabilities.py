"""Probabilities of classes, calibrated on training series that a classifier has not seen."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.base import clone

from udtw._engine.metrics import get_metric

Floats = NDArray[np.floating]

FOLDS = 3
"""One in so many series of a class is held out."""
DECADES = 3.0
"""The temperature lies within so many powers of ten of the scale of the distances."""


@dataclass(frozen=True)
class Calibration:
    """``p = (1 − floor)·softmax(−distance / temperature) + floor / C``, fitted on held-out training series.

    The floor is 1 / (n + 2) for n of these: even if all of them are right, the next one may be wrong.
    """

    temperature: float
    floor: float
    held_out: int
    accuracy: float
    """Share of the held-out series that were assigned to their class."""
    mean_probability: float
    """Mean probability of the classes that they were assigned to."""

    def probabilities(self, distances: Floats, winners: NDArray) -> Floats:
        """Return (n, C) from the distances to the classes; that of the class assigned is never below the others."""
        found = softmax(-distances / self.temperature, axis=1)
        found = (1 - self.floor) * found + self.floor / found.shape[1]
        found[np.arange(len(found)), winners] = found.max(1)
        return found / found.sum(1, keepdims=True)


def calibrate_classes(classifier: Any, X: Any, y: NDArray, seed: int) -> Calibration | None:
    """Fit copies of the classifier to two thirds of the series, and the `Calibration` to the others.

    Each third is held out in turn; only the first, if the classifier trains a network, which takes long. Return None if
    no class has three series. ``X`` is an array or a list of series.
    """
    rng, labels = np.random.default_rng(seed), np.unique(y)
    fold = np.full(len(y), -1)
    for label in labels:
        own = rng.permutation(np.flatnonzero(y == label))
        fold[own] = np.arange(len(own)) % FOLDS if len(own) >= FOLDS else -1
    if not (fold >= 0).any():
        return None
    slow = get_metric(classifier.metric).uncertain or not hasattr(classifier, "n_neighbors")
    found = []
    for number in range(1 if slow else FOLDS):
        held = fold == number
        trial = clone(classifier).fit(_rows(X, np.flatnonzero(~held)), y[~held])
        found.append((*trial.class_distances(_rows(X, np.flatnonzero(held))), np.searchsorted(labels, y[held])))
    distances, winners, codes = (np.concatenate(parts) for parts in zip(*found, strict=True))
    floor, rows = 1 / (len(codes) + 2), np.arange(len(codes))

    def fitted(temperature: float) -> Calibration:
        return Calibration(temperature, floor, len(codes), float((winners == codes).mean()), 0.0)

    def surprise(log_temperature: float) -> float:
        found = fitted(float(np.exp(log_temperature))).probabilities(distances, winners)
        return -float(np.log(found[rows, codes]).mean())

    gaps = distances - distances.min(1, keepdims=True)
    scale = float(gaps[gaps > 0].mean()) if (gaps > 0).any() else 1.0
    bounds = np.log(scale) + DECADES * np.log(10) * np.array([-1, 1])
    best = fitted(float(np.exp(minimize_scalar(surprise, bounds=bounds, method="bounded").x)))
    mean = float(best.probabilities(distances, winners)[rows, winners].mean())
    return Calibration(best.temperature, best.floor, best.held_out, best.accuracy, mean)


def _rows(X: Any, chosen: NDArray) -> Any:
    return X[chosen] if isinstance(X, np.ndarray) else [X[at] for at in chosen]
