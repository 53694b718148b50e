"""`plot_alignment`: what is on the axes, for every form of input, without changing global state."""

import subprocess
import sys

import numpy as np
import pytest
import torch

import udtw
from udtw.errors import OptionError, ShapeError

pytest.importorskip("matplotlib")

from matplotlib.collections import LineCollection

from udtw.plots import plot_alignment

from .figures import panels, render

PANELS = {"x", "y", "legend", "coupling", "variance", "histogram"}


def series(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def image(axes):
    return np.asarray(axes.get_images()[0].get_array())


@pytest.fixture(scope="module")
def pair():
    x, y = series(12, seed=1), series(9, seed=2)
    return x, y, udtw.align(x, y, torch.linspace(0.5, 4, 12), torch.ones(9), gamma=0.5)


def test_shows_coupling_variance_and_series(pair):
    x, y, alignment = pair
    figure = plot_alignment(x, y, alignment)
    axes = panels(figure)
    assert set(axes) >= PANELS
    np.testing.assert_allclose(image(axes["coupling"]), alignment.coupling, atol=1e-6)
    np.testing.assert_allclose(image(axes["variance"]), alignment.variance, rtol=1e-6)
    np.testing.assert_allclose(axes["x"].lines[0].get_xdata(), x)
    np.testing.assert_allclose(axes["y"].lines[0].get_ydata(), y)
    for name in ("coupling", "variance"):
        np.testing.assert_array_equal(axes[name].lines[-1].get_xydata()[:, ::-1], alignment.paths.mode())
    assert render(figure) > 5_000


def test_margins_line_up_with_the_matrix(pair):
    figure = plot_alignment(*pair)
    render(figure)
    axes = panels(figure)
    box = {name: axes[name].get_position() for name in PANELS}
    assert box["y"].x0 == pytest.approx(box["coupling"].x0)
    assert box["y"].x1 == pytest.approx(box["coupling"].x1)
    assert box["x"].y0 == pytest.approx(box["coupling"].y0)
    assert box["x"].y1 == pytest.approx(box["coupling"].y1)
    assert box["variance"].y0 == pytest.approx(box["coupling"].y0)
    assert axes["y"].get_xlim() == axes["coupling"].get_xlim() == (-0.5, 8.5)
    assert axes["x"].get_ylim() == axes["coupling"].get_ylim() == (11.5, -0.5)
    assert axes["x"].get_xlim()[::-1] == axes["y"].get_ylim()


def test_histogram_shares_sum_to_one(pair):
    figure = plot_alignment(*pair)
    for stairs in panels(figure)["histogram"].patches:
        assert stairs.get_data().values.sum() == pytest.approx(1)


@pytest.mark.parametrize("paths", [0, 1, 7])
def test_draws_the_requested_number_of_paths(pair, paths):
    figure = plot_alignment(*pair, paths=paths, seed=3)
    collection = next(c for c in panels(figure)["coupling"].collections if isinstance(c, LineCollection))
    drawn = [segment[:, ::-1] for segment in collection.get_segments()]
    expected = pair[2].paths.sample(paths, 3) if paths else []
    assert len(drawn) == paths
    for path, wanted in zip(drawn, expected, strict=True):
        np.testing.assert_array_equal(path, wanted)


def test_numpy_gives_the_same_picture(pair):
    x, y, alignment = pair
    other = udtw.align(x.numpy(), y.numpy(), np.linspace(0.5, 4, 12, dtype=np.float32), np.ones(9), gamma=0.5)
    mine, theirs = (panels(plot_alignment(*args)) for args in ((x, y, alignment), (x.numpy(), y.numpy(), other)))
    np.testing.assert_allclose(image(mine["coupling"]), image(theirs["coupling"]), atol=1e-5)


def test_gradients_are_kept():
    x, y = series(6, 1).requires_grad_(), series(5, 1, seed=1)
    var_x, var_y = torch.full((6,), 2.0, requires_grad=True), torch.ones(5)
    alignment = udtw.align(x, y, var_x, var_y)
    plot_alignment(x, y, alignment)
    alignment.coupling.square().sum().backward()
    assert x.grad is not None
    assert var_x.grad is not None


@pytest.mark.parametrize("features", [1, 3, 40])
def test_every_feature_is_a_line(features):
    x, y = series(10, features), series(8, features, seed=1)
    figure = plot_alignment(x, y, udtw.align(x, y, torch.ones(10), torch.ones(8)), paths=2)
    axes = panels(figure)
    assert len(axes["x"].lines) == len(axes["y"].lines) == features
    assert len(axes["x"].collections) == features
    render(figure)


def test_one_pair_of_a_padded_batch():
    x, y = series(3, 10, 2), series(3, 8, 2, seed=1)
    lengths_x, lengths_y = [10, 4, 7], [8, 6, 2]
    variances = series(3, 10).exp(), series(3, 8, seed=2).exp()
    alignment = udtw.align(x, y, *variances, lengths_x=lengths_x, lengths_y=lengths_y)
    for index in range(3):
        n, m = lengths_x[index], lengths_y[index]
        alone = udtw.align(x[index, :n], y[index, :m], variances[0][index, :n], variances[1][index, :m])
        axes = panels(plot_alignment(x, y, alignment, index=index))
        np.testing.assert_allclose(image(axes["coupling"]), alone.coupling, atol=1e-5)
        np.testing.assert_allclose(image(axes["variance"]), alone.variance, rtol=1e-5)
        assert len(axes["x"].lines[0].get_xdata()) == n
        assert len(axes["y"].lines[0].get_ydata()) == m


def test_one_template_for_a_whole_batch():
    x, y = series(4, 6, 1), series(5, seed=1)
    alignment = udtw.align(x, y)
    np.testing.assert_allclose(panels(plot_alignment(x, y, alignment, index=3))["y"].lines[0].get_ydata(), y)


@pytest.mark.parametrize(
    ("n", "m", "options"),
    [
        (1, 1, {}),
        (1, 30, {}),
        (200, 5, {}),
        (7, 7, {"band": 1}),
        (7, 8, {"variance": 10 ** (3 * series(7, 8))}),
        (7, 8, {"var_x": torch.full((7,), 1e-8), "var_y": torch.full((8,), 1e-8)}),
        (7, 8, {"var_x": torch.full((7,), 1e6)}),
    ],
)
def test_odd_cases_draw_without_a_warning(n, m, options):
    x, y = series(n), series(m, seed=1)
    assert render(plot_alignment(x, y, udtw.align(x, y, **options), paths=3)) > 3_000


def test_constant_series_and_linear_power():
    x, y = torch.full((5,), 3.0), torch.full((6,), 3.0)
    render(plot_alignment(x, y, udtw.align(x, y), path_power=1.0, figsize=(9, 4)))


def test_band_is_drawn_only_where_variances_were_given():
    x, y = series(5), series(6, seed=1)
    axes = panels(plot_alignment(x, y, udtw.align(x, y, variance=torch.ones(5, 6))))
    assert not axes["x"].collections
    assert not axes["y"].collections


@pytest.mark.parametrize("index", [-1, 2, 100])
def test_index_out_of_range(index):
    x, y = series(2, 5, 1), series(2, 4, 1, seed=1)
    with pytest.raises(OptionError, match=rf"2 aligned pair.*got {index}"):
        plot_alignment(x, y, udtw.align(x, y), index=index)


def test_wrong_input_is_named(pair):
    x, y, alignment = pair
    with pytest.raises(ShapeError, match="x must be the aligned sequence"):
        plot_alignment(y, x, alignment)
    with pytest.raises(OptionError, match="PathDistribution"):
        plot_alignment(x, y, alignment.paths)
    with pytest.raises(OptionError, match="paths"):
        plot_alignment(x, y, alignment, paths=-1)
    with pytest.raises(OptionError, match="path_power"):
        plot_alignment(x, y, alignment, path_power=0)


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_leaves_pyplot_alone():
    code = """
import io, sys, torch, udtw
assert "matplotlib" not in sys.modules, "import udtw must stay light"
from udtw.plots import plot_alignment
x, y = torch.randn(5), torch.randn(4)
plot_alignment(x, y, udtw.align(x, y)).savefig(io.BytesIO(), format="png")
assert "matplotlib.pyplot" not in sys.modules
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_missing_matplotlib_names_the_extra():
    done = run_python("import sys; sys.modules['matplotlib'] = None; import udtw; import udtw.plots")
    assert done.returncode != 0
    assert "ImportError" in done.stderr
    assert "pip install 'udtw[plots]'" in done.stderr


def test_no_empty_panels_without_variances():
    x, y = series(8), series(7, seed=1)
    figure = plot_alignment(x, y, udtw.align(x, y))
    assert not {"variance", "histogram"} & set(panels(figure))
    render(figure)


def test_relaxed_ends_and_variances_of_features():
    x, y = series(6, 2), series(15, 2, seed=1)
    axes = panels(plot_alignment(x, y, udtw.align(x, y, torch.ones(6, 2), torch.ones(15, 2), relax="y")))
    assert image(axes["coupling"]).shape == image(axes["variance"]).shape == (6, 15)
