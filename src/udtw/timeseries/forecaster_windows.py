"""Pasts and futures cut from long series by a sliding window."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from udtw._engine.series_set import one_series
from udtw.errors import LengthError, OptionError, ShapeError

Floats = NDArray[np.floating]
Pair = tuple[Floats, Floats]

MOST_WINDOWS = 5000
"""Windows for training; of longer series every second, third, … window is taken."""


@dataclass(frozen=True)
class Form:
    """How long series were given, which is the form of their forecasts."""

    single: bool
    """One series, rather than several."""
    axes: int
    """Of forecasts of several series: 2 if the series are (T,), 3 if they are (T, d)."""


def long_series(name: str, data: Any) -> tuple[list[Floats], Form]:
    """The series (T, d) of ``data``: one series (T,) or (T, d), several (n, T, d), or a list of (T,) or (T, d)."""
    listed = isinstance(data, list | tuple) and len(data) > 0 and np.ndim(data[0]) > 0
    single = not listed and np.ndim(data) != 3
    given = {name: data} if single else {f"{name}[{i}]": one for i, one in enumerate(data)}
    series = [one_series(label, one)[0].astype(float) for label, one in given.items()]
    if len({one.shape[1] for one in series}) > 1:
        raise ShapeError(f"All series must have the same number of features; got {[one.shape[1] for one in series]}.")
    return series, Form(single, 2 if all(np.ndim(one) == 1 for one in given.values()) else 3)


def window_for(series: list[Floats], window: Any, horizon: Any) -> int:
    """``window``, or if it is None twice the horizon, at most what leaves ten windows; an error if nothing fits."""
    for name, value in (("horizon", horizon), ("window", window)):
        if value is not None and (not isinstance(value, Integral) or isinstance(value, bool) or value < 1):
            raise OptionError(f"{name} must be a whole number of steps, 1 or more; got {value!r}.")
    longest = max(len(one) for one in series)
    if window is None:
        window = max(1, min(2 * horizon, longest - horizon - 10))
    if longest < window + horizon + 1:
        steps, features = next(one.shape for one in series if len(one) == longest)
        hint = " Rows are steps; for several series pass a list." if features > steps else ""
        raise LengthError(
            f"A window of {window} steps and a horizon of {horizon} need a series of {window + horizon + 1} steps or "
            f"more; the longest has {steps}.{hint}"
        )
    return int(window)


def last_windows(name: str, series: list[Floats], window: int) -> Floats:
    """The last ``window`` steps of each series, (n, window, d)."""
    short = min(len(one) for one in series)
    if short < window:
        raise LengthError(f"The window has {window} steps, and a series of {name} only {short}; use longer series.")
    return np.stack([one[-window:] for one in series])


def cut_windows(series: list[Floats], window: int, horizon: int, held: float) -> tuple[Pair, Pair | None]:
    """Pasts (n, window, d) and futures (n, horizon, d) for training; the last ``held`` part of each for validation.

    No step of a future for validation belongs to a future for training.
    """
    train, valid = [], []
    for one in series:
        starts = np.arange(max(0, len(one) - window - horizon + 1))
        count = int(held * len(starts))
        first = len(starts) - count
        kept = starts[: first - horizon + 1] if count and first >= horizon else starts[:first]
        train.append((one, kept))
        valid.append((one, starts[first:]))
    stride = -(-sum(len(starts) for _, starts in train) // MOST_WINDOWS)
    held_out = _pairs(valid, window, horizon, stride)
    return _pairs(train, window, horizon, stride), held_out if len(held_out[0]) else None


def _pairs(starts: list[tuple[Floats, NDArray]], window: int, horizon: int, stride: int) -> Pair:
    cut = [one[some[::-stride][::-1, None] + np.arange(window + horizon)] for one, some in starts if len(some)] or [
        np.empty((0, window + horizon, starts[0][0].shape[1]))
    ]
    both = np.concatenate(cut)
    return both[:, :window], both[:, window:]
