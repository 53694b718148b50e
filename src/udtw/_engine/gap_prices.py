"""What a step without a partner costs, and the posterior over alignments that may leave steps out.

A matched step differs from its partner by noise; one without a partner is predicted by the steps before it only. In the
energy of a path, D/Σ + d·log Σ, the latter costs ``d + Σ_f log(V_f/r)`` with the variances V of these predictions and
the level r of the noise. A smooth series predicts itself well, so that leaving out its steps costs little.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw._engine.align import align

Array = NDArray[np.float64]
ORDER = 3
"""Steps from which the next one is predicted."""
SHARE = 0.7
"""Share of the price of a step that is taken: neighbors in a gap are less independent than their predictions say."""
OPENING, WARPING = 6.0, 0.5
"""Nats of a run of unmatched steps and of a non-diagonal step, without which unrelated stretches fit by warping."""


def gap_options(x: Array, y: Array, var_x: Array, var_y: Array, gamma: Array) -> dict[str, Any]:
    """Return the keywords of `align` for series (B, N, d), (B, M, d) whose noise has variances (B, N), (B, M).

    γ is (B,).
    """
    level = np.concatenate([var_x, var_y], 1).mean(1)[:, None]
    surprise = np.sqrt(_innovations(x) * _innovations(y))
    penalty = SHARE * (1 + np.log(np.maximum(surprise, level) / level)).sum(1)
    return {"gap_penalty": penalty, "gap_opening": OPENING * gamma}


def _innovations(series: Array) -> Array:
    """(B, d): mean squared errors of the best linear prediction of every step from the `ORDER` steps before it."""
    steps = series.shape[1]
    order = min(ORDER, (steps - 1) // 3)
    centered = np.swapaxes(series - series.mean(1, keepdims=True), 1, 2)
    past = np.stack([centered[..., order - 1 - k : steps - 1 - k] for k in range(order)], -1)
    coming = centered[..., order:, None]
    weights = np.linalg.pinv(past) @ coming
    return ((coming - past @ weights) ** 2).mean((2, 3))


def sharpened(x: Array, y: Array, var_x: Array, var_y: Array) -> tuple[Array, Array]:
    """Return variances at most at the level of the pair, so that a stretch that does not fit is not taken for noise.

    What the distance between steps adds, up to half a step of either series, stays.
    """
    level = np.median(np.concatenate([var_x, var_y], 1), 1)[:, None]
    return np.minimum(var_x, level) + _between_steps(x), np.minimum(var_y, level) + _between_steps(y)


def _between_steps(series: Array) -> Array:
    """(B, N): half the variance of a series over the distance to a partner that lies between two steps."""
    squares = (np.diff(series, axis=1) ** 2).mean(2)
    squares = np.concatenate([squares[:, :1], squares, squares[:, -1:]], 1)
    return np.maximum(squares[:, 1:], squares[:, :-1]) / 24


def align_with_gaps(
    x: Array, y: Array, var_x: Array, var_y: Array, gamma: Array, warp_penalty: float = 0.0, **options: Any
) -> Any:
    """Align series (B, N, d), (B, M, d) of which steps may have no partner.

    γ is (B,) and ``warp_penalty`` in units of γ; ``options`` are those of `align`.
    """
    var_x, var_y = sharpened(x, y, var_x, var_y)
    return align(
        x, y, var_x, var_y, gamma=gamma, beta=float(x.shape[2]), warp_penalty=(WARPING + warp_penalty) * gamma,
        **gap_options(x, y, var_x, var_y, gamma), **options,
    )  # fmt: skip


def posterior_with_gaps(
    x: Array, y: Array, var_x: Array, var_y: Array, gamma: Array, warp_penalty: float, anchors: Sequence[Any]
) -> tuple[Array, Array, Array]:
    """Coupling (B, N, M), and the probabilities (B, N), (B, M) that a step has a partner."""
    found = align_with_gaps(x, y, var_x, var_y, gamma, warp_penalty, anchors=anchors or None)
    in_x, in_y = (np.asarray(found.matches(of=side).matched).reshape(len(x), -1) for side in "xy")
    return np.asarray(found.coupling).reshape(len(x), x.shape[1], y.shape[1]), in_x, in_y
