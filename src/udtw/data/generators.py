"""Two classical synthetic data sets by their published formulas, so that nothing needs a download."""

from collections.abc import Callable

import numpy as np

from udtw.data.labelled import LabelledSeries
from udtw.errors import OptionError

Shape = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def cylinder_bell_funnel(
    n_per_class: int = 10, length: int = 128, random_state: int | np.random.Generator | None = None
) -> LabelledSeries:
    """Saito (1994): a plateau, a rising or a falling ramp on [a, b], in unit noise. Labels 1, 2, 3. X: (3n, length).

    At length 128, a is in 16..32 and b − a in 32..96; both scale with the length. Not normalised.
    """

    def event(profile: Callable[[np.ndarray, int, int], np.ndarray]) -> Shape:
        def series(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            a = int(rng.integers(length // 8, length // 4, endpoint=True))
            b = a + int(rng.integers(length // 4, 3 * length // 4, endpoint=True))
            inside = (a <= t) & (t <= b)
            return (6 + rng.standard_normal()) * inside * profile(t, a, b) + rng.standard_normal(len(t))

        return series

    cylinder = event(lambda t, a, b: np.ones(len(t)))
    bell = event(lambda t, a, b: (t - a) / (b - a))
    funnel = event(lambda t, a, b: (b - t) / (b - a))
    return _draw([cylinder, bell, funnel], 1, n_per_class, length, random_state)


def synthetic_control(
    n_per_class: int = 10, length: int = 60, random_state: int | np.random.Generator | None = None
) -> LabelledSeries:
    """Alcock and Manolopoulos (1999): control charts m + r·s and what may go wrong with them. X: (6n, length).

    Labels: 1 normal, 2 cyclic, 3 increasing and 4 decreasing trend, 5 upward and 6 downward shift. Periods and slopes
    are in steps, whatever the length; shifts come in the middle third. Not normalised.
    """

    def chart(anomaly: Shape) -> Shape:
        return lambda t, rng: 30 + 2 * rng.uniform(-3, 3, len(t)) + anomaly(t, rng)

    def cycle(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        amplitude, period = rng.uniform(10, 15, 2)
        return amplitude * np.sin(2 * np.pi * t / period)

    def trend(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(0.2, 0.5) * t

    def shift(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.uniform(7.5, 20) * (t >= rng.uniform(length / 3, 2 * length / 3))

    def down(shape: Shape) -> Shape:
        return lambda t, rng: -shape(t, rng)

    anomalies = [lambda t, rng: np.zeros(len(t)), cycle, trend, down(trend), shift, down(shift)]
    # From 0: in the archive's copy of this set, too, the cycles begin at phase zero.
    return _draw([chart(anomaly) for anomaly in anomalies], 0, n_per_class, length, random_state)


def _draw(
    classes: list[Shape], start: int, n_per_class: int, length: int, random_state: int | np.random.Generator | None
) -> LabelledSeries:
    if n_per_class < 1 or length < 8:
        raise OptionError(f"n_per_class must be at least 1 and length at least 8; got {n_per_class} and {length}.")
    rng = np.random.default_rng(random_state)
    t = np.arange(start, start + length)
    X = np.stack([series(t, rng) for series in classes for _ in range(n_per_class)])
    y = np.repeat(np.arange(1, len(classes) + 1), n_per_class)
    order = rng.permutation(len(y))
    return LabelledSeries(X[order], y[order])
