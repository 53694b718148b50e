"""The distances: thin functions over the distribution of paths.

All are sums of **squared** Euclidean differences along the path (no root is taken unless ``squared=False`` is offered
and given), and are not divided by the length unless ``normalize`` says so.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from udtw import inputs
from udtw.distribution import PathDistribution
from udtw.errors import LengthError, OptionError
from udtw.inputs import ArrayLike, Form
from udtw.kernels import backends, memory_estimate
from udtw.kernels.problem import COST, DEVIATION, LOG_VARIANCE, ONE, Problem
from udtw.lazy import lazy
from udtw.prepare import for_kernels, prepare, self_pair, without_autocast

NORMALIZE = (None, "length", "path")


@dataclass(frozen=True)
class Alignment:
    """What `align` found. Everything is differentiable; matrices are made when first asked for."""

    distance: Any
    """``d² = E[C]``, (B,); with ``distance="soft_min"`` the soft-min instead; debiased or normalised if so asked."""
    regularizer: Any
    """``Ω = E[log Σ]``, (B,), normalised like the distance."""
    loss: Any
    """``d² + βΩ + λΩ'``, (B,)."""
    _problem: Problem
    _form: Form
    _backend: str

    @lazy
    def variance(self) -> Any:
        """``Σ`` (B, N, M)."""
        memory_estimate.refuse_cost_matrix(self._problem)
        variance = self._problem.pair_variance()
        if variance is None:
            variance = self._problem.main.new_ones(self._problem.shape)
        return self._form.restore(variance)

    @property
    def step_variances(self) -> tuple[Any, Any]:
        """``σ²`` of the steps of x (B, N) and of y (B, M) as they were given; None for both if they were not."""
        x, y = self._problem.var_x, self._problem.var_y
        return None if x is None else self._form.restore(x), None if y is None else self._form.restore(y)

    @lazy
    def _weighted_cost(self) -> Tensor:
        memory_estimate.refuse_cost_matrix(self._problem)
        return self._problem.weighted_cost()

    @lazy
    def cost(self) -> Any:
        """``C = D / Σ`` (B, N, M)."""
        return self._form.restore(self._weighted_cost)

    @lazy
    def paths(self) -> PathDistribution:
        """The distribution over alignment paths."""
        p = self._problem
        plain = Problem(gamma=p.gamma, lengths=p.lengths, band=p.band, cost=self._weighted_cost)
        return PathDistribution._of(plain, self._form, self._backend)

    @property
    def coupling(self) -> Any:
        """``π*`` (B, N, M): the probability that m is matched with n. Zero outside the lengths."""
        return self.paths.coupling


def align(
    x: ArrayLike,
    y: ArrayLike,
    var_x: ArrayLike | None = None,
    var_y: ArrayLike | None = None,
    *,
    variance: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    gamma: Any = 1.0,
    beta: float = 1.0,
    lam: float = 0.0,
    lengths_x: Any = None,
    lengths_y: Any = None,
    band: Any = None,
    distance: str = "expected",
    debias: bool = False,
    normalize: str | None = None,
    backend: str = "auto",
) -> Alignment:
    """Align two sequences with uncertainty: distance ``d² = E[C]``, regulariser ``Ω = E[log Σ]`` and map π*.

    Parameters
    ----------
    x, y : (B, N, d), (N, d) or (N,)
        Torch tensors or NumPy arrays, time before features. A batch of one is repeated. ``None`` if ``cost`` is given.
    var_x, var_y : (B, N), (N,) or a number, optional
        Variances σ² (not σ) of the steps; ``Σ_mn = ½[σ²(x_m) + σ²(y_n)]``. If only one is given the other is 1.
    variance : (B, N, M) or (N, M), optional
        Variances of the matches themselves, instead of ``var_x`` and ``var_y``.
    cost : (B, N, M) or (N, M), optional
        A ready-made base cost D instead of squared Euclidean distances.
    gamma : float or tensor
        Temperature γ > 0, in units of the cost: one number or one per pair. A tensor gets its gradient.
    beta, lam : float
        ``loss = d² + β·E[log Σ] + λ·E[(Σ − 1)²]``.
    lengths_x, lengths_y : int or (B,), optional
        True lengths of padded sequences. Padding is never read.
    band : int, float, "itakura" or boolean mask, optional
        Radius or fraction of a Sakoe-Chiba band on the slanted diagonal; see `udtw.prior`.
    distance : "expected" or "soft_min"
        What `Alignment.distance` is: ``E[C]`` (the paper; at least the DTW value, never negative for D ≥ 0) or
        ``−γ log Z`` (soft-DTW; may be negative).
    debias : bool
        Subtract ``½[d²(x, x) + d²(y, y)]`` from the distance, so that a sequence has distance zero to itself. The
        result can be negative for ``"expected"``. The regulariser is left as it is: debiased, uncertainty would cost
        nothing.
    normalize : None, "length" or "path"
        Divide distance and regularisers by the longer true length, or by the expected path length ``E[1]``.
    backend : "auto", "numba", "portable" or "enumeration"

    Returns
    -------
    Alignment
        With ``distance``, ``regularizer``, ``loss``, ``coupling``, ``variance``, ``cost`` and ``paths``.
    """
    if distance not in ("expected", "soft_min"):
        raise OptionError(f"distance must be 'expected' or 'soft_min'; got {distance!r}.")
    if normalize not in NORMALIZE:
        raise OptionError(f"normalize must be one of {NORMALIZE}; got {normalize!r}.")
    if debias and (cost is not None or variance is not None):
        raise OptionError(
            "debias needs the distances of x and y to themselves, which a ready-made cost or a joint variance cannot "
            "give. Pass sequences with var_x and var_y, or debias=False."
        )
    with without_autocast(x if cost is None else cost):
        problem, form, backend = prepare(
            x, y, var_x=var_x, var_y=var_y, variance=variance, cost=cost, gamma=gamma, lengths_x=lengths_x,
            lengths_y=lengths_y, band=band, backend=backend,
        )  # fmt: skip
        wanted = [COST] if distance == "expected" else []
        if problem.uncertain:
            wanted.append(LOG_VARIANCE)
            if lam:
                wanted.append(DEVIATION)
        if normalize == "path":
            wanted.append(ONE)
        first = 1 if distance == "expected" else 0
        usual = [COST, LOG_VARIANCE] if problem.uncertain else [COST]

        def terms(p: Problem) -> tuple[dict[int, Tensor], Tensor | None]:
            """Expectations by field, and their sum where the kernel has made it already."""
            p, loss = for_kernels(p), None
            if backend == "numba" and wanted == usual and backends.expects_usual_gradient(p, beta):
                loss, *means = backends.loss_terms(p, float(beta))
                found = dict(zip(wanted, means, strict=False))
            else:
                columns = backends.sums(p, wanted, backend).unbind(1)
                found = dict(zip(wanted, columns[1:], strict=True))
                found[COST] = columns[first]
            if normalize is not None:
                size = found[ONE] if normalize == "path" else p.lengths.amax(0)
                found, loss = {which: value / size for which, value in found.items()}, None
            return found, loss

        found, loss = terms(problem)
        total = found[COST]
        if debias:
            total = total - 0.5 * sum(terms(self_pair(problem, side))[0][COST] for side in ("x", "y"))
        omega = found[LOG_VARIANCE] if LOG_VARIANCE in found else torch.zeros_like(total)
        if loss is None or debias or isinstance(beta, Tensor):
            loss = torch.add(total, omega, alpha=beta) if isinstance(beta, float) else total + beta * omega
        if DEVIATION in found:
            loss = loss + lam * found[DEVIATION]
    return Alignment(form.restore(total), form.restore(omega), form.restore(loss), problem, form, backend)


def soft_dtw(x: ArrayLike, y: ArrayLike, gamma: Any = 1.0, *, normalize: str | None = None, **options: Any) -> Any:
    """Soft-DTW, ``−γ log Σ_Π exp(−⟨Π, D⟩/γ)`` of the squared distances, (B,).

    Can be negative, and is not zero for equal series; see `soft_dtw_divergence`.
    ``options`` are those of `align`: lengths, band, cost, backend, and variances if wanted.
    """
    return align(x, y, gamma=gamma, distance="soft_min", beta=0.0, normalize=normalize, **options).distance


def soft_dtw_divergence(
    x: ArrayLike, y: ArrayLike, gamma: Any = 1.0, *, normalize: str | None = None, **options: Any
) -> Any:
    """``soft_dtw(x, y) − ½[soft_dtw(x, x) + soft_dtw(y, y)]``, (B,): non-negative, zero for equal series."""
    return align(x, y, gamma=gamma, distance="soft_min", beta=0.0, debias=True, normalize=normalize, **options).distance


def dtw(x: ArrayLike, y: ArrayLike, *, squared: bool = True, normalize: str | None = None, **options: Any) -> Any:
    """Classical DTW, (B,): the least sum of squared distances along a path; its root if not ``squared``.

    Differentiable by the least path (a subgradient where paths tie). ``normalize`` is None or "length"; ``options`` are
    those of `align`: lengths, band, cost, variances, backend.
    """
    if normalize not in (None, "length"):
        raise OptionError(f"dtw can normalise by 'length' or not at all; got normalize={normalize!r}.")
    with without_autocast(x if options.get("cost") is None else options["cost"]):
        problem, form, backend = prepare(x, y, **options)
        value = backends.dtw(for_kernels(problem), backend)
        if normalize == "length":
            value = value / problem.lengths.amax(0)
        return form.restore(value if squared else value.clamp_min(0).sqrt())


def euclidean(
    x: ArrayLike, y: ArrayLike, *, squared: bool = True, lengths_x: Any = None, lengths_y: Any = None,
    normalize: str | None = None,
) -> Any:  # fmt: skip
    """``Σ_t ‖x_t − y_t‖²``, (B,), for sequences of equal length; its root if not ``squared``."""
    if normalize not in (None, "length"):
        raise OptionError(f"euclidean can normalise by 'length' or not at all; got normalize={normalize!r}.")
    problem, form, _ = prepare(x, y, lengths_x=lengths_x, lengths_y=lengths_y)
    assert problem.x is not None, "_prepare was given sequences"
    assert problem.y is not None, "_prepare was given sequences"
    same_padding = problem.x.shape[1] == problem.y.shape[1]
    if not same_padding or (inputs.visible(problem.lengths) and bool((problem.lengths[0] != problem.lengths[1]).any())):
        raise LengthError(
            f"The Euclidean distance compares step by step and needs equal lengths; got {problem.lengths.T.tolist()}. "
            "Use udtw.dtw for different lengths."
        )
    if inputs.visible(problem.x, problem.y):
        problem.check_values()
    value = (problem.x - problem.y).square().sum((1, 2))
    if normalize == "length":
        value = value / problem.lengths[0]
    return form.restore(value if squared else value.sqrt())
