"""`udtw doctor`: what is installed, and whether it works."""

import json

import pytest

pytest.importorskip("typer")

import numpy
import torch

import udtw
from tests.cli.helpers import run, run_json, run_ok
from udtw.cli.doctor import kernel_uses


def test_a_working_machine():
    report = run_json("doctor")
    assert (report["udtw"], report["torch"], report["numpy"]) == (
        udtw.__version__,
        torch.__version__,
        numpy.__version__,
    )
    assert report["devices"].keys() >= {"cpu"}
    assert set(report["backends"]) == set(udtw.available_backends())
    assert report["checks"]["numba on cpu"] == report["checks"]["portable on cpu"] == "passed"
    assert report["threads"]["cores"] >= 1
    assert report["caches"]["kernels"]["writable"] is True
    assert report["extras"]["plots"] == "installed"
    assert "test" not in report["extras"]
    assert report["problems"] == []


def test_a_table_for_people():
    shown = run_ok("doctor").stdout
    for text in ("udtw", "backends: numba", "checks: numba on cpu", "caches: kernels", "extras: timeseries"):
        assert text in shown


def test_what_does_not_work_is_a_problem(monkeypatch, tmp_path):
    monkeypatch.setattr("udtw.cli.doctor.self_check", lambda device, name: "free energy differs by 0.5")
    monkeypatch.setattr("udtw.available_backends", lambda: {"numba": "a broken LLVM", "portable": None})
    monkeypatch.setattr("os.access", lambda *_: False)
    monkeypatch.setenv("UDTW_CACHE", str(tmp_path / "cache"))
    result = run("doctor", "--json")
    assert result.exit_code == 1
    problems = json.loads(result.stdout)["problems"]
    assert "The backend numba is not available: a broken LLVM." in problems
    assert "The check of numba on cpu failed: free energy differs by 0.5." in problems
    assert (
        f"The cache folder {tmp_path / 'cache'} (downloads) is not writable; set UDTW_CACHE to one that is." in problems
    )
    assert result.stderr.count("error: ") == len(problems)


def test_missing_packages_of_extras_are_named(monkeypatch):
    requirements = ["numpy>=1", "one>=2; extra == 'small'", "udtw[small]; extra == 'large'", "numpy; extra == 'large'"]
    monkeypatch.setattr("importlib.metadata.requires", lambda _: requirements)
    assert run_json("doctor")["extras"] == {"small": "missing: one", "large": "missing: one"}


def test_kernels_are_compiled_beforehand(monkeypatch):
    used = []
    monkeypatch.setattr("udtw.cli.doctor.kernel_uses", lambda: iter([("dtw", lambda: used.append("dtw"))]))
    assert run_json("doctor", "--warm-up")["problems"] == []
    assert used == ["dtw"]
    monkeypatch.undo()
    names = {name for name, use in kernel_uses() if callable(use)}
    assert {"dtw", "short pairs", "gaps", "samples"} <= names
