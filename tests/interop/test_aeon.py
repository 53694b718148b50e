"""aeon's own checks of udtw's estimators, and that the adapters give udtw's numbers."""

import numpy as np
import pytest

from udtw.data import cylinder_bell_funnel, znormalize
from udtw.timeseries import KNeighborsTimeSeriesClassifier, TimeSeriesKMeans

pytestmark = pytest.mark.filterwarnings("ignore")  # aeon's checks warn of what they try
adapters = pytest.importorskip("udtw.interop.aeon")

DATA = cylinder_bell_funnel(5, length=32, random_state=0)
X, Y = znormalize(DATA.X), DATA.y
COLLECTION = X[:, None, :]  # (n, d, T)


@pytest.mark.parametrize("name", ["UDTWClassifier", "UDTWClusterer"])
def test_aeon_finds_no_fault(name):
    from aeon.testing.estimator_checking import check_estimator

    results = check_estimator(getattr(adapters, name), raise_exceptions=False)
    assert len(results) > 20
    assert {test: found for test, found in results.items() if found != "PASSED"} == {}


def test_the_adapters_are_udtw_estimators_for_series_of_any_length():
    plain = KNeighborsTimeSeriesClassifier(3, metric="dtw")
    wrapped = adapters.UDTWClassifier(plain).fit(COLLECTION, Y)
    np.testing.assert_allclose(wrapped.predict_proba(COLLECTION), plain.fit(X, Y).predict_proba(X))
    ragged = [one[:, : 20 + i] for i, one in enumerate(COLLECTION[:6])]
    expected = plain.predict([one.T for one in ragged])
    np.testing.assert_array_equal(wrapped.predict(ragged), expected)
    means = TimeSeriesKMeans(3, metric="dtw", random_state=0)
    np.testing.assert_array_equal(adapters.UDTWClusterer(means).fit(COLLECTION).labels_, means.fit(X).labels_)
