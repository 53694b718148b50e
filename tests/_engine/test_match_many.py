"""Many series on one axis: known warps are found, intervals hold them, and nothing depends on what it must not."""

import joblib
import numpy as np
import pytest

import udtw
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError


def template(steps, features=1):
    rng = np.random.default_rng(7)
    waves = [np.convolve(rng.standard_normal(steps + 40), np.hanning(13), "valid")[:steps] for _ in range(features)]
    return np.stack(waves, 1) / np.std(waves)


def drawn(count=7, steps=90, features=1, noise=0.25, seed=0):
    """Series (N_k, d) that are warped, noisy copies of one template, and the true place of their steps on it."""
    rng, clean = np.random.default_rng(seed), template(steps, features)
    series, truths = [], []
    for _ in range(count):
        length = int(steps * rng.uniform(0.8, 1.2))
        phase = np.linspace(0, 1, length)
        warp = (phase + 0.06 * rng.uniform(-1, 1) * np.sin(2 * np.pi * phase)) * (steps - 1)
        values = np.stack([np.interp(warp, np.arange(steps), one) for one in clean.T], 1)
        series.append(values + noise * rng.standard_normal(values.shape))
        truths.append(warp)
    return series, truths


def errors_and_coverage(joint, truths):
    errors, held = [], []
    for i in range(len(truths)):
        for j in range(len(truths)):
            if i != j:
                found = joint.between(i, j)
                true = np.interp(truths[i], truths[j], np.arange(len(truths[j])))
                errors.append(np.abs(found.expected - true).mean())
                held.append(((found.low - 0.5 <= true) & (true <= found.high + 0.5)).mean())
    return np.mean(errors), np.mean(held)


@pytest.fixture(scope="module")
def joint_and_truths():
    series, truths = drawn()
    return udtw.match_many(series), series, truths


def test_known_warps_are_found_and_held_and_better_than_by_pairs(joint_and_truths):
    joint, series, truths = joint_and_truths
    error, coverage = errors_and_coverage(joint, truths)
    pairs = []
    for i, j in ((0, 1), (2, 3), (4, 5), (6, 0), (1, 4)):
        true = np.interp(truths[i], truths[j], np.arange(len(truths[j])))
        pairs.append(np.nanmean(np.abs(udtw.match(series[i], series[j]).expected - true)))
    assert error < np.mean(pairs)
    assert 0.85 < coverage < 0.995


def test_positions_on_the_axis_lie_in_their_intervals_and_rise(joint_and_truths):
    joint, series, _ = joint_and_truths
    assert joint.mean.shape == joint.std.shape == joint.positions[0].shape == (len(series[joint.medoid]),)
    assert (joint.low - 0.5 <= joint.positions).all()
    assert (joint.positions <= joint.high + 0.5).all()
    assert (np.diff(joint.positions, axis=1) >= 0).all()
    assert all(trust.verdict == "good" for trust in joint.trust)
    assert "7 series on one axis" in joint.sentence


def test_the_noise_of_each_series_is_found(joint_and_truths):
    joint, _, _ = joint_and_truths
    found = [one.variance for one in joint.noise]
    assert 0.4 < np.median(found) / 0.25**2 < 2


def test_between_is_transitive(joint_and_truths):
    joint, _, truths = joint_and_truths
    by_way = np.interp(joint.between(0, 3).expected, np.arange(len(truths[3])), joint.between(3, 5).expected)
    np.testing.assert_allclose(by_way[3:-3], joint.between(0, 5).expected[3:-3], atol=0.1)
    there_and_back = np.interp(joint.between(0, 3).expected, np.arange(len(truths[3])), joint.between(3, 0).expected)
    assert np.abs(there_and_back - np.arange(len(truths[0])))[3:-3].max() < 0.1


def test_steps_together_are_a_path_through_all_steps(joint_and_truths):
    joint, series, _ = joint_and_truths
    rows = joint.steps_together()
    assert (np.diff(rows, axis=0) >= 0).all()
    for k, one in enumerate(series):
        assert set(rows[:, k]) == set(range(len(one)))


def test_gain_and_offset_of_each_series_are_found():
    series, truths = drawn(5)
    units = [(1.0, 0.0), (2.0, 3.0), (0.5, -1.0), (1.0, 0.0), (4.0, 10.0)]
    joint = udtw.match_many([a * one + b for (a, b), one in zip(units, series, strict=True)])
    gain, offset = units[joint.medoid]
    for (a, b), noise in zip(units, joint.noise, strict=True):
        assert noise.gain == pytest.approx(a / gain, rel=0.25)
        assert noise.offset == pytest.approx(b - noise.gain * offset, abs=0.5 * a)
    error, coverage = errors_and_coverage(joint, truths)
    assert error < 2
    assert coverage > 0.8


def test_a_series_that_begins_later_has_no_steps_before():
    series, _ = drawn(5, noise=0.1)
    series[3] = series[3][30:]
    joint = udtw.match_many(series)
    assert joint.noise[3].open_ends
    assert (joint.low[3, :20] == -1).all()
    assert np.isnan(joint.positions[3, :20]).all()
    assert (joint.low[3, 45:] >= 0).all()


def test_a_series_that_does_not_belong_is_named():
    series, _ = drawn(6, noise=0.1)
    series[2] = np.random.default_rng(5).standard_normal((80, 1))
    joint = udtw.match_many(series)
    assert joint.trust[2].verdict != "good"
    assert "series 2" in joint.sentence
    assert sum(one.verdict == "good" for one in joint.trust) == 5


def test_several_features_gaps_and_times():
    series, truths = drawn(5, features=3)
    series[1][20:24] = np.nan
    series[2][10, 1] = np.nan
    joint = udtw.match_many(series)
    assert joint.mean.shape == (len(series[joint.medoid]), 3)
    assert joint.aligned.shape == (5, *joint.mean.shape)
    assert len(joint.matches(1).index) == len(series[1]) - 4  # steps that are missing have no row
    joint_truths = [np.delete(t, gone) for t, gone in zip(truths, [[], [*range(20, 24)], [10], [], []], strict=True)]
    error, coverage = errors_and_coverage(joint, joint_truths)
    assert error < 1.5
    assert coverage > 0.8
    assert list(joint.to_frame().columns)[-1] == "value_2"


def test_other_processes_give_the_same_bits():
    series, _ = drawn(3, 40)
    here = udtw.match_many(series)
    with joblib.parallel_config("loky", n_jobs=2):
        there = udtw.match_many(series)
    np.testing.assert_array_equal(here.mean, there.mean)
    np.testing.assert_array_equal(here.low, there.low)


@pytest.mark.parametrize(
    ("series", "options", "error", "message"),
    [
        ([[1.0, 2.0, 3.0]], {}, LengthError, "at least two series; got 1"),
        ("ab", {}, ShapeError, "list of arrays"),
        ([[1.0, 2.0, 3.0], [1.0, 2.0]], {}, LengthError, r"series\[1\] has 2"),
        ([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]], {}, OptionError, r"series\[1\] is constant"),
        ([[1.0, 2.0, 3.0], [[1.0, 2.0]] * 3], {}, ShapeError, r"series\[1\] 2"),
        ([[1.0, 2.0, 3.0], [np.nan, 1.0, 3.0]], {}, NonFiniteError, r"series\[1\]\[0, 0\]"),
        ([[1.0, 2.0, 3.0], [1.0, np.inf, 3.0]], {}, NonFiniteError, r"series\[1\]\[1, 0\]"),
        ([[1.0, 2.0, 3.0]] * 2, {"level": 90}, OptionError, "level"),
        ([[1.0, 2.0, 3.0]] * 2, {"max_iter": 0}, OptionError, "max_iter"),
    ],
)
def test_bad_input_is_named(series, options, error, message):
    with pytest.raises(error, match=message):
        udtw.match_many(series, **options)
