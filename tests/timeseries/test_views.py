"""How estimators see series, and the faults that they are trained with."""

import numpy as np
import pytest
import torch

from udtw._engine.pair_block import Batch
from udtw._engine.series_set import load_series
from udtw.data import add_faults, znormalize
from udtw.timeseries.corruption import SHARE, Corruption
from udtw.timeseries.views import USUAL_RANGE, SlopeView, slopes

RNG = np.random.default_rng(0)
RAGGED = load_series("X", [RNG.standard_normal((n, 2)) for n in (30, 20, 25, 30)])


def test_slopes_do_not_read_padding():
    batch = Batch.of(RAGGED)
    found = slopes(batch.values, batch.lengths)
    for row, length in enumerate(RAGGED.lengths):
        alone = slopes(batch.values[row : row + 1, :length])[0]
        torch.testing.assert_close(found[row, :length], alone, rtol=1e-5, atol=1e-6)


def test_a_fault_hardly_moves_the_rest_of_a_standardised_series():
    """Spikes raise the standard deviation by which the whole series was divided; the view divides by another one."""
    clean = np.sin(np.linspace(0, 6, 100) + np.linspace(0, 3, 20)[:, None])
    faulty, where = add_faults(clean, "spikes", "strong", 0)
    before, after = (load_series("X", znormalize(X).astype(np.float32)) for X in (clean, faulty))
    view = SlopeView.of_series(before, USUAL_RANGE)
    assert view.standardised
    seen = [view.of(series).values[..., 0] / float(view.log_weights[0].detach().exp()) for series in (before, after)]
    moved, given = abs(seen[1] - seen[0]), abs(after.values - before.values)[..., 0]
    assert moved[~where].mean() < 0.5 * given[~where].mean()


def test_series_that_are_not_standardised_keep_their_level():
    raw = load_series("X", RNG.standard_normal((5, 40)) + np.arange(5)[:, None])
    view = SlopeView.of_series(raw, USUAL_RANGE)
    assert not view.standardised
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


def faulty(series, seed=0, share=SHARE):
    return Corruption(series).of_some(Batch.of(series), torch.Generator().manual_seed(seed), share)


def test_some_of_the_series_get_a_fault_and_the_others_none():
    series = load_series("X", RNG.standard_normal((400, 40)))
    before = series.values.copy()
    whole = Batch.of(series)
    broken, hit = faulty(series)
    assert np.array_equal(series.values, before)
    assert torch.equal((broken.values != whole.values).any(2).any(1), hit)
    assert hit.float().mean() == pytest.approx(SHARE, abs=0.08)


def test_standardised_series_are_standardised_again():
    rows = RNG.standard_normal((50, 40))
    rows = (rows - rows.mean(1, keepdims=True)) / rows.std(1, keepdims=True)
    series = load_series("X", rows)
    broken = faulty(series)[0].values[..., 0]
    np.testing.assert_allclose(broken.mean(1), 0, atol=1e-6)
    np.testing.assert_allclose(broken.std(1, correction=0), 1, atol=1e-5)
    assert abs(faulty(load_series("X", rows + 5))[0].values.mean() - 5) < 1


def test_padding_and_short_series_stay_as_they_are():
    series = load_series("X", [np.ones(1), np.arange(2.0), np.arange(30.0)])
    for seed in range(20):
        broken, _ = faulty(series, seed, share=1.0)
        assert broken.values.isfinite().all()
        assert (broken.values[0, 1:] == 0).all()
        assert (broken.values[1, 2:] == 0).all()


def test_each_kind_of_fault_is_as_likely_and_hits_as_many_steps_as_it_should():
    """Of 100 steps a drift changes all, spikes 1 to 10, the others a stretch of 6 to 40; one feature, or all three."""
    series = load_series("X", RNG.standard_normal((4000, 100, 3)) + 3)
    whole = Batch.of(series)
    changed = faulty(series, share=1.0)[0].values != whole.values
    steps, features = changed.any(2).sum(1), changed.any(1).sum(1)
    assert (steps == 100).float().mean() == pytest.approx(1 / 5, abs=0.02)
    first, last = changed.any(2).int().argmax(1), 99 - changed.any(2).flip(1).int().argmax(1)
    # The first step of a stuck value may be the value itself.
    stretch = (last - first + 1 - steps <= 1) & (steps > 4) & (steps < 100)
    assert stretch.float().mean() == pytest.approx(3 / 5, abs=0.03)
    assert steps[stretch].float().mean() == pytest.approx(22.8, abs=0.8)
    scattered = ~stretch & (steps < 100)
    assert steps[scattered].max() <= 10
    assert (features == 3).float().mean() == pytest.approx(1 / 2, abs=0.03)


def test_faults_are_the_same_for_the_same_seed_only():
    one, again, other = (faulty(RAGGED, seed)[0].values for seed in (0, 0, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
