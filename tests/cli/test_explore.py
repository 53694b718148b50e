"""`udtw explore`: its help, and what it refuses."""

import socket
import subprocess
import sys

import pytest

pytest.importorskip("typer")
pytest.importorskip("dash")

from tests.cli.helpers import fails, run_ok


def test_help_names_the_options():
    shown = run_ok("explore", "--help", env={"COLUMNS": "120"}).stdout
    for option in ("--data-dir", "--port", "--no-browser", "--model", "--all-tabs"):
        assert option in shown


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "example.org"])
def test_other_machines_are_refused(host):
    assert "this machine only" in fails(2, "explore", "--host", host, "--no-browser")


def test_a_busy_port_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"Port {port} is in use" in fails(2, "explore", "--port", port, "--no-browser")


def test_a_folder_that_is_not_there_is_named(tmp_path):
    assert "does not exist" in fails(1, "explore", "--data-dir", tmp_path / "no", "--port", "0", "--no-browser")


def test_a_missing_dash_is_named():
    code = "import sys; sys.modules['dash'] = None; from udtw.cli import main; sys.argv[1:] = ['explore']; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'udtw[cli]'" in done.stderr
    assert "Traceback" not in done.stderr
