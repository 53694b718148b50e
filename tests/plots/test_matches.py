"""`plot_matches`: series, match lines and intervals, for every form of input."""

import numpy as np
import pytest
import torch

import udtw
from udtw.errors import OptionError, ShapeError

pytest.importorskip("matplotlib")

import matplotlib.style
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex

from udtw.plots import plot_matches
from udtw.plots.style import DARK_PAPER, MODE_COLOR, paper, shade

from .figures import panels, render


def series(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed))


def of_kind(axes, kind):
    return [one for one in axes.collections if type(one) is kind]


@pytest.fixture(scope="module")
def pair():
    x, y = series(12, seed=1), series(9, seed=2)
    return x, y, udtw.align(x, y, torch.linspace(0.5, 4, 12), torch.ones(9), gamma=0.5)


def test_a_line_from_each_step_to_its_partner(pair):
    x, y, alignment = pair
    figure = plot_matches(x, y, alignment, lines=100)
    axes = panels(figure)["matches"]
    [links] = of_kind(axes, LineCollection)
    found = alignment.matches()
    found = {name: np.asarray(value) for name, value in vars(found).items()}
    index, probability = found["index"], found["probability"]
    order = np.argsort(probability)
    ends = np.array([segment[:, 0] for segment in links.get_segments()])
    np.testing.assert_allclose(ends[:, 0], order / 11, atol=1e-6)
    np.testing.assert_allclose(ends[:, 1], index[order] / 8, atol=1e-6)
    np.testing.assert_allclose(links.get_array(), probability[order], atol=1e-6)
    np.testing.assert_allclose([segment[1, 1] for segment in links.get_segments()], y[index[order]], atol=1e-6)
    np.testing.assert_allclose(axes.lines[1].get_ydata(), y)
    assert render(figure) > 5_000


def test_doubtful_matches_are_paler():
    x, y = series(30, seed=1), series(30, seed=2)
    figure = plot_matches(x, y, udtw.align(x, y, gamma=2.0))
    render(figure)
    [links] = of_kind(panels(figure)["matches"], LineCollection)
    grey = links.get_edgecolors()[:, :3].mean(1)
    assert (np.diff(links.get_array()) >= 0).all()
    assert (np.diff(grey) <= 0).all()
    assert grey[0] > grey[-1]


def test_fans_span_the_intervals(pair):
    x, y, alignment = pair
    found = alignment.matches(level=0.5, of="y")
    axes = panels(plot_matches(x, y, alignment, level=0.5, of="y", lines=9))["matches"]
    [fans] = of_kind(axes, PolyCollection)
    for path, low, high in zip(fans.get_paths(), found.low.tolist(), found.high.tolist(), strict=True):
        # The first point is the step itself, and the last one repeats it.
        np.testing.assert_allclose(path.vertices[1:-1, 0], np.arange(low, high + 1) / 11, atol=1e-6)
    assert not of_kind(panels(plot_matches(*pair, intervals=False))["matches"], PolyCollection)


def test_a_faulty_stretch_is_marked():
    rng = np.random.default_rng(0)
    ramp = np.linspace(0, 20, 80)
    noise = np.full(80, 0.01)
    noise[30:45] = 9.0
    x, y = ramp + np.sqrt(noise) * rng.standard_normal(80), ramp + 0.1 * rng.standard_normal(80)
    alignment = udtw.align(x, y, noise, 0.01, gamma=4.0)
    axes, doubtful = panels(plot_matches(x, y, alignment, lines=80))["matches"], alignment.matches().doubtful()
    marked = axes.patches
    assert len(marked) == len(doubtful)
    assert any(28 / 79 < one.get_x() + one.get_width() / 2 < 47 / 79 for one in marked)
    [fans] = of_kind(axes, PolyCollection)
    orange = [to_hex(color) == MODE_COLOR.lower() for color in fans.get_facecolor()]
    assert orange == [any(one.first <= step <= one.last for one in doubtful) for step in range(80)]


@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("sigma", [True, False])
def test_every_feature_is_a_line_with_its_band(features, sigma):
    x, y = series(10, features), series(8, features, seed=1)
    variances = (torch.ones(10), torch.ones(8)) if features == 1 else (torch.ones_like(x), torch.ones_like(y))
    figure = plot_matches(x, y, udtw.align(x, y, *variances), sigma=sigma)
    axes = panels(figure)["matches"]
    assert len(axes.lines) == 2 * features
    bands = [one for one in axes.collections if not isinstance(one, LineCollection) and type(one) is not PolyCollection]
    assert len(bands) == 2 * features * sigma
    render(figure)


def test_one_pair_of_a_padded_batch():
    x, y = series(3, 10, 2), series(3, 8, 2, seed=1)
    alignment = udtw.align(x, y, lengths_x=[10, 4, 7], lengths_y=[8, 6, 2])
    axes = panels(plot_matches(x, y, alignment, index=1))["matches"]
    assert [len(line.get_xdata()) for line in axes.lines] == [4, 4, 6, 6]
    assert len(of_kind(axes, LineCollection)[0].get_segments()) == 4


@pytest.mark.parametrize("of", ["x", "y"])
def test_a_query_stands_above_its_place_in_a_long_series(of):
    stream = series(300, seed=3)
    query = stream[120:140]
    figure = plot_matches(query, stream, udtw.align(query, stream, gamma=0.01, relax="y"), of=of)
    axes = panels(figure)["matches"]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), np.arange(120, 140))
    low, high = axes.get_xlim()
    assert 95 < low < 110
    assert 150 < high < 165
    render(figure)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (4, 1)])
def test_tiny_series(sizes):
    x, y = series(sizes[0]), series(sizes[1], seed=1)
    render(plot_matches(x, y, udtw.align(x, y)))


def test_constant_series():
    render(plot_matches(np.ones(6), np.ones(7), udtw.align(np.ones(6), np.ones(7))))


def test_wrong_input_is_named(pair):
    x, y, alignment = pair
    with pytest.raises(OptionError, match="lines must be 1 or more"):
        plot_matches(x, y, alignment, lines=0)
    with pytest.raises(OptionError, match="of must be"):
        plot_matches(x, y, alignment, of="z")
    with pytest.raises(OptionError, match=r"result of udtw\.align"):
        plot_matches(x, y, alignment.coupling)
    with pytest.raises(ShapeError, match="12 steps"):
        plot_matches(y, x, alignment)
    with pytest.raises(OptionError, match="level must lie"):
        plot_matches(x, y, alignment, level=1.0)


def test_figures_follow_dark_styles(pair):
    x, y, alignment = pair
    with matplotlib.style.context("dark_background"):
        figure = plot_matches(x, y, alignment)
        render(figure)
        assert paper() == "#000000"
        assert shade(1) == "#ffffff"
    [links] = of_kind(panels(figure)["matches"], LineCollection)
    grey = links.get_edgecolors()[:, :3].mean(1)
    assert (np.diff(grey) >= 0).all()  # sure ones are the brightest
    assert grey[-1] > 0.8
    assert (paper(), shade(0), shade(1)) == ("#ffffff", "#ffffff", "#000000")


def test_light_text_on_a_transparent_figure_means_dark_paper():
    with matplotlib.rc_context({"axes.facecolor": "none", "text.color": "white"}):
        assert paper() == DARK_PAPER
    with matplotlib.rc_context({"axes.facecolor": "none"}):
        assert paper() == "#ffffff"


def waves(gain=1.0, offset=0.0):
    rng = np.random.default_rng(0)
    time = np.linspace(0, 1, 60)
    clean = [np.sin(9 * time), np.sin(9 * time**1.3)]
    x, y = (one + 0.1 * rng.normal(size=60) for one in clean)
    return gain * x + offset, y


def test_a_match_brings_its_intervals_its_sentence_and_units():
    x, y = waves(gain=40, offset=500)
    match = udtw.match(x, y)
    figure = match.plot()
    axes = panels(figure)["matches"]
    assert figure.get_suptitle().replace("\n", " ") == match.trust.sentence
    [fans] = of_kind(axes, PolyCollection)
    assert len(fans.get_paths()) == 60
    for path, low, high in zip(fans.get_paths(), match.low, match.high, strict=True):
        np.testing.assert_allclose(path.vertices[1:-1, 0], np.arange(low, high + 1) / 59)
    upper, lower = (np.ptp(line.get_ydata()) for line in axes.lines)
    assert 0.5 < upper / lower < 2, "both are drawn in units of x"
    labels = [float(text.get_text().replace("\u2212", "-")) for text in axes.get_yticklabels()]
    assert min(labels) >= -2, "y keeps its own values"
    assert max(labels) > 500
    render(figure)


def test_a_lag_is_drawn_from_the_match_not_from_its_padded_alignment():
    rng = np.random.default_rng(0)
    base = np.convolve(rng.standard_normal(160), np.hanning(15), "same")
    x, y = base[20:120] + 0.1 * rng.normal(size=100), base[40:150] + 0.1 * rng.normal(size=110)
    match = udtw.match(x, y)
    assert match.noise.open_ends
    [links] = of_kind(panels(match.plot())["matches"], LineCollection)
    ends = np.array(links.get_segments())[:, :, 0]
    assert ends[:, 0].min() >= match.index.tolist().index(0) - 20.5
    assert np.abs(ends[:, 0] - ends[:, 1]).max() < 3, "partners lie below each other"


def test_without_a_match_no_lines_are_drawn():
    x, y = np.random.default_rng(0).standard_normal((2, 80)).cumsum(1)
    match = udtw.match(x, y)
    assert match.trust.verdict == "none"
    figure = match.plot()
    axes = panels(figure)["matches"]
    assert not of_kind(axes, LineCollection)
    assert not of_kind(axes, PolyCollection)
    assert not axes.patches
    assert figure.get_suptitle().startswith("No match")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["x ± σ", "y ± σ"]
    with pytest.raises(OptionError, match=r"udtw\.match\(y, x\)"):
        plot_matches(x, y, match.alignment, matches=match, of="y")
    with pytest.raises(ShapeError, match="80 steps"):
        plot_matches(x[:9], y, match.alignment, matches=match)


def test_given_matches_replace_those_of_the_alignment(pair):
    x, y, alignment = pair
    axes = panels(plot_matches(x, y, alignment, matches=alignment.matches(level=0.5), lines=100))["matches"]
    wanted = panels(plot_matches(x, y, alignment, level=0.5, lines=100))["matches"]
    for mine, theirs in zip(*(of_kind(one, PolyCollection)[0].get_paths() for one in (axes, wanted)), strict=True):
        np.testing.assert_array_equal(mine.vertices, theirs.vertices)


def test_the_same_gray_is_the_same_probability_in_every_plot():
    wave = np.sin(np.arange(20) / 3)
    for gamma in (0.01, 4.0):
        figure = plot_matches(wave, wave, udtw.align(wave, wave, gamma=gamma))
        [lines] = of_kind(panels(figure)["matches"], LineCollection)
        assert (lines.norm.vmin, lines.norm.vmax) == (0, 1)
        assert lines.norm(0.15) == pytest.approx(np.sqrt(0.15))
