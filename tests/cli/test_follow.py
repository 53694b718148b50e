"""``udtw follow``: a line per step as it arrives, and named errors for what is not a step."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.cli.helpers import run, run_ok


def rows(steps=60):
    walk = np.cumsum(np.random.default_rng(0).standard_normal((steps, 2)), 0)
    return [f"{i},{a:.4f},{b:.4f}" for i, (a, b) in enumerate(walk)]


@pytest.fixture
def reference(tmp_path):
    path = tmp_path / "cycle.csv"
    path.write_text("time,temp,force\n" + "\n".join(rows()))
    return path


def test_each_step_of_a_file_is_answered(reference, tmp_path):
    stream = tmp_path / "stream.csv"
    stream.write_text("force;temp\n" + "\n".join(";".join(one.split(",")[:0:-1]) for one in rows()[:40]))
    done = run_ok("follow", reference, stream, "--lag", "5")
    lines = [one.split(",") for one in done.stdout.splitlines()]
    assert lines[0][:5] == ["step", "index", "expected", "low", "high"]
    assert len(lines) == 41
    assert abs(float(lines[-1][2]) - 39) < 1.5
    assert abs(float(lines[-1][lines[0].index("smoothed")]) - 34) < 1.5
    assert "stopped after 40 steps" in done.stderr


def test_a_pipe_is_answered_while_it_runs_and_stopped_by_ctrl_c(reference):
    # A child inherits an ignored SIGINT (`nohup make test &`), and Python then installs no handler for it.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from udtw.cli import main; "
        "sys.argv = ['udtw', 'follow', sys.argv[1], '-', '--json']; main()"
    )
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, str(reference)], **pipe, env=os.environ) as process:
        for number, row in enumerate(rows()[:5]):
            process.stdin.write(row.split(",", 1)[1] + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["step"] == number  # although the pipe is still open
        process.send_signal(signal.SIGINT)
        process.wait(20)
        assert process.returncode == 130
        assert "Ctrl-C" in process.stderr.read()


def test_a_stream_of_another_piece_is_reported(reference, tmp_path):
    stream = tmp_path / "stream.csv"
    then = [f"0,{5 * (-1) ** i},{40 + i}" for i in range(30)]
    stream.write_text("\n".join(one.split(",", 1)[1] for one in rows()[:30] + then))
    assert "no longer fits, since step 30" in run_ok("follow", reference, stream).stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,2\n1,2,3\n", "line 2: 3 value(s), expected 2 (temp, force)"),
        ("1,2\n1,x\n", "line 2: 'x' is not a number"),
        ("temp,other\n1,2\n", "no column force of the reference"),
        ("\n", "holds no step"),
    ],
)
def test_what_is_not_a_step_is_named(reference, tmp_path, text, message):
    stream = tmp_path / "stream.csv"
    stream.write_text(text)
    done = run("follow", reference, stream)
    assert done.exit_code == 1
    assert message in done.stderr
