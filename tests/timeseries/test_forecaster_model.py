"""The band of a forecast, where the truth is known."""

import numpy as np
import pytest

from udtw.timeseries.forecaster_model import calibrate

RNG = np.random.default_rng(0)
SIGMA = RNG.uniform(1, 1.5, (4000, 3, 1))
SCALE = np.array([[0.5], [1.0], [4.0]])


@pytest.mark.parametrize("power", [0.0, 1.0, 4.0])
def test_power_and_scale_of_gaussian_errors_are_found(power):
    errors = SCALE * SIGMA**power * RNG.standard_normal(SIGMA.shape)
    found, scale = calibrate(errors, SIGMA)
    assert found == power
    np.testing.assert_allclose(scale, SCALE, rtol=0.05)


def test_without_sigma_the_scale_is_the_root_mean_square():
    errors = RNG.standard_normal((50, 3, 2))
    power, scale = calibrate(errors, None)
    assert power == 0
    np.testing.assert_allclose(scale, np.sqrt(np.square(errors).mean(0)))
