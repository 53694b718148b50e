"""Sensor faults: one of a stated kind in each series, and random ones for training."""

import numpy as np
import pytest
import torch

from udtw._engine.pair_block import Batch
from udtw._engine.series_set import load_series
from udtw.data import add_faults
from udtw.data.faults import FAULTS, STRENGTHS, TRAINING_SHARE, RandomFaults
from udtw.errors import OptionError, ShapeError
from udtw.timeseries.views import is_standardized

RNG = np.random.default_rng(0)
RAGGED = load_series("X", [RNG.standard_normal((n, 2)) for n in (30, 20, 25, 30)])
X = np.sin(np.arange(100) / 7) + np.arange(6)[:, None]


@pytest.mark.parametrize("kind", [*FAULTS, "mixed"])
def test_only_the_steps_at_fault_change_and_the_input_does_not(kind):
    before = X.copy()
    faulty, where = add_faults(X, kind, random_state=0)
    assert np.array_equal(X, before)
    assert (faulty == X)[~where].all()
    assert where.any(1).all()
    again, _ = add_faults(X, kind, random_state=0)
    assert np.array_equal(faulty, again)


@pytest.mark.parametrize("kind", FAULTS)
def test_stronger_faults_change_more(kind):
    change = [np.abs(add_faults(X, kind, strength, 0)[0] - X).sum() for strength in STRENGTHS]
    assert change[0] < change[1] < change[2]


def test_the_shares_of_the_steps():
    assert add_faults(X, "bursts", random_state=0)[1].sum(1).tolist() == [20] * 6
    assert add_faults(X, "spikes", random_state=0)[1].sum(1).tolist() == [5] * 6
    faulty, where = add_faults(X, "dropouts", "strong", 0)
    assert where.sum(1).tolist() == [30] * 6
    assert (faulty[where] == 0).all()


@pytest.mark.parametrize(
    ("options", "error"),
    [({"kind": "rust"}, OptionError), ({"strength": "huge"}, OptionError), ({"X": X[0]}, ShapeError)],
)
def test_bad_input_is_named(options, error):
    with pytest.raises(error, match="must"):
        add_faults(**({"X": X} | options))


def faulty(series, seed=0, share=TRAINING_SHARE):
    faults = RandomFaults(series, is_standardized(series))
    return faults.add_to_some(Batch.of(series), torch.Generator().manual_seed(seed), share)


def test_some_of_the_series_get_a_fault_and_the_others_none():
    series = load_series("X", RNG.standard_normal((400, 40)))
    before = series.values.copy()
    whole = Batch.of(series)
    broken, hit = faulty(series)
    assert np.array_equal(series.values, before)
    assert torch.equal((broken.values != whole.values).any(2).any(1), hit)
    assert hit.float().mean() == pytest.approx(TRAINING_SHARE, abs=0.08)


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
