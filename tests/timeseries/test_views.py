"""How estimators see series."""

import numpy as np
import torch

from udtw._engine.pair_block import Batch
from udtw._engine.series_set import load_series
from udtw.data import add_faults, znormalize
from udtw.timeseries.views import USUAL_RANGE, SlopeView, slopes

RNG = np.random.default_rng(0)
RAGGED = load_series("X", [RNG.standard_normal((n, 2)) for n in (30, 20, 25, 30)])


def test_slopes_do_not_read_padding():
    batch = Batch.of(RAGGED)
    found = slopes(batch.values, batch.lengths)
    for row, length in enumerate(RAGGED.lengths):
        alone = slopes(batch.values[row : row + 1, :length])[0]
        torch.testing.assert_close(found[row, :length], alone, rtol=1e-5, atol=1e-6)


def test_a_fault_hardly_moves_the_rest_of_a_standardized_series():
    """Spikes raise the standard deviation by which the whole series was divided; the view divides by another one."""
    clean = np.sin(np.linspace(0, 6, 100) + np.linspace(0, 3, 20)[:, None])
    faulty, where = add_faults(clean, "spikes", "strong", 0)
    before, after = (load_series("X", znormalize(X).astype(np.float32)) for X in (clean, faulty))
    view = SlopeView.of_series(before, USUAL_RANGE)
    assert view.standardized
    seen = [view.of(series).values[..., 0] / float(view.log_weights[0].detach().exp()) for series in (before, after)]
    moved, given = abs(seen[1] - seen[0]), abs(after.values - before.values)[..., 0]
    assert moved[~where].mean() < 0.5 * given[~where].mean()


def test_series_that_are_not_standardized_keep_their_level():
    raw = load_series("X", RNG.standard_normal((5, 40)) + np.arange(5)[:, None])
    view = SlopeView.of_series(raw, USUAL_RANGE)
    assert not view.standardized
    seen = view.of(raw).values[..., 0] / float(view.log_weights[0].detach().exp())
    np.testing.assert_allclose(seen, (raw.values[..., 0] - raw.values.mean()) / raw.values.std(), rtol=1e-4, atol=1e-5)


def test_an_offset_of_all_series_changes_nothing():
    moved = load_series("X", [row + 1000.0 for row in RAGGED.rows()])
    here, there = (SlopeView.of_series(series, USUAL_RANGE).of(series) for series in (RAGGED, moved))
    np.testing.assert_allclose(here.values, there.values, atol=2e-3)
    np.testing.assert_allclose(here.variances, there.variances, rtol=0.05)


def test_a_constant_series_has_no_slope():
    assert (slopes(torch.ones(1, 9, 1)) == 0).all()


def test_values_are_in_units_of_the_training_set():
    """Multiplying all series by a number changes neither features nor variances."""
    torch.manual_seed(0)
    plain = SlopeView.of_series(RAGGED, (0.25, 4.0))
    large = load_series("X", [1000 * row for row in RAGGED.rows()])
    torch.manual_seed(0)
    scaled = SlopeView.of_series(large, (0.25, 4.0))
    np.testing.assert_allclose(plain.of(RAGGED).values, scaled.of(large).values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(plain.of(RAGGED).variances, scaled.of(large).variances, rtol=1e-4)
