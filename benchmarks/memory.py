"""``python -m benchmarks.memory``: what udtw expects an answer to take, against the peak that the system counted.

Every case runs in a forked child of its own; Linux only. The child's estimate is the largest one that it was checked
against, its peak is how far the resident memory rose.
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import udtw
from udtw._io import memory
from udtw.nn import PairSigmaNet
from udtw.timeseries import KNeighborsTimeSeriesClassifier

Case = Callable[[], Any]


def _series(count: int, steps: int, dim: int = 1, grad: bool = False, dtype: torch.dtype = torch.float32):
    torch.manual_seed(0)
    return torch.randn(count, steps, dim, dtype=dtype).requires_grad_(grad)


def _cost(count: int, rows: int, columns: int, grad: bool = False):
    return _series(count, rows, columns, grad).detach().square().requires_grad_(grad)


def _learn(value: torch.Tensor) -> None:
    value.sum().backward()


def cases() -> dict[str, Case]:
    """List a memory-intensive case of every kind of answer, a few hundred megabytes each."""
    a, b = _series(64, 800), _series(64, 700)
    ready, learned = _cost(64, 800, 700), _cost(64, 800, 700, grad=True)
    wide, other = _series(64, 800, 32, grad=True), _series(64, 700, 32)
    small, left = _cost(16, 500, 400), _cost(16, 500, 400, grad=True)
    x, y = _series(16, 500), _series(16, 400)
    long, more = _series(2, 12_000, grad=True), _series(2, 12_000)
    pair = PairSigmaNet(1)
    table = np.random.default_rng(0).standard_normal((9000, 2)).astype(np.float32)
    neighbors = KNeighborsTimeSeriesClassifier(sigma=None).fit(table[:3000], np.arange(3000) % 2)
    noise = torch.full((64, 800, 700), 1.5, requires_grad=True)
    return {
        "align(d=1).coupling 64×800×700": lambda: udtw.align(a, b).coupling,
        "align(d=32).loss, gradient, 64×800×700": lambda: _learn(udtw.align(wide, other).loss),
        "align(cost).loss, gradient, 64×800×700": lambda: _learn(udtw.align(None, None, cost=learned).loss),
        "align(joint variance).loss, gradient, 64×800×700": lambda: _learn(udtw.align(a, b, variance=noise).loss),
        "align(d=1).loss, gradient, 2×12000×12000": lambda: _learn(udtw.align(long, more).loss),
        "dtw(d=1), gradient, 64×800×700": lambda: _learn(udtw.dtw(a.clone().requires_grad_(), b)),
        "PathDistribution.mode 64×800×700": lambda: udtw.PathDistribution(ready).mode(),
        "PathDistribution.sample 64×800×700": lambda: udtw.PathDistribution(ready).sample(1, 0),
        "PathDistribution.expect(2 fields) 64×800×700": lambda: udtw.PathDistribution(ready).expect(ready, ready),
        "portable loss 16×500×400": lambda: udtw.align(x, y, backend="portable").loss,
        "portable loss, gradient, 16×500×400": lambda: _learn(
            udtw.align(None, None, cost=left, backend="portable").loss
        ),
        "portable coupling 16×500×400": lambda: udtw.PathDistribution(small, backend="portable").coupling,
        "portable coupling, gradient, 16×500×400": lambda: _learn(
            udtw.PathDistribution(left, backend="portable").coupling.square()
        ),
        "portable mode 16×500×400": lambda: udtw.PathDistribution(small, backend="portable").mode(),
        "portable sample 16×500×400": lambda: udtw.PathDistribution(small, backend="portable").sample(1, 0),
        "portable dtw, gradient, 16×500×400": lambda: _learn(udtw.dtw(None, None, cost=left, backend="portable")),
        "PairSigmaNet 16×500×400": lambda: pair(x, y),
        "nearest neighbors 3000 in 3000, udtw": lambda: neighbors.kneighbors(table[:3000]),
        "pairwise 9000×9000, dtw": lambda: udtw.pairwise(table, metric="dtw"),
        "pairwise 9000×9000, parts": lambda: udtw.pairwise(table, metric="udtw", return_parts=True),
        "pairwise 9000×9000, divergence": lambda: udtw.pairwise(table, metric="soft_dtw_divergence"),
    }


def _peak() -> int:
    """Return the peak resident memory so far in bytes."""
    status = Path("/proc/self/status").read_text()
    [found] = re.findall(r"VmHWM:\s+(\d+) kB", status)
    return int(found) * 1024


def measure(case: Case) -> tuple[int, int]:
    """Return (expected, counted) bytes of one case, in a child of this process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        expected = [0]
        memory.free_bytes = lambda: 2**62
        memory.UNCHECKED_BYTES = 0
        check = memory.refuse_if_too_large

        def note(needed: int, what: str, advice: str) -> None:
            expected.append(needed)
            check(needed, what, advice)

        for name, module in list(sys.modules.items()):
            if name.startswith("udtw") and hasattr(module, "refuse_if_too_large"):
                setattr(module, "refuse_if_too_large", note)  # noqa: B010
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts from what is resident now
        before = _peak()
        kept = case()
        os.write(writer, json.dumps([max(expected), _peak() - before, kept is None]).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    expected, counted, _ = json.loads(text)
    return expected, counted


def draw(rows: dict[str, dict[str, int]], path: Path) -> None:
    """Save a figure of expected against counted memory, one point per answer."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.8), layout="constrained")
    names = list(rows)[::-1]
    for key, marker, size in (("expected", "|", 9), ("counted", "o", 4)):
        axes.plot([rows[name][key] / 2**20 for name in names], names, marker, label=key, markersize=size)
    axes.set(xlabel="MiB", xlim=(0, None))
    axes.tick_params(axis="y", labelsize=9)
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="upper right")
    figure.savefig(path, dpi=140)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument("--plot", type=Path, help="also draw the figures into this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tiny = _cost(2, 5, 5, grad=True)
    _learn(udtw.align(None, None, cost=tiny).loss)  # compile before the fork
    _learn(udtw.align(_series(2, 5, 1, grad=True), _series(2, 5), variance=tiny.detach() + 1).loss)
    _learn(udtw.align(None, None, cost=tiny, backend="portable").loss)  # what this imports is not counted either
    paths = udtw.PathDistribution(tiny.detach())
    (paths.coupling, paths.mode(), paths.sample(1, 0), paths.expect(tiny))
    udtw.pairwise(np.ones((2, 3), np.float32), metric="dtw")
    table = Table("answer", "expected MiB", "counted MiB", "ratio")
    rows = {}
    for name, case in cases().items():
        if options.only in name:
            expected, counted = measure(case)
            rows[name] = {"expected": expected, "counted": counted}
            cells = (f"{expected / 2**20:,.0f}", f"{counted / 2**20:,.0f}", f"{expected / counted:.2f}")
            table.add_row(name, *cells)
            print(name, *cells, flush=True)
    Console(width=120).print(table)
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.plot is not None:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
