"""Compute the units without a result, store each result at once, and resume after any interruption."""

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

from experiments.store import Store, exclusive
from experiments.units import Unit
from udtw._io import joblib_tasks
from udtw._io.progress import progress_bar
from udtw.errors import WorkerError

Work = Callable[[Unit], dict[str, Any]]
Outcomes = Generator["Failure | None", None, None]


@dataclass(frozen=True)
class Failure:
    """A unit that raised ``error`` (type and message); the next run tries it again.

    >>> from experiments import Failure, Unit
    >>> Failure(Unit("demo", "GunPoint", "dtw", 0), "ValueError: no data", traceback="…").error
    'ValueError: no data'
    """

    unit: Unit
    error: str
    traceback: str


@dataclass(frozen=True)
class Summary:
    """The number of units that a run computed, the number that were finished before, and the units that failed.

    >>> from experiments import Summary
    >>> Summary(computed=3, skipped=2, failed=())
    Summary(computed=3, skipped=2, failed=())
    """

    computed: int
    skipped: int
    failed: tuple[Failure, ...]


def run(units: Iterable[Unit], work: Work, store: Store, *, n_jobs: int = 1, console: Console | None = None) -> Summary:
    """Call ``work(unit)`` for every unit without a result in ``store``, and store the dict that it returns.

    However the run is stopped (Ctrl-C, SIGKILL, power cut), finished units stay finished, and the next run continues
    with the others. A second run on the same folder is refused meanwhile.

    Parameters
    ----------
    units : iterable of Unit
    work : callable
        ``work(unit)`` returns a dict of JSON values. With several processes it must be picklable.
    store : Store
    n_jobs : int
        1 runs the units in this process, with torch's threads. With more (−1: one for each core), as many processes of
        one torch thread run them, and each process writes its own results. If ``joblib.parallel_config`` names another
        backend, such as Dask, its workers run the units and return the results; files that a unit reads or writes must
        be at the same paths there.
    console : rich.console.Console, optional
        Where progress is shown; by default standard error.

    Returns
    -------
    Summary

    Examples
    --------
    >>> import io
    >>> from tempfile import TemporaryDirectory
    >>> from rich.console import Console
    >>> from experiments import Store, Unit, run
    >>> units = [Unit("demo", "none", "square", seed) for seed in range(3)]
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     summary = run(units, lambda unit: {"value": unit.seed**2}, store, console=Console(file=io.StringIO()))
    ...     print(summary.computed, [result["value"] for _, result in store.results()])
    3 [0, 1, 4]
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
            store.clean_leftovers()  # of workers that were stopped while writing
            kept = sum(store.has(unit) for unit in pending)
            _say(console, f"Stopped: {kept} units of this run are kept; the same command continues from here.")
            raise
        except BrokenProcessPool as error:
            kept = sum(store.has(unit) for unit in pending)
            raise WorkerError(
                "A worker process was killed or crashed, perhaps for lack of memory. "
                f"{kept} units of this run are kept in {store.folder}; run again, with a smaller n_jobs."
            ) from error
    summary = Summary(len(pending) - len(failed), len(wanted) - len(pending), tuple(failed))
    _report(console, summary)
    return summary


def _outcomes(pending: list[Unit], work: Work, store: Store, n_jobs: int) -> Outcomes:
    """Yield the failure or None of each finished unit, in the order in which they finish."""
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
    """Return the result or failure of a unit; the process that started the run writes it."""
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
        os._exit(1)  # The run was killed: do not compete with the next run as an orphan.
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent handles Ctrl-C and ends its workers.
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
    with closing(outcomes), progress_bar("units", total, console=console) as advance:
        failures = 0
        for failure in outcomes:
            failures += failure is not None
            advance(note=f"{failures} failed" if failures else "")
            yield failure


def _report(console: Console, summary: Summary) -> None:
    _say(console, f"{summary.computed} computed, {summary.skipped} finished before, {len(summary.failed)} failed")
    by_error: dict[str, list[Unit]] = {}
    for failure in summary.failed:
        by_error.setdefault(failure.error, []).append(failure.unit)
    for error, units in by_error.items():
        unit = units[0]
        options = ", ".join(f"{name}={text}" for name, text in unit.params)
        more = f" and {len(units) - 1} more" if len(units) > 1 else ""
        _say(console, f"  {unit.experiment} {unit.dataset} {unit.method} seed {unit.seed} ({options}){more}: {error}")


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
