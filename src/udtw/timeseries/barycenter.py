"""Fréchet means of series, with their uncertainty."""

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from udtw._engine.align import AUTO_GAMMA
from udtw._engine.deprecation import REMOVED_IN
from udtw._engine.metrics import Metric
from udtw._engine.pair_block import Batch
from udtw._engine.pairwise import distances
from udtw._engine.series_set import SeriesSet, load_series
from udtw._io import joblib_tasks
from udtw._io.device import Device
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError
from udtw.nn import SigmaNet
from udtw.timeseries.base import make_metric, resample
from udtw.timeseries.matched_means import Means, can_match, least_variance, match, prior_energy, update

INITS = ("mean", "medoid")
GAMMA, WARP_PENALTY = AUTO_GAMMA, 2.0
"""Defaults of the free energy with learned variances."""


@dataclass(frozen=True, repr=False)
class Barycenter:
    """Result of `barycenter`.

    >>> from udtw.timeseries import barycenter
    >>> average = barycenter([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]], metric="dtw")
    >>> average.mean.tolist(), average.loss
    ([0.0, 0.0, 1.0, 0.0], 0.0)
    """

    mean: np.ndarray
    """(L, d), or (L,) if the series were given without a feature axis."""
    variance: np.ndarray
    """(L,): σ²_μ, the variance of the series about each step of the mean, minus ``noise`` if that was given; or the
    SigmaNet's variances of the mean; zeros for metrics without variances."""
    loss: float
    """``Σ_i w_i d(x_i, μ)`` at the end, for learned variances with their prior."""
    trace: list[float]
    """The loss before the first and after each iteration."""
    converged: bool
    n_iter: int
    sigma: SigmaNet | None = None
    """The network trained with the mean (a copy; the given one is not changed)."""

    def __repr__(self) -> str:
        end = "converged" if self.converged else "stopped"
        return f"Barycenter({len(self.mean)} steps, loss={self.loss:.4g}, {end} after {self.n_iter} iterations)"

    @property
    def objective(self) -> float:
        """Return `loss`; the name of version 0.2."""
        warnings.warn(
            f"Barycenter.objective was renamed to Barycenter.loss and will be removed in version {REMOVED_IN}.",
            FutureWarning,
            stacklevel=2,
        )
        return self.loss


def barycenter(  # noqa: PLR0913 (the options that users type)
    X: Any,
    metric: str | Metric = "udtw",
    *,
    weights: Any = None,
    init: Any = "mean",
    length: int | None = None,
    sigma: SigmaNet | str | None = "free",
    noise: float | None = None,
    max_iter: int = 100,
    tol: float = 1e-6,
    nan_policy: str = "raise",
    device: Device = None,
    **params: Any,
) -> Barycenter:
    """Compute the weighted Fréchet mean ``argmin_μ Σ_i w_i d(x_i, μ)``; for uDTW with its uncertainty.

    Parameters
    ----------
    X : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
    metric : str or Metric
        "euclidean" has a closed form, "dtw" is DTW barycenter averaging (DBA), "udtw" minimizes the free energy, or
        with ``weighting="precision"`` the paper's ``d² + βΩ + λΩ'``. Other metrics are minimized by L-BFGS.
    weights : (n,), optional
        Non-negative; scaled to sum to one. With two series, ``weights=[1 − t, t]`` interpolates between them.
    init : "mean", "medoid" or an array (L, d) or (L,)
        Start: the mean of the series resampled to the target length, the series nearest to the others, or an array.
    length : int, optional
        Steps L of the mean; by default those of ``init``, or the (rounded) weighted average length.
    sigma : "free", None or a SigmaNet
        Uncertainty of "udtw". "free": one variance per step of the mean, ``Σ_mn = σ²_μ(n)``. A `SigmaNet`: ``Σ`` from
        the network on series and mean, its weights optimized with the mean by L-BFGS. None: Σ = 1.
    noise : float, optional
        For ``sigma="free"``: variance of each step of the series themselves, in the units of ``X²``. Then
        ``Σ = noise + σ²_μ``, and σ²_μ is the excess. By default all of Σ is learned. For "precision" γ and β are in
        units of it, and it is 1 by default, as in the paper.
    max_iter, tol
        Most iterations, and the relative decrease of the loss (for learned variances: the decrease per step) below
        which it has converged.
    nan_policy : "raise" or "omit"
        Raise an error for steps with NaN, or leave them out.
    device : str, torch.device or None
        None is the CPU.
    **params
        Parameters of the metric, such as ``gamma`` and ``band``, as in `udtw.pairwise`. By default γ = 1 and ω = 0. If
        variances of "udtw" are learned, costs are in units of them, so that the units of the series do not matter:
        then γ = 4, ω (``warp_penalty``) = 2, and β is the number of features, which is the Gaussian likelihood.

    Returns
    -------
    Barycenter
        With ``mean``, ``variance``, ``loss``, ``trace``, ``converged`` and ``n_iter``.

    Notes
    -----
    Free variances have an inverse-gamma prior about their harmonic mean with the weight of two series. Without it, a
    step at which a few series happen to agree would get a variance near zero.

    Examples
    --------
    >>> from udtw.timeseries import barycenter
    >>> average = barycenter([[0.0, 1.0, 0.1, 0.0], [0.1, 0.0, 1.0, 0.0]], metric="udtw")
    >>> average.mean.shape, average.variance.shape, average.loss <= average.trace[0]
    ((4,), (4,), True)
    """
    series = load_series("X", X, nan_policy=nan_policy, device=device).astype(np.dtype(np.float64))
    chosen = mean_metric(metric, params, series.values.shape[2], sigma)
    if noise is not None and not 0 < noise < np.inf:
        raise OptionError(f"noise must be a positive variance; got {noise!r}.", parameter="noise")
    share = _weights(weights, len(series))
    start = _start(series, share, init, length, chosen)
    learned = chosen.uncertain and sigma == "free"
    if chosen.name == "euclidean":
        average = _euclidean(series, share, len(start))
    elif chosen.name == "dtw" or (learned and can_match(chosen)):
        average = _matched_mean(series, share, start, chosen, noise or 0.0, max_iter, tol)
    else:
        unit = np.sqrt(noise or 1.0) if learned else 1.0
        scaled = replace(series, values=series.values / unit)
        average = descend(scaled, share, start / unit, chosen, sigma, max_iter, tol)
        average = replace(average, mean=average.mean * unit, variance=average.variance * unit**2)
    return replace(average, mean=average.mean[:, 0]) if np.ndim(X[0]) == 1 else average


def mean_metric(
    metric: str | Metric, params: Mapping[str, Any] | None, features: int, sigma: SigmaNet | str | None = None
) -> Metric:
    """Return the metric with ``params``, and the defaults of `barycenter` for those that are None or missing."""
    defaults: dict[str, Any] = {}
    free = metric == "udtw" and sigma == "free"
    if free and (params or {}).get("weighting") in (None, "likelihood"):
        defaults = {"gamma": GAMMA, "beta": float(features), "warp_penalty": WARP_PENALTY}
    return make_metric(metric, params, **defaults)


def _matched_mean(
    series: SeriesSet, share: np.ndarray, start: np.ndarray, metric: Metric, noise: float, max_iter: int, tol: float
) -> Barycenter:
    """Compute the mean, and for an uncertain metric its variances, by `udtw.timeseries.matched_means`."""
    owner, weight = np.zeros(len(series), int), share * len(series)
    least, means = max(noise, least_variance(series)), Means(start[None])
    if metric.uncertain:
        same = np.stack([resample(row, len(start)) for row in series.rows()])
        variance = np.einsum("n,ntd->", share, np.square(same - start)) / len(start) / metric.params["beta"]
        means = Means(start[None], np.full((1, len(start)), max(variance, least)))
    trace: list[float] = []
    converged = False
    # A free energy contains the logarithm of the units, so a decrease is small by the number of steps, not by its size.
    size = metric.params["beta"] * 0.5 * (share @ series.lengths + len(start)) if metric.uncertain else None
    for _ in range(max_iter + 1):
        matched = match(series, owner, weight, means, metric)
        value = float(share @ matched.energy) + prior_energy(means) / len(series)
        converged = bool(trace) and value >= trace[-1] - tol * (abs(trace[-1]) if size is None else size)
        if converged:
            break
        trace.append(value)
        best, means = means, update(matched, means, metric, least)
    variance = np.zeros(len(start)) if best.variances is None else best.variances[0] - noise
    return Barycenter(best.values[0], variance, trace[-1], trace, converged, len(trace) - 1)


def _weights(weights: Any, count: int) -> np.ndarray:
    if weights is None:
        return np.full(count, 1 / count)
    share = np.asarray(weights, dtype=float)
    if share.shape != (count,):
        raise ShapeError(
            f"weights must be one number per series, shape ({count},); got {share.shape}.", parameter="weights"
        )
    if not np.isfinite(share).all() or (share < 0).any() or share.sum() == 0:
        raise OptionError(
            f"weights must be non-negative and not all zero; got {share[:10].tolist()}.", parameter="weights"
        )
    return share / share.sum()


def _start(series: SeriesSet, share: np.ndarray, init: Any, length: int | None, metric: Metric) -> np.ndarray:
    if length is not None and length < 1:
        raise LengthError(f"length must be at least 1; got {length}.", parameter="length")
    rows = series.rows()
    if isinstance(init, str) and init == "mean":
        steps = length or max(1, round(float(share @ series.lengths)))
        return np.einsum("n,ntd->td", share, np.stack([resample(row, steps) for row in rows]))
    if isinstance(init, str) and init == "medoid":
        start = rows[int((distances(series, None, metric) @ share).argmin())]
    elif isinstance(init, str):
        raise OptionError(f"init must be one of {INITS} or an array; got {init!r}.")
    else:
        start = np.asarray(init, dtype=float)
        start = start[:, None] if start.ndim == 1 else start
        if start.ndim != 2 or start.shape[1] != series.values.shape[2] or not start.shape[0]:
            raise ShapeError(f"init must have shape (L, {series.values.shape[2]}); got {np.shape(init)}.")
        if not np.isfinite(start).all():
            raise NonFiniteError("init holds NaN or infinite values.")
    return start.copy() if length is None else resample(start, length)


def _euclidean(series: SeriesSet, share: np.ndarray, length: int) -> Barycenter:
    steps = series.values.shape[1]
    if (series.lengths != steps).any() or length != steps:
        raise LengthError(
            f"The Euclidean mean requires series of one length; got lengths {series.lengths[:5].tolist()} and target "
            f"length {length}. Resample the series, or use metric='dtw'."
        )
    mean = np.einsum("n,ntd->td", share, series.values)
    objective = float(share @ np.square(series.values - mean).sum((1, 2)))
    return Barycenter(mean, np.zeros(steps), objective, [objective], True, 0)


def class_barycenters(X: Any, y: Any, metric: str | Metric = "udtw", **params: Any) -> dict[Any, Barycenter]:
    """Compute ``{label: barycenter(series of that label, metric, **params)}``, sorted by label.

    Parameters
    ----------
    X : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
    y : (n,) labels
    metric, **params : as in `barycenter`
        ``weights`` are not supported, since they belong to one set of series.

    Notes
    -----
    Under ``joblib.parallel_config`` with a backend of processes or machines (loky, Dask), each class is one task.

    Examples
    --------
    >>> from udtw.timeseries import class_barycenters
    >>> means = class_barycenters([[0.0, 1.0], [0.0, 3.0], [5.0, 5.0]], ["a", "a", "b"], metric="euclidean")
    >>> means["a"].mean.tolist()
    [0.0, 2.0]
    """
    if "weights" in params:
        raise OptionError("class_barycenters does not support weights; call barycenter for each class.")
    labels = np.asarray(y)
    if labels.shape != (len(X),):
        raise ShapeError(f"y must be one label per series, shape ({len(X)},); got {labels.shape}.")
    names = np.unique(labels)
    means = barycenters_of([[X[i] for i in np.flatnonzero(labels == name)] for name in names], metric, params)
    return dict(zip(names.tolist(), means, strict=True))


def barycenters_of(
    groups: Sequence[Sequence[np.ndarray]],
    metric: str | Metric,
    params: Mapping[str, Any],
    inits: Sequence[np.ndarray] | None = None,
) -> list[Barycenter]:
    """Compute the mean of each group of series, starting from ``inits[group]`` if given."""
    starts = [{} if inits is None else {"init": inits[number]} for number in range(len(groups))]
    tasks = [(group, metric, {**params, **start}) for group, start in zip(groups, starts, strict=True)]
    if not joblib_tasks.chosen():
        return [_mean(*task) for task in tasks]
    means = dict(joblib_tasks.spread(_mean, tasks))
    return [means[number] for number in range(len(tasks))]


def _mean(group: Sequence[np.ndarray], metric: str | Metric, params: Mapping[str, Any]) -> Barycenter:
    return barycenter(group, metric, **params)


LOG_VARIANCE_BOUNDS = (-9.0, 9.0)
"""Bounds of ``log(σ²_μ / noise)``."""


def descend(
    series: SeriesSet,
    share: np.ndarray,
    start: np.ndarray,
    metric: Metric,
    sigma: SigmaNet | str | None,
    max_iter: int,
    tol: float,
) -> Barycenter:
    """Minimize by L-BFGS over the mean, together with ``Σ = 1 + σ²_μ`` or the weights of a network.

    For metrics whose mean is not an average of matched steps.
    """
    x, weight = Batch.of(series, torch.float64), torch.as_tensor(share, device=series.device)
    net = None
    parts = [start.ravel()]
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * start.size
    if metric.uncertain:
        if isinstance(sigma, SigmaNet):
            net = copy.deepcopy(sigma).double().to(series.device)
            parts.append(parameters_to_vector(net.parameters()).detach().cpu().numpy())
            bounds += [(None, None)] * parts[1].size
        elif sigma == "free":
            parts.append(np.log(_spread(series, share, start)).clip(*LOG_VARIANCE_BOUNDS))
            bounds += [LOG_VARIANCE_BOUNDS] * len(start)
        elif sigma is not None:
            raise OptionError(f"sigma must be 'free', None or a SigmaNet; got {sigma!r}.")
    plain = metric.without_bias
    # ½ Σ_i w_i sdtw(x_i, x_i) of the divergence does not depend on the mean.
    constant = 0.0 if plain is None else float(0.5 * weight @ plain.between(x, x))

    def objective(theta: Tensor) -> Tensor:
        mean, rest = theta[: start.size].reshape(1, *start.shape), theta[start.size :]
        pairs, center = x, Batch(mean)
        if net is not None:
            weights = _as_weights(net, rest)
            noise = functional_call(net, weights, (x.values, x.lengths))
            pairs, center = x.with_variances(noise), Batch(mean, None, functional_call(net, weights, mean))
        elif rest.numel():
            # Σ = ½[2 + 2σ²_μ] in the additive form of the engine.
            two = theta.new_full(x.values.shape[:2], 2.0)
            pairs, center = x.with_variances(two), Batch(mean, None, 2 * rest.exp()[None])
        if plain is not None:
            return weight @ plain.between(pairs, center) - 0.5 * plain.between(center, center)[0] - constant
        return weight @ metric.between(pairs, center)

    theta, trace, converged = _minimize(
        lambda point: objective(point.to(series.device)), np.concatenate(parts), bounds, max_iter, tol
    )
    rest = theta[start.size :]
    mean = theta[: start.size].reshape(start.shape)
    if net is not None:
        net = net.to("cpu")
        vector_to_parameters(torch.from_numpy(rest), net.parameters())
        with torch.no_grad():
            variance = net(torch.from_numpy(mean)).numpy()
    else:
        variance = np.exp(rest) if rest.size else np.zeros(len(mean))
    return Barycenter(mean, variance, trace[-1], trace, converged, len(trace) - 1, net)


def _spread(series: SeriesSet, share: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return initial variances (L,): the mean squared difference of the resampled series from ``start``.

    The optimization then starts with costs near one everywhere, and steps become certain as they are matched.
    """
    same = np.stack([resample(row, len(start)) for row in series.rows()])
    return np.einsum("n,ntd->t", share, np.square(same - start)) + 1e-12


def _as_weights(net: SigmaNet, vector: Tensor) -> dict[str, Tensor]:
    """Return the parameters of ``net`` as views of one vector, so that gradients reach the vector."""
    named = dict(net.named_parameters())
    parts = vector.split([parameter.numel() for parameter in named.values()])
    return {name: part.view_as(named[name]) for name, part in zip(named, parts, strict=True)}


def _minimize(
    objective: Callable[[Tensor], Tensor],
    start: np.ndarray,
    bounds: list[tuple[float | None, float | None]],
    max_iter: int,
    tol: float,
) -> tuple[np.ndarray, list[float], bool]:
    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.from_numpy(theta.copy()).requires_grad_()
        value = objective(point)
        [gradient] = torch.autograd.grad(value, [point])
        return float(value.detach()), gradient.numpy()

    trace = [value_and_gradient(start)[0]]
    result = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=lambda intermediate_result: trace.append(float(intermediate_result.fun)),
        options={"maxiter": max_iter, "maxfun": 20 * max_iter + 20, "ftol": tol, "gtol": 1e-8},
    )
    return result.x, trace, bool(result.success)
