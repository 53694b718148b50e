"""Random classification tasks: curves of many kinds, to train on where no data set is given."""

import math

import numpy as np

from udtw.data.labelled import znormalize

LENGTHS = (48, 64, 80, 96, 112)
NOISE = (0.0, 0.02, 0.05, 0.1, 0.3)


def random_task(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw series (n, T), each standardized, and their classes (n,): 2 to 6 classes of equal size, n ≥ ``count``.

    All classes share a random curve; each adds one of its own, everywhere or in a window. A series is the curve of its
    class in another tempo, with a shape of its own added, and with noise; how strong these are is random.

    >>> import numpy as np
    >>> X, y = random_task(24, np.random.default_rng(0))
    >>> len(X) == len(y) >= 24, np.allclose(X.std(1), 1, atol=1e-3)
    (True, True)
    """
    steps, classes = int(rng.choice(LENGTHS)), int(rng.integers(2, 7))
    each = max(2, math.ceil(count / classes))
    time = np.linspace(0, 1, steps)
    common = random_curve(steps, rng)
    difference, warp, own, noise = rng.uniform(0.3, 1.2), rng.uniform(0, 0.12), rng.uniform(0, 0.15), rng.choice(NOISE)
    rows = []
    for _ in range(classes):
        addition = random_curve(steps, rng)
        if rng.random() < 0.5:
            width = rng.uniform(0.15, 0.5)
            centre = rng.uniform(width / 2, 1 - width / 2)
            addition = addition * np.exp(-0.5 * ((time - centre) / (width / 3)) ** 2)
        curve = common + difference * addition
        for _ in range(each):
            moved = np.interp(_tempo(steps, warp, rng), time, curve) + own * random_curve(steps, rng)
            rows.append(moved + noise * rng.standard_normal(steps))
    return znormalize(np.stack(rows)).astype(np.float32), np.repeat(np.arange(classes), each)


def random_curve(steps: int, rng: np.random.Generator) -> np.ndarray:
    """Draw a standardized curve (steps,): a sum of waves, plateaus, a few bumps or a random walk, more or less
    smoothed.
    """
    time = np.linspace(0, 1, steps)
    kind = rng.integers(4)
    if kind == 0:
        values = np.zeros(steps)
        decay = rng.uniform(0.3, 1.2)
        for k in range(1, int(rng.integers(3, 9))):
            wave = np.sin(2 * np.pi * (k * rng.uniform(0.6, 1) * time + rng.random()))
            values += rng.standard_normal() * wave / k**decay
    elif kind == 1:
        levels = rng.standard_normal(int(rng.integers(3, 7)))
        values = levels[np.searchsorted(np.sort(rng.random(len(levels) - 1)), time)]
        values = _smoothed(values, int(rng.integers(1, max(2, steps // 8))))
    elif kind == 2:
        values = np.zeros(steps)
        for _ in range(int(rng.integers(1, 6))):
            values += rng.standard_normal() * np.exp(-0.5 * ((time - rng.random()) / rng.uniform(0.01, 0.12)) ** 2)
    else:
        values = _smoothed(rng.standard_normal(steps).cumsum(), int(rng.integers(1, max(2, steps // 10))))
    return znormalize(values[None])[0]


def _tempo(steps: int, warp: float, rng: np.random.Generator) -> np.ndarray:
    """Draw the rising times (steps,) in [0, 1] at which steps read a curve; the start may be late or cut."""
    speed = np.exp(10 * warp * _smoothed(rng.standard_normal(steps), steps // 4))
    time = speed.cumsum()
    time = (time - time[0]) / (time[-1] - time[0])
    return np.clip(time + 0.3 * warp * rng.standard_normal(), 0, 1)


def _smoothed(values: np.ndarray, width: int) -> np.ndarray:
    """Return the mean of ``width`` steps around each step."""
    padded = np.pad(values, width, mode="edge")
    return np.convolve(padded, np.full(width, 1 / width), "same")[width:-width]
