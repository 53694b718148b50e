"""Long series: windows for training and validation, forecasts beyond the end, and what cannot be cut."""

import numpy as np
import pytest

from udtw.errors import LengthError, NonFiniteError, OptionError, ShapeError

pytest.importorskip("sklearn")

from udtw.timeseries import SequenceForecaster
from udtw.timeseries.forecaster_windows import MOST_WINDOWS, cut_windows

WAVE = np.sin(np.arange(240) / 4)


def quick(loss="euclidean", **options):
    training = {"dropout": 0.0, "learning_rate": 1e-2} | options.pop("training", {})
    return SequenceForecaster(loss, training=training, **{"hidden": 32, "max_iter": 30, "random_state": 0} | options)


def test_windows_are_all_places_and_validation_is_the_end():
    steps = np.arange(30.0)[:, None]
    (past, future), (held_past, held_future) = cut_windows([steps], 5, 3, 0.2)
    np.testing.assert_array_equal(past[0, :, 0], np.arange(5))
    np.testing.assert_array_equal(future[0, :, 0], [5, 6, 7])
    np.testing.assert_array_equal(held_future[-1, :, 0], [27, 28, 29])
    np.testing.assert_array_equal(held_past[:, -1] + 1, held_future[:, 0])
    assert len(held_past) == 4
    assert future.max() < held_future.min(), "a future for validation must not have been learned"


def test_long_series_are_thinned():
    (past, _), _ = cut_windows([np.zeros((4 * MOST_WINDOWS, 1))], 5, 3, 0.2)
    assert MOST_WINDOWS / 2 < len(past) <= MOST_WINDOWS


@pytest.mark.parametrize("loss", ["euclidean", "udtw"])
def test_forecasts_beyond_the_end(loss):
    forecaster = quick(loss).fit(WAVE[:200], horizon=12, window=20)
    forecast, std = forecaster.predict(return_std=True)
    assert forecast.shape == std.shape == (12,)
    np.testing.assert_allclose(forecast, WAVE[200:212], atol=0.25)
    np.testing.assert_allclose(forecaster.predict(WAVE[:228]), WAVE[228:240], atol=0.25)
    low, high = forecaster.predict_interval(level=0.8)
    assert (low < forecast).all()
    assert (forecast < high).all()


def test_several_series_and_features():
    long = np.stack([WAVE, -WAVE], 1)
    forecaster = quick().fit([long[:150], long[50:]], horizon=10, window=20)
    assert forecaster.predict().shape == (2, 10, 2)
    assert forecaster.predict(long).shape == (10, 2)
    assert forecaster.predict(np.stack([long, long, long])).shape == (3, 10, 2)
    assert quick().fit([WAVE, WAVE[:100]], horizon=10).predict().shape == (2, 10)


def test_a_series_that_drifts_is_forecast_from_its_last_level():
    drift = WAVE + 0.1 * np.arange(240)
    error = {
        relative: np.abs(quick(relative=relative).fit(drift[:220], horizon=12, window=20).predict() - drift[220:232])
        for relative in (None, False)
    }
    assert error[None].mean() < 0.25
    assert error[None].mean() < error[False].mean()


def test_the_end_of_the_series_is_saved(tmp_path):
    forecaster = quick("udtw", max_iter=2).fit(WAVE, horizon=8)
    forecaster.save(tmp_path)
    loaded = SequenceForecaster.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict(), forecaster.predict())
    np.testing.assert_array_equal(loaded.predict_interval(level=0.7), forecaster.predict_interval(level=0.7))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quick().fit(WAVE, horizon=0), OptionError, "horizon"),
        (lambda: quick().fit(WAVE, horizon=2.5), OptionError, "horizon"),
        (lambda: quick().fit(WAVE, horizon=5, window=-1), OptionError, "window"),
        (lambda: quick().fit(WAVE[:, None], WAVE, window=5), OptionError, "window"),
        (lambda: quick().fit(WAVE, WAVE, horizon=5), OptionError, "horizon"),
        (lambda: quick().fit(WAVE, horizon=200, window=100), LengthError, "301"),
        (lambda: quick().fit(np.zeros((5, 200)), horizon=8), LengthError, "list"),
        (lambda: quick().fit([WAVE, np.zeros((50, 2))], horizon=8), ShapeError, "features"),
        (lambda: quick().fit([1.0, np.nan, 2.0] * 20, horizon=8), NonFiniteError, r"X\[1, 0\]"),
        (lambda: quick(max_iter=1).fit(WAVE, horizon=8, window=20).predict(WAVE[:19]), LengthError, "20"),
        (lambda: quick(relative=True).fit(np.zeros((9, 4, 2)), np.zeros((9, 3, 1))), OptionError, "relative"),
    ],
)  # fmt: skip
def test_what_cannot_be_cut_is_a_named_error(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_data_frames_are_matched_by_name(one_thread, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": np.sin(np.arange(60) / 3), "b": 100 + np.cos(np.arange(60) / 3)})
    forecaster = SequenceForecaster("euclidean", max_iter=1, random_state=0).fit(frame, horizon=4)
    forecaster.save(tmp_path / "model")
    for one in (forecaster, SequenceForecaster.load(tmp_path / "model")):
        np.testing.assert_array_equal(one.predict(frame[["b", "a"]]), forecaster.predict())
    with pytest.raises(ShapeError, match="lacks"):
        forecaster.predict(frame.rename(columns={"a": "c"}))


def test_a_folder_of_the_user_is_not_overwritten(one_thread, tmp_path):
    forecaster = SequenceForecaster("euclidean", max_iter=1, random_state=0).fit(np.arange(40.0), horizon=4)
    (tmp_path / "config.json").write_text('{"mine": 1}')
    with pytest.raises(OptionError, match="other files"):
        forecaster.save(tmp_path)
    forecaster.save(tmp_path, force=True)
    forecaster.save(tmp_path)
