"""The Fréchet mean of every class, each by itself, so that other processes or machines can find them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from udtw import joblib_tasks
from udtw.errors import OptionError, ShapeError
from udtw.metrics import Metric
from udtw.timeseries.barycenter import Barycenter, barycenter


def class_barycenters(X: Any, y: Any, metric: str | Metric = "udtw", **params: Any) -> dict[Any, Barycenter]:
    """``{label: barycenter(series of that label, metric, **params)}``, labels sorted.

    Parameters
    ----------
    X : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
    y : (n,) labels
    metric, **params : as in `barycenter`
        ``weights`` belong to one set of series and are refused.

    Under ``joblib.parallel_config`` with a backend of processes or machines (loky, Dask), one task a class.
    """
    if "weights" in params:
        raise OptionError("weights belong to the series of one class; call barycenter for each class.")
    labels = np.asarray(y)
    if labels.shape != (len(X),):
        raise ShapeError(f"y must be one label a series, shape ({len(X)},); got {labels.shape}.")
    names = np.unique(labels)
    means = barycenters_of([[X[i] for i in np.flatnonzero(labels == name)] for name in names], metric, params)
    return dict(zip(names.tolist(), means, strict=True))


def barycenters_of(
    groups: Sequence[Sequence[np.ndarray]], metric: str | Metric, params: Mapping[str, Any]
) -> list[Barycenter]:
    """The mean of every group of series."""
    tasks = [(group, metric, params) for group in groups]
    if not joblib_tasks.chosen():
        return [_mean(*task) for task in tasks]
    found = dict(joblib_tasks.spread(_mean, tasks))
    return [found[number] for number in range(len(tasks))]


def _mean(group: Sequence[np.ndarray], metric: str | Metric, params: Mapping[str, Any]) -> Barycenter:
    return barycenter(group, metric, **params)
