"""The command as a whole: help with examples, few imports at start, errors in one line with an exit code."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("typer")

import udtw
from tests.cli.helpers import fails, run, run_ok

COMMANDS = (
    "demo", "align", "search", "explore", "barycenter", "classify", "cluster", "forecast", "predict", "reproduce",
    "report", "doctor",
)  # fmt: skip


def test_version():
    assert run_ok("--version").stdout == f"udtw {udtw.__version__}\n"


def test_without_a_command_it_shows_help():
    assert "Start with" in run().output


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_shows_examples(command):
    shown = run_ok(command, "--help").stdout
    assert "Examples:" in shown
    assert f"udtw {command}" in shown.split("Examples:")[1]


def test_help_needs_no_heavy_package():
    code = (
        "import sys, udtw.cli\ntry:\n    sys.argv = ['udtw', '--help']; udtw.cli.main()\n"
        "except SystemExit as end:\n    assert end.code == 0\n"
        "print(*{m.split('.')[0] for m in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numba", "scipy", "sklearn", "matplotlib", "joblib", "aeon", "dash", "flask", "pandas"} & set(
        done.stderr.split()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["alline"], "alline"),
        (["--verbose"], "--verbose"),
        (["align"], "argument"),
        (["align", "a.csv", "b.csv", "--gamma", "warm"], "--gamma"),
        (["align", "a.csv", "b.csv", "--metric", "manhattan"], "choose one of euclidean, dtw"),
        (["skeleton", "train", "synthetic", "--out", "m", "--metric", "manhattan"], "choose one of"),
        (["classify", "cbf", "--k", "0"], "--k"),
    ],
)
def test_wrong_usage_is_one_line_and_code_2(words, said):
    assert said in fails(2, *words)


def test_debug_shows_the_traceback(tmp_path):
    result = run("--debug", "align", tmp_path / "no.csv", tmp_path / "no.csv")
    assert isinstance(result.exception, udtw.UdtwError)


def test_an_unexpected_error_is_one_line_too(monkeypatch, tmp_path):
    def broken(*_):
        raise TypeError("a bug")

    monkeypatch.setattr("udtw.cli.files.read_series", broken)
    assert "TypeError: a bug (unexpected; `udtw --debug" in fails(1, "align", "a.csv", "b.csv")


def test_a_reader_that_leaves_early_is_no_error():
    """As `udtw … | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    code = "from udtw.cli import main; import sys; sys.argv = ['udtw', 'doctor', '--json']; main()"
    done = subprocess.run([sys.executable, "-c", code], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_letters_that_the_terminal_lacks_end_no_command():
    code, environment = "from udtw.cli import main; main()", {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, "align", "--help"], capture_output=True, check=False, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    assert b"? " in done.stdout


def test_ctrl_c_is_code_130(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("udtw.cli.files.read_series", interrupted)
    assert "Ctrl-C" in fails(130, "align", "a.csv", "b.csv")


def test_a_wrong_parameter_is_named_by_its_flag(tmp_path):
    (tmp_path / "a.csv").write_text("1\n2\n4\n")
    words = ("align", tmp_path / "a.csv", tmp_path / "a.csv")
    assert "--gamma must be a positive" in fails(2, *words, "--gamma", "-1")
    assert "--warp-penalty must be finite" in fails(1, *words, "--warp-penalty", "inf")
    assert "--k must lie between" in fails(2, "classify", "cbf", "--k", "700", "--metric", "euclidean")
