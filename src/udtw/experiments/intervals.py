"""Means and intervals over training seeds, as tables show them."""

import numpy as np
from scipy import stats


def over_seeds(values: list[float]) -> str:
    """``mean ± 95 % interval`` in per cent; the interval is that of the mean over training seeds (Student's t)."""
    mean = 100 * float(np.mean(values))
    if len(values) < 2:
        return f"{mean:.1f}"
    half_width = 100 * stats.t.ppf(0.975, len(values) - 1) * stats.sem(values)
    return f"{mean:.1f} ± {half_width:.1f}"
