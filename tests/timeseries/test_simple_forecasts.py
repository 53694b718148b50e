"""Seasons, simple forecasts, and what long series gain from them: the error, and intervals for each series."""

import numpy as np
import pytest

from udtw.errors import OptionError

pytest.importorskip("sklearn")

from udtw.timeseries import SequenceForecaster
from udtw.timeseries.simple_forecasts import SimpleForecast, choose, find_seasons

STEPS = np.arange(240)
SEASON = np.sin(STEPS * np.pi / 6) + 0.5 * (STEPS % 12 == 3)


def windows_of(values, window, horizon):
    starts = np.arange(len(values) - window - horizon + 1)[:, None]
    both = values[starts + np.arange(window + horizon)][..., None]
    return both[:, :window], both[:, window:]


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("rate", [0.1, 0.4, 1.0])
def test_a_line_with_a_season_is_continued_exactly(rate, logarithmic):
    values = 0.03 * STEPS + SEASON
    values = np.exp(values) if logarithmic else values
    past, future = windows_of(values, 48, 7)
    found = SimpleForecast(12, rate, 1.0, logarithmic).forecast(past, 7)
    np.testing.assert_allclose(found, future, rtol=1e-9, atol=1e-9)


def test_the_last_season_is_repeated():
    past, _ = windows_of(SEASON + STEPS, 30, 1)
    found = SimpleForecast(12).forecast(past, 15)
    np.testing.assert_array_equal(found[:, :12], past[:, 18:])
    np.testing.assert_array_equal(found[:, 12:], past[:, 18:21])


@pytest.mark.parametrize("season", [5, 12, 48])
def test_a_season_is_found_and_noise_has_none(season):
    rng = np.random.default_rng(0)
    pattern = rng.normal(size=season)
    series = (
        np.tile(pattern, 8)[:, None] + 0.3 * rng.normal(size=(8 * season, 1)) + np.linspace(0, 9, 8 * season)[:, None]
    )
    assert find_seasons([series], 2 * season + 3)[0] == season
    assert find_seasons([rng.normal(size=(300, 1))], 100) == []
    assert find_seasons([np.ones((50, 1))], 10) == []


def test_the_simple_forecast_with_the_least_error_is_chosen():
    rng = np.random.default_rng(1)
    walk = windows_of(np.cumsum(rng.normal(size=240)), 20, 4)
    assert choose(*walk, [7]).season == 1
    assert choose(*windows_of(SEASON + 0.1 * rng.normal(size=240), 36, 6), [12, 7]).season == 12
    assert choose(*walk, [7], found=False).season == 7
    noise = choose(*windows_of(rng.normal(size=240), 20, 4), [])
    assert noise.rate is not None
    assert noise.rate <= 0.1


def test_a_season_and_a_trend_are_forecast_better_than_by_the_last_season(one_thread):
    rng = np.random.default_rng(2)
    values = 30 + 0.2 * STEPS + 10 * SEASON + rng.normal(size=240)
    forecaster = SequenceForecaster("euclidean", max_iter=20, random_state=0).fit(values[:216], horizon=24)
    assert forecaster.season_ == 12
    truth = values[216:]
    error = np.sqrt(np.square(forecaster.predict() - truth).mean())
    assert error < 1.5
    assert error < 0.5 * np.sqrt(np.square(np.tile(values[204:216], 2) - truth).mean())
    none = SequenceForecaster("euclidean", max_iter=2, random_state=0).fit(values[:216], horizon=24, season=1)
    assert none.season_ == 1


def test_each_series_has_intervals_of_its_own_error(one_thread):
    rng = np.random.default_rng(3)
    noise = np.array([0.2, 1.0, 5.0])
    series = [50 + 10 * np.sin(np.arange(214) * 2 * np.pi / 7) + one * rng.normal(size=214) for one in noise]
    forecaster = SequenceForecaster("euclidean", max_iter=20, random_state=0)
    low, high = forecaster.fit([one[:200] for one in series], horizon=14).predict_interval()
    np.testing.assert_allclose((high - low).mean(1) / noise, 4, atol=1.6)
    truth = np.stack([one[200:] for one in series])
    assert ((low <= truth) & (truth <= high)).mean(1).min() >= 0.78


def test_the_loss_is_chosen_on_the_validation_series(monkeypatch, one_thread):
    values = SEASON + 0.1 * np.random.default_rng(4).normal(size=240)
    options = {"max_iter": 2, "hidden": 8, "random_state": 0}
    for best in ("euclidean", "udtw"):
        errors = iter([0.0, 1.0] if best == "euclidean" else [1.0, 0.0])
        monkeypatch.setattr(SequenceForecaster, "_squared_error", lambda self, *_, errors=errors: next(errors))
        chosen = SequenceForecaster("auto", **options).fit(values, horizon=6)
        assert chosen.loss_ == best
        named = SequenceForecaster(best, **options).fit(values, horizon=6)
        np.testing.assert_allclose(chosen.predict(), named.predict(), atol=0.1)
        assert chosen.n_iter_ == len(chosen.history_[best].train)


def test_season_and_scale_are_saved(tmp_path, one_thread):
    values = 5 + SEASON + 0.01 * STEPS
    forecaster = SequenceForecaster("auto", max_iter=2, random_state=0).fit(values, horizon=6)
    forecaster.save(tmp_path / "model")
    loaded = SequenceForecaster.load(tmp_path / "model")
    assert (loaded.season_, loaded.loss_, loaded.n_iter_) == (forecaster.season_, forecaster.loss_, forecaster.n_iter_)
    np.testing.assert_array_equal(loaded.predict(), forecaster.predict())
    np.testing.assert_array_equal(loaded.predict_interval(), forecaster.predict_interval())


@pytest.mark.parametrize("season", [0, 2.5, True, 100, "12"])
def test_a_season_is_a_number_of_steps(season):
    with pytest.raises(OptionError, match="season"):
        SequenceForecaster("euclidean", max_iter=1).fit(SEASON, horizon=6, season=season)


def test_what_needs_a_horizon_or_one_loss(tmp_path):
    with pytest.raises(OptionError, match="season requires horizon"):
        SequenceForecaster("euclidean").fit(np.zeros((5, 9)), np.zeros((5, 3)), season=4)
    with pytest.raises(OptionError, match="one loss"):
        SequenceForecaster("auto", random_state=0).fit(SEASON, horizon=6, checkpoint_path=tmp_path / "c")
