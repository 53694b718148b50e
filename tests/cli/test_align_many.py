"""`udtw align` with more than two files: what `udtw.match_many` finds, from files."""

import csv

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("matplotlib")

import udtw
from tests.cli.helpers import fails, run_json, run_ok


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng, paths = tmp_path_factory.mktemp("many"), np.random.default_rng(0), []
    for k, speed in enumerate((0.9, 1.0, 1.1)):
        values = (1 + k) * np.sin(8 * np.linspace(0, 1, 50) ** speed) + 0.1 * rng.standard_normal(50)
        paths.append(folder / f"{k}.csv")
        np.savetxt(paths[-1], values, header="value", comments="")
    return paths


def test_prints_and_writes_what_match_many_finds(files, tmp_path):
    out, plot = tmp_path / "joint.csv", tmp_path / "joint.png"
    said = run_json("align", *files, "--out", out, "--plot", plot)
    joint = udtw.match_many([np.loadtxt(one, skiprows=1) for one in files])
    assert said["axis"] == files[joint.medoid].name
    assert [one["gain"] for one in said["series"]] == pytest.approx([one.gain for one in joint.noise])
    assert plot.stat().st_size > 1000
    with open(out, newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert len(rows) == 3 * len(joint.mean)
    assert rows[len(joint.mean)]["series"] == "1.csv"
    assert [int(one["low"]) for one in rows[: len(joint.mean)]] == joint.low[0].tolist()


def test_lines_for_people(files):
    shown = run_ok("align", *files).stdout.splitlines()
    assert shown[0].startswith("3 series on the axis of")
    assert shown[1].startswith("0.csv: Weak match: its partners explain")
    assert "of unrelated partners fit as well" in shown[1]


def test_options_of_pairs_are_refused(files):
    assert "More than two series" in fails(2, "align", *files, "--gamma", 1)
