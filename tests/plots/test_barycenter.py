"""`plot_barycenter`: series in grey, means on top, σ_μ in red if there is one."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

from udtw.errors import LengthError, OptionError, ShapeError
from udtw.plots import plot_barycenter
from udtw.timeseries import Barycenter

from .figures import panels, render


def found(mean, variance=None):
    """A barycenter with given values."""
    mean = np.asarray(mean, float)
    return Barycenter(
        mean, np.zeros(len(mean)) if variance is None else np.asarray(variance, float), 0.0, [0.0], True, 0
    )


@pytest.fixture
def series():
    return np.random.default_rng(0).standard_normal((5, 8))


def test_series_mean_and_uncertainty(series):
    variance = np.linspace(0.1, 4, 8)
    figure = plot_barycenter(series, {"soft": found(series.mean(0)), "udtw": found(series[0], variance)})
    axes = panels(figure)
    assert set(axes) == {"soft/0", "udtw/0", "soft/sigma", "udtw/sigma"}
    *inputs, mean = axes["udtw/0"].lines
    for line, wanted in zip(inputs, series, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), wanted)
    np.testing.assert_array_equal(mean.get_ydata(), series[0])
    np.testing.assert_allclose(axes["udtw/sigma"].lines[0].get_ydata(), np.sqrt(variance))
    assert not axes["soft/sigma"].lines, "a line at zero would say that the mean is certain"
    assert axes["soft/0"].get_ylim() == axes["udtw/0"].get_ylim()
    assert axes["soft/sigma"].get_ylim() == axes["udtw/sigma"].get_ylim()
    assert render(figure) > 5_000


def test_one_mean_without_uncertainty_has_one_panel(series):
    figure = plot_barycenter(series, found(series.mean(0)))
    assert set(panels(figure)) == {"/0"}
    render(figure)


def test_a_huge_uncertainty_does_not_flatten_the_series(series):
    low, high = panels(plot_barycenter(series, {"a": found(series[0], np.full(8, 1e6))}))["a/0"].get_ylim()
    assert high - low < 2 * (series.max() - series.min())


def test_different_lengths_are_stretched_to_the_mean():
    X = [np.zeros((4, 2)), np.ones((9, 2))]
    axes = panels(plot_barycenter(X, {"a": found(np.zeros((7, 2)), np.ones(7))}))
    assert set(axes) == {"a/0", "a/1", "a/sigma"}
    for line in axes["a/1"].lines:
        assert line.get_xdata()[[0, -1]].tolist() == [0, 6]


def test_draws_at_most_the_requested_number_of_series(series):
    axes = panels(plot_barycenter(series, {"a": found(series[0])}, max_series=2, band=False))
    assert len(axes["a/0"].lines) == 3
    assert not axes["a/0"].collections


@pytest.mark.parametrize("X", [np.zeros((2, 1)), np.full((3, 5), 2.0)])
def test_flat_and_short_series_draw_without_a_warning(X):
    render(plot_barycenter(X, {"a": found(X[0], np.ones(X.shape[1]))}))


def test_wrong_input_is_named(series):
    with pytest.raises(LengthError, match="at least one"):
        plot_barycenter(series, {})
    with pytest.raises(OptionError, match="max_series"):
        plot_barycenter(series, found(series[0]), max_series=0)
    with pytest.raises(ShapeError, match="'a' has 2 feature"):
        plot_barycenter(series, {"a": found(np.zeros((8, 2)))})
