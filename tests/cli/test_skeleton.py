"""``udtw skeleton prepare``: its help, resuming after an interruption, and errors in one line."""

import pytest

pytest.importorskip("typer")

from tests.cli.helpers import fails, run_json, run_ok
from tests.skeleton.datasets.ntu_files import ntu_text, seen, standing
from udtw.skeleton.datasets import load_skeletons

NAMES = [f"S001C001P001R001A{a:03d}" for a in range(1, 5)]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in NAMES:
        (folder / f"{name}.skeleton").write_text(ntu_text(3, {"1": seen(standing(3))}))
    return folder


def prepare(data, *options):
    return ("skeleton", "prepare", "ntu60", "--data-dir", data, "--out", data.parent / "out", *options)


def test_help_teaches():
    assert "prepare" in run_ok("skeleton").stdout
    shown = run_ok("skeleton", "prepare", "--help").stdout
    assert "udtw skeleton prepare" in shown.split("Examples:")[1]


def test_prepare_and_load(data):
    result = run_json(*prepare(data))
    assert (result["clips"], result["left_out"], result["shards_written"]) == (4, 0, 1)
    assert load_skeletons("ntu60", data.parent / "out").names == tuple(NAMES)
    assert run_json(*prepare(data))["shards_kept"] == 1
    assert "Prepared ntu60" in run_ok(*prepare(data)).stdout


def test_a_broken_file_is_refused_or_left_out(data):
    (data / f"{NAMES[2]}.skeleton").write_text("2\n1\n")
    assert f"{NAMES[2]}.skeleton, line 2" in fails(1, *prepare(data))
    result = run_json(*prepare(data, "--on-error", "skip"))
    assert (result["clips"], result["left_out"]) == (3, 1)
    assert result["skipped"][0]["name"] == NAMES[2]
    assert f"left out {NAMES[2]}" in run_ok(*prepare(data, "--on-error", "skip")).stderr


def test_a_list_of_samples_to_ignore(data):
    (data / "missing.txt").write_text("\n".join(NAMES[:2]))
    assert run_json(*prepare(data, "--ignore", data / "missing.txt"))["clips"] == 2


@pytest.mark.parametrize(
    ("code", "words", "said"),
    [
        (2, ["skeleton", "prepare", "ntu", "--out", "x"], "choose one of"),
        (2, ["skeleton", "prepare", "ntu60"], "--out"),
        (2, ["skeleton", "prepare", "ntu60", "--out", "x", "--on-error", "ignore"], "--on-error"),
        (2, ["skeleton", "train-me"], "train-me"),
        (1, ["skeleton", "prepare", "ntu60", "--out", "x", "--data-dir", "no such folder"], "does not exist"),
    ],
)
def test_mistakes_are_one_line(code, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in fails(code, *words)
