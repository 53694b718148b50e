"""Noisy warped copies of series, whose true alignment is known: what `udtw.calibrate` fits where nothing is given."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from udtw._engine.between import fit_between
from udtw._engine.likelihood import roughness
from udtw._engine.rehearsal import Model, draw_pairs, rehearse
from udtw._engine.series_set import SeriesSet, load_series
from udtw.errors import LengthError, OptionError

SMOOTHING = tuple(10.0**k for k in np.arange(-2.0, 5.0, 0.5))
"""Strengths of smoothing that are tried."""
DRAWS = 2
"""Pairs that are drawn for each given one."""
Truth = tuple[np.ndarray, np.ndarray]
"""True matches of one pair: steps of x (K,), whole, and their positions in y (K,), whole or not."""


def in_float64(series: SeriesSet) -> SeriesSet:
    return series.astype(np.dtype(np.float64))


def warped_copies(
    series: Sequence[Any], var_x: Any, var_y: Any, speed_std: float, seed: int
) -> tuple[SeriesSet, SeriesSet, list[Truth]]:
    """Return the series, noisy warped copies of them, and their true matches."""
    if any(isinstance(one, list | tuple) and len(one) == 2 and np.ndim(one[0]) for one in series):
        raise OptionError("Some items are pairs (x, y) and some are single series; pass either.")
    if var_y is not None:
        raise OptionError("Single series have no y: pass their variances as var_x.")
    if not (math.isfinite(speed_std) and speed_std >= 0):
        raise OptionError(f"speed_std must be a number, 0 or more; got {speed_std!r}.")
    if isinstance(var_x, int | float):
        var_x = [np.full(len(np.asarray(one)), float(var_x)) for one in series]
    x = in_float64(load_series("pairs", series, None if isinstance(var_x, str) else var_x))
    if int(x.lengths.min()) < 3:
        raise LengthError(f"Warped copies need series of at least three steps; got {int(x.lengths.min())}.")
    rng, copies, truth = np.random.default_rng(seed), [], []
    noises = x.variance_rows() or [roughness(torch.from_numpy(row)).numpy() for row in x.rows()]
    new_noises = []
    for row, noise in zip(x.rows(), noises, strict=True):
        steps = np.arange(len(row))
        # x_m = y at warp[m]; so the copy at step n shows x at the inverse of the warp.
        warp = random_warp(len(row), speed_std, rng)
        source = np.interp(steps, warp, steps)
        clean = smoothed(row, noise)
        variance = np.interp(source, steps, noise)
        copy = np.stack([np.interp(source, steps, column) for column in clean.T], 1)
        copies.append(copy + np.sqrt(variance)[:, None] * rng.standard_normal(copy.shape))
        truth.append((steps, warp.clip(0, len(row) - 1)))
        new_noises.append(variance)
    return x, in_float64(load_series("pairs", copies, None if x.variances is None else new_noises)), truth


def drawn_pairs(pairs: Sequence[Any], seed: int) -> tuple[SeriesSet, SeriesSet, list[Truth]]:
    """Return pairs drawn from the noise between the two series of every given pair, and their true matches."""
    series: tuple[list[np.ndarray], list[np.ndarray]] = [], []
    truth: list[Truth] = []
    for number, (x, y) in enumerate(pairs):
        first, second = (
            load_series(name, [one]).rows()[0].astype(np.float64)[None] for name, one in (("x", x), ("y", y))
        )
        fit = fit_between(first, second)
        tempered = rehearse(fit, 0.9)
        level = float(fit.level[0]) * tempered.raw_inflation
        drawn = draw_pairs(Model.of(fit), level, tempered.correlation_time, np.random.default_rng([seed, number]))
        for one, other, warp in list(zip(*drawn, strict=True))[:DRAWS]:
            series[0].append(one * fit.scale)
            series[1].append(other * fit.scale)
            truth.append((np.arange(len(warp)), warp))
    return load_series("x", series[0]), load_series("y", series[1]), truth


def random_warp(steps: int, speed_std: float, rng: np.random.Generator) -> np.ndarray:
    """Draw increasing positions (steps,) from 0 to steps − 1, with a smooth log-normal speed.

    >>> import numpy as np
    >>> random_warp(5, 0.0, np.random.default_rng(0)).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    width = steps / 20
    reach = math.ceil(3 * width)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / width) ** 2)
    noise = np.convolve(rng.standard_normal(steps - 1 + 2 * reach), kernel / np.linalg.norm(kernel), "valid")
    places = np.r_[0.0, np.cumsum(np.exp(speed_std * noise))]
    return places * ((steps - 1) / places[-1])


def smoothed(series: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """(T, d): f with the least ``Σ (x − f)²/noise + s·Σ (second differences of f)²``; s by cross-validation.

    ``noise``: (T,) variances. The strength s is the one of `SMOOTHING`, in units of the mean precision, with the least
    generalized cross-validation error.

    >>> import numpy as np
    >>> line = np.arange(8.0)[:, None]
    >>> bool(np.allclose(smoothed(line, np.ones(8)), line))
    True
    """
    deviation = np.sqrt(np.maximum(noise, 1e-6 * noise.max() or 1.0))[:, None]
    deviation = deviation * np.sqrt(np.mean(deviation**-2.0))  # so that the mean precision is 1
    # In units of the deviation, f = Q (1 + s·bends)⁻¹ Qᵀ x: one decomposition serves every strength.
    difference = np.diff(np.eye(len(series)), n=2, axis=0) * deviation.T
    bends, basis = np.linalg.eigh(difference.T @ difference)
    waves = basis.T @ (series / deviation)
    best, kept = math.inf, np.ones_like(bends)
    for strength in SMOOTHING:
        share = 1 / (1 + strength * bends.clip(0))
        error = np.square((1 - share)[:, None] * waves).mean() / max(1 - share.mean(), 1e-6) ** 2
        if error < best:
            best, kept = error, share
    return deviation * (basis @ (kept[:, None] * waves))
