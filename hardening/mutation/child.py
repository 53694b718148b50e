"""One mutant in one forked child: import udtw with the mutated text, run tests until one fails."""

import importlib.abc
import importlib.util
import io
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
EXAMPLES = 15
"""Examples of a property-based test at most."""


def file_of(module: str) -> Path:
    return SOURCES / (module.replace(".", "/") + ".py")


class Texts(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports the named modules from texts instead of files."""

    def __init__(self, texts: dict[str, str]):
        self.texts = texts

    def find_spec(self, fullname, path=None, target=None):
        if fullname not in self.texts:
            return None
        return importlib.util.spec_from_file_location(fullname, file_of(fullname), loader=self)

    def create_module(self, spec):
        return None

    def exec_module(self, module) -> None:
        name = module.__spec__.name
        exec(compile(self.texts[name], str(file_of(name)), "exec"), module.__dict__)


class Limited:
    """A pytest plugin: fewer examples, one thread."""

    def pytest_collection_modifyitems(self, items) -> None:
        from hypothesis import Phase, settings

        for item in items:
            function = getattr(item, "obj", None)
            given = getattr(function, "_hypothesis_internal_use_settings", None)
            if function is not None and given is not None:
                few = min(given.max_examples, EXAMPLES)
                phases = (Phase.explicit, Phase.generate)  # without shrinking: whether it fails is all we ask
                function._hypothesis_internal_use_settings = settings(given, max_examples=few, phases=phases)


class Outcome:
    """A pytest plugin: the first test that failed, and how long each took that passed within ``each`` seconds."""

    def __init__(self, each: float) -> None:
        self.failed = ""
        self.each = each
        self.times: dict[str, float] = {}

    def pytest_runtest_setup(self, item) -> None:
        if self.each:
            signal.setitimer(signal.ITIMER_PROF, self.each)

    def pytest_runtest_teardown(self, item) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid
        if report.when == "call" and report.passed:
            self.times[report.nodeid] = report.duration

    def pytest_collectreport(self, report) -> None:
        if report.failed and not self.failed:
            self.failed = f"import of {report.nodeid}"


def _too_long(*_) -> None:
    raise TimeoutError


def run_tests(texts: dict[str, str], tests: list[str], each: float = 0) -> tuple[str, dict[str, float]]:
    """The first failing test ("" if none), and the seconds of each that passed; to be called in a fresh child.

    With ``each``, all tests are run and given so many seconds each; otherwise the first failure is the last test.
    """
    import numpy as np
    import pytest
    import torch

    sys.meta_path.insert(0, Texts(texts))
    torch.set_num_threads(1)
    np.seterr(all="ignore")  # compiled code does not warn either
    signal.signal(signal.SIGPROF, _too_long)
    outcome = Outcome(each)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    options = ["-p", "no:cacheprovider", "--durations=0", "-q", "-m", "not slow"]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        code = pytest.main([*options, *([] if each else ["-x"]), *tests], plugins=[outcome, Limited()])
    return outcome.failed or ("" if code == 0 else f"pytest ended with {int(code)}"), outcome.times


def in_child(texts: dict[str, str], tests: list[str], limit: float, each: float = 0) -> tuple[str, dict[str, float]]:
    """`run_tests` in a fork of this process, ended after ``limit`` seconds of processor time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.close(reader)
        seconds = max(1, int(limit))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))
        answer = json.dumps(run_tests(texts, tests, each))
        with os.fdopen(writer, "w") as out:
            out.write(answer)
        os._exit(0)
    os.close(writer)
    return _answer_of(child, reader, limit)


def _answer_of(child: int, reader: int, limit: float) -> tuple[str, dict[str, float]]:
    received = b""
    ends = time.monotonic() + 4 * limit  # a child that sleeps uses no processor time
    while time.monotonic() < ends:
        ready, _, _ = select.select([reader], [], [], 1.0)
        if ready:
            piece = os.read(reader, 2**16)
            if not piece:
                break
            received += piece
    else:
        os.killpg(child, signal.SIGKILL)
    os.close(reader)
    _, status = os.waitpid(child, 0)
    if not received:
        died = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        return ("time limit" if died in (signal.SIGXCPU, signal.SIGKILL) else f"child ended with {status}"), {}
    failed, times = json.loads(received)
    return failed, times
