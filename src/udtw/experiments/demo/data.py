"""The data of the demo: Cylinder-Bell-Funnel, as it is and with a sensor that fails for a while."""

import numpy as np

from udtw.data import LabelledSeries, cylinder_bell_funnel
from udtw.experiments.demo.sizes import Sizes

CLASSES = {1: "cylinder", 2: "bell", 3: "funnel"}
DISTURBED_SHARE = (0.4, 0.6)
DISTURBANCE = 6.0
"""Standard deviation of the noise while the sensor fails; 1 otherwise, and events are about 6 high."""


def draw(sizes: Sizes, count: int, seed: int, part: int, disturbed: bool) -> LabelledSeries:
    """``count`` series a class, not normalised; ``part`` keeps training and test series of a seed apart."""
    rng = np.random.default_rng([seed, part])
    data = cylinder_bell_funnel(count, sizes.length, rng)
    if not disturbed:
        return data
    X = np.array(data.X)
    steps = disturbed_steps(sizes.length)
    X[:, steps] += DISTURBANCE * rng.standard_normal((len(X), steps.stop - steps.start))
    return LabelledSeries(X, data.y)


def disturbed_steps(length: int) -> slice:
    first, last = (round(share * length) for share in DISTURBED_SHARE)
    return slice(first, last)
