"""Fuzzing notices whatever is not a value or a named error, goes on after it, and can be stopped and continued."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.toy import COUNT

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX processes")


def python(*arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def tally_of(*arguments):
    done = python("tests.robustness.toy", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def inputs(tally):
    return tally["accepted"] + sum(tally["refused"].values()) + sum(f["count"] for f in tally["findings"].values())


def test_values_and_named_errors_are_no_findings():
    tally = tally_of("none")
    assert tally["findings"] == {}
    assert tally["accepted"] > 0
    assert tally["refused"]["DataError"] > 0
    assert inputs(tally) == tally["done"] == COUNT


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("error", "!KeyError in"),
        ("value", "a valid value"),
        ("crash", "the process ended: SIGABRT"),
        ("hang", "more than 0.5 s"),
        ("memory", "more than 67108864 bytes"),
    ],
)
def test_every_other_outcome_is_found_and_survived(fault, said):
    tally = tally_of(fault)
    assert any(said in what for what in tally["findings"]), tally["findings"]
    assert inputs(tally) == tally["done"] == COUNT
    assert tally["refused"]["DataError"] > 0


def test_a_stopped_run_goes_on_and_ends_alike(tmp_path):
    whole = tally_of("error")
    assert tally_of("error", tmp_path / "tally.json", 250)["done"] == 250
    again = tally_of("error", tmp_path / "tally.json")
    del whole["seconds"], again["seconds"]
    assert again == whole


def test_three_hundred_inputs_for_every_parser(tmp_path):
    done = python("hardening", "fuzz", "--count", 300, "--seed", 1, "--out", tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    tallies = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert len(tallies) >= 34
    for tally in tallies:
        assert tally["accepted"] > 0, tally
        assert sum(tally["refused"].values()) > 0, tally


def test_an_unknown_parser_is_named():
    done = python("hardening", "fuzz", "--parser", "nonsense")
    assert done.returncode == 2
    assert "There is no parser nonsense; there are ucr-tsv" in done.stdout
