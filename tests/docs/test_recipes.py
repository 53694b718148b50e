"""The recipe "add a metric" of CONTRIBUTING.md, executed, and its metric used everywhere."""

import re
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import udtw
from udtw._engine.metrics import METRICS
from udtw.cli import app
from udtw.timeseries import KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier

RECIPES = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


def test_the_metric_of_the_recipe_works_everywhere(tmp_path):
    [code] = re.findall(r"## Add a metric.*?```python\n(.*?)```", RECIPES, re.DOTALL)
    assert len(code.splitlines()) < 10
    exec(compile(code, "CONTRIBUTING.md", "exec"), {})
    try:
        x = np.random.default_rng(0).standard_normal((8, 6))
        labels = np.arange(8) % 2
        expected = np.abs(x[:, None] - x[None]).max(2)
        assert np.allclose(udtw.pairwise(x, metric="largest_gap"), expected)
        nearest = KNeighborsTimeSeriesClassifier(metric="largest_gap").fit(x, labels)
        assert np.array_equal(nearest.predict(x), labels)
        prototypes = NearestCentroidTimeSeriesClassifier(metric="largest_gap", max_iter=2, random_state=0)
        assert prototypes.fit(x, labels).distances(x).shape == (8, 2)
        for name, series in (("a.csv", x[0]), ("b.csv", x[1])):
            np.savetxt(tmp_path / name, series)
        command = ["align", str(tmp_path / "a.csv"), str(tmp_path / "b.csv"), "--metric", "largest_gap", "--json"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        assert f"{expected[0, 1]:.6f}"[:6] in done.output
    finally:
        del METRICS["largest_gap"]
