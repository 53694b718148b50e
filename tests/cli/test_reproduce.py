"""`udtw reproduce` and `udtw report`, on an experiment of three units: resume, failures, exit codes, reports."""

import sys
import types

import pytest

pytest.importorskip("typer")
pytest.importorskip("joblib")

from experiments import Store, Unit, registry
from experiments.command import parse_seeds
from experiments.experiment import Experiment
from tests.cli.helpers import fails, run, run_ok
from udtw.data import LabelledSeries, UCRData, cylinder_bell_funnel, save_npz
from udtw.errors import OptionError


@pytest.fixture
def toy(monkeypatch):
    """An experiment "toy" that notes what it computes, and fails or is interrupted on demand."""
    notes = types.SimpleNamespace(computed=[], asked=[], trouble={})

    def units(*, datasets, seeds, quick, data_dir):
        notes.asked.append((datasets, seeds, quick, data_dir))
        return [Unit("toy", "set", "method", seed, {"quick": quick}) for seed in seeds]

    def work(unit, data_dir):
        if unit.seed in notes.trouble:
            raise notes.trouble[unit.seed]
        notes.computed.append(unit.seed)
        return {"value": unit.seed + 0.5}

    def report(results, document):
        document.table("Values", ["seed", "value"], [[unit.seed, result["value"]] for unit, result in results])

    monkeypatch.setitem(registry.EXPERIMENTS, "toy", Experiment("toy", "A toy", units, work, report))
    return notes


def test_results_and_report_are_written(toy, tmp_path):
    result = run_ok("reproduce", "toy", "--out", tmp_path, "--data-dir", tmp_path)
    assert toy.computed == [0, 1, 2]
    assert toy.asked == [(None, [0, 1, 2], False, str(tmp_path))]
    assert len(list((tmp_path / "toy" / "units").glob("*.json"))) == 3
    assert "| 2 | 2.5 |" in (tmp_path / "toy" / "report.md").read_text()
    assert f"Open {tmp_path / 'toy' / 'report.html'}" in result.stderr.replace("\n", "")


def test_a_second_run_goes_on_where_the_first_was(toy, tmp_path):
    toy.trouble[1] = KeyboardInterrupt()
    stopped = run("reproduce", "toy", "--out", tmp_path)
    assert stopped.exit_code == 130
    assert toy.computed == [0]
    toy.trouble.clear()
    run_ok("reproduce", "toy", "--out", tmp_path)
    assert toy.computed == [0, 1, 2]
    run_ok("reproduce", "toy", "--out", tmp_path)
    assert toy.computed == [0, 1, 2], "all is there"


def test_a_failed_unit_is_code_1_and_the_rest_is_reported(toy, tmp_path):
    toy.trouble[1] = ValueError("no luck")
    failed = run("reproduce", "toy", "--out", tmp_path)
    assert failed.exit_code == 1
    assert "no luck" in failed.stderr
    assert toy.computed == [0, 2]
    assert "| 2 | 2.5 |" in (tmp_path / "toy" / "report.md").read_text()


def test_options_reach_the_experiment(toy, tmp_path):
    words = ["--seeds", "3,5-6", "--datasets", "A, B", "--quick", "--out", tmp_path]
    run_ok("reproduce", "toy", *words, env={"UDTW_DATA": ""})
    assert toy.asked == [(["A", "B"], [3, 5, 6], True, None)]
    assert (tmp_path / "toy-quick" / "report.html").is_file()
    assert not (tmp_path / "toy").exists(), "quick results are no results of the full experiment"


def test_some_methods_only(toy, tmp_path):
    run_ok("reproduce", "toy", "--methods", "method", "--seeds", "1", "--out", tmp_path)
    assert toy.computed == [1]
    assert "some of method; got other" in fails(2, "reproduce", "toy", "--methods", "method,other", "--out", tmp_path)


def test_report_of_one_folder_or_of_all(toy, tmp_path):
    run_ok("reproduce", "toy", "--out", tmp_path)
    page = tmp_path / "toy" / "report.html"
    for folder in (tmp_path, tmp_path / "toy"):
        page.unlink()
        assert run_ok("report", folder).stdout.strip() == str(page)
        assert page.is_file()


def test_report_of_what_is_not_there(tmp_path):
    assert "holds no results" in fails(1, "report", tmp_path)
    (tmp_path / "units").mkdir()
    assert "found none" in fails(1, "report", tmp_path)


def test_wrong_names_are_code_2(toy, tmp_path):
    assert "there are ucr" in fails(2, "reproduce", "imagenet", "--out", tmp_path)
    assert "--seeds" in fails(2, "reproduce", "toy", "--seeds", "one", "--out", tmp_path)


def test_seeds():
    assert parse_seeds(None) is None
    assert parse_seeds("0-2,7,1") == [0, 1, 2, 7]
    with pytest.raises(OptionError, match="names no seed"):
        parse_seeds("5-4")


def test_parts_of_an_experiment_belong_to_it():
    assert registry.name_of(Unit("ecg5000-tuning", "ECG5000", "udtw", 0)) == "ecg5000"
    assert registry.name_of(Unit("ecg", "ECG5000", "udtw", 0)) is None


def test_ucr_from_files_to_report(tmp_path):
    series = cylinder_bell_funnel(8, length=16, random_state=0)
    half = LabelledSeries(series.X[::2], series.y[::2]), LabelledSeries(series.X[1::2], series.y[1::2])
    save_npz(UCRData("Small", *half), tmp_path / "Small.npz")
    run_ok("reproduce", "ucr", "--data-dir", tmp_path, "--out", tmp_path / "runs", "--quick")
    assert len(Store(tmp_path / "runs" / "ucr-quick" / "units").results()) == 3 * 6
    assert "over 1 data sets" in (tmp_path / "runs" / "ucr-quick" / "report.md").read_text()


def test_the_help_names_every_experiment():
    shown = run_ok("reproduce", "--help", env={"COLUMNS": "300"}).stdout
    assert [name for name in registry.EXPERIMENTS if name not in shown] == []


def test_the_wheel_says_that_the_experiments_are_elsewhere(monkeypatch):
    monkeypatch.setattr(sys.modules["udtw.cli.app"], "_has_experiments", lambda: False)  # `udtw.cli.app` is the Typer
    assert "Clone the repository" in fails(1, "reproduce", "ucr")
