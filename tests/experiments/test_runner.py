"""`run`: each unit is computed once, with any number of processes and after any failure."""

import io
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
from rich.console import Console

from experiments import Store, Unit, run
from experiments.store import exclusive
from udtw.errors import OptionError, StoreBusyError, WorkerError

UNITS = [Unit("toy", "A", "square", seed) for seed in range(6)]
BOTH = pytest.mark.parametrize("n_jobs", [1, 2])


def square(unit):
    return {"value": unit.seed**2, "process": os.getpid(), "threads": torch.get_num_threads()}


def fail_on_two(unit):
    if unit.seed == 2:
        raise ArithmeticError("no [bold]two")
    return square(unit)


def unkeepable_on_two(unit):
    return {"value": object()} if unit.seed == 2 else square(unit)


def die_on_two(unit):
    if unit.seed == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return square(unit)


def never(unit):
    raise AssertionError(f"{unit} was computed again")


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path)


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=120)


@BOTH
def test_every_unit_is_computed_and_kept(store, console, n_jobs):
    summary = run(UNITS, square, store, n_jobs=n_jobs, console=console)
    assert (summary.computed, summary.skipped, summary.failed) == (6, 0, ())
    assert [result["value"] for _, result in store.results()] == [0, 1, 4, 9, 16, 25]
    processes = {result["process"] for _, result in store.results()}
    assert (os.getpid() in processes) == (n_jobs == 1)
    if n_jobs > 1:
        assert {result["threads"] for _, result in store.results()} == {1}
    assert "6 computed, 0 finished before, 0 failed" in console.file.getvalue()


@BOTH
def test_finished_units_are_never_computed_again(store, console, n_jobs):
    run(UNITS[:4], square, store, console=console)
    assert run(UNITS[:4], never, store, n_jobs=n_jobs, console=console).skipped == 4
    summary = run(UNITS, square, store, n_jobs=n_jobs, console=console)
    assert (summary.computed, summary.skipped) == (2, 4)


def test_a_unit_that_is_listed_twice_is_computed_once(store, console):
    summary = run([*UNITS, *UNITS], square, store, console=console)
    assert (summary.computed, summary.skipped) == (6, 0)


@BOTH
@pytest.mark.parametrize(("work", "error"), [(fail_on_two, "ArithmeticError"), (unkeepable_on_two, "StoreError")])
def test_a_unit_that_fails_is_listed_and_the_others_go_on(store, console, n_jobs, work, error):
    summary = run(UNITS, work, store, n_jobs=n_jobs, console=console)
    [failure] = summary.failed
    assert failure.unit == UNITS[2]
    assert failure.error.startswith(f"{error}: ")
    assert "Traceback" in failure.traceback
    assert summary.computed == 5
    assert f"toy A square seed 2 (): {failure.error}" in console.file.getvalue()
    assert run(UNITS, square, store, console=console).computed == 1


def test_an_error_that_all_units_share_is_printed_once(store, console):
    def missing(unit):
        raise FileNotFoundError("pass --data-dir")

    assert len(run(UNITS, missing, store, console=console).failed) == 6
    shown = console.file.getvalue()
    assert shown.count("pass --data-dir") == 1
    assert "toy A square seed 0 () and 5 more: FileNotFoundError: pass --data-dir" in shown


def test_a_worker_that_dies_is_a_named_error_and_results_stay(store, console):
    run(UNITS[:2], square, store, console=console)
    with pytest.raises(WorkerError, match=r"A worker process was killed.*smaller n_jobs"):
        run(UNITS, die_on_two, store, n_jobs=2, console=console)
    assert run(UNITS, square, store, n_jobs=2, console=console).failed == ()
    assert len(store.results()) == 6


def test_a_second_run_on_the_folder_is_refused(store, console):
    with exclusive(store.folder), pytest.raises(StoreBusyError, match="in use by another run"):
        run(UNITS, never, store, console=console)


def test_leftovers_of_a_killed_run_are_removed(store, console):
    (store.folder / ".x.json.0.tmp").write_text("{")
    run([], never, store, console=console)
    assert not list(store.folder.glob("*.tmp"))


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, None])
def test_a_senseless_number_of_jobs(store, n_jobs):
    with pytest.raises(OptionError, match="n_jobs must be"):
        run(UNITS, never, store, n_jobs=n_jobs)


INTERRUPTED = """
import signal, sys, time
from experiments import Store, Unit, run

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs inherit that it is ignored

def work(unit):
    time.sleep(0.05)
    return {"value": unit.seed}

run([Unit("toy", "A", "slow", seed) for seed in range(2000)], work, Store(sys.argv[1]), n_jobs=int(sys.argv[2]))
"""


@BOTH
def test_ctrl_c_stops_cleanly_and_keeps_what_is_finished(store, n_jobs):
    command = [sys.executable, "-c", INTERRUPTED, str(store.folder), str(n_jobs)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        limit = time.monotonic() + 60
        while len(list(store.folder.glob("*.json"))) < 3 and time.monotonic() < limit:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, shown = process.communicate(timeout=60)
    assert "units of this run are kept; the same command continues from here" in shown
    assert shown.count("Traceback") == 1
    assert shown.rstrip().endswith("KeyboardInterrupt")
    assert len(store.results()) >= 3
    assert store.clean_leftovers() == 0
