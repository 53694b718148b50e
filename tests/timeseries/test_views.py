"""How estimators see series, and the faults that they are trained with."""

import numpy as np
import pytest
import torch

from udtw.inputs import load_series
from udtw.pair_block import Batch
from udtw.timeseries.corruption import Corruption
from udtw.timeseries.views import SlopeView, slopes

RNG = np.random.default_rng(0)
RAGGED = load_series("X", [RNG.standard_normal((n, 2)) for n in (30, 20, 25, 30)])


def test_slopes_have_unit_deviation_in_each_series_whatever_the_padding():
    batch = Batch.of(RAGGED)
    found = slopes(batch.values, batch.lengths)
    for row, length in enumerate(RAGGED.lengths):
        alone = slopes(batch.values[row : row + 1, :length])[0]
        torch.testing.assert_close(found[row, :length], alone, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(alone.std(0, correction=0), torch.ones(2), rtol=1e-5, atol=1e-5)


def test_a_constant_series_has_no_slope():
    assert (slopes(torch.ones(1, 9, 1)) == 0).all()


def test_values_are_in_units_of_the_training_set():
    """Multiplying all series by a number changes neither features nor variances."""
    torch.manual_seed(0)
    plain = SlopeView(RAGGED, (0.25, 4.0))
    large = load_series("X", [1000 * row for row in RAGGED.rows()])
    torch.manual_seed(0)
    scaled = SlopeView(large, (0.25, 4.0))
    np.testing.assert_allclose(plain.of(RAGGED).values, scaled.of(large).values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plain.of(RAGGED).variances, scaled.of(large).variances, rtol=1e-4)


def test_half_of_the_series_get_a_fault_and_the_others_none():
    series = load_series("X", RNG.standard_normal((400, 40)))
    before = series.values.copy()
    broken = Corruption(series).of_some(series, np.random.default_rng(0))
    assert np.array_equal(series.values, before)
    changed = (broken.values != series.values).any((1, 2)).mean()
    assert changed == pytest.approx(0.5, abs=0.08)


def test_standardised_series_are_standardised_again():
    rows = RNG.standard_normal((50, 40))
    rows = (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True)
    series = load_series("X", rows)
    broken = Corruption(series).of_some(series, np.random.default_rng(0)).values[..., 0]
    np.testing.assert_allclose(broken.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(broken.std(1), 1, atol=1e-5)
    raw = load_series("X", rows + 5)
    moved = Corruption(raw).of_some(raw, np.random.default_rng(0)).values[..., 0]
    assert abs(moved.mean() - 5) < 1


def test_padding_and_short_series_stay_as_they_are():
    series = load_series("X", [np.ones(1), np.arange(2.0), np.arange(30.0)])
    broken = Corruption(series).of_some(series, np.random.default_rng(1))
    assert np.isfinite(broken.values).all()
    assert (broken.values[0, 1:] == 0).all()
