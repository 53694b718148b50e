"""What the run had to work with: cores, versions, and how much of the machine others were using meanwhile."""

import importlib.metadata
import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

CORES = 2
PACKAGES = ("torch", "numba", "numpy", "tslearn", "aeon", "dtaidistance")


def use_cores(count: int = CORES) -> None:
    """Pin this process and its children to ``count`` cores.

    Torch, OpenMP and Numba all take their number of threads from this mask, so it has to be set before they are
    imported; it gives every library the same cores on a machine that has more.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads() -> int:
    """Use two torch threads if there are two cores; return the number in use."""
    import torch

    if cores() >= CORES:
        torch.set_num_threads(CORES)
    return torch.get_num_threads()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def facts() -> dict[str, Any]:
    """Return everything needed to judge the timings later."""
    import udtw

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores_used": cores(),
        "cores_of_machine": os.cpu_count(),
        "torch_threads": set_threads(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {"udtw": udtw.__version__} | {package: _version(package) for package in PACKAGES},
    }


class OtherLoad:
    """The share of the machine's cores that other processes use, since the object was made (Linux; else unknown)."""

    def __init__(self) -> None:
        self._start = self._now()

    @staticmethod
    def _now() -> tuple[float, float, float] | None:
        try:
            fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        except OSError:
            return None
        user, nice, system, _, _, irq, softirq, steal = (int(field) for field in fields)
        busy = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
        own = os.times()
        return time.perf_counter(), busy, own.user + own.system + own.children_user + own.children_system

    def share(self) -> float | None:
        """Return the share, between 0 (this process alone) and 1."""
        now = self._now()
        if now is None or self._start is None:
            return None
        elapsed, busy, own = (late - early for late, early in zip(now, self._start, strict=True))
        return min(1.0, max(0.0, (busy - own) / (elapsed * (os.cpu_count() or 1)))) if elapsed > 0 else None
