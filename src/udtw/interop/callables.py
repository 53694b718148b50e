"""Distances for other libraries: a function of two arrays, or a precomputed matrix."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from udtw._engine.metrics import IGNORABLE, Metric, get_metric
from udtw._engine.pairwise import pairwise
from udtw.errors import NonFiniteError, OptionError, ShapeError

LAYOUTS = ("time_first", "channels_first")
OPTIONS = ("nan_policy", "backend")
"""Options of `udtw.pairwise` besides the parameters of the metric."""
ROUNDING = 1e-5
"""Negative entries up to this share of the largest entry count as rounding of float32."""


@dataclass(frozen=True)
class DistanceFunction:
    """Callable distance of two series, made by `distance_function`; returns a float and can be pickled.

    >>> import numpy as np
    >>> from udtw.interop import DistanceFunction
    >>> distance = DistanceFunction("dtw", layout="channels_first")
    >>> x, y = np.array([[0.0, 1.0, 2.0, 2.0]]), np.array([[0.0, 0.0, 1.0, 2.0]])  # (d, T)
    >>> distance(x, y)
    0.0
    """

    metric: str | Metric = "udtw"
    layout: str = "time_first"
    sigma: Callable[[Any], Any] | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def __call__(self, x: Any, y: Any) -> float:
        """Return the entry of ``pairwise([x], [y])``; a 1-D array is a univariate series in either layout."""
        first, second = self._time_first("x", x), self._time_first("y", y)
        options = dict(self.options)
        if self.sigma is not None:
            options |= {"var_x": [self._variances(first)], "var_y": [self._variances(second)]}
        return float(pairwise([first], [second], self.metric, **options)[0, 0])

    def _time_first(self, name: str, series: Any) -> np.ndarray:
        array = series.detach().cpu().numpy() if isinstance(series, torch.Tensor) else np.asarray(series)
        if array.ndim not in (1, 2):
            expected = "(T, d)" if self.layout == "time_first" else "(d, T)"
            raise ShapeError(f"{name} must be one series, shape {expected} or (T,); got shape {array.shape}.")
        return array.T if array.ndim == 2 and self.layout == "channels_first" else array

    def _variances(self, series: np.ndarray) -> np.ndarray:
        assert self.sigma is not None, "called only with a sigma"
        steps = series[:, None] if series.ndim == 1 else series
        if not isinstance(self.sigma, torch.nn.Module):
            return np.asarray(self.sigma(steps))
        like = next(self.sigma.parameters(), torch.empty(0))
        with torch.no_grad():
            return self.sigma(torch.as_tensor(np.ascontiguousarray(steps)).to(like)).cpu().numpy()


def distance_function(
    metric: str | Metric = "udtw",
    *,
    layout: str = "time_first",
    sigma: Callable[[Any], Any] | None = None,
    **options: Any,
) -> DistanceFunction:
    """Return a function (array, array) → float, for libraries that take a callable as their metric.

    Parameters
    ----------
    metric : str or Metric
        A metric name, or a `Metric` with its parameters set.
    layout : "time_first" or "channels_first"
        Layout of 2-D series: (T, d) as in tslearn and udtw, or (d, T) as in aeon.
    sigma : callable, optional
        For "udtw": function that returns variances σ² (T,) of a series (T, d), such as a trained `udtw.nn.SigmaNet`.
        A torch module is called with a tensor, any other function with an array.
    **options : parameters of the metric, nan_policy, backend
        As in `udtw.pairwise`, which gives the same values and is much faster for many pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from udtw.interop import distance_function
    >>> X = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    >>> distance_function("dtw")(X[0], X[1])
    0.0
    >>> neighbors = KNeighborsClassifier(1, metric=distance_function("dtw")).fit(X, ["bump", "bump", "ramp"])
    >>> neighbors.predict([[1.0, 1.5, 3.0, 4.0]])
    array(['ramp'], dtype='<U4')
    """
    chosen = get_metric(metric)
    if layout not in LAYOUTS:
        raise OptionError(f"layout must be one of {LAYOUTS}; got {layout!r}.")
    known = (*IGNORABLE, *chosen.params, *OPTIONS)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise OptionError(f"distance_function has the options {known}; got {unknown}.")
    if sigma is not None and not chosen.uncertain:
        raise OptionError(f"sigma requires a metric with variances, such as 'udtw'; got metric={chosen.name!r}.")
    return DistanceFunction(metric, layout, sigma, tuple(sorted(options.items())))


def dissimilarity(distances: Any) -> np.ndarray:
    """Remove the bias of a square matrix of `udtw.pairwise`: zero diagonal, no negative entry, as t-SNE requires.

    ``S_ij = D_ij − ½(D_ii + D_jj)``: soft-DTW becomes its divergence, uDTW its debiased form; DTW, Euclidean and a
    divergence are unchanged. Negative values within rounding are set to zero; other negative entries raise an error.

    >>> import numpy as np
    >>> from udtw import pairwise
    >>> from udtw.interop import dissimilarity
    >>> X = np.array([[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 1.0, 0.0], [1.0, 2.0, 3.0, 4.0]])
    >>> S = dissimilarity(pairwise(X, metric="soft_dtw", gamma=0.1))
    >>> S.diagonal(), bool((S >= 0).all())
    (array([0., 0., 0.]), True)
    """
    matrix = distances.detach().cpu().numpy() if isinstance(distances, torch.Tensor) else np.asarray(distances)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ShapeError(f"distances must be a square matrix, as from pairwise(X) without Y; got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise NonFiniteError("The matrix of distances contains NaN or infinite values.")
    if not np.allclose(matrix, matrix.T, rtol=ROUNDING, atol=ROUNDING * float(np.abs(matrix).max(initial=0))):
        raise OptionError("The matrix of distances is not symmetric; use pairwise(X) without Y.")
    diagonal = np.diag(matrix)
    table = 0.5 * (matrix + matrix.T) - 0.5 * (diagonal[:, None] + diagonal[None, :])
    least, largest = float(table.min(initial=0)), float(np.abs(matrix).max(initial=0))
    if least < -ROUNDING * largest:
        raise OptionError(
            f"The matrix is not a dissimilarity: without its bias the least entry is {least:.4g}. Use "
            "a debiased metric such as the soft-DTW divergence, a smaller gamma, or metric='dtw'."
        )
    np.fill_diagonal(table, 0)
    return np.maximum(table, 0)
