"""Two series as `match` reads them: on even grids, and how to return from these to the steps that the user has."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from udtw._engine.inputs import order_features, read_array, read_labels, read_names
from udtw._engine.ties import Tie, ties_of_pair
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError

Array = NDArray[np.float64]
FIT_CELLS = 4_000_000
"""Cells of the grid on which the noise is estimated; longer pairs are averaged over blocks of steps for it."""
LARGEST_RATIO = 100


def interpolated(values: Tensor, knots: Array, places: NDArray) -> Tensor:
    """(P, k): values (K, k) at increasing knots, interpolated linearly at places; constant beyond the ends."""
    after = np.searchsorted(knots, places).clip(1, len(knots) - 1)
    part = ((places - knots[after - 1]) / (knots[after] - knots[after - 1])).clip(0, 1)
    weight = torch.as_tensor(part, dtype=values.dtype, device=values.device)[:, None]
    return values[after - 1] * (1 - weight) + values[after] * weight


@dataclass(frozen=True)
class EvenPair:
    """Two series (N, d) on even grids, and how to return from these to the steps that the user has."""

    x: Array
    y: Array
    extra: tuple[Any, Any]  # variances that interpolation adds
    times: tuple[Array | None, Array | None]  # positions of the user's steps on the grids; None if they are the same
    reduction: int
    apart: bool  # both have dates, and these overlap nowhere

    def ties(self, anchors: Any) -> tuple[Tie, ...]:
        """Return the ties of the user's steps as ties of the steps of the grids."""
        at_x, at_y = (
            np.arange(len(own)) if at is None else at for own, at in zip((self.x, self.y), self.times, strict=True)
        )
        found = ties_of_pair(anchors, len(at_x), len(at_y))
        return tuple(Tie(round(float(at_x[i])), round(float(at_y[j])), sd) for i, j, sd in found)

    @classmethod
    def read(cls, x: Any, y: Any) -> "EvenPair":
        """Return the pair with its features in one order, without constant ones, on even grids."""
        x, y = order_features("x", x, "y", None), order_features("y", y, "x", read_names(x))
        sides = [read_series(name, one) for name, one in (("x", x), ("y", y))]
        (values_x, times_x), (values_y, times_y) = sides
        if values_x.shape[1] != values_y.shape[1]:
            raise ShapeError(
                f"x and y must have the same number of features; got {values_x.shape[1]} and {values_y.shape[1]}."
            )
        long, short = max(len(values_x), len(values_y)), min(len(values_x), len(values_y))
        if short < 3:
            raise LengthError(f"match needs series of at least three steps; got {len(values_x)} and {len(values_y)}.")
        if long > LARGEST_RATIO * short:
            raise LengthError(
                f"The lengths {len(values_x)} and {len(values_y)} differ by more than a factor of {LARGEST_RATIO}. To "
                "find a short series in a long one use udtw.timeseries.SubsequenceSearch."
            )
        usable = (values_x.std(0) > 0) & (values_y.std(0) > 0)
        if not usable.any():
            raise OptionError("x or y is constant: there is nothing to match. Pass series that vary.")
        resampled = [resample(one[:, usable], at) for one, at in ((values_x, times_x), (values_y, times_y))]
        cells = len(resampled[0][0]) * len(resampled[1][0])
        reduction = max(1, int(np.ceil(np.sqrt(cells / FIT_CELLS))))
        dated = all(getattr(getattr(read_labels(one), "dtype", None), "kind", "") == "M" for one in (x, y))
        apart = dated and (times_x[-1] < times_y[0] or times_y[-1] < times_x[0])  # type: ignore[index]
        return cls(
            resampled[0][0], resampled[1][0], (resampled[0][1], resampled[1][1]), (resampled[0][2], resampled[1][2]),
            reduction, bool(apart),
        )  # fmt: skip


def read_series(name: str, series: Any) -> tuple[Array, Array | None]:
    """Return values (N, d) and the times of the steps if the index says so."""
    labels = read_labels(series)
    values = np.asarray(read_array(name, series), np.float64)
    if values.ndim not in (1, 2):
        raise ShapeError(f"{name} must have shape (N,), (N, d) or (B, N, d), time first; got {values.shape}.")
    values = values.reshape(len(values), -1)
    bad = ~np.isfinite(values)
    if bad.all(0).any():
        raise NonFiniteError(f"Feature {int(np.argmax(bad.all(0)))} of {name} has no value at all. Leave it out.")
    if bad.any():
        at = np.argwhere(bad)[0]
        raise NonFiniteError(
            f"{name}[{at[0]}, {at[1]}] is {values[tuple(at)]}; {int(bad.sum())} value(s) are missing or infinite. "
            "Interpolate them, or leave these steps out and keep their times as the index of a pandas series."
        )
    times = None
    if labels is not None and getattr(labels, "dtype", None) is not None and labels.dtype.kind in "Mmf":
        times = labels.to_numpy()
        times = times.astype("datetime64[ns]").astype(np.float64) if times.dtype.kind == "M" else times.astype(float)
        if not (np.isfinite(times).all() and (np.diff(times) > 0).all()):
            raise OptionError(
                f"The index of {name} must hold increasing times without gaps in it (NaT); sort it first."
            )
    return values, times


def resample(values: Array, times: Array | None) -> tuple[Array, Any, Array | None]:
    """Return the series on an even grid, the variance of interpolated steps, and the user's steps on the grid."""
    if times is None or len(times) < 3:
        return values, 0.0, None
    gaps = np.diff(times)
    step = float(np.median(gaps))
    if np.allclose(gaps, step, rtol=0.01):
        return values, 0.0, None
    grid = np.arange(round((times[-1] - times[0]) / step) + 1) * step + times[0]
    even = np.stack([np.interp(grid, times, one) for one in values.T], 1)
    before = np.clip(np.searchsorted(times, grid, "right") - 1, 0, len(times) - 2)
    gap, part = gaps[before], (grid - times[before]).clip(0)
    # A random walk between two samples: its variance grows with the distance to both.
    diffusion = (np.diff(values, axis=0) ** 2 / gaps[:, None]).mean(0)
    bridge = (part * (gap - part) / gap).clip(0)[:, None] * diffusion
    return even, np.where(gap[:, None] > 1.5 * step, bridge, 0.0)[None], (times - times[0]) / step
