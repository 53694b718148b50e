"""The server: a busy port is named, Ctrl-C ends it cleanly."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from udtw.errors import OptionError
from udtw.explorer.app import bind


def test_a_busy_port_is_reported():
    with bind("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OptionError, match=f"Port {port} is in use"):
            bind("127.0.0.1", port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_ports_out_of_range_are_refused(port):
    with pytest.raises(OptionError, match="port must be"):
        bind("127.0.0.1", port)


def test_it_listens_on_loopback_only():
    with bind("127.0.0.1", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
        assert listening.family == socket.AF_INET


@pytest.mark.timeout(300, method="signal")  # by exception, so that the server is stopped too
def test_ctrl_c_ends_it_cleanly():
    # A child inherits an ignored SIGINT (`nohup make test &`), and Python then installs no handler for it.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from udtw.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code, "explore", "--port", "0", "--no-browser"],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:  # fmt: skip
        try:
            for line in process.stderr:
                if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
                    break
            with urllib.request.urlopen(found[0], timeout=30) as page:
                assert b"udtw explorer" in page.read()
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
            assert process.wait(30) == 0
        finally:
            process.kill()
    assert "stopped" in rest
    assert "Traceback" not in rest
