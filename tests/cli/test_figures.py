"""Figures of commands: lines break where steps are missing, and labels of times do not collide."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("typer")

from tests.cli.helpers import run_ok
from udtw.cli.figures import breaks_of, search_figure
from udtw.data.series_files import read_series
from udtw.data.table import ReadOptions
from udtw.timeseries import SubsequenceMatch

DAYS = [f"2024-05-{day:02d} 00:00:00+02:00" for day in range(1, 31)]


def text(days, empty=()):
    rows = [f"{day},{'' if at in empty else np.sin(at / 3)}" for at, day in enumerate(days)]
    return "\n".join(["day,load", *rows]).encode()


def test_lines_break_where_days_are_missing_or_steps_were_left_out():
    missing = read_series("a.csv", content=text([*DAYS[:9], *DAYS[12:]]))
    omitted = read_series("a.csv", ReadOptions(missing="omit"), text(DAYS, empty=(9, 10, 11)))
    for series in (missing, omitted):
        assert breaks_of(series).tolist() == [9]
        hit = SubsequenceMatch(2, 6, 0.0, 1.0, (2, 3), (5, 6), 0)
        figure = search_figure(series, [hit])
        line = figure.axes[0].get_lines()[0].get_ydata()
        assert np.flatnonzero(np.isnan(line)).tolist() == [9]
        figure.canvas.draw()
        boxes = [one.get_window_extent() for one in figure.axes[0].get_xticklabels()]
        assert len(boxes) >= 2
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
    assert breaks_of(read_series("a.csv", content=text(DAYS))).tolist() == []


def test_pictures_of_matches_and_forecasts_break_their_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_bytes(text([*DAYS[:18], *DAYS[21:]]))
    (tmp_path / "b.csv").write_bytes(text(DAYS))
    drawn = []
    for module in ("align", "forecast_file"):
        monkeypatch.setattr(f"udtw.cli.{module}.save_figure", lambda figure, path: drawn.append(figure))
    run_ok("align", "a.csv", "b.csv", "--metric", "dtw", "--plot", "m.png")
    run_ok("forecast", "a.csv", "--horizon", 5, "--max-epochs", 1, "--loss", "euclidean", "--plot", "f.png")
    matches, forecast = drawn
    broken = [np.isnan(line.get_ydata()).sum() for line in matches.axes[0].get_lines()]
    assert sorted(broken) == [0, 1]
    assert np.isnan(forecast.axes[0].get_lines()[0].get_ydata()).sum() == 1
