"""`align`, `dtw`, `soft_dtw`, `soft_dtw_divergence` and `euclidean`.

All are sums of **squared** Euclidean differences along the path (no root is taken unless ``squared=False`` is offered
and given), and are not divided by the length unless ``normalize`` says so.
"""

from typing import Any

import torch
from torch import Tensor

from udtw._engine import inputs, likelihood, missing, ragged
from udtw._engine.alignment import Alignment, Reported
from udtw._engine.distribution import PathDistribution
from udtw._engine.inputs import ArrayLike
from udtw._engine.problem import make_problem, without_autocast
from udtw._kernels import memory_estimate
from udtw._kernels.backends import choose
from udtw.errors import LengthError, OptionError

NORMALIZE = (None, "length", "path")
DISTANCES = ("expected", "soft_min")
LEAST_ROUGHNESS = 1e-4
"""Share of the variance of a series below which no estimated variance lies."""
AUTO_GAMMA = 4.0
"""The difference of two steps has twice the variance Σ, and −log of a Gaussian is half a square: γ = 4 (β = 1)."""


def align(  # noqa: PLR0913 (the options that users type)
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
    weighting: str = "likelihood",
    warp_penalty: Any = 0.0,
    relax: Any = None,
    nan_policy: str = "raise",
) -> Alignment:
    """Align two sequences with uncertainty: a posterior over alignment paths, and what follows from it.

    Parameters
    ----------
    x, y : (B, N, d), (N, d) or (N,)
        Torch tensors or NumPy arrays, time before features. A batch of one is repeated. ``None`` if ``cost`` is given.
    var_x, var_y : (B, N), (N,), (B, N, d), (N, d), a number or "estimate", optional
        Variances σ² (not σ) of the steps; ``Σ_mn = ½[σ²(x_m) + σ²(y_n)]``. If only one is given the other is 1.
        With a last axis d every feature has its own: ``C = Σ_l D_l/Σ_l``, and log Σ is the sum of ``log Σ_l``.
        "estimate" takes them from the local roughness of the series: good for white noise on smooth series.
    variance : (B, N, M) or (N, M), optional
        Variances of the matches themselves, instead of ``var_x`` and ``var_y``.
    cost : (B, N, M) or (N, M), optional
        A ready-made base cost D instead of squared Euclidean distances.
    gamma : float, tensor or "auto"
        Temperature γ > 0, in units of the cost: one number or one per pair. A tensor gets its gradient. "auto" is 4,
        for which probabilities are calibrated if the variances are those of the noise.
    beta : float or tensor
        Price of claiming uncertainty, β ≥ 0 for "likelihood". A tensor gets its gradient.
    lam : float
        For "precision": ``loss = d² + β·E[log Σ] + λ·E[(Σ − 1)²]``.
    lengths_x, lengths_y : int or (B,), optional
        True lengths of padded sequences. Padding is never read.
    band : int, float, "itakura" or boolean mask, optional
        Radius or fraction of a Sakoe-Chiba band on the slanted diagonal; see `udtw._engine.prior`.
    distance : "expected" or "soft_min"
        For "precision", what `Alignment.distance` is: ``E[C]`` (the paper; at least the DTW value, never negative for
        D ≥ 0) or ``−γ log Z`` (soft-DTW; may be negative).
    debias : bool
        Subtract half the values of x with itself and of y with itself: from the loss and the distance of "likelihood"
        (a log likelihood ratio, "same source" against "each its own"), from the distance of "precision", where the
        regulariser is left as it is: debiased, uncertainty would cost nothing.
    normalize : None, "length" or "path"
        Divide distance and regularisers by the longer true length, or by the expected path length ``E[1]``.
    backend : "auto", "numba", "portable" or "enumeration"
    weighting : "likelihood" or "precision"
        The energy of a path. "likelihood" charges the uncertainty that the path claims, ``Σ (D/Σ + β log Σ)`` over its
        cells, and the loss is the free energy ``−γ log Z``. There log Σ counts relative to the level of the pair, the
        mean log variance of its steps (or matches): multiplying the series by c and the variances by c² adds a constant
        to the loss and changes no alignment. "precision" is the paper's: ``Σ D/Σ``, with the loss ``d² + βΩ + λΩ'``.
    warp_penalty : float or tensor
        ω, added to the energy of a path for each non-diagonal step; may be negative. A tensor gets its gradient.
    relax : None, "x", "y", "both" or four counts
        How many steps may stay unmatched at x begin, x end, y begin and y end. "y" lets x lie anywhere inside y.
    nan_policy : "raise" or "omit"
        What to do about steps with NaN: a named error, or leave them out. The result then counts only the steps that
        stay.

    Returns
    -------
    Alignment
        With ``distance``, ``regularizer``, ``loss``, ``coupling``, ``variance``, ``cost``, ``paths``, ``free_energy``,
        ``warps`` and ``matches()``.

    Examples
    --------
    >>> import udtw
    >>> x, y = [0.0, 1.0, 2.0, 1.0], [0.0, 1.0, 1.0, 2.0, 1.0]
    >>> noisy = [1.0, 1.0, 4.0, 1.0]  # the third step of x is less reliable
    >>> a = udtw.align(x, y, noisy, gamma=0.1)
    >>> round(float(a.distance), 3), round(float(a.regularizer), 3)
    (0.001, 0.916)
    """
    if distance not in DISTANCES:
        raise OptionError(f"distance must be one of {DISTANCES}; got {distance!r}.")
    if normalize not in NORMALIZE:
        raise OptionError(f"normalize must be one of {NORMALIZE}; got {normalize!r}.")
    if debias and (cost is not None or variance is not None):
        raise OptionError(
            "debias needs the distances of x and y to themselves, which a ready-made cost or a joint variance cannot "
            "give. Pass sequences with var_x and var_y, or debias=False."
        )
    likelihood.check_weighting(weighting, lam, distance)
    missing.check_policy(nan_policy, cost, variance)
    if nan_policy == "omit":
        x, var_x, lengths_x = missing.without_missing("x", x, var_x, lengths_x)
        y, var_y, lengths_y = missing.without_missing("y", y, var_y, lengths_y)
    gamma = _temperature(gamma, var_x, var_y, variance)
    with without_autocast(x if cost is None else cost):
        paths = _paths(
            x, y, gamma=gamma, lengths=(lengths_x, lengths_y), backend=backend,
            given={"var_x": var_x, "var_y": var_y, "variance": variance, "cost": cost},
            band=band, beta=beta if weighting == "likelihood" else None, warp_penalty=warp_penalty, relax=relax,
        )  # fmt: skip
        found = Alignment(
            paths,
            Reported(weighting, beta, lam, distance, debias, normalize, relax),
            (inputs.labels(x), inputs.labels(y)),
        )
        _ = found.loss  # errors are raised here, not where a result is first read
    return found


def _estimated(name: str, word: str, series: ArrayLike, steps: Any) -> Tensor:
    """(B, N) variances from the roughness of the series themselves; 1 in padding.

    None is below a small share of the variance of the series, since a variance must not be zero.
    """
    if word != "estimate" or series is None:
        raise OptionError(f"{name} must be variances, or 'estimate' beside sequences; got {word!r}.")
    tensor, _ = inputs.sequence(name[-1], series)
    found = tensor.new_ones(tensor.shape[:2])
    count, padded = tensor.shape[:2]
    for b, length in enumerate(inputs.lengths(f"lengths_{name[-1]}", steps, count, padded, tensor.device).tolist()):
        own = tensor[b, :length].detach()
        if length < 3:
            raise LengthError(f"{name}='estimate' needs at least three steps; sequence {b} has {length}.")
        least = LEAST_ROUGHNESS * float(own.var(0, correction=0).mean()) + torch.finfo(own.dtype).tiny
        found[b, :length] = likelihood.roughness(own).clamp_min(least)
    return found


def _temperature(gamma: Any, *variances: Any) -> Any:
    """γ, or for "auto" the one that was calibrated for variances of the noise."""
    if not isinstance(gamma, str):
        return gamma
    if gamma != "auto":
        raise OptionError(f"gamma must be a number or 'auto'; got {gamma!r}.")
    if all(one is None for one in variances):
        raise OptionError("gamma='auto' needs variances: var_x and var_y, or variance. Without them choose a number.")
    return AUTO_GAMMA


def _paths(
    x: ArrayLike,
    y: ArrayLike,
    *,
    gamma: Any = 1.0,
    lengths: tuple[Any, Any] = (None, None),
    backend: str = "auto",
    given: dict[str, Any] | None = None,
    **options: Any,
) -> PathDistribution:
    """The distribution over paths that the arguments of `align` describe.

    ``given`` as in `udtw._engine.inputs.pair`, ``options`` as in `udtw._engine.problem.make_problem`.
    """
    given = dict(given or {})
    x, steps_x = ragged.padded("x", x, lengths[0])
    y, steps_y = ragged.padded("y", y, lengths[1])
    lengths = (steps_x, steps_y)
    for name, steps in (("var_x", steps_x), ("var_y", steps_y)):
        given[name] = ragged.padded_variances(name, given.get(name), steps)
    for name, series, steps in (("var_x", x, lengths[0]), ("var_y", y, lengths[1])):
        if isinstance(given.get(name), str):
            given[name] = _estimated(name, given[name], series, steps)
    tensors, form = inputs.pair(x, y, **given)
    problem = make_problem(tensors, gamma, lengths, **options)
    chosen = choose(backend, problem.main)
    if any(one is not None for one in lengths):
        if problem.cost is not None or problem.variance is not None:
            memory_estimate.refuse_copies(problem)
        problem = problem.without_padding()
    return PathDistribution._of(problem, form, chosen)


_SOFT_MIN: dict[str, Any] = {"weighting": "precision", "distance": "soft_min", "beta": 0.0}


def soft_dtw(x: ArrayLike, y: ArrayLike, gamma: Any = 1.0, *, normalize: str | None = None, **options: Any) -> Any:
    """Soft-DTW, ``−γ log Σ_Π exp(−⟨Π, D⟩/γ)`` of the squared distances, (B,).

    Can be negative, and is not zero for equal series; see `soft_dtw_divergence`.
    ``options`` are those of `align`: lengths, band, warp_penalty, relax, cost, backend, and variances if wanted.

    >>> import udtw
    >>> round(float(udtw.soft_dtw([0.0, 1.0, 2.0], [0.0, 2.0], gamma=0.1)), 3)
    0.931
    """
    return align(x, y, gamma=gamma, normalize=normalize, **_SOFT_MIN, **options).distance


def soft_dtw_divergence(
    x: ArrayLike, y: ArrayLike, gamma: Any = 1.0, *, normalize: str | None = None, **options: Any
) -> Any:
    """``soft_dtw(x, y) − ½[soft_dtw(x, x) + soft_dtw(y, y)]``, (B,): non-negative, zero for equal series.

    >>> import udtw
    >>> float(udtw.soft_dtw_divergence([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]))
    0.0
    """
    return align(x, y, gamma=gamma, debias=True, normalize=normalize, **_SOFT_MIN, **options).distance


def dtw(
    x: ArrayLike,
    y: ArrayLike,
    *,
    squared: bool = True,
    normalize: str | None = None,
    **options: Any,
) -> Any:
    """Classical DTW, (B,): the least sum of squared distances along a path; its root if not ``squared``.

    Differentiable by the least path (a subgradient where paths tie). ``normalize`` is None or "length"; ``options`` are
    those of `align`: lengths, band, cost, variances, backend, ``warp_penalty``, which is added for each non-diagonal
    step (amerced DTW, ADTW), ``relax`` for open ends, and ``weighting="likelihood"`` with ``beta`` for the least energy
    where there are variances.

    >>> import udtw
    >>> float(udtw.dtw([0.0, 1.0, 2.0], [0.0, 2.0, 2.0]))
    1.0
    >>> float(udtw.dtw([1.0, 2.0], [0.0, 1.0, 2.0, 5.0], relax="y"))  # x lies somewhere inside y
    0.0
    """
    if normalize not in (None, "length"):
        raise OptionError(f"dtw can normalise by 'length' or not at all; got normalize={normalize!r}.")
    lengths = options.pop("lengths_x", None), options.pop("lengths_y", None)
    given = {name: options.pop(name, None) for name in ("var_x", "var_y", "variance", "cost")}
    weighting, beta = options.pop("weighting", "precision"), options.pop("beta", 1.0)
    likelihood.check_weighting(weighting)
    policy = options.pop("nan_policy", "raise")
    missing.check_policy(policy, given["cost"], given["variance"])
    if policy == "omit":
        x, given["var_x"], first = missing.without_missing("x", x, given["var_x"], lengths[0])
        y, given["var_y"], second = missing.without_missing("y", y, given["var_y"], lengths[1])
        lengths = first, second
    with without_autocast(x if given["cost"] is None else given["cost"]):
        price = beta if weighting == "likelihood" else None
        paths = _paths(x, y, lengths=lengths, given=given, beta=price, **options)
        value = paths._backend.dtw(paths._for_kernels)
        if normalize == "length":
            value = value / paths._problem.lengths.amax(0)
        return paths._form.restore(value if squared else value.clamp_min(0).sqrt())


def euclidean(
    x: ArrayLike,
    y: ArrayLike,
    *,
    squared: bool = True,
    lengths_x: Any = None,
    lengths_y: Any = None,
    normalize: str | None = None,
) -> Any:
    """``Σ_t ‖x_t − y_t‖²``, (B,), for sequences of equal length; its root if not ``squared``.

    ``normalize="length"`` divides by the number of steps. This is what "euclidean" means everywhere in udtw.

    >>> import udtw
    >>> float(udtw.euclidean([0.0, 1.0], [0.0, 3.0]))
    4.0
    """
    if normalize not in (None, "length"):
        raise OptionError(f"euclidean can normalise by 'length' or not at all; got normalize={normalize!r}.")
    paths = _paths(x, y, lengths=(lengths_x, lengths_y))
    problem = paths._problem
    assert problem.x is not None, "_paths was given sequences"
    assert problem.y is not None, "_paths was given sequences"
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
    return paths._form.restore(value if squared else value.sqrt())
