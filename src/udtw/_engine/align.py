"""`align`, `dtw`, `soft_dtw`, `soft_dtw_divergence` and `euclidean`.

All are sums of **squared** Euclidean differences along the path (no root is taken unless ``squared=False`` is offered
and given), and are divided by the length only with ``normalize``.
"""

from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import numpy as np

from udtw._engine import inputs, likelihood
from udtw._engine.alignment import Alignment, Reported
from udtw._engine.checks import can_read
from udtw._engine.distribution import PathDistribution
from udtw._engine.inputs import ArrayLike
from udtw._engine.problem import make_problem, without_autocast
from udtw._kernels import memory_estimate
from udtw._kernels.backends import choose, dtw_of_pair
from udtw.errors import LengthError, OptionError

NORMALIZE = (None, "length", "path")
DISTANCES = ("expected", "soft_min")
AUTO_GAMMA = 4.0
"""The difference of two steps has twice the variance Σ, and −log of a Gaussian is half a square: γ = 4 (β = 1)."""


class Options(TypedDict, total=False):
    """Further keywords of `align`: the prior over paths, what is reported, and how it is computed."""

    band: Any
    warp_penalty: Any
    relax: Any
    gap_penalty: Any
    gap_opening: Any
    anchors: Any
    order: str
    shape: tuple[int, int] | None
    reach: Any
    normalize: str | None
    debias: bool
    distance: str
    lam: float
    nan_policy: str
    backend: str


PRIOR = ("band", "warp_penalty", "relax", "gap_penalty", "gap_opening", "anchors", "order", "shape", "reach")
OF_DTW = (
    "var_x", "var_y", "beta", "weighting", "lengths_x", "lengths_y", "variance", "cost",
    *PRIOR, "nan_policy", "backend",
)  # fmt: skip
"""Keywords of `align` that `dtw` takes."""


def align(  # noqa: PLR0913 (the first options are those that people use)
    x: ArrayLike,
    y: ArrayLike,
    var_x: ArrayLike | None = None,
    var_y: ArrayLike | None = None,
    *,
    gamma: Any = 1.0,
    beta: float = 1.0,
    weighting: str = "likelihood",
    lengths_x: Any = None,
    lengths_y: Any = None,
    variance: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    **options: Unpack[Options],
) -> Alignment:
    """Align two sequences with uncertainty.

    Compute the posterior over alignment paths, ``π(Π) ∝ exp(−E(Π)/γ)``, and what follows from it.

    Parameters
    ----------
    x, y : (B, N, d), (N, d) or (N,)
        Torch tensors or NumPy arrays, time before features. A batch of one is repeated. ``None`` if ``cost`` is given.
    var_x, var_y : (B, N), (N,), (B, N, d), (N, d), a number or "estimate", optional
        Variances σ² (not σ) of the steps; ``Σ_mn = ½[σ²(x_m) + σ²(y_n)]``. If only one is given, the other is 1.
        With a last axis d, every feature has its own: ``C = Σ_l D_l/Σ_l``, and log Σ is the sum of ``log Σ_l``.
        "estimate" derives them from the local roughness of the series, which suits white noise on smooth series.
    gamma : float, tensor or "auto"
        Temperature γ > 0, in units of the cost: one number or one per pair. If a tensor, gradients are propagated to
        it. "auto" is 4, for which probabilities are calibrated if the variances are those of the noise.
    beta : float or tensor
        Weight of log Σ, β ≥ 0 for "likelihood". If a tensor, gradients are propagated to it.
    weighting : "likelihood" or "precision"
        Energy of a path. "likelihood" is the sum of ``D/Σ + β log Σ`` over its cells, and the loss is the free energy
        ``−γ log Z``. There log Σ is relative to the level of the pair, the mean log variance of its steps (or
        matches): multiplying the series by c and the variances by c² adds a constant to the loss and changes no
        alignment. "precision" is the paper's energy, the sum of ``D/Σ``, with the loss ``d² + βΩ + λΩ'``.
    lengths_x, lengths_y : int or (B,), optional
        True lengths of padded sequences. Padding is never read.
    variance : (B, N, M) or (N, M), optional
        Variances of the matches themselves, instead of ``var_x`` and ``var_y``.
    cost : (B, N, M) or (N, M), optional
        A precomputed base cost D instead of squared Euclidean distances.

    Other Parameters
    ----------------
    band : int, float, "itakura" or boolean mask, optional
        Restrict paths to a band around the slanted diagonal: a radius in steps or a fraction of the shorter length
        (Sakoe-Chiba), the Itakura parallelogram, or a mask of the admissible cells.
    warp_penalty : float, tensor or tuple of two, default 0
        ω, added to the energy of a path for each non-diagonal step; may be negative. If a tensor, gradients are
        propagated to it. A tuple ``(ω_x, ω_y)`` has two prices: ω_x for staying in x, the step (0, 1) that matches a
        step of x with one more step of y, and ω_y for staying in y, the step (1, 0).
    relax : None, "x", "y", "both" or four counts
        How many steps may stay unmatched at x begin, x end, y begin and y end. "y" lets x lie anywhere inside y.
    gap_penalty : float or tensor, optional
        δ ≥ 0: steps may also stay unmatched inside, which adds δ to the energy for each of them. Left-out steps of x
        come before those of y, and only a matched step is repeated, so that every set of matches is one path; a band
        restricts matches alone. Relaxed ends stay free, in one series at each end; what is left out beyond them costs
        as inside. ``matches().matched`` is then the probability that a step has a partner. One number or one per pair;
        if a tensor, gradients are propagated to it.
    gap_opening : float or tensor, default 0
        κ ≥ 0, added for every run of unmatched steps of one series. Needs ``gap_penalty``.
    anchors : list of (i, j, sd), optional
        Tie points: step i of x belongs to step j of y, give or take sd steps of y. Each match of step i with a step n
        costs ``γ(n − j)²/(2·sd²)`` more: the prior probability of a path is multiplied by a Gaussian, whatever γ is
        (`dtw`, which has no γ, takes 1). If sd is None or 0, j is the only partner of step i, which then stays neither
        in a gap nor at a relaxed end. One list for all pairs, or one list for each.
    order : "path", "set" or "grid"
        "set" and "grid" are for tokens without an order, such as those of images: every step of x has a partner
        anywhere in y, and every step of y one in x. The free energy is the mean of both ways,
        ``½ Σ_m −γ log Σ_n exp(−E_mn/γ) + ½ Σ_n −γ log Σ_m exp(−E_mn/γ)``, and the coupling that of the probabilities.
        There are no paths, and the options of the prior above do not apply.
    shape, reach : (height, width), and float or tensor
        Of "grid": its sides, read row by row, and the displacement in tokens that costs one unit of energy: a match
        over the distance r costs ``r²/reach²`` more. If ``reach`` is a tensor, gradients are propagated to it.
    normalize : None, "length" or "path"
        Divide distance and regularisers by the longer true length, or by the expected path length ``E[1]``.
    debias : bool, default False
        Subtract half the values of x with itself and of y with itself: from loss and distance for "likelihood" (a log
        likelihood ratio, "same source" against "two sources"), from the distance for "precision". The regulariser of
        "precision" is not debiased: otherwise uncertainty would be free.
    distance : "expected" or "soft_min"
        For "precision", the meaning of `Alignment.distance`: ``E[C]`` (the paper; at least the DTW value, never
        negative for D ≥ 0) or ``−γ log Z`` (soft-DTW; may be negative).
    lam : float, default 0
        For "precision": ``loss = d² + β·E[log Σ] + λ·E[(Σ − 1)²]``.
    nan_policy : "raise" or "omit"
        Raise an error for steps with NaN, or leave them out. The result then counts only the remaining steps.
    backend : "auto", "numba", "triton", "portable" or "enumeration"
        "auto" takes the fastest backend that fits the dtype and device.

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

    A step that has no counterpart may stay unmatched, for a price:

    >>> a = udtw.align([0.0, 1.0, 9.0, 2.0], [0.0, 1.0, 2.0], gamma=0.1, gap_penalty=1.0)
    >>> a.matches().matched.round(2).tolist()
    [1.0, 1.0, 0.0, 1.0]
    >>> a.paths.mode().tolist()
    [[0, 0], [1, 1], [2, -1], [3, 2]]
    """
    _check_names("align", options)
    reported = Reported(
        weighting,
        beta,
        options.get("lam", 0.0),
        options.get("distance", "expected"),
        options.get("debias", False),
        options.get("normalize"),
        options.get("relax"),
    )
    _check_reported(reported, ready_made=cost is not None or variance is not None)
    if options.get("gap_penalty") is not None and weighting == "precision" and reported.distance == "expected":
        raise OptionError(
            "weighting='precision' with distance='expected' does not support gap_penalty: its loss counts matched "
            "steps alone, so that leaving out all of them would be best. Use weighting='likelihood'."
        )
    with without_autocast(x if cost is None else cost):
        paths = _paths(
            x, y, var_x, var_y, gamma=gamma, beta=beta, weighting=weighting, lengths_x=lengths_x, lengths_y=lengths_y,
            variance=variance, cost=cost, **options,
        )  # fmt: skip
        alignment = Alignment(paths, reported, (inputs.read_labels(x), inputs.read_labels(y)))
        _ = alignment.loss  # raise errors here, not where a result is first read
    return alignment


def _check_names(function: str, options: Any, known: Sequence[str] = tuple(Options.__annotations__)) -> None:
    unknown = [name for name in options if name not in known]
    if unknown:
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown[0]!r}; it takes {', '.join(known)}.")


def _check_reported(reported: Reported, ready_made: bool) -> None:
    if reported.distance not in DISTANCES:
        raise OptionError(f"distance must be one of {DISTANCES}; got {reported.distance!r}.")
    if reported.normalize not in NORMALIZE:
        raise OptionError(f"normalize must be one of {NORMALIZE}; got {reported.normalize!r}.")
    if reported.debias and ready_made:
        raise OptionError(
            "debias=True needs the distances of x and y to themselves, which a precomputed cost or a joint variance "
            "cannot provide. Pass sequences with var_x and var_y, or debias=False."
        )
    likelihood.check_weighting(reported.weighting, reported.lam, reported.distance)


def _resolve_gamma(gamma: Any, *variances: Any) -> Any:
    """Return γ; for "auto" the value that is calibrated for variances of the noise."""
    if not isinstance(gamma, str):
        return gamma
    if gamma != "auto":
        raise OptionError(f"gamma must be a number or 'auto'; got {gamma!r}.")
    if all(one is None for one in variances):
        raise OptionError("gamma='auto' needs variances: var_x and var_y, or variance. Without them, pass a number.")
    return AUTO_GAMMA


def _paths(  # noqa: PLR0913 (the arguments of align)
    x: ArrayLike,
    y: ArrayLike,
    var_x: ArrayLike | None = None,
    var_y: ArrayLike | None = None,
    *,
    gamma: Any = 1.0,
    beta: Any = 1.0,
    weighting: str = "likelihood",
    lengths_x: Any = None,
    lengths_y: Any = None,
    variance: ArrayLike | None = None,
    cost: ArrayLike | None = None,
    **options: Any,
) -> PathDistribution:
    """Build the distribution over paths that the arguments of `align` describe, with the defaults of `align`.

    Of ``options`` those that concern the paths are read: the prior, ``nan_policy`` and ``backend``.
    """
    likelihood.check_weighting(weighting)
    tensors, lengths, form = inputs.read_pair(
        x, y, var_x, var_y, variance, cost,
        lengths=(lengths_x, lengths_y), nan_policy=options.get("nan_policy", "raise"),
    )  # fmt: skip
    if options.get("anchors") is not None and options.get("nan_policy") == "omit":
        raise OptionError(
            "anchors count the steps of x and y, which nan_policy='omit' would renumber. Fill or remove the missing "
            "steps first.",
            parameter="anchors",
        )
    gamma = _resolve_gamma(gamma, var_x, var_y, variance)
    prior = {name: options[name] for name in PRIOR if name in options}
    problem = make_problem(tensors, gamma, lengths, beta=beta if weighting == "likelihood" else None, **prior)
    backend = choose(options.get("backend", "auto"), problem.main, problem.prior)
    if any(one is not None for one in lengths):
        if problem.cost is not None or problem.variance is not None:
            memory_estimate.refuse_copies(problem)
        problem = problem.without_padding()
    return PathDistribution._of(problem, form, backend)


_SOFT_MIN: dict[str, Any] = {"weighting": "precision", "distance": "soft_min", "beta": 0.0}


def soft_dtw(x: ArrayLike, y: ArrayLike, gamma: Any = 1.0, *, normalize: str | None = None, **options: Any) -> Any:
    """Compute soft-DTW, ``−γ log Σ_Π exp(−⟨Π, D⟩/γ)`` of the squared distances, (B,).

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
    """Compute ``soft_dtw(x, y) − ½[soft_dtw(x, x) + soft_dtw(y, y)]``, (B,).

    It is non-negative, and zero for equal series.

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
    """Compute classical DTW, (B,): the least sum of squared distances along a path; its root if not ``squared``.

    Differentiable by the least path (a subgradient where paths tie). ``normalize`` is None or "length"; ``options`` are
    those of `align` with the same defaults: lengths, band, cost, backend, ``warp_penalty``, which is added for each
    non-diagonal step (amerced DTW, ADTW), ``relax`` for open ends, ``gap_penalty`` and ``gap_opening`` for unmatched
    steps. With variances the result is the least energy of a path; ``beta`` and ``weighting`` say which.

    >>> import udtw
    >>> float(udtw.dtw([0.0, 1.0, 2.0], [0.0, 2.0, 2.0]))
    1.0
    >>> float(udtw.dtw([1.0, 2.0], [0.0, 1.0, 2.0, 5.0], relax="y"))  # x lies somewhere inside y
    0.0
    """
    if normalize not in (None, "length"):
        raise OptionError(f"dtw can normalize by 'length' or not at all; got normalize={normalize!r}.")
    # Not the root: that of torch may differ from that of NumPy in the last bit.
    if squared and not options and normalize is None and (found := _dtw_of_arrays(x, y)) is not None:
        return found
    _check_names("dtw", options, OF_DTW)
    cost = options.get("cost")
    with without_autocast(x if cost is None else cost):
        paths = _paths(x, y, **options)
        value = paths._least_energy()
        if normalize == "length":
            value = value / paths._problem.lengths.amax(0)
        return paths._form.restore(value if squared else value.clamp_min(0).sqrt())


PLAIN = np.dtype(np.float32), np.dtype(np.float64)


def _dtw_of_arrays(x: Any, y: Any) -> np.floating | None:
    """Return the DTW of two float arrays (N,) or (N, d) as they are; None if they need `inputs` or are unusable."""
    if type(x) is not np.ndarray or type(y) is not np.ndarray or x.dtype != y.dtype or x.dtype not in PLAIN:
        return None
    if x.ndim == 1 and y.ndim == 1:
        x, y = x[:, None], y[:, None]
    if x.ndim != 2 or y.ndim != 2 or not 0 < x.shape[1] == y.shape[1] <= likelihood.MAX_DIRECT_DIM:
        return None
    if not (x.size and y.size and x.flags.carray and y.flags.carray):
        return None
    return dtw_of_pair(x, y)


def euclidean(
    x: ArrayLike,
    y: ArrayLike,
    *,
    squared: bool = True,
    lengths_x: Any = None,
    lengths_y: Any = None,
    normalize: str | None = None,
) -> Any:
    """Compute ``Σ_t ‖x_t − y_t‖²``, (B,), for sequences of equal length; its root if not ``squared``.

    ``normalize="length"`` divides by the number of steps. This is what "euclidean" means everywhere in udtw.

    >>> import udtw
    >>> float(udtw.euclidean([0.0, 1.0], [0.0, 3.0]))
    4.0
    """
    if normalize not in (None, "length"):
        raise OptionError(f"euclidean can normalize by 'length' or not at all; got normalize={normalize!r}.")
    paths = _paths(x, y, lengths_x=lengths_x, lengths_y=lengths_y)
    problem = paths._problem
    assert problem.x is not None, "_paths was given sequences"
    assert problem.y is not None, "_paths was given sequences"
    same_padding = problem.x.shape[1] == problem.y.shape[1]
    if not same_padding or (can_read(problem.lengths) and bool((problem.lengths[0] != problem.lengths[1]).any())):
        raise LengthError(
            f"The Euclidean distance compares step by step and needs equal lengths; got {problem.lengths.T.tolist()}. "
            "Use udtw.dtw for different lengths."
        )
    if can_read(problem.x, problem.y):
        problem.check_values()
    value = (problem.x - problem.y).square().sum((1, 2))
    if normalize == "length":
        value = value / problem.lengths[0]
    return paths._form.restore(value if squared else value.sqrt())
