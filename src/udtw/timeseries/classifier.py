"""What the classifiers share: their metric, and the checks and tags that scikit-learn expects."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor

from udtw._engine import ragged
from udtw._engine.metrics import Metric, get_metric
from udtw._engine.series_set import SeriesSet, load_series
from udtw.errors import LengthError, ShapeError


class MetricClassifier(ClassifierMixin, BaseEstimator):
    """Base of classifiers with the parameters ``metric, gamma, beta, band, warp_penalty, weighting, normalize``."""

    def _metric(self) -> Metric:
        """The metric before any training."""
        penalty = 0.0 if self.warp_penalty is None else self.warp_penalty
        given = {"gamma": self.gamma, "beta": self.beta, "band": self.band, "warp_penalty": penalty}
        if self.normalize is not None:
            given["normalize"] = self.normalize
        if get_metric(self.metric).uncertain and isinstance(self.metric, str):
            given |= {"weighting": self.weighting, "debias": self.weighting == "likelihood"}
        chosen = get_metric(self.metric, **given)
        chosen.check()
        return chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self.nan_policy == "omit"
        return tags


def fit_series(estimator: Any, X: Any, nan_policy: str = "raise") -> SeriesSet:
    """Check the X of ``fit``; sets ``n_features_in_`` (T of a table) and ``n_channels_`` (d)."""
    ragged = _ragged_or_deep(X)
    X = validate_data(estimator, X, **_table_options(nan_policy)) if ragged is None else ragged
    series = load_series("X", X, nan_policy=nan_policy, device=estimator.device)
    if ragged is not None:
        estimator.n_features_in_ = int(series.values.shape[1])
    estimator.n_channels_ = int(series.values.shape[2])
    return series


def new_series(estimator: Any, X: Any, nan_policy: str = "raise", *, elastic: bool = True) -> SeriesSet:
    """Check the X of ``predict``.

    A table (n, T) must have the columns of the one in ``fit``, as everywhere in scikit-learn. Lists and (n, T, d) may
    have any length if the metric is elastic; the channels must be those of ``fit``.
    """
    check_is_fitted(estimator)
    ragged = _ragged_or_deep(X)
    if ragged is None:
        columns = check_array(X, **_table_options(nan_policy)).shape[1]
        if columns != estimator.n_features_in_ and not hasattr(X, "columns"):
            raise LengthError(
                f"X has {columns} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
                "features as input. Series of another length go in as a list of arrays, or as an array (n, T, 1)."
            )
        ragged = validate_data(estimator, X, reset=False, **_table_options(nan_policy))
    series = load_series("X", ragged, nan_policy=nan_policy, device=estimator.device)
    if series.values.shape[2] != estimator.n_channels_:
        raise ShapeError(
            f"X has {series.values.shape[2]} channel(s) per step, but {type(estimator).__name__} was fitted with "
            f"{estimator.n_channels_}."
        )
    if not elastic and (series.lengths != estimator.n_features_in_).any():
        raise LengthError(
            f"X has series of {sorted(set(series.lengths.tolist()))[:5]} steps, but {type(estimator).__name__} was "
            f"fitted with {estimator.n_features_in_}, and metric='euclidean' compares step by step."
        )
    return series


def _table_options(nan_policy: str) -> dict[str, Any]:
    return {"dtype": [np.float64, np.float32], "ensure_all_finite": nan_policy == "raise" or "allow-nan"}


def _ragged_or_deep(X: Any) -> Any:
    """X if it is a list of different lengths or has three axes; None if it is an ordinary table."""
    if ragged.container(X) is not None:
        return ragged.parts(X)
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    if isinstance(X, list | tuple):
        shapes = {np.shape(item) for item in X}
        if len(shapes) > 1 or any(len(shape) == 2 for shape in shapes):
            return X
        return None
    return X if isinstance(X, np.ndarray) and X.ndim == 3 else None


def checked_labels(series: SeriesSet, y: Any) -> np.ndarray:
    """(n,) class labels, one per series."""
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    check_consistent_length(series.values, y)
    return y
