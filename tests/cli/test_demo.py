"""`udtw demo`: the whole job at a small size, and a report that needs nothing else."""

import pytest

pytest.importorskip("typer")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

from experiments import published
from tests.cli.helpers import run_ok
from udtw._engine.metrics import METRICS


def test_demo_prints_tables_and_leaves_a_report(tmp_path):
    out = tmp_path / "new" / "out"
    shown = run_ok("demo", "--quick", "--out", out).stdout
    assert f"Open {out / 'report.html'}" in shown
    page = (out / "report.html").read_text()
    for heading in ("Align", "Average", "Classify", "Forecast", "Recognize", "Tell apart"):
        assert f"<h2>{heading}</h2>" in page
    for metric in published.UCR:
        assert f"<td>{METRICS[metric].label}</td>" in page
        assert METRICS[metric].label in shown
    # two series by DTW and uDTW, three classes of means, an alignment, forecasts, matched actions, uncertain images
    assert page.count("<img") == len(list(out.glob("figure-*.png"))) == 8
