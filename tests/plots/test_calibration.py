"""Stated against observed coverage."""

import pytest

from udtw.errors import ShapeError
from udtw.plots import plot_calibration


def test_a_line_for_each_method_and_the_diagonal():
    figure = plot_calibration([0.5, 0.9], {"a": [0.4, 0.8], "b": [0.5, 0.9]}, figsize=(4, 4))
    [axes] = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines[1:]] == [[40, 80], [50, 90]]
    assert figure.get_size_inches().tolist() == [4, 4]


def test_a_value_for_each_level():
    with pytest.raises(ShapeError, match="2 values for 1 levels"):
        plot_calibration([0.5], {"a": [0.4, 0.8]})
