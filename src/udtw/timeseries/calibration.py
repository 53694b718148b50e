"""How wide a forecast's band is: a σ known up to scale and power, fitted to errors that were seen."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]

POWERS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Of σ in the calibrated standard deviation."""


def calibrate(errors: Floats, sigma: Floats | None) -> tuple[float, Floats]:
    """Power p and scale s (T, d) with the greatest Gaussian likelihood of ``errors`` (n, T, d) under std ``s·σᵖ``.

    ``sigma``: (n, T, 1), or None for σ = 1 (then p = 0). For each p of `POWERS`, s is the root of the mean of
    ``(error/σᵖ)²`` over the series.
    """
    fits = []
    for power in (0.0,) if sigma is None else POWERS:
        shape = np.ones(()) if sigma is None else sigma**power
        scale = np.sqrt(np.square(errors / shape).mean(0))
        # With this scale the squared ratios average to 1 for any power: only the logarithms are left to compare.
        with np.errstate(divide="ignore"):
            fits.append((float(np.log(shape * scale).mean()), power, scale))
    _, power, scale = min(fits, key=lambda fit: fit[0])
    return power, scale
