"""Run in a fresh process by `fresh`: measure one thing there and print it as JSON.

``python -m benchmarks.probe memory ours forward 4096`` or ``python -m benchmarks.probe startup``.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

MB = 1e6


def _status(field: str) -> int | None:
    """Read Linux' own account of this process in bytes; None elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(field)), None)


class PeakMemory:
    """Peak resident memory above what was resident when the object was made.

    Linux: the high-water mark VmHWM, reset here. ``ru_maxrss`` would not do: a child inherits the peak of the process
    that started it, and the peak of the imports would hide what comes after. Elsewhere ``ru_maxrss`` has to serve.
    """

    def __init__(self) -> None:
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self.method = "VmHWM"
        except OSError:
            self.method = "ru_maxrss"
        self._before = self._peak()

    def _peak(self) -> int:
        if self.method == "VmHWM" and (peak := _status("VmHWM")) is not None:
            return peak
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

    def above_baseline(self) -> float:
        """Return the peak in MB (10⁶ bytes)."""
        return (self._peak() - self._before) / MB


def memory(who: str, mode: str, length: int) -> dict[str, object]:
    """Measure a pair of 1-D series with variances: ``mode`` "forward" (distance only) or "backward" (training step)."""
    import torch

    from benchmarks import machine, peers
    from benchmarks.data import Batch
    from benchmarks.timing import Call

    machine.set_threads()

    def call(batch: Batch) -> None:
        if mode == "forward":
            import udtw

            with torch.no_grad():
                _ = udtw.align(*batch.leaves, weighting="precision").distance
        else:
            steps: dict[str, Callable[[Batch], Call]] = {
                "ours": partial(peers.train_ours, weighting="precision"),
                "tslearn": peers.train_tslearn,
                "plain": peers.train_plain,
            }
            steps[who](batch)()

    batch = Batch.make(1, length, 0)
    for seed in range(2):
        call(Batch.make(1, 16, seed))  # loads and compiles what there is to compile
    peak = PeakMemory()
    call(batch)
    return {"megabytes": peak.above_baseline(), "method": peak.method}


def startup() -> dict[str, object]:
    """Time ``import torch``, ``import udtw`` after it, and the first training step in float32, in seconds."""
    begin = time.perf_counter()
    import torch

    with_torch = time.perf_counter()
    import udtw

    with_udtw = time.perf_counter()
    x, y = torch.randn(4, 32, 1, requires_grad=True), torch.randn(4, 32, 1, requires_grad=True)
    var_x, var_y = (torch.rand(4, 32) + 0.5).requires_grad_(), (torch.rand(4, 32) + 0.5).requires_grad_()
    before_call = time.perf_counter()
    udtw.align(x, y, var_x, var_y).loss.sum().backward()
    after_call = time.perf_counter()
    return {
        "import_torch": with_torch - begin,
        "import_udtw": with_udtw - with_torch,
        "first_call": after_call - before_call,
    }


if __name__ == "__main__":
    what, *details = sys.argv[1:]
    print(json.dumps(startup() if what == "startup" else memory(details[0], details[1], int(details[2]))))
