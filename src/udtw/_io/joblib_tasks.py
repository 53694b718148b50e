"""Independent tasks on the joblib backend that the user has chosen: other processes, or other machines (Dask)."""

import itertools
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from typing import Any

from udtw.errors import OptionError, WorkerError

ROUNDS = 3
"""Most submissions of a task whose worker died."""
TASKS_A_WORKER = 4
"""Tasks per worker: several, so that none waits long for the last one."""


def chosen() -> bool:
    """Return whether ``joblib.parallel_config`` has named a backend of other processes or machines in this thread."""
    joblib = sys.modules.get("joblib")
    if joblib is None:  # Not imported, so no backend was chosen; importing it here would take time.
        return False
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    return not getattr(backend, "supports_sharedmem", False)


def shares(count: int, n_jobs: int | None = None) -> list[range]:
    """Split ``range(count)`` into consecutive parts of about the same size, a few for each worker."""
    import joblib

    parts = min(count, TASKS_A_WORKER * joblib.effective_n_jobs(n_jobs))
    edges = [count * k // parts for k in range(parts + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(edges)]


def spread(
    function: Callable[..., Any], tasks: Sequence[tuple], n_jobs: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Yield ``(k, function(*tasks[k]))`` of all tasks, in the order in which they finish.

    What ``function`` raises is raised here. A worker that is killed costs only time: the tasks that were lost with it
    are submitted again, at most `ROUNDS` times in all.
    """
    missing = dict(enumerate(tasks))
    lost: Exception | None = None
    for _ in range(ROUNDS):
        with closing(_finished(function, missing, n_jobs)) as finished:
            while missing:
                try:
                    number, result, error = next(finished)
                except Exception as failure:  # Errors of tasks are returned as values, so a worker has died.
                    lost = failure
                    break
                if error is not None:
                    raise error
                del missing[number]
                yield number, result
        if not missing:
            return
    raise WorkerError(
        f"{len(missing)} of {len(tasks)} tasks got lost {ROUNDS} times with the workers that ran them "
        f"({type(lost).__name__}: {lost}). Memory may be short there: use fewer workers per machine."
    ) from lost


def _finished(
    function: Callable[..., Any], tasks: dict[int, tuple], n_jobs: int | None
) -> Generator[tuple[int, Any, Exception | None], None, None]:
    import joblib

    backend, _ = joblib.parallel.get_active_backend()
    kind = "generator_unordered" if backend.supports_return_generator else "list"
    parallel = joblib.Parallel(n_jobs, return_as=kind, batch_size=1)
    # The arguments stay inside one tuple. Dask would put a bare array on one worker for all the others, where it is
    # lost if that worker dies.
    results = parallel([joblib.delayed(_run)(number, function, arguments) for number, arguments in tasks.items()])
    try:
        yield from results
    finally:
        if kind != "list":
            results.close()


def _run(number: int, function: Callable[..., Any], arguments: tuple) -> tuple[int, Any, Exception | None]:
    import joblib

    try:
        with joblib.parallel_config("sequential"):  # A task in a worker does not start workers itself.
            return number, function(*arguments), None
    except Exception as error:
        error.add_note("In a worker:\n" + traceback.format_exc())
        return number, None, error


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_of(n_jobs: int | None) -> int:
    """Return the number of threads that ``n_jobs`` means: None is 1, −1 all cores."""
    if n_jobs is None:
        return 1
    if n_jobs == 0 or n_jobs < -available_cores():
        raise OptionError(
            f"n_jobs must be a positive number of threads, or -1 for all cores; got {n_jobs}.", parameter="n_jobs"
        )
    return n_jobs if n_jobs > 0 else available_cores() + 1 + n_jobs


def check_jobs(n_jobs: Any) -> None:
    """Raise `OptionError` unless ``n_jobs`` is a positive whole number of workers, or −1 for all cores."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or (n_jobs < 1 and n_jobs != -1):
        raise OptionError(
            f"n_jobs must be a positive integer, or -1 for all cores; got {n_jobs!r}.", parameter="n_jobs"
        )
