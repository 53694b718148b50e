"""Measurements that need a process of their own: start-up time and peak memory."""

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


class ProbeError(RuntimeError):
    """A probe process failed; the message carries what it wrote."""


def _probe(*arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.probe", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProbeError(f"{' '.join(command[1:])} failed with code {done.returncode}:\n{done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def memory(who: str, mode: str, length: int) -> dict[str, Any]:
    """Measure peak memory above the baseline; see `probe.memory`."""
    return _probe("memory", who, mode, length)


def startup(repeats: int) -> dict[str, Any]:
    """Return medians over fresh processes, after one more process that fills Numba's cache on disk."""
    _probe("startup")
    runs = [_probe("startup") for _ in range(repeats)]
    return {
        "median": {name: statistics.median(run[name] for run in runs) for name in runs[0]},
        "runs": runs,
    }
