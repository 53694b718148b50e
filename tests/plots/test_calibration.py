"""Stated against observed coverage."""

import pytest

from udtw._engine.calibration import Calibration
from udtw.errors import OptionError, ShapeError
from udtw.plots import plot_calibration


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
