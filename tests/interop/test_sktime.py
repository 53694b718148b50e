"""sktime's own checks of udtw's estimators, and that the adapters give udtw's numbers."""

import numpy as np
import pandas as pd
import pytest

import udtw
from udtw.data import cylinder_bell_funnel, znormalize
from udtw.errors import LengthError
from udtw.timeseries import KNeighborsTimeSeriesClassifier, SequenceForecaster, TimeSeriesKMeans

pytestmark = pytest.mark.filterwarnings("ignore")  # sktime and its tests warn of their own changes to come
adapters = pytest.importorskip("udtw.interop.sktime")

NAMES = ["UDTWDistance", "UDTWAligner", "UDTWClassifier", "UDTWClusterer", "UDTWForecaster"]
DATA = cylinder_bell_funnel(5, length=32, random_state=0)
X, Y = znormalize(DATA.X), DATA.y
PANEL = X[:, None, :]  # (n, d, T), as sktime's numpy3D


@pytest.mark.parametrize("name", NAMES)
def test_sktime_finds_no_fault(name):
    from sktime.utils.estimator_checks import check_estimator

    results = check_estimator(getattr(adapters, name), raise_exceptions=False, verbose=False)
    assert len(results) > 40
    assert {test: found for test, found in results.items() if found != "PASSED"} == {}


def test_distances_are_those_of_pairwise_also_of_data_frames_of_different_lengths():
    metric = adapters.UDTWDistance("soft_dtw_divergence", {"gamma": 0.1})
    np.testing.assert_allclose(
        metric(PANEL, PANEL[:3]), udtw.pairwise(X, X[:3], "soft_dtw_divergence", gamma=0.1), atol=1e-9
    )
    frames = [pd.DataFrame({"a": X[0]}), pd.DataFrame({"a": X[1, :20]})]
    np.testing.assert_allclose(adapters.UDTWDistance("dtw")(frames), udtw.pairwise([X[0], X[1, :20]], metric="dtw"))


def test_the_aligner_gives_path_and_loss():
    options = {"gamma": 4.0, "warp_penalty": 0.5}
    frames = [pd.DataFrame({"a": X[0]}), pd.DataFrame({"a": X[1, :20]})]
    aligner = adapters.UDTWAligner("estimate", options).fit(frames)
    found = udtw.align(X[0], X[1, :20], "estimate", "estimate", **options)
    np.testing.assert_array_equal(aligner.get_alignment().to_numpy(), found.paths.mode())
    assert aligner.get_distance() == pytest.approx(float(found.loss))


def test_the_aligner_puts_more_than_two_series_on_one_axis():
    frames = [pd.DataFrame({"a": one}) for one in (X[0], X[1, :28], X[2])]
    aligner = adapters.UDTWAligner().fit(frames)
    assert aligner.get_tag("capability:multiple-alignment")
    np.testing.assert_array_equal(aligner.get_alignment(), udtw.match_many(frames).steps_together())
    matrix = aligner.get_distance_matrix()
    assert matrix[0, 2] == matrix[2, 0] == pytest.approx(float(udtw.align(X[0], X[2]).loss))
    assert aligner.get_distance() == pytest.approx(matrix.sum() / 6)


def test_classifier_and_clusterer_are_those_of_udtw():
    plain = KNeighborsTimeSeriesClassifier(3, metric="dtw")
    wrapped = adapters.UDTWClassifier(plain).fit(PANEL, Y)
    np.testing.assert_allclose(wrapped.predict_proba(PANEL), plain.fit(X, Y).predict_proba(X))
    means = TimeSeriesKMeans(3, metric="dtw", random_state=0)
    np.testing.assert_array_equal(adapters.UDTWClusterer(means).fit(PANEL).labels_, means.fit(X).labels_)


def wave(steps):
    months = pd.period_range("2020-01", periods=steps, freq="M")
    return pd.Series(10 + 0.2 * np.arange(steps) + np.sin(np.arange(steps) / 2), months, name="sales")


def test_forecasts_have_the_index_of_the_future_and_follow_the_level():
    y = wave(120)
    estimator = SequenceForecaster(
        hidden=32, max_iter=60, training={"dropout": 0.0, "learning_rate": 0.01}, random_state=0
    )
    model = adapters.UDTWForecaster(24, estimator).fit(y[:100], fh=[1, 3, 6])
    found = model.predict()
    pd.testing.assert_index_equal(found.index, y.index[[100, 102, 105]])
    assert np.abs(found - y[found.index]).max() < 0.6
    interval = model.predict_interval(coverage=0.9)
    assert (interval.iloc[:, 0] < found.to_numpy()).all()
    model.update(y[100:], update_params=False)
    later = model.predict(fh=[1, 3, 6])
    assert str(later.index[0]) == "2030-01"
    assert later.iloc[0] == pytest.approx(10 + 0.2 * 120 + np.sin(60), abs=0.6)


def test_a_short_series_is_refused_by_name():
    with pytest.raises(LengthError, match="smaller window_length"):
        adapters.UDTWForecaster(20).fit(wave(22), fh=[1, 2, 3])
