"""The figures of the paper, each by one command, on small data."""

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from experiments.figures import FIGURES, figures
from udtw.data import LabelledSeries, UCRData, save_npz
from udtw.errors import OptionError


def draw(*words):
    app = typer.Typer()
    app.command()(figures)
    return CliRunner().invoke(app, [str(word) for word in words])


def heartbeats(name, folder):
    rng = np.random.default_rng(0)
    X = np.sin(np.linspace(0, 6, 40) + rng.uniform(0, 1, (12, 1))) + 0.1 * rng.standard_normal((12, 40))
    part = LabelledSeries(X, np.arange(12) % 2)
    save_npz(UCRData(name, part, part), folder / f"{name}.npz")


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("paths", ["paths"]),
        ("interpolation", ["interpolation"]),
        ("barycenters", ["barycenters-cbf", "barycenters-syntheticcontrol"]),
        ("forecasts", ["forecasts-ecg200", "forecasts-ecg5000"]),
        ("image-pair", ["image-pair", "image-pair-patches", "image-pair-sigma"]),
        ("components", ["components"]),
    ],
)
def test_every_figure_is_drawn_by_one_command(name, files, tmp_path):
    data = []
    if name == "forecasts":
        for one in ("ECG200", "ECG5000"):
            heartbeats(one, tmp_path)
        data = ["--data-dir", tmp_path]
    done = draw(name, "--quick", "--out", tmp_path / "out", *data)
    assert done.exit_code == 0, done.output
    assert sorted(file.stem for file in (tmp_path / "out").iterdir()) == files


def test_an_unknown_figure_is_named():
    error = draw("path").exception
    assert isinstance(error, OptionError)
    assert all(name in str(error) for name in FIGURES)
