"""plot_calibration, plot_critical_difference and plot_reliability."""

import numpy as np
import pytest

from udtw._engine.calibration import Calibration
from udtw.errors import OptionError, ShapeError
from udtw.plots import plot_calibration, plot_critical_difference, plot_reliability
from udtw.plots.evaluation import _groups


def test_methods_that_cannot_be_told_apart_share_a_bar():
    rng = np.random.default_rng(0)
    base = rng.random(30)
    table = np.stack([base + 0.5, base + 0.2, base + 0.2 + 1e-3 * rng.standard_normal(30), base])
    assert _groups(table) == [(1, 2)]


def test_ranks_are_shown_best_first():
    figure = plot_critical_difference({"low": [1.0, 2.0, 3.0], "high": [2.0, 3.0, 4.0]})
    assert [text.get_text() for text in figure.axes[0].texts] == ["high  1.00", "low  2.00"]


@pytest.mark.parametrize("scores", [{"a": [1.0]}, {"a": [1.0], "b": [1.0, 2.0]}])
def test_ranks_need_the_same_data_sets(scores):
    with pytest.raises(ShapeError, match="same number of scores"):
        plot_critical_difference(scores)


def test_reliability_has_a_panel_for_each_series_and_names_bad_shapes():
    values = np.sin(np.arange(20.0))
    figure = plot_reliability({"a": (values, np.ones(20), values > 0), "b": (values, np.ones(20), None)})
    assert [axes.get_title() for axes in figure.axes[:2]] == ["a", "b"]
    with pytest.raises(ShapeError, match="'a' must have"):
        plot_reliability({"a": (values, np.ones(3), None)})


def test_a_line_for_each_method_and_the_diagonal():
    figure = plot_calibration([0.5, 0.9], {"a": [0.4, 0.8], "b": [0.5, 0.9]}, figsize=(4, 4))
    [axes] = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines[1:]] == [[40, 80], [50, 90]]
    assert figure.get_size_inches().tolist() == [4, 4]


def test_a_value_for_each_level():
    with pytest.raises(ShapeError, match="2 values for 1 levels"):
        plot_calibration([0.5], {"a": [0.4, 0.8]})


def test_a_fitted_calibration_brings_its_own_levels():
    fitted = Calibration(4.0, 0.5, 0.9, 0.88, 1.7, (0.5, 0.9), (0.55, 0.88))
    figure = plot_calibration(fitted)
    [axes] = figure.axes
    assert list(axes.lines[1].get_ydata()) == pytest.approx([55, 88])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["γ = 4, ω = 0.5"]
    with pytest.raises(OptionError, match="observed"):
        plot_calibration([0.5, 0.9])
