"""A process that has imported what is slow to import (torch, Numba, pytest) and forks a child for every mutant."""

import json
import os
import subprocess
import sys
import threading
from typing import Any

from hardening.mutation.child import ROOT, SOURCES

_of_threads = threading.local()


class Server:
    """The parent's end: one line of JSON in, one line out."""

    def __init__(self, compiled: bool) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)]),
            "NUMBA_DISABLE_JIT": "0" if compiled else "1",
            "NUMBA_OPT": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": os.devnull,
        }
        command = [sys.executable, "-m", "hardening.mutation.server", "compiled" if compiled else "plain"]
        self.process = subprocess.Popen(
            command, env=environment, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    @classmethod
    def of_thread(cls, compiled: bool) -> "Server":
        """One server of each kind for each thread that asks."""
        name = f"compiled_{compiled}"
        if not hasattr(_of_threads, name):
            setattr(_of_threads, name, cls(compiled))
        return getattr(_of_threads, name)

    def failed_test(self, module: str, text: str, tests: list[str], limit: float) -> str:
        """The first test that fails with this text as ``module``; "" if none does."""
        assert self.process.stdin is not None, "it is a pipe"
        assert self.process.stdout is not None, "it is a pipe"
        request: dict[str, Any] = {"module": module, "text": text, "tests": tests, "limit": limit}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def serve(compiled: bool) -> None:
    """Answer requests until the parent closes the pipe."""
    import hypothesis  # noqa: F401
    import numba  # noqa: F401
    import pytest  # noqa: F401
    import torch  # noqa: F401

    from hardening.mutation.child import in_child

    names = () if compiled else ("simd", "atomics")
    plain = {f"udtw.kernels.{name}": (ROOT / f"hardening/mutation/plain_{name}.py").read_text() for name in names}
    for line in sys.stdin:
        request = json.loads(line)
        failed, _ = in_child(plain | {request["module"]: request["text"]}, request["tests"], request["limit"])
        print(json.dumps(failed), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1] == "compiled")
