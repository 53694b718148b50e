"""A small experiment, and a process that starts runs of it by fork, so that each starts without imports.

Reads lines "folder n_jobs", answers each with the process (and group) id of the run, and with its exit status.
"""

import io
import os
import random
import sys
import time

from rich.console import Console

from udtw.experiments import Store, Unit, run

UNITS = [Unit("toy", f"set {i % 3}", "noise", i, {"scale": 0.5}) for i in range(150)]


def work(unit: Unit) -> dict:
    rng = random.Random(unit.seed)
    time.sleep(rng.uniform(0.005, 0.015))
    return {"noise": [unit.options["scale"] * rng.gauss(0, 1) for _ in range(500)]}


def serve() -> None:
    for line in sys.stdin:
        folder, n_jobs = line.rsplit(maxsplit=1)
        child = os.fork()
        if child == 0:
            os.setsid()
            print(os.getpid(), flush=True)
            summary = run(UNITS, work, Store(folder), n_jobs=int(n_jobs), console=Console(file=io.StringIO()))
            sys.exit(len(summary.failed))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
