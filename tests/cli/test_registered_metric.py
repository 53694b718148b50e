"""A metric that a user registers works by name in the commands."""

from typing import get_args

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("sklearn")

import udtw
from tests.cli.helpers import fails, run_json, run_ok
from udtw._engine.metrics import METRICS
from udtw.cli import options


@pytest.fixture
def manhattan():
    def manhattan(x, y, *, scale=1.0):
        """Sum of absolute differences."""
        return scale * (x - y).abs().sum((1, 2))

    yield udtw.register_metric("manhattan", manhattan, label="L1")
    del METRICS["manhattan"]


@pytest.fixture
def pair(tmp_path):
    x, y = np.random.default_rng(0).standard_normal((2, 7, 2))
    np.save(tmp_path / "a.npy", x)
    np.save(tmp_path / "b.npy", y)
    return tmp_path / "a.npy", tmp_path / "b.npy", float(np.abs(x - y).sum())


def test_align_prints_its_distance_only(manhattan, pair):
    a, b, expected = pair
    found = run_json("align", a, b, "--metric", "manhattan")
    assert found.pop("distance") == pytest.approx(expected)
    assert found.items() >= {"metric": "manhattan", "steps": [7, 7], "features": 2}.items()
    assert "matches" not in found
    assert "L1" not in run_ok("align", a, b, "--metric", "manhattan").stdout
    assert "has none" in fails(2, "align", a, b, "--metric", "manhattan", "--plot", "picture.png")
    assert "no uncertainty" in fails(2, "align", a, b, "--metric", "manhattan", "--sigma", "learn")


def test_classify(manhattan):
    found = run_json("classify", "cbf", "--metric", "manhattan")
    assert found["metric"] == "manhattan"
    assert found["accuracy"] > 0.7


def test_classify_by_an_elastic_metric():
    def warped(x, y, lengths_x=None, lengths_y=None):
        return udtw.dtw(x, y, lengths_x=lengths_x, lengths_y=lengths_y).sqrt()

    udtw.register_metric("warped", warped, elastic=True)
    try:
        same = [run_json("classify", "cbf", "--metric", name)["accuracy"] for name in ("warped", "dtw")]
    finally:
        del METRICS["warped"]
    assert same[0] == same[1]


def test_completion_and_errors_name_it_while_it_is_registered(manhattan, pair):
    message = fails(2, "align", *pair[:2], "--metric", "taxicab")
    assert "'taxicab' is not a metric" in message
    assert "manhattan" in message
    assert "manhattan" in get_args(options.Metric)[1].autocompletion()


def test_a_metric_that_is_not_registered_is_refused(pair):
    assert "--metric" in fails(2, "align", *pair[:2], "--metric", "manhattan")
