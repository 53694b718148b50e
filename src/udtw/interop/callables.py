"""udtw's distances inside other libraries: as a function of two arrays, or as a precomputed matrix."""

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
"""Options of `udtw.pairwise` beside the parameters of the metric."""
ROUNDING = 1e-5
"""A negative entry of at most this share of the largest one is rounding of float32."""


@dataclass(frozen=True)
class DistanceFunction:
    """A distance as a function of two series that returns a float; made by `distance_function`. Can be pickled.

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
        """The entry of ``pairwise([x], [y])``; a 1-D array is a univariate series in either layout."""
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
        assert self.sigma is not None, "asked for only where there is one"
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
    """A function of two arrays → float, for libraries that take a callable as their metric.

    Parameters
    ----------
    metric : str or Metric
        A metric name, or a `Metric` with its parameters set.
    layout : "time_first" or "channels_first"
        How a 2-D series comes: (T, d) as in tslearn and here, or (d, T) as in aeon.
    sigma : callable, optional
        For "udtw": variances σ² (T,) of a series (T, d), for example a trained `udtw.nn.SigmaNet`. A torch module
        gets a tensor, any other function an array.
    options : parameters of the metric, nan_policy, backend
        As in `udtw.pairwise`, whose numbers these are. For many pairs `pairwise` itself is much faster.

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
        raise OptionError(f"distance_function knows the options {known}; got {unknown}.")
    if sigma is not None and not chosen.uncertain:
        raise OptionError(f"sigma belongs to metrics with variances, such as 'udtw'; got metric={chosen.name!r}.")
    return DistanceFunction(metric, layout, sigma, tuple(sorted(options.items())))


def dissimilarity(distances: Any) -> np.ndarray:
    """A square matrix of `udtw.pairwise` with a zero diagonal and no negative entry, as t-SNE and HDBSCAN want it.

    ``S_ij = D_ij − ½(D_ii + D_jj)``: soft-DTW becomes its divergence, uDTW its debiased form; DTW, Euclidean and a
    divergence stay as they are. Negative values within rounding are set to zero; any other negative entry is an error.

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
        raise ShapeError(f"A square matrix is needed, as from pairwise(X) without Y; got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise NonFiniteError("The matrix of distances holds NaN or infinite values.")
    if not np.allclose(matrix, matrix.T, rtol=ROUNDING, atol=ROUNDING * float(np.abs(matrix).max(initial=0))):
        raise OptionError("The matrix is not symmetric; use pairwise(X) without Y.")
    diagonal = np.diag(matrix)
    table = 0.5 * (matrix + matrix.T) - 0.5 * (diagonal[:, None] + diagonal[None, :])
    least, largest = float(table.min(initial=0)), float(np.abs(matrix).max(initial=0))
    if least < -ROUNDING * largest:
        raise OptionError(
            f"Without its bias the least entry is {least:.4g}, so this is no dissimilarity. Use "
            "a debiased metric such as the soft-DTW divergence, a smaller gamma, or metric='dtw'."
        )
    np.fill_diagonal(table, 0)
    return np.maximum(table, 0)
