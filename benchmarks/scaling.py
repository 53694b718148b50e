"""How the cost of all pairs grows with cells, pairs and workers. `python -m benchmarks.scaling`.

Ratios within one run: times relative to the first row of each table. The workers are threads, processes of loky, and
processes of a Dask cluster on this machine; every result is checked to have the same bits.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import joblib
import numpy as np
from rich.console import Console
from rich.table import Table

from udtw import pairwise

REPEATS = 3
LENGTHS = (64, 128, 256, 512, 1024)
COUNTS = (50, 100, 200, 400)
SERIES, STEPS = 500, 128
"""Of the comparison of workers: some seconds of work for one thread."""


def walks(count: int, steps: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(count, steps)).cumsum(1).astype(np.float32)


def least_time(function: Callable[[], Any]) -> tuple[float, Any]:
    """Return the shortest time of a few runs after a warm-up, and the result."""
    result = function()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times), result


def growth(title: str, sizes: tuple[int, ...], of_size: Callable[[int], tuple[np.ndarray, int]]) -> Table:
    """Return the time against the number of cells, each relative to the first."""
    table = Table("size", "cells", "time", "time for each cell", title=title)
    first = None
    for size in sizes:
        x, cells = of_size(size)
        seconds, _ = least_time(partial(pairwise, x, metric="udtw"))
        first = first or (seconds, cells)
        relative = seconds / first[0]
        table.add_row(str(size), f"{cells / first[1]:.1f} ×", f"{relative:.1f} ×", f"{relative * first[1] / cells:.2f}")
    return table


def workers() -> Table:
    table = Table("workers", "time", "speed", title=f"All pairs of {SERIES} series of {STEPS} steps, uDTW")
    x = walks(SERIES, STEPS)
    alone, expected = least_time(partial(pairwise, x, metric="udtw"))
    table.add_row("one thread", "1.00", "1.00 ×")
    ways: dict[str, tuple[Any, dict[str, Any]]] = {
        "two threads": (nullcontext, {"n_jobs": 2}),
        "two processes (loky)": (lambda: joblib.parallel_config("loky", n_jobs=2), {}),
        "a Dask cluster of two workers": (dask_cluster, {}),
    }
    for name, (context, params) in ways.items():
        with context():
            seconds, found = least_time(partial(pairwise, x, metric="udtw", **params))
        if not np.array_equal(found, expected):
            raise AssertionError(f"{name}: the distances have other bits")
        table.add_row(name, f"{seconds / alone:.2f}", f"{alone / seconds:.2f} ×")
    return table


def hours_of_a_million() -> float:
    """Return what a million pairs of 1,000 steps would take on two cores, at the rate of 820 pairs of 1,024."""
    seconds, _ = least_time(partial(pairwise, walks(40, 1024), metric="udtw", n_jobs=2))
    return seconds / (820 * 1024**2) * 1e12 / 3600


@contextmanager
def dask_cluster() -> Iterator[None]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster),
        joblib.parallel_config("dask"),
    ):
        yield


def main() -> None:
    console = Console(width=100)
    console.print(growth("Longer series (40 of them)", LENGTHS, lambda n: (walks(40, n), 820 * n * n)))
    console.print(
        growth("More series (128 steps)", COUNTS, lambda n: (walks(n, STEPS), n * (n + 1) // 2 * STEPS * STEPS))
    )
    console.print(workers())
    console.print(f"A million pairs of 1,000 steps, uDTW, two threads: {hours_of_a_million():.2f} hours")


if __name__ == "__main__":
    main()
