"""`plot_forecast`: one panel per series and feature, lines at the given values, a band if uncertainty is known."""

import numpy as np
import pytest
import torch

from udtw.errors import LengthError, OptionError, ShapeError

pytest.importorskip("matplotlib")

from udtw.plots import plot_forecast

from .figures import render

RNG = np.random.default_rng(0)
PAST, FUTURE = RNG.normal(size=(2, 8)), RNG.normal(size=(2, 5))


def line(axes, label):
    return next(drawn for drawn in axes.lines if drawn.get_label() == label)


def test_past_truth_and_forecast_follow_each_other_in_time():
    figure = plot_forecast(PAST, FUTURE, FUTURE + 1)
    assert [axes.get_title() for axes in figure.axes] == ["series 0", "series 1"]
    for i, axes in enumerate(figure.axes):
        np.testing.assert_allclose(line(axes, "observed").get_ydata(), PAST[i])
        # Both begin at the last observed step.
        for label, values in (("truth", FUTURE[i]), ("forecast", FUTURE[i] + 1)):
            np.testing.assert_allclose(line(axes, label).get_ydata(), [PAST[i, -1], *values])
            np.testing.assert_allclose(line(axes, label).get_xdata(), np.arange(7, 13))
    assert render(figure) > 5_000


def test_the_band_has_the_requested_width():
    figure = plot_forecast(PAST[0], FUTURE[0], FUTURE[0], np.full(5, 0.5), width=3)
    [band] = figure.axes[0].collections
    vertices = band.get_paths()[0].vertices
    assert vertices[:, 1].max() == pytest.approx(FUTURE[0].max() + 1.5)
    assert vertices[:, 1].min() == pytest.approx(FUTURE[0].min() - 1.5)
    assert "± 3 std" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_intervals_are_drawn_between_their_bounds():
    figure = plot_forecast(PAST[0], FUTURE[0], FUTURE[0], interval=(FUTURE[0] - 1, FUTURE[0] + 4), level=0.9)
    [band] = figure.axes[0].collections
    vertices = band.get_paths()[0].vertices
    assert vertices[:, 1].max() == pytest.approx(FUTURE[0].max() + 4)
    assert vertices[:, 1].min() == pytest.approx(FUTURE[0].min() - 1)
    assert "90 % interval" in [text.get_text() for text in figure.legends[0].get_texts()]
    with pytest.raises(OptionError, match="interval"):
        plot_forecast(PAST[0], None, FUTURE[0], FUTURE[0], interval=(FUTURE[0], FUTURE[0]))
    with pytest.raises(ShapeError, match="pair"):
        plot_forecast(PAST[0], None, FUTURE[0], interval=(FUTURE[0],))


def test_several_forecasts_look_different():
    figure = plot_forecast(PAST, FUTURE, {"a": FUTURE, "b": -FUTURE}, {"b": np.ones_like(FUTURE)})
    axes = figure.axes[0]
    a, b = line(axes, "a"), line(axes, "b")
    assert a.get_color() != b.get_color()
    assert a.get_linestyle() != b.get_linestyle() or a._dash_pattern != b._dash_pattern
    assert [band.get_label() for band in axes.collections] == ["b ± 2 std"]


def test_each_feature_has_its_own_panel_and_titles_may_be_given():
    past, future = torch.zeros(2, 8, 2), torch.zeros(2, 5, 2, requires_grad=True)
    figure = plot_forecast(past, None, future)
    assert [axes.get_title() for axes in figure.axes[:2]] == ["series 0, feature 0", "series 0, feature 1"]
    named = plot_forecast(past, None, future, titles="wxyz")
    assert [axes.get_title() for axes in named.axes[:4]] == list("wxyz")
    assert render(named) > 5_000


def test_shapes_that_do_not_fit_are_named_errors():
    with pytest.raises(ShapeError, match="truth"):
        plot_forecast(PAST, FUTURE[:, :3], FUTURE)
    with pytest.raises(ShapeError, match="forecast 'a'"):
        plot_forecast(PAST, FUTURE, {"a": FUTURE[:1]})
    with pytest.raises(ShapeError, match="std of"):
        plot_forecast(PAST, FUTURE, FUTURE, FUTURE[0])
    with pytest.raises(ShapeError, match="unknown forecasts"):
        plot_forecast(PAST, FUTURE, FUTURE, {"b": FUTURE})
    with pytest.raises(ShapeError, match="observed"):
        plot_forecast(np.zeros((2, 0)), FUTURE, FUTURE)
    with pytest.raises(LengthError, match="forecast"):
        plot_forecast(PAST, FUTURE, {})


def test_steps_are_labelled_by_their_times():
    days = [f"2024-01-{day:02d}" for day in range(1, 14)]
    figure = plot_forecast(PAST, None, FUTURE, times=[days, days[::-1]])
    for axes, own in zip(figure.axes, (days, days[::-1]), strict=True):
        labels = [tick.get_text() for tick in axes.get_xticklabels()]
        assert labels == [own[int(place)] for place in axes.get_xticks()]
        assert labels[0] == own[0]
        assert labels[-1] == own[-1]
        assert sum(map(len, labels)) <= 45
        assert axes.get_xlabel() == ""
    assert plot_forecast(PAST, None, FUTURE, times=days).axes[1].get_xticklabels()[0].get_text() == days[0]
    with pytest.raises(ShapeError, match="13 labels"):
        plot_forecast(PAST, None, FUTURE, times=days[:-1])
