"""Fréchet means: the series with the least weighted sum of distances to a set of series, and its uncertainty."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from udtw import joblib_tasks, likelihood
from udtw.align import dtw
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError
from udtw.inputs import SeriesSet, load_series
from udtw.metrics import Metric, get_metric
from udtw.nn import SigmaNet
from udtw.pair_block import Batch
from udtw.pairwise import distances
from udtw.timeseries.resample import resample

LOG_VARIANCE_BOUNDS = (-9.0, 9.0)
"""Of ``σ²_μ / noise``."""
INITS = ("mean", "medoid")


@dataclass(frozen=True, repr=False)
class Barycenter:
    """What `barycenter` found.

    >>> from udtw.timeseries import barycenter
    >>> found = barycenter([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0]], metric="dtw")
    >>> found.mean.tolist(), found.objective
    ([0.0, 0.0, 1.0, 0.0], 0.0)
    """

    mean: np.ndarray
    """(L, d), or (L,) if the series were given without a feature axis."""
    variance: np.ndarray
    """(L,): σ²_μ with ``Σ_mn = noise + σ²_μ(n)``; the SigmaNet's variances of the mean; zeros if σ plays no part."""
    objective: float
    """``Σ_i w_i d(x_i, μ)`` at the end."""
    trace: list[float]
    """The objective before the first and after every iteration."""
    converged: bool
    n_iter: int
    sigma: SigmaNet | None = None
    """The network as trained along with the mean (a copy; the given one is not changed)."""

    def __repr__(self) -> str:
        end = "converged" if self.converged else "stopped"
        return (
            f"Barycenter({len(self.mean)} steps, objective={self.objective:.4g}, {end} after {self.n_iter} iterations)"
        )


def barycenter(  # noqa: PLR0913 (the options that users type)
    X: Any,
    metric: str | Metric = "udtw",
    *,
    gamma: float = 1.0,
    beta: float = 1.0,
    lam: float = 0.0,
    init: Any = "mean",
    length: int | None = None,
    weights: Any = None,
    sigma: SigmaNet | str | None = "free",
    noise: float = 1.0,
    band: Any = None,
    max_iter: int = 100,
    tol: float = 1e-6,
    nan_policy: str = "raise",
) -> Barycenter:
    """The weighted Fréchet mean ``argmin_μ Σ_i w_i d(x_i, μ)``, by L-BFGS; for uDTW together with its uncertainty.

    Parameters
    ----------
    X : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
    metric : str or Metric
        A name of `udtw.metrics.METRICS`, or a `Metric` with its parameters set.
        "euclidean" is the closed form, "dtw" is DTW barycenter averaging (DBA).
    gamma, beta, lam, band : as in `udtw.align`
        ``d = d² + βΩ + λΩ'`` for "udtw": the name means the paper's weighting here, for which ``noise`` was chosen;
        pass ``get_metric("udtw", …)`` for the free energy.
    init : "mean", "medoid" or an array (L, d) or (L,)
        The mean of the series resampled to the target length, the series nearest to the others, or any start.
    length : int, optional
        Steps L of the mean; by default those of ``init``, or the (rounded) weighted average length.
    weights : (n,), optional
        Non-negative; scaled to sum to one. With two series, ``weights=[1 − t, t]`` interpolates between them.
    sigma : "free", None or a SigmaNet
        Uncertainty of "udtw". "free": one σ²_μ per step of the mean, ``Σ = noise·11ᵀ + 1σ²_μᵀ``. A `SigmaNet`: ``Σ``
        from the network on series and mean, its weights optimised with the mean. None: Σ = 1.
    noise : float
        Variance that every step of the series has by itself, in the units of ``X²``, for ``sigma="free"``. γ and β act
        in units of it: the cost is ``D / Σ``, the regulariser ``Ω = E[log(Σ / noise)] ≥ 0``. At β = 1 an uncertain
        step ends with ``noise + σ²_μ`` equal to the mean squared difference of its matches, so σ_μ is a standard
        deviation in the units of ``X``; differences below ``√noise`` count as none. With 1 (the paper's Σ) nothing is
        uncertain on z-normalised series, unless β is far below 1, and then σ²_μ is too large by 1/β.
    max_iter, tol
        Iterations at most, and the relative decrease of the objective below which it has converged.

    Returns
    -------
    Barycenter
        With ``mean``, ``variance``, ``objective``, ``trace``, ``converged`` and ``n_iter``.

    Examples
    --------
    >>> from udtw.timeseries import barycenter
    >>> found = barycenter([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]], metric="udtw", gamma=0.01, noise=0.01)
    >>> found.mean.shape, found.variance.shape, found.objective <= found.trace[0]
    ((4,), (4,), True)
    """
    chosen = get_metric(metric, gamma=gamma, beta=beta, lam=lam, band=band)
    if isinstance(metric, str) and "weighting" in chosen.params:
        chosen = chosen.with_params(weighting="precision")
    chosen.check()
    series = load_series("X", X, nan_policy=nan_policy).astype(np.dtype(np.float64))
    share = _weights(weights, len(series))
    start = _start(series, share, init, length, chosen)
    if chosen.name == "euclidean":
        found = _euclidean(series, share, len(start))
    elif chosen.name == "dtw":
        mean, trace, converged = dba(series, share, start, band=chosen.params["band"], max_iter=max_iter, tol=tol)
        found = Barycenter(mean, np.zeros(len(mean)), trace[-1], trace, converged, len(trace) - 1)
    else:
        if not 0 < noise < np.inf:
            raise OptionError(f"noise must be a positive variance; got {noise!r}.")
        unit = np.sqrt(noise) if chosen.uncertain and sigma == "free" else 1.0
        scaled = replace(series, values=series.values / unit)
        found = _gradient_descent(scaled, share, start / unit, chosen, sigma, max_iter, tol)
        found = replace(found, mean=found.mean * unit, variance=found.variance * unit**2)
    if np.ndim(X[0]) == 1:
        found = replace(found, mean=found.mean[:, 0])
    return found


def _weights(weights: Any, count: int) -> np.ndarray:
    if weights is None:
        return np.full(count, 1 / count)
    share = np.asarray(weights, dtype=float)
    if share.shape != (count,):
        raise ShapeError(f"weights must be one number per series, shape ({count},); got {share.shape}.")
    if not np.isfinite(share).all() or (share < 0).any() or share.sum() == 0:
        raise OptionError(f"weights must be non-negative and not all zero; got {share[:10].tolist()}.")
    return share / share.sum()


def _start(series: SeriesSet, share: np.ndarray, init: Any, length: int | None, metric: Metric) -> np.ndarray:
    if length is not None and length < 1:
        raise LengthError(f"length must be at least 1; got {length}.")
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
            f"The Euclidean mean needs series of one length, and has it too; got lengths {series.lengths[:5].tolist()} "
            f"and target length {length}. Resample the series, or use metric='dtw'."
        )
    mean = np.einsum("n,ntd->td", share, series.values)
    objective = float(share @ np.square(series.values - mean).sum((1, 2)))
    return Barycenter(mean, np.zeros(steps), objective, [objective], True, 0)


def _gradient_descent(
    series: SeriesSet,
    share: np.ndarray,
    start: np.ndarray,
    metric: Metric,
    sigma: SigmaNet | str | None,
    max_iter: int,
    tol: float,
) -> Barycenter:
    x, weight = Batch.of(series, torch.float64), torch.from_numpy(share)
    net = None
    parts = [start.ravel()]
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * start.size
    if metric.uncertain:
        if isinstance(sigma, SigmaNet):
            net = copy.deepcopy(sigma).double()
            parts.append(parameters_to_vector(net.parameters()).detach().numpy())
            bounds += [(None, None)] * parts[1].size
        elif sigma == "free":
            parts.append(np.log(_spread(series, share, start)).clip(*LOG_VARIANCE_BOUNDS))
            bounds += [LOG_VARIANCE_BOUNDS] * len(start)
        elif sigma is not None:
            raise OptionError(f"sigma must be 'free', None or a SigmaNet; got {sigma!r}.")
    constant = _self_terms(x, weight, metric)

    def objective(theta: Tensor) -> Tensor:
        mean, rest = theta[: start.size].reshape(1, *start.shape), theta[start.size :]
        pairs, centre = x, Batch(mean)
        if net is not None:
            weights = _as_weights(net, rest)
            noise = functional_call(net, weights, (x.values, x.lengths))
            pairs, centre = x.with_variances(noise), Batch(mean, None, functional_call(net, weights, mean))
        elif rest.numel():
            # Σ = ½[2 + 2σ²_μ] in the additive form of the engine.
            ones = torch.ones(x.values.shape[:2], dtype=theta.dtype)
            pairs, centre = x.with_variances(2 * ones), Batch(mean, None, 2 * rest.exp()[None])
        plain = metric.without_bias
        if plain is not None:
            return weight @ plain.between(pairs, centre) - 0.5 * plain.between(centre, centre)[0] - constant
        return weight @ metric.between(pairs, centre)

    theta, trace, converged = _minimize(objective, np.concatenate(parts), bounds, max_iter, tol)
    rest = theta[start.size :]
    mean = theta[: start.size].reshape(start.shape)
    if net is not None:
        vector_to_parameters(torch.from_numpy(rest), net.parameters())
        with torch.no_grad():
            variance = net(torch.from_numpy(mean)).numpy()
    else:
        variance = np.exp(rest) if rest.size else np.zeros(len(mean))
    return Barycenter(mean, variance, trace[-1], trace, converged, len(trace) - 1, net)


def _spread(series: SeriesSet, share: np.ndarray, start: np.ndarray) -> np.ndarray:
    """(L,): mean squared difference of the series, resampled, from ``start``: σ² where nothing is aligned yet.

    So the optimisation begins with costs near one everywhere, and steps become certain as they find their matches.
    """
    same = np.stack([resample(row, len(start)) for row in series.rows()])
    return np.einsum("n,ntd->t", share, np.square(same - start)) + 1e-12


def _as_weights(net: SigmaNet, vector: Tensor) -> dict[str, Tensor]:
    """The parameters of ``net`` as views of one vector, so that gradients reach the vector."""
    named = dict(net.named_parameters())
    parts = vector.split([parameter.numel() for parameter in named.values()])
    return {name: part.view_as(named[name]) for name, part in zip(named, parts, strict=True)}


def _self_terms(x: Batch, weight: Tensor, metric: Metric) -> float:
    """``½ Σ_i w_i sdtw(x_i, x_i)`` of the divergence, which does not depend on the mean."""
    plain = metric.without_bias
    return 0.0 if plain is None else float(0.5 * weight @ plain.between(x, x))


def _minimize(
    objective: Callable[[Tensor], Tensor],
    start: np.ndarray,
    bounds: list[tuple[float | None, float | None]],
    max_iter: int,
    tol: float,
) -> tuple[np.ndarray, list[float], bool]:
    from scipy.optimize import minimize

    def value_and_gradient(theta: np.ndarray) -> tuple[float, np.ndarray]:
        point = torch.from_numpy(theta.copy()).requires_grad_()
        value = objective(point)
        [gradient] = torch.autograd.grad(value, [point])
        return float(value.detach()), gradient.numpy()

    trace = [value_and_gradient(start)[0]]
    found = minimize(
        value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        callback=lambda intermediate_result: trace.append(float(intermediate_result.fun)),
        options={"maxiter": max_iter, "maxfun": 20 * max_iter + 20, "ftol": tol, "gtol": 1e-8},
    )
    return found.x, trace, bool(found.success)


def dba(
    series: SeriesSet, share: np.ndarray, start: np.ndarray, *, band: Any, max_iter: int, tol: float
) -> tuple[np.ndarray, list[float], bool]:
    """(mean (L, d), trace of ``Σ_i w_i DTW(x_i, μ)``, whether it stopped by itself).

    Each iteration replaces μ_n by the weighted average of all x_i,m matched with it, which is the minimum over μ for
    the paths held fixed; so the objective never rises.
    """
    mean = start.copy()
    trace: list[float] = []
    for _ in range(max_iter + 1):
        value, total, count = _matched(series, share, mean, band)
        if trace and value >= trace[-1] * (1 - tol):
            return mean, trace, True
        trace.append(value)
        best = mean
        mean = np.where(count[:, None] > 0, total / np.maximum(count[:, None], np.finfo(float).tiny), mean)
    return best, trace, False


def _matched(series: SeriesSet, share: np.ndarray, mean: np.ndarray, band: Any) -> tuple[float, np.ndarray, np.ndarray]:
    """The objective, and for each step of the mean the weighted sum (L, d) and weight (L,) of what is matched to it."""
    x, lengths = torch.from_numpy(series.values), torch.from_numpy(series.lengths)
    centre = torch.from_numpy(mean).expand(len(series), -1, -1)
    cost = likelihood.squared_distances(x, centre).requires_grad_()
    value = torch.from_numpy(share) @ dtw(None, None, cost=cost, lengths_x=lengths, band=band)
    # The gradient of DTW in its cost is the indicator of the least path.
    [matched] = torch.autograd.grad(value, [cost])
    total = torch.einsum("nml,nmd->ld", matched, x)
    return float(value.detach()), total.numpy(), matched.sum((0, 1)).numpy()


def class_barycenters(X: Any, y: Any, metric: str | Metric = "udtw", **params: Any) -> dict[Any, Barycenter]:
    """``{label: barycenter(series of that label, metric, **params)}``, labels sorted.

    Parameters
    ----------
    X : (n, T), (n, T, d), or a list of arrays (T_i,) or (T_i, d)
    y : (n,) labels
    metric, **params : as in `barycenter`
        ``weights`` belong to one set of series and are refused.

    Under ``joblib.parallel_config`` with a backend of processes or machines (loky, Dask), there is one task per class.

    >>> from udtw.timeseries import class_barycenters
    >>> means = class_barycenters([[0.0, 1.0], [0.0, 3.0], [5.0, 5.0]], ["a", "a", "b"], metric="euclidean")
    >>> means["a"].mean.tolist()
    [0.0, 2.0]
    """
    if "weights" in params:
        raise OptionError("weights belong to the series of one class; call barycenter for each class.")
    labels = np.asarray(y)
    if labels.shape != (len(X),):
        raise ShapeError(f"y must be one label per series, shape ({len(X)},); got {labels.shape}.")
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
