"""Data sets by name: the two generated ones, or those of the UCR archive."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from udtw.data import UCRData

GENERATED = ("cbf", "synthetic-control")
TRAIN_PER_CLASS, TEST_PER_CLASS = 15, 50


def load(name: str, data_dir: Path | None, *, seed: int = 0, normalize: bool = True) -> "UCRData":
    """Training and test series; generated ones from the seed. ``normalize``: each to mean 0 and deviation 1."""
    from udtw.data import LabelledSeries, UCRData, cylinder_bell_funnel, load_ucr, synthetic_control, znormalize

    if name.lower() in GENERATED:
        draw = cylinder_bell_funnel if name.lower() == "cbf" else synthetic_control
        train, test = (
            draw(count, random_state=np.random.default_rng([seed, part]))
            for part, count in enumerate((TRAIN_PER_CLASS, TEST_PER_CLASS))
        )
        data = UCRData(name.lower(), train, test)
    else:
        data = load_ucr(name, data_dir)
    if not normalize:
        return data
    train, test = (LabelledSeries(znormalize(part.X), part.y) for part in (data.train, data.test))
    return UCRData(data.name, train, test)
