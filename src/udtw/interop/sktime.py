"""Estimators for sktime (extra ``sktime``): distance, aligner, classifier, clusterer and forecaster.

They accept all containers of sktime and pass its ``check_estimator``.
"""

from typing import Any

import numpy as np
import pandas as pd
from numpy.lib.stride_tricks import sliding_window_view
from scipy.stats import norm
from sklearn.base import clone

try:
    from sktime.alignment.base import BaseAligner
    from sktime.classification.base import BaseClassifier
    from sktime.clustering import BaseClusterer
    from sktime.dists_kernels.base import BasePairwiseTransformerPanel
    from sktime.forecasting.base import BaseForecaster
except ModuleNotFoundError as error:
    if error.name != "sktime":
        raise
    raise ImportError("udtw.interop.sktime needs sktime; install it with: pip install 'udtw[sktime]'") from error

from udtw._engine.align import align
from udtw._engine.alignment import Alignment
from udtw._engine.match_many import match_many
from udtw._engine.metrics import Metric
from udtw._engine.pairwise import pairwise
from udtw.errors import LengthError
from udtw.interop.wrapped import WrappedClassifier, WrappedClusterer
from udtw.timeseries import SequenceForecaster

# ruff: noqa: RUF012 (sktime declares tags as dictionaries of a class)
ANY_SERIES = {
    "X_inner_mtype": "df-list",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:missing_values": False,
    "capability:categorical_in_X": False,
    "authors": "The udtw developers",
    "python_dependencies": "udtw",
}


def _arrays(X: Any) -> list[np.ndarray]:
    """Return the series as arrays (T, d)."""
    return [one.to_numpy(float) for one in X]


class UDTWDistance(BasePairwiseTransformerPanel):
    """Compute all distances between the series of one or two panels, by `udtw.pairwise`.

    Parameters
    ----------
    metric : str or Metric
    params : dict, optional
        Parameters of the metric, such as ``{"gamma": 0.1, "band": 0.1}``.
    n_jobs : int, optional
        Threads.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.interop.sktime import UDTWDistance
    >>> X = np.array([[[0.0, 0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]], [[1.0, 2.0, 3.0, 4.0]]])  # (n, d, T)
    >>> UDTWDistance("dtw")(X).tolist()[0]
    [0.0, 0.0, 23.0]
    """

    _tags = {**ANY_SERIES, "symmetric": True, "pwtrafo_type": "distance"}

    def __init__(self, metric: str | Metric = "udtw", params: dict | None = None, n_jobs: int | None = None) -> None:
        self.metric, self.params, self.n_jobs = metric, params, n_jobs
        super().__init__()

    def _transform(self, X: Any, X2: Any = None) -> np.ndarray:
        other = None if X2 is None else _arrays(X2)
        return pairwise(_arrays(X), other, self.metric, self.n_jobs, **(self.params or {}))

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings for sktime's own checks."""
        return [{}, {"metric": "dtw", "params": {"band": 0.3}, "n_jobs": 1}]


class UDTWAligner(BaseAligner):
    """Compute the most probable path between two series and their distance, by `udtw.align`.

    More than two series are put on one axis by `udtw.match_many`: the alignment then has the most probable step of each
    series at every place of that axis where one of them has a step. Their distance is the mean over all pairs.

    Parameters
    ----------
    uncertainty : "estimate" or None
        Estimate the variance of each step from the series themselves, or use Σ = 1. For pairs.
    params : dict, optional
        Options of `udtw.align`, such as ``{"gamma": 4.0, "warp_penalty": 1.0}``. For pairs.

    Attributes
    ----------
    alignment_ : udtw.Alignment, or the result of `udtw.match_many`
        The full result: matches with credible intervals, the coupling, samples of paths.

    Examples
    --------
    >>> import pandas as pd
    >>> from udtw.interop.sktime import UDTWAligner
    >>> X = [pd.DataFrame({"a": [0.0, 1.0, 2.0]}), pd.DataFrame({"a": [0.0, 0.0, 1.0, 2.0]})]
    >>> UDTWAligner(params={"gamma": 0.1}).fit(X).get_alignment().to_numpy().tolist()
    [[0, 0], [0, 1], [1, 2], [2, 3]]
    """

    _tags = {
        "authors": "The udtw developers",
        "python_dependencies": "udtw",
        "capability:multiple-alignment": True,
        "capability:distance": True,
        "capability:distance-matrix": True,
        "capability:unequal_length": True,
        "alignment_type": "full",
    }

    def __init__(self, uncertainty: str | None = None, params: dict | None = None) -> None:
        self.uncertainty, self.params = uncertainty, params
        super().__init__()

    def _fit(self, X: list[pd.DataFrame], Z: Any = None) -> "UDTWAligner":
        self._series = _arrays(X)
        pair = len(self._series) == 2
        self.alignment_: Any = self._align(*self._series) if pair else match_many(self._series)
        return self

    def _align(self, x: np.ndarray, y: np.ndarray) -> Alignment:
        return align(x, y, self.uncertainty, self.uncertainty, **(self.params or {}))

    def _get_alignment(self) -> pd.DataFrame:
        if isinstance(self.alignment_, Alignment):
            return pd.DataFrame(self.alignment_.paths.mode(), columns=["ind0", "ind1"])
        steps = self.alignment_.steps_together()
        return pd.DataFrame(steps, columns=[f"ind{k}" for k in range(steps.shape[1])])

    def _get_distance(self) -> float:
        if isinstance(self.alignment_, Alignment):
            return float(self.alignment_.loss)
        matrix = self._get_distance_matrix()
        return float(matrix.sum() / (len(matrix) * (len(matrix) - 1)))

    def _get_distance_matrix(self) -> np.ndarray:
        count = len(self._series)
        matrix = np.zeros((count, count))
        for i in range(count):
            for j in range(i):
                pair = self.alignment_ if count == 2 else self._align(self._series[j], self._series[i])
                matrix[i, j] = matrix[j, i] = float(pair.loss)
        return matrix

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings for sktime's own checks."""
        return [{}, {"uncertainty": "estimate", "params": {"gamma": 4.0}}]


class UDTWClassifier(WrappedClassifier, BaseClassifier):
    """Wrap a classifier of `udtw.timeseries` for sktime; series may have any number of variables and any lengths.

    Parameters
    ----------
    estimator : KNeighborsTimeSeriesClassifier or NearestCentroidTimeSeriesClassifier, optional
        By default ``KNeighborsTimeSeriesClassifier()``. A copy is fitted.

    Attributes
    ----------
    estimator_ : estimator
        The fitted copy.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.interop.sktime import UDTWClassifier
    >>> from udtw.timeseries import KNeighborsTimeSeriesClassifier
    >>> X = np.array([[[0.0, 0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]], [[1.0, 2.0, 3.0, 4.0]], [[0.0, 2.0, 3.0, 4.0]]])
    >>> model = UDTWClassifier(KNeighborsTimeSeriesClassifier(metric="dtw")).fit(X, np.array([0, 0, 1, 1]))
    >>> model.predict(X[::3])
    array([0, 1])
    """

    _tags = {**ANY_SERIES, "capability:predict_proba": True}
    _series = staticmethod(_arrays)


class UDTWClusterer(WrappedClusterer, BaseClusterer):
    """Wrap a clusterer of `udtw.timeseries` for sktime; series may have any number of variables and any lengths.

    Parameters
    ----------
    estimator : TimeSeriesKMeans or TimeSeriesKMedoids, optional
        By default ``TimeSeriesKMeans()``. A copy is fitted.

    Attributes
    ----------
    estimator_ : estimator
        The fitted copy.
    labels_ : (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.interop.sktime import UDTWClusterer
    >>> from udtw.timeseries import TimeSeriesKMedoids
    >>> X = np.array([[[0.0, 0.0, 1.0, 0.0]], [[0.0, 1.0, 0.0, 0.0]], [[1.0, 2.0, 3.0, 4.0]], [[0.0, 2.0, 3.0, 4.0]]])
    >>> labels = UDTWClusterer(TimeSeriesKMedoids(2, metric="dtw", random_state=0)).fit(X).labels_
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _tags = {**ANY_SERIES, "capability:predict_proba": False}
    _series = staticmethod(_arrays)

    def _fit(self, X: Any, y: Any = None) -> "UDTWClusterer":
        self._fit_metadata = self._X_metadata  # type: ignore[has-type]  # set by sktime's base class
        return super()._fit(X)

    def _predict(self, X: Any, y: Any = None) -> np.ndarray:
        self._X_metadata = self._fit_metadata  # sktime 1.2.0 replaces it in predict, which its checks forbid
        return super()._predict(X)


class UDTWForecaster(BaseForecaster):
    """Forecast a series by a `SequenceForecaster` trained on all its windows.

    Past and future of a window are taken relative to its last value, so that the level may drift. Intervals and
    variances come from the calibrated uncertainty of the forecaster.

    Parameters
    ----------
    window_length : int, optional
        Steps of the past that are read; by default twice the horizon, or fewer if the series is short.
    estimator : SequenceForecaster, optional
        By default ``SequenceForecaster()``. A copy is fitted.

    Attributes
    ----------
    estimator_ : estimator
        The fitted copy.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from udtw.interop.sktime import UDTWForecaster
    >>> from udtw.timeseries import SequenceForecaster
    >>> months = pd.period_range("2020-01", periods=60, freq="M")
    >>> y = pd.Series(np.sin(np.arange(60) / 3), months)
    >>> model = UDTWForecaster(12, SequenceForecaster(max_iter=5, random_state=0)).fit(y, fh=[1, 2, 3])
    >>> model.predict().index.astype(str).tolist()
    ['2025-01', '2025-02', '2025-03']
    """

    _tags = {
        "authors": "The udtw developers",
        "python_dependencies": "udtw",
        "y_inner_mtype": "pd.DataFrame",
        "capability:multivariate": True,
        "capability:exogenous": False,
        "capability:insample": False,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
        "capability:missing_values": False,
        "capability:update": True,
        "requires-fh-in-fit": True,
    }
    _config = {"remember_data": False}  # only the latest steps are kept

    def __init__(self, window_length: int | None = None, estimator: Any = None) -> None:
        self.window_length, self.estimator = window_length, estimator
        super().__init__()
        self._y = self._X = None  # sktime looks for them if a user switches remember_data on

    def _fit(self, y: pd.DataFrame, X: Any, fh: Any) -> "UDTWForecaster":
        self._horizon = int(max(fh.to_relative(self.cutoff)))
        self._past = self.window_length or max(1, min(2 * self._horizon, (len(y) - self._horizon) // 2))
        steps = self._past + self._horizon
        if len(y) < steps + 1:
            raise LengthError(
                f"A past of {self._past} and a horizon of {self._horizon} steps require a series of at least "
                f"{steps + 1}; got {len(y)}. Choose a smaller window_length."
            )
        windows = sliding_window_view(y.to_numpy(float), steps, axis=0).transpose(0, 2, 1)  # (n, past + horizon, d)
        windows = windows - windows[:, self._past - 1 : self._past]
        estimator = clone(self.estimator or SequenceForecaster())
        self.estimator_ = estimator.fit(windows[:, : self._past], windows[:, self._past :])
        self._recent = y.iloc[-self._past :]
        return self

    def _update(self, y: pd.DataFrame, X: Any = None, update_params: bool = True) -> "UDTWForecaster":
        """Forecast from the latest steps from now on; the weights are kept."""
        known = pd.concat([self._recent, y])
        self._recent = known[~known.index.duplicated(keep="last")].iloc[-self._past :]
        return self

    def _forecast(self, fh: Any) -> tuple[np.ndarray, np.ndarray, pd.Index]:
        """Return means and standard deviations (steps, d) at ``fh``, and its index."""
        past = self._recent.to_numpy(float)
        mean, std = self.estimator_.predict((past - past[-1:])[None], return_std=True)
        chosen = np.asarray(fh.to_relative(self.cutoff), dtype=int) - 1
        return (mean[0] + past[-1:])[chosen], std[0][chosen], fh.to_absolute_index(self.cutoff)

    def _predict(self, fh: Any, X: Any = None) -> pd.DataFrame:
        mean, _, index = self._forecast(fh)
        return pd.DataFrame(mean, index, self._recent.columns)

    def _predict_var(self, fh: Any = None, X: Any = None, cov: bool = False) -> pd.DataFrame:
        _, std, index = self._forecast(fh)
        return pd.DataFrame(std**2, index, self._recent.columns)

    def _predict_quantiles(self, fh: Any, X: Any, alpha: Any) -> pd.DataFrame:
        """Return quantiles of normal distributions; sktime's own implementation requires another package."""
        mean, std, index = self._forecast(fh)
        values = mean[..., None] + std[..., None] * norm.ppf(alpha)
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return pd.DataFrame(values.reshape(len(values), -1), index, columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return small settings for sktime's own checks."""
        small: dict[str, Any] = {"hidden": 4, "max_iter": 1, "random_state": 0}
        return [
            {"window_length": 3, "estimator": SequenceForecaster(**small)},
            {"estimator": SequenceForecaster("euclidean", **small)},
        ]
