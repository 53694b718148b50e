"""The follower: exactly the posterior given what was seen, and what it says of streams that do not fit."""

import pickle

import numpy as np
import pytest

import udtw
from udtw._engine import follower as module
from udtw._engine.match import NoiseBetween
from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError


def noise_of(variance=0.8, time=1.7, gain=1.0, offset=0.0):
    empty = np.zeros(0)
    return NoiseBetween(empty, empty, time, gain, offset, 0.0, variance, open_ends=False)


def wave(steps=200):
    return np.sin(np.linspace(0, 12, steps) ** 1.1)


def noisy(series, seed=0, deviation=0.1):
    return series + deviation * np.random.default_rng(seed).standard_normal(series.shape)


@pytest.mark.parametrize("anywhere", [False, True])
@pytest.mark.parametrize("features", [1, 2])
def test_it_is_the_posterior_of_the_enumeration_given_what_was_seen(anywhere, features):
    rng = np.random.default_rng(features)
    stream, reference = rng.standard_normal((5, features)), rng.standard_normal((4, features))
    follower = udtw.Follower(reference, noise=noise_of(), lag=2)
    follower.restart(anywhere)
    gamma = follower._noise.gamma
    wait, skip = (price * gamma for price in follower._prices())
    cost = ((stream[:, None] - reference) ** 2).sum(2) / 0.8
    assert cost.max() < module.WORST * gamma
    for seen in range(1, 6):
        follower.update(stream[seen - 1])
        paths = udtw.PathDistribution(
            cost[:seen], gamma, warp_penalty=(skip, wait), relax=(0, 0, 3 * anywhere, 3), backend="enumeration"
        )
        np.testing.assert_allclose(follower.probability, paths.ends[-1], atol=1e-9)
        if seen > 2:
            partners = paths.coupling[seen - 3]
            np.testing.assert_allclose(follower.smoothed_probability, partners / partners.sum(), atol=1e-9)


def test_no_match_costs_more_than_its_bound():
    rng = np.random.default_rng(0)
    stream, reference = rng.standard_normal((5, 1)), rng.standard_normal((4, 1))
    stream[2] += 40.0
    follower = udtw.Follower(reference, noise=noise_of())
    gamma = follower._noise.gamma
    wait, skip = (price * gamma for price in follower._prices())
    cost = (((stream[:, None] - reference) ** 2).sum(2) / 0.8).clip(max=module.WORST * gamma)
    follower.update(stream)
    paths = udtw.PathDistribution(cost, gamma, warp_penalty=(skip, wait), relax=(0, 0, 0, 3), backend="enumeration")
    np.testing.assert_allclose(follower.probability, paths.ends[-1], atol=1e-9)


def test_gain_offset_and_variance_of_a_given_noise_are_used():
    stream, reference = np.array([1.0, 2.5, 2.0]), np.array([0.0, 1.0, 2.0])
    given = udtw.Follower(reference, noise=noise_of(0.5, 1.0, 2.0, 1.0))
    given.update(stream)
    same = udtw.align(
        stream, 2 * reference + 1, 0.5, 0.5, gamma=4.0, beta=0.0, relax=(0, 0, 0, 2),
        warp_penalty=(4 * given._prices()[1], 0.0),
    )  # fmt: skip
    np.testing.assert_allclose(given.probability, same.paths.ends[-1], atol=1e-9)


def test_chunks_change_nothing():
    stream = noisy(wave())
    one, several = udtw.Follower(wave()), udtw.Follower(wave())
    for value in stream[:90]:
        last = one.update(value)
    several.update(stream[:37])
    assert several.update(stream[37:90]) == last
    assert several.update([]) == last


def test_it_follows_a_slower_noisy_stream_and_tells_the_time_that_is_left():
    truth = np.linspace(0, 199, 300)
    stream = noisy(np.interp(truth, np.arange(200), wave()))
    follower, held, errors = udtw.Follower(wave(), lag=10), [], []
    for step, value in enumerate(stream):
        now = follower.update(value)
        held.append(now.low - 0.5 <= truth[step] <= now.high + 0.5)
        if now.smoothed is not None:
            errors.append(abs(now.smoothed.expected - truth[step - 10]))
        if step == 150:
            assert 110 < now.remaining < 190
    assert now.fits
    assert np.mean(held) > 0.8
    assert np.mean(errors) < 2
    assert now.remaining < 5


def test_memory_does_not_grow():
    follower = udtw.Follower(wave(), lag=3)
    follower.update(noisy(wave())[:20])
    size = len(pickle.dumps(follower))
    follower.update(noisy(wave())[20:])
    assert len(pickle.dumps(follower)) == pytest.approx(size, abs=100)


def test_a_pickled_follower_goes_on_with_the_same_bits():
    stream, follower = noisy(wave()), udtw.Follower(wave())
    follower.update(stream[:50])
    copy = pickle.loads(pickle.dumps(follower))
    assert copy.update(stream[50:80]) == follower.update(stream[50:80])


@pytest.mark.parametrize("kind", ["another piece", "jumps back"])
def test_a_stream_that_no_longer_fits_is_reported_with_the_step(kind):
    rng = np.random.default_rng(0)
    reference = np.cumsum(rng.standard_normal((150, 3)), 0)
    then = reference[10:80] if kind == "jumps back" else np.cumsum(rng.standard_normal((70, 3)), 0)[::-1] - 20
    follower = udtw.Follower(reference)
    assert follower.update(noisy(reference[:100])).fits
    now = follower.update(noisy(then, 1))
    assert not now.fits
    assert 95 <= now.lost_at <= 110
    follower.restart(anywhere=True)
    if kind == "jumps back":
        found = follower.update(noisy(reference[40:60], 2))
        assert found.fits
        assert found.low <= 59 <= found.high


def test_the_step_of_a_sudden_departure_is_exact():
    reference = np.cumsum(np.random.default_rng(0).standard_normal((150, 3)), 0)
    follower = udtw.Follower(reference)
    assert follower.update(noisy(reference[:100])).fits
    now = follower.update(reference[100:120] + 40)
    assert (now.fits, now.lost_at) == (False, 100)


def test_spikes_and_missing_values_do_not_lose_it():
    reference = np.cumsum(np.random.default_rng(3).standard_normal((150, 2)), 0)
    stream = noisy(reference)
    stream[40] = 1e200
    stream[60:64, 1] = np.nan
    stream[80:83] = np.nan
    follower = udtw.Follower(reference)
    now = follower.update(stream[:120])
    assert now.fits
    assert now.low <= 119 <= now.high


def test_the_noise_is_learned_from_the_stream_and_kept_for_the_next_cycle():
    follower = udtw.Follower(wave())
    before = follower._noise.variance.copy()
    follower.update(noisy(wave(), deviation=0.01))
    learned = follower._noise.variance.copy()
    follower.restart()
    assert learned < before
    np.testing.assert_array_equal(follower._noise.variance, learned)
    assert follower.update(0.0).index <= 1


def test_a_feature_that_is_missing_tells_nothing_of_its_noise():
    reference = np.stack([wave(), wave()[::-1]], 1)
    stream = noisy(reference, deviation=0.2)
    stream[:, 1] = np.nan
    follower = udtw.Follower(reference)
    before = follower._noise.variance.copy()
    follower.update(stream)
    after = follower._noise.variance
    assert after[1] == pytest.approx(before[1], rel=1e-12)
    assert after[0] != before[0]


def test_a_chunk_that_is_refused_changes_nothing():
    follower = udtw.Follower(np.stack([wave(), wave()], 1))
    with pytest.raises(LengthError, match="none was seen"):
        follower.update(np.zeros((0, 2)))
    follower.update([[0.0, 0.0], [0.1, 0.1]])
    before = follower.probability.copy()
    for chunk, error, message in (
        ([1.0, 2.0, 3.0], ShapeError, r"the 2 feature\(s\) of the reference.*got \(3,\)"),
        (np.zeros((4, 3)), ShapeError, r"got \(4, 3\)"),
        ([[0.0, 0.0], [np.inf, 0.0]], NonFiniteError, r"chunk\[1\]"),
        ([["a", "b"]], ShapeError, "real numbers"),
    ):
        with pytest.raises(error, match=message):
            follower.update(chunk)
    np.testing.assert_array_equal(follower.probability, before)
    assert follower.update([0.2, 0.2]).step == 2


def test_an_interrupted_update_changes_nothing(monkeypatch):
    stream = noisy(wave())
    follower, undisturbed = (udtw.Follower(wave(), lag=3) for _ in range(2))
    for one in (follower, undisturbed):
        one.update(stream[:50])
    learn, calls = module._Noise.learn, []

    def interrupted(self, *given):
        learn(self, *given)
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module._Noise, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            follower.update(stream[50:90])
    assert follower.update(stream[50:90]) == undisturbed.update(stream[50:90])
    np.testing.assert_array_equal(follower.probability, undisturbed.probability)


@pytest.mark.parametrize(
    ("reference", "options", "error", "message"),
    [
        (np.zeros((2, 3, 4)), {}, ShapeError, "time first"),
        ([0.0, 1.0], {}, LengthError, "at least three steps"),
        ([0.0, np.nan, 1.0], {}, NonFiniteError, "Interpolate"),
        ([1.0, 1.0, 1.0], {}, OptionError, "constant"),
        (wave(), {"lag": -1}, OptionError, "lag"),
        (wave(), {"level": 90}, OptionError, "level"),
        (wave(), {"noise": 0.1}, OptionError, "NoiseBetween"),
        (wave(), {"noise": noise_of(np.ones(3))}, ShapeError, "3 numbers"),
    ],
)
def test_bad_input_is_named(reference, options, error, message):
    with pytest.raises(error, match=message):
        udtw.Follower(reference, **options)
