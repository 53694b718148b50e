"""Compute what is missing, keep each result as soon as it exists, and go on after anything."""

import os
import signal
import traceback
from collections.abc import Callable, Generator, Iterable
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import joblib
import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from udtw import joblib_tasks
from udtw.errors import WorkerError
from udtw.experiments.lock import exclusive
from udtw.experiments.store import Store
from udtw.experiments.units import Unit

Work = Callable[[Unit], dict[str, Any]]
Outcomes = Generator["Failure | None", None, None]


@dataclass(frozen=True)
class Failure:
    """A unit that raised ``error`` (type and message); the next run tries it again."""

    unit: Unit
    error: str
    traceback: str


@dataclass(frozen=True)
class Summary:
    """How many units this run computed, how many it found finished, and those that raised an error."""

    computed: int
    skipped: int
    failed: tuple[Failure, ...]


def run(units: Iterable[Unit], work: Work, store: Store, *, n_jobs: int = 1, console: Console | None = None) -> Summary:
    """Call ``work(unit)`` for every unit without a result in ``store`` and keep the dict that it returns.

    With ``n_jobs`` above 1 (−1: all cores) the units run in as many processes of one torch thread each, and each
    process writes its own results; with 1 they run here, with the threads that torch has. Where
    ``joblib.parallel_config`` names a backend, Dask for instance, its workers run the units instead and send the
    results back; files that a unit reads or keeps must be at the same place there. However the run is stopped,
    by Ctrl-C, SIGKILL or a power cut, the units finished so far stay finished, and the next run goes on.
    A second run on the same folder is refused meanwhile. The progress is shown on ``console``, or on standard error.
    """
    joblib_tasks.check_jobs(n_jobs)
    console = console or Console(stderr=True)
    wanted = list(dict.fromkeys(units))
    with exclusive(store.folder):
        store.clean_leftovers()
        pending = [unit for unit in wanted if not store.has(unit)]
        failed: list[Failure] = []
        try:
            outcomes = _outcomes(pending, work, store, joblib.effective_n_jobs(n_jobs))
            with closing(_shown(outcomes, len(pending), console)) as shown:
                failed += [failure for failure in shown if failure]
        except KeyboardInterrupt:
            store.clean_leftovers()  # of workers that were ended while they wrote
            kept = sum(store.has(unit) for unit in pending)
            _say(console, f"Stopped: {kept} units of this run are kept; the same command goes on from here.")
            raise
        except BrokenProcessPool as error:
            kept = sum(store.has(unit) for unit in pending)
            raise WorkerError(
                "A worker process was killed, or crashed: perhaps memory was short. "
                f"{kept} units of this run are kept in {store.folder}; run again, with a smaller n_jobs."
            ) from error
    summary = Summary(len(pending) - len(failed), len(wanted) - len(pending), tuple(failed))
    _report(console, summary)
    return summary


def _outcomes(pending: list[Unit], work: Work, store: Store, n_jobs: int) -> Outcomes:
    """One value a finished unit, in the order in which they finish."""
    if joblib_tasks.chosen():
        yield from _outcomes_elsewhere(pending, work, store)
        return
    if n_jobs == 1 or not pending:
        yield from (_compute(unit, work, store) for unit in pending)
        return
    with joblib.parallel_config("loky", inner_max_num_threads=1):
        parallel = joblib.Parallel(n_jobs, return_as="generator_unordered", batch_size=1)
    calls = (joblib.delayed(_compute_in_worker)(unit, work, store, os.getpid()) for unit in pending)
    with closing(parallel(calls)) as outcomes:
        yield from outcomes


def _outcomes_elsewhere(pending: list[Unit], work: Work, store: Store) -> Outcomes:
    tasks = [(unit, work) for unit in pending]
    with closing(joblib_tasks.spread(_compute_elsewhere, tasks)) as finished:  # type: ignore[type-var]
        for number, (result, failure) in finished:
            yield failure or _compute(pending[number], partial(_known, result), store)


def _known(result: dict[str, Any], unit: Unit) -> dict[str, Any]:
    return result


def _compute_elsewhere(unit: Unit, work: Work) -> tuple[dict[str, Any] | None, Failure | None]:
    """The result of a unit, to be written by the process that asked for it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return work(unit), None
    except (Exception, SystemExit) as error:
        return None, _failure(unit, error)
    finally:
        torch.set_num_threads(threads)


def _compute_in_worker(unit: Unit, work: Work, store: Store, parent: int) -> Failure | None:
    if os.getppid() != parent:
        os._exit(1)  # The run was killed: its next one must not compete with orphans.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends its workers.
    torch.set_num_threads(1)
    return _compute(unit, work, store)


def _compute(unit: Unit, work: Work, store: Store) -> Failure | None:
    try:
        store.write(unit, work(unit))
    except (Exception, SystemExit) as error:
        return _failure(unit, error)
    return None


def _failure(unit: Unit, error: BaseException) -> Failure:
    return Failure(unit, f"{type(error).__name__}: {error}", "".join(traceback.format_exception(error)))


def _shown(outcomes: Outcomes, total: int, console: Console) -> Outcomes:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    # By default the remaining time forgets what is older than 30 s, and so every longer unit.
    with closing(outcomes), Progress(*columns, console=console, speed_estimate_period=3600) as progress:
        bar = progress.add_task("units", total=total, note="")
        failures = 0
        for failure in outcomes:
            failures += failure is not None
            progress.update(bar, advance=1, note=f"{failures} failed" if failures else "")
            yield failure


def _report(console: Console, summary: Summary) -> None:
    _say(console, f"{summary.computed} computed, {summary.skipped} found finished, {len(summary.failed)} failed")
    for failure in summary.failed:
        unit = failure.unit
        options = ", ".join(f"{name}={text}" for name, text in unit.params)
        _say(console, f"  {unit.experiment} {unit.dataset} {unit.method} seed {unit.seed} ({options}): {failure.error}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
