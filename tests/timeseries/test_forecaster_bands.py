"""The band of a forecast, where the truth is known."""

import numpy as np
import pytest

from udtw.errors import OptionError
from udtw.timeseries.forecaster_windows import Bands, fit_std

RNG = np.random.default_rng(0)
SIGMA = RNG.uniform(1, 1.5, (4000, 3, 1))
SCALE = np.array([[0.5], [1.0], [4.0]])


@pytest.mark.parametrize("power", [0.0, 1.0, 4.0])
def test_power_and_scale_of_gaussian_errors_are_found(power):
    errors = SCALE * SIGMA**power * RNG.standard_normal(SIGMA.shape)
    found, _, scale = fit_std(errors, SIGMA)
    assert found == power
    np.testing.assert_allclose(scale, SCALE, rtol=0.05)


def test_without_sigma_the_scale_is_the_root_mean_square():
    errors = RNG.standard_normal((50, 3, 2))
    power, _, scale = fit_std(errors, None)
    assert power == 0
    np.testing.assert_allclose(scale, np.sqrt(np.square(errors).mean(0)))


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_intervals_hold_their_share_of_errors_that_are_not_gaussian(level):
    heavy = SCALE * SIGMA * RNG.standard_t(3, SIGMA.shape)
    bands = Bands.of(heavy[:2000], SIGMA[:2000])
    inside = np.abs(heavy[2000:]) <= bands.half_width(level) * bands.std(SIGMA[2000:])
    assert inside.mean() == pytest.approx(level, abs=0.02)


def test_few_series_widen_the_interval():
    errors = RNG.standard_normal((400, 3, 1))
    assert Bands.of(errors[:9], None).count == 9
    bands = Bands.of(errors, None)
    few = Bands(bands.power, bands.scale, bands.quantiles, 9)
    assert few.half_width(0.9) == bands.quantiles[-1]
    assert few.half_width(0.8) > bands.half_width(0.8)


def test_gaussian_quantiles_where_none_are_known():
    assert Bands.gaussian(0.0, np.ones((1, 1))).half_width(0.95) == pytest.approx(1.96, abs=0.02)


@pytest.mark.parametrize("level", [0, 1, -0.1, float("nan"), "0.9", True])
def test_a_level_lies_between_zero_and_one(level):
    with pytest.raises(OptionError, match="level"):
        Bands.gaussian(0.0, np.ones((1, 1))).half_width(level)
