"""What commands write: never over an input or into a foreign folder, and a full disk does not lose the result."""

import errno
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("sklearn")

import udtw
from tests.cli.helpers import fails, run, run_json, run_ok
from udtw._engine.metrics import METRICS
from udtw._io import atomic

QUICK = ("--horizon", 3, "--loss", "euclidean", "--max-epochs", 1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{np.sin(step / 3):.3f},{step % 5}\n" for step in range(40)]
    (tmp_path / "x.csv").write_text("temp,hum\n" + "".join(rows))
    (tmp_path / "y.csv").write_text("temp,hum\n" + "".join(rows))
    udtw.register_metric("largest_gap", lambda x, y: (x - y).abs().amax((1, 2)))
    yield tmp_path
    del METRICS["largest_gap"]


ALIGN = ("align", "x.csv", "y.csv", "--metric", "euclidean")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*ALIGN, "--out", "x.csv"], "--out x.csv is one of the files that are read"),
        ([*ALIGN, "--out", "./y.csv"], "--out y.csv is one of"),
        (["align", "x.csv", "x.csv", "y.csv", "--out", "y.csv"], "--out y.csv is one of"),
        (["predict", "saved", "x.csv", "--out", "saved/config.json"], "--out saved/config.json is one of"),
        (["demo", "--quick", "--out", "mine"], "--out mine holds other files"),
        (["search", "x.csv", "y.csv", "--out", "y.csv"], "--out y.csv is one of"),
        (["cluster", "x.csv", "--out", "a.csv", "--centers", "a.csv"], "--centers and --out are the same file"),
        (["classify", "--train", "x.csv", "--test", "y.csv", "--out", "x.csv"], "--out x.csv is one of"),
        (["forecast", "x.csv", *QUICK, "--out", "x.csv"], "--out x.csv is one of"),
        (["barycenter", "x.csv", "--out", "x.csv"], "--out x.csv is one of"),
        ([*ALIGN, "--out", "x.csv/a.csv"], "is not a folder that you may write to"),
        (["forecast", "x.csv", *QUICK, "--model", "mine"], "mine holds other files (config.json)"),
        (["forecast", "x.csv", *QUICK, "--model", "x.csv"], "--model x.csv is one of"),
    ],
)
def test_nothing_of_the_user_is_overwritten(folder, words, said):
    for name in ("mine", "saved"):
        (folder / name).mkdir()
        (folder / name / "config.json").write_text('{"mine": true}')
    before = {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    assert said in fails(2, *words)
    assert before == {path.name: path.read_bytes() for path in folder.glob("*.csv")}
    assert (folder / "mine" / "config.json").read_text() == '{"mine": true}'


def test_force_overwrites(folder):
    run_ok(*ALIGN, "--out", "x.csv", "--force")
    assert (folder / "x.csv").read_text().startswith("i,j,")


def test_a_full_disk_names_the_path_and_prints_the_result(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)
    result = run(*ALIGN, "--out", "out.csv", "--json")
    assert result.exit_code == 1
    assert "error: --out out.csv cannot be written: No space left on device" in result.stderr
    assert len(json.loads(result.stdout)["matches"]) == 40
    assert not (folder / "out.csv").exists()


def test_a_forecaster_is_given_columns_by_name(folder):
    run_ok("forecast", "x.csv", *QUICK, "--model", "model")
    run_ok("forecast", "x.csv", *QUICK, "--model", "model")  # its own folder
    wanted = run_json("predict", "model", "x.csv")["forecast"]
    lines = [",".join(reversed(line.split(","))) for line in (folder / "x.csv").read_text().split()]
    (folder / "turned.csv").write_text("\n".join(lines))
    assert run_json("predict", "model", "turned.csv")["forecast"] == wanted
    (folder / "other.csv").write_text("\n".join(["temp,press", *lines[1:]]))
    assert "has no column hum" in fails(1, "predict", "model", "other.csv")
    assert run_json("predict", "model", "other.csv", "--columns", "press,temp")["columns"] == ["temp", "hum"]


def test_files_with_some_names_in_common_are_not_compared_by_position(folder):
    (folder / "z.csv").write_text((folder / "y.csv").read_text().replace("temp,hum", "hum,press"))
    assert "z.csv has no column temp" in fails(1, "align", "x.csv", "z.csv", "--metric", "largest_gap")


@pytest.mark.parametrize("seconds", [0.15, 0.6])
def test_ctrl_c_in_the_first_second_is_code_130(folder, seconds):
    code = "import sys, udtw_command; sys.argv[1:] = ['align', 'x.csv', 'y.csv']; print('begun', flush=True);"
    command = [sys.executable, "-c", f"{code} udtw_command.main()"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.readline()
    time.sleep(seconds)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert said.splitlines() == ["error: stopped by Ctrl-C"]
