"""Define what the parts of the demo share: their sizes, their data, and their results."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from udtw._engine.metrics import METRICS
from udtw.data import LabelledSeries, cylinder_bell_funnel
from udtw.demo.document import Document

Tick = Callable[[str], None]
"""Callback with a note on the next computation, called before each step of the progress bar."""

OWN = METRICS["udtw"].label
LEAST_GAIN = 0.02
"""A difference is clear if it is at least this share of the rival's value, and has the same sign for every seed."""

CLASSES = {1: "cylinder", 2: "bell", 3: "funnel"}
DISTURBED_SHARE = (0.4, 0.6)
DISTURBANCE = 6.0
"""Standard deviation of the noise while the sensor fails; 1 otherwise, and events are about 6 high."""

COMPARED = tuple(METRICS)
"""Metrics compared in the tables."""
TRAINED = tuple(name for name in COMPARED if name != "dtw")
"""Metrics used for training networks."""


@dataclass(frozen=True)
class Sizes:
    """Set how much the demo computes."""

    seeds: int = 3
    pairs: int = 100
    """Pairs of series to align, for every seed."""
    length: int = 64
    """Steps of a Cylinder-Bell-Funnel series."""
    train: int = 12
    """Training series per class."""
    test: int = 40
    """Test series per class."""
    averaged: int = 10
    """Series of a barycenter."""
    mean_iterations: int = 40
    prototype_iterations: int = 100
    sigma_iterations: int = 100
    epochs: int = 60
    forecast_train: int = 25
    """Training series per class for forecasting; ``test`` is the number of test series."""
    clips: int = 12
    """Clips per action."""
    action_steps: int = 60
    images: int = 8
    """Images per class."""
    image_steps: int = 60


FULL = Sizes()
"""Sizes for a run of a few minutes with meaningful figures."""
QUICK = Sizes(
    seeds=1,
    pairs=5,
    length=24,
    train=3,
    test=4,
    averaged=4,
    mean_iterations=4,
    prototype_iterations=4,
    sigma_iterations=4,
    epochs=3,
    forecast_train=4,
    clips=5,
    action_steps=3,
    images=4,
    image_steps=3,
)
"""Tiny sizes, to check that everything runs."""


@dataclass(frozen=True)
class Comparison:
    """Hold the scores of all methods by seed on one task, for the first table of the report."""

    task: str
    measure: str
    values: dict[str, list[float]]
    lower: bool = False
    """Whether lower values are better."""
    caveat: str = ""
    apart: tuple[str, ...] = ()
    """Methods that do not count as rivals, because they have part of uDTW."""

    def row(self) -> list[str]:
        """Return the task with its measure, the verdict, uDTW, the best rival and the caveat."""
        sign = -1 if self.lower else 1
        rivals = {name: one for name, one in self.values.items() if name != OWN and name not in self.apart}
        best = max(rivals, key=lambda name: sign * np.mean(rivals[name]))
        own, rival = np.array(self.values[OWN]), np.array(rivals[best])
        gains = sign * (own - rival)
        clear = abs(gains.mean()) >= LEAST_GAIN * abs(rival.mean()) and len(set(np.sign(gains))) == 1
        verdict = ("pays" if gains.mean() > 0 else "does not pay") if clear else "no clear difference"
        task = f"{self.task}: {self.measure}"
        return [task, verdict, f"{own.mean():.1f}", f"{best}: {rival.mean():.1f}", self.caveat]


@dataclass(frozen=True)
class Part:
    """Hold the result of one part: heading, description, one table, pictures, and its rows of the first table."""

    heading: str
    text: str
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str
    figures: list[tuple[Any, str]] = field(default_factory=list)
    """Pairs of a matplotlib figure and its caption."""
    compared: list[Comparison] = field(default_factory=list)

    def add_to(self, document: Document) -> None:
        """Append the part to a report."""
        document.text(f"## {self.heading}\n\n{self.text}")
        document.table(self.title, self.columns, self.rows, note=self.note)
        for figure, caption in self.figures:
            document.figure(figure, caption)


def draw(sizes: Sizes, count: int, seed: int, part: int, disturbed: bool) -> LabelledSeries:
    """Generate ``count`` series per class, not normalized; each ``part`` has its own random numbers."""
    rng = np.random.default_rng([seed, part])
    data = cylinder_bell_funnel(count, sizes.length, rng)
    if not disturbed:
        return data
    X = np.array(data.X)
    steps = disturbed_steps(sizes.length)
    X[:, steps] += DISTURBANCE * rng.standard_normal((len(X), steps.stop - steps.start))
    return LabelledSeries(X, data.y)


def disturbed_steps(length: int) -> slice:
    """Return the steps during which the sensor fails."""
    first, last = (round(share * length) for share in DISTURBED_SHARE)
    return slice(first, last)


def seeds_in_words(count: int) -> str:
    """Say how many seeds a mean is over, after "Mean": with the spread if there are several."""
    return "of one seed" if count == 1 else f"± standard deviation over {count} seeds"
