"""`udtw reproduce` and `udtw report`, on an experiment of three units: resume, failures, exit codes, reports."""

import sys
import types

import pytest

pytest.importorskip("typer")
pytest.importorskip("joblib")

from tests.cli.helpers import fails, run, run_ok
from udtw.cli.options import parse_seeds
from udtw.errors import OptionError
from udtw.experiments import Unit, registry


@pytest.fixture
def toy(monkeypatch):
    """An experiment "toy" that notes what it computes, and fails or is interrupted on demand."""
    module = types.ModuleType("toy_experiment")
    module.TITLE = "A toy"
    module.SEEDS = [0, 1, 2]
    module.computed, module.asked, module.trouble = [], [], {}

    def units(*, datasets, seeds, quick, data_dir):
        module.asked.append((datasets, seeds, quick, data_dir))
        return [Unit("toy", "set", "method", seed, {"quick": quick}) for seed in seeds]

    def work(unit, data_dir):
        if unit.seed in module.trouble:
            raise module.trouble[unit.seed]
        module.computed.append(unit.seed)
        return {"value": unit.seed + 0.5}

    def report(results, document):
        document.table("Values", ["seed", "value"], [[unit.seed, result["value"]] for unit, result in results])

    module.units, module.work, module.report = units, work, report
    monkeypatch.setitem(sys.modules, "toy_experiment", module)
    monkeypatch.setitem(registry.EXPERIMENTS, "toy", "toy_experiment")
    return module


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
