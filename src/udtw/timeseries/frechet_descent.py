"""Fréchet means by L-BFGS, for metrics whose mean is not an average of matched steps."""

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from udtw._engine.metrics import Metric
from udtw._engine.pair_block import Batch
from udtw._engine.series_set import SeriesSet
from udtw.errors import OptionError
from udtw.nn import SigmaNet
from udtw.timeseries.base import resample

LOG_VARIANCE_BOUNDS = (-9.0, 9.0)
"""Bounds of ``log(σ²_μ / noise)``."""


@dataclass(frozen=True)
class Descended:
    """A mean (L, d), its variances (L,), the loss before the first and after each iteration, and the network."""

    mean: np.ndarray
    variance: np.ndarray
    trace: list[float]
    converged: bool
    sigma: SigmaNet | None


def descend(
    series: SeriesSet,
    share: np.ndarray,
    start: np.ndarray,
    metric: Metric,
    sigma: SigmaNet | str | None,
    max_iter: int,
    tol: float,
) -> Descended:
    """Minimize from ``start`` over the mean, together with ``Σ = 1 + σ²_μ`` or the weights of a network."""
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
    constant = _self_terms(x, weight, metric)

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
        plain = metric.without_bias
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
    return Descended(mean, variance, trace, converged, net)


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


def _self_terms(x: Batch, weight: Tensor, metric: Metric) -> float:
    """Return ``½ Σ_i w_i sdtw(x_i, x_i)`` of the divergence, which does not depend on the mean."""
    plain = metric.without_bias
    return 0.0 if plain is None else float(0.5 * weight @ plain.between(x, x))


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
