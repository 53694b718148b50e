"""The base of the estimators: metric and parameters, checks of series and labels, and scikit-learn's tags."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator
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

from udtw._engine import inputs
from udtw._engine.deprecation import renamed_options
from udtw._engine.metrics import IGNORABLE, Metric, get_metric
from udtw._engine.series_set import SeriesSet, feature_names, load_series
from udtw.errors import LengthError, OptionError, ShapeError

OLD_METRIC_OPTIONS = {name: f"metric_params.{name}" for name in ("gamma", "beta", "band", "warp_penalty", "nan_policy")}
"""Keywords of version 0.2 that moved into ``metric_params``."""


class MetricEstimator(BaseEstimator):
    """Base of the estimators with the options ``metric``, ``metric_params`` and ``device``."""

    old_options: ClassVar[Mapping[str, str]] = {}
    """Keyword of version 0.2 to its new name, for the constructor and `set_params`."""

    def set_params(self, **params: Any) -> Self:
        """Set options; the keywords of version 0.2 are accepted with a `FutureWarning`."""
        old = {name: params.pop(name) for name in params.keys() & self.old_options.keys()}
        if old:
            groups = {new.partition(".")[0] for new in self.old_options.values() if "." in new}
            fresh = type(self)(**{name: params.get(name, getattr(self, name)) for name in groups}, **old)
            changed = {self.old_options[name].partition(".")[0] for name in old}
            params |= {name: getattr(fresh, name) for name in changed}
        return super().set_params(**params)

    @property
    def _nan_policy(self) -> str:
        return checked_params(self.metric_params).get("nan_policy", "raise")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = self._nan_policy == "omit"
        return tags


Estimator = TypeVar("Estimator", bound=MetricEstimator)


def accepts_old_options(estimator: type[Estimator]) -> type[Estimator]:
    """Let the constructor of an estimator accept its ``old_options``."""
    estimator.__init__ = renamed_options(**estimator.old_options)(estimator.__init__)  # type: ignore[method-assign]
    return estimator


def make_metric(metric: str | Metric, metric_params: Mapping[str, Any] | None, **defaults: Any) -> Metric:
    """Return the checked metric with ``metric_params`` over ``defaults``; None takes the default of the metric.

    A `Metric` keeps its own parameters.

    >>> make_metric("dtw", {"band": 0.1, "warp_penalty": None}, gamma=0.1).params["band"]
    0.1
    """
    given = checked_params(metric_params)
    given.pop("nan_policy", None)
    row = get_metric(metric)
    if unknown := sorted(given.keys() - row.params.keys() - {*IGNORABLE, "weighting"}):
        known = ", ".join(row.params) or "none"
        raise OptionError(f"metric={row.name!r} has no parameter {', '.join(unknown)}; it has {known}.")
    given = defaults | given
    if not row.uncertain:
        given.pop("weighting", None)
    chosen = get_metric(metric, **given)
    chosen.check()
    return chosen


def classifier_metric(metric: str | Metric, metric_params: Mapping[str, Any] | None, beta: Any) -> Metric:
    """Return the metric of a classifier: "udtw" is debiased unless it has the paper's weighting."""
    debias = checked_params(metric_params).get("weighting", "likelihood") == "likelihood"
    return make_metric(metric, metric_params, gamma=0.1, beta=beta, debias=debias)


def checked_params(metric_params: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the parameters that are set."""
    if metric_params is not None and not isinstance(metric_params, Mapping):
        raise OptionError(f"metric_params must be a dictionary or None; got {metric_params!r:.100}.")
    return {name: value for name, value in (metric_params or {}).items() if value is not None}


def fit_series(estimator: Any, X: Any) -> SeriesSet:
    """Check the X of ``fit``; sets ``n_features_in_`` (T of a table) and ``n_channels_`` (d)."""
    deep, nan_policy = _ragged_or_deep(X), estimator._nan_policy
    X = validate_data(estimator, X, **_table_options(nan_policy)) if deep is None else deep
    estimator.channel_names_ = feature_names(X)
    series = load_series("X", X, nan_policy=nan_policy, device=estimator.device)
    if deep is not None:
        estimator.n_features_in_ = int(series.values.shape[1])
    estimator.n_channels_ = int(series.values.shape[2])
    return series


def new_series(estimator: Any, X: Any) -> SeriesSet:
    """Check the X of ``predict``.

    A table (n, T) must have the columns of the one in ``fit``, as everywhere in scikit-learn. Lists and (n, T, d) may
    have any length if ``estimator.metric_`` is elastic; the channels must be those of ``fit``.
    """
    check_is_fitted(estimator)
    deep, nan_policy = _ragged_or_deep(X), estimator._nan_policy
    if deep is None:
        columns = check_array(X, **_table_options(nan_policy)).shape[1]
        if columns != estimator.n_features_in_ and not hasattr(X, "columns"):
            raise LengthError(
                f"X has {columns} features, but {type(estimator).__name__} is expecting {estimator.n_features_in_} "
                "features as input. Pass series of another length as a list of arrays, or as an array (n, T, 1)."
            )
        deep = validate_data(estimator, X, reset=False, **_table_options(nan_policy))
    names = getattr(estimator, "channel_names_", None)
    series = load_series("X", deep, nan_policy=nan_policy, device=estimator.device, names=names)
    if series.values.shape[2] != estimator.n_channels_:
        raise ShapeError(
            f"X has {series.values.shape[2]} channel(s) per step, but {type(estimator).__name__} was fitted with "
            f"{estimator.n_channels_}."
        )
    if not estimator.metric_.elastic and (series.lengths != estimator.n_features_in_).any():
        raise LengthError(
            f"X has series of {sorted(set(series.lengths.tolist()))[:5]} steps, but {type(estimator).__name__} was "
            f"fitted with {estimator.n_features_in_}, and metric='euclidean' compares step by step.",
            parameter="metric",
        )
    return series


def _table_options(nan_policy: str) -> dict[str, Any]:
    return {"dtype": [np.float64, np.float32], "ensure_all_finite": nan_policy == "raise" or "allow-nan"}


def _ragged_or_deep(X: Any) -> Any:
    """Return X if it is a list of different lengths or has three axes; None if it is an ordinary table."""
    if inputs.name_container(X) is not None:
        return inputs.split_series(X)
    if isinstance(X, Tensor):
        X = X.detach().cpu().numpy()
    if isinstance(X, list | tuple):
        shapes = {np.shape(item) for item in X}
        if len(shapes) > 1 or any(len(shape) == 2 for shape in shapes):
            return X
        return None
    return X if isinstance(X, np.ndarray) and X.ndim == 3 else None


def checked_labels(series: SeriesSet, y: Any) -> np.ndarray:
    """Return the class labels (n,), one per series."""
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    y = column_or_1d(y, warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    check_consistent_length(series.values, y)
    return y


def check_counts(estimator: Any, names: Iterable[str]) -> None:
    """Raise `OptionError` unless these options are positive whole numbers."""
    for name in names:
        value = getattr(estimator, name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise OptionError(f"{name} must be a whole number, 1 or more; got {value!r}.", parameter=name)


def resample(series: np.ndarray, steps: int) -> np.ndarray:
    """Resample (T, d) to (steps, d) by linear interpolation over evenly spaced times, keeping first and last step."""
    if len(series) == steps:
        return series
    times, grid = np.linspace(0, 1, len(series)), np.linspace(0, 1, steps)
    return np.stack([np.interp(grid, times, channel) for channel in series.T], axis=1)
