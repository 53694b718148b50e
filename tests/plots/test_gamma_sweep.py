"""`plot_gamma_sweep`: the couplings of one pair at several temperatures."""

import io

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

import udtw
from udtw.errors import GammaError, LengthError, OptionError, ShapeError
from udtw.plots import plot_gamma_sweep

from .figures import panels


@pytest.fixture
def pair():
    rng = np.random.default_rng(0)
    return rng.standard_normal(9), rng.standard_normal(7)


@pytest.mark.parametrize("convert", [np.asarray, torch.as_tensor])
def test_one_coupling_per_temperature(pair, convert):
    x, y = map(convert, pair)
    gammas = (0.1, 1.0, 5.0)
    figure = plot_gamma_sweep(x, y, gammas, var_x=convert(np.full(9, 2.0)))
    axes = panels(figure)
    for i, gamma in enumerate(gammas):
        wanted = udtw.align(*pair, np.full(9, 2.0), gamma=gamma).coupling
        np.testing.assert_allclose(np.asarray(axes[f"coupling{i}"].get_images()[0].get_array()), wanted, atol=1e-9)
        np.testing.assert_array_equal(axes[f"y{i}"].lines[0].get_ydata(), pair[1])
        assert axes[f"y{i}"].get_title() == f"γ = {gamma:g}"
    np.testing.assert_array_equal(axes["x"].lines[0].get_xdata(), pair[0])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=60)
    assert buffer.tell() > 5_000


def test_several_features_and_one_temperature():
    axes = panels(plot_gamma_sweep(np.zeros((4, 3)), np.ones((30, 3)), [1.0], path_power=1.0))
    assert len(axes["x"].lines) == len(axes["y0"].lines) == 3


def test_wrong_input_is_named(pair):
    with pytest.raises(LengthError, match="gammas is empty"):
        plot_gamma_sweep(*pair, [])
    with pytest.raises(GammaError):
        plot_gamma_sweep(*pair, [0.0])
    with pytest.raises(OptionError, match="path_power"):
        plot_gamma_sweep(*pair, path_power=0)
    with pytest.raises(ShapeError, match="x must be one series"):
        plot_gamma_sweep(np.zeros((2, 5, 1)), pair[1])
