"""Threads and scratch memory for the compiled kernels.

The kernels release the GIL, so plain threads run them in parallel. The calling thread takes part and never waits for a
helper that has not begun: where the other cores are busy, it does all the work itself. Tasks never wait for tasks, and
the pool is forgotten in a forked child: concurrent callers and forks are safe.
"""

import itertools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue

import numpy as np

LINE = 64
"""Bytes of a cache line."""


class _Pool:
    """Helper threads of the process, started when first needed. They end with it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.size = 0

    def submit(self, job: Callable[[], None], count: int) -> None:
        """Let up to ``count`` helpers run the job, which must not raise."""
        with self.lock:
            wanted = min(count, max(1, available_cores() - 1))
            for number in range(self.size, wanted):
                threading.Thread(target=self.serve, args=(self.jobs,), name=f"udtw-{number}", daemon=True).start()
            self.size = max(self.size, wanted)
        for _ in range(count):
            self.jobs.put(job)

    @staticmethod
    def serve(jobs: "SimpleQueue[Callable[[], None]]") -> None:
        while True:
            jobs.get()()


_pool = _Pool()
_scratch = threading.local()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def scratch(name: str, size: int, dtype: np.dtype) -> np.ndarray:
    """This thread's reusable flat buffer of at least ``size`` numbers. It never holds NaN: see `clear_scratch`."""
    key = name + dtype.char
    buffer = _scratch.__dict__.get(key)
    if buffer is None or buffer.size < size:
        memory = np.zeros(size * dtype.itemsize + LINE, np.uint8)
        start = -memory.ctypes.data % LINE
        buffer = memory[start : start + size * dtype.itemsize].view(dtype)
        _scratch.__dict__[key] = buffer
    return buffer


def clear_scratch() -> None:
    """Drop this thread's buffers, after a call that may have left NaN in them."""
    _scratch.__dict__.clear()


def parallel_for(task: Callable[[int, int], None], count: int, grain: int, n_threads: int) -> None:
    """Run ``task(begin, end)`` over [0, count) in pieces of ``grain``, on up to ``n_threads`` threads.

    The first exception of any piece is raised here after all threads have stopped.
    """
    pieces = itertools.count()  # next() is atomic
    total = -(-count // grain)

    def work() -> None:
        while (piece := next(pieces)) < total:
            task(piece * grain, min(count, (piece + 1) * grain))

    helpers = min(n_threads, total) - 1
    if helpers < 1:
        work()
        return
    places = [None] * helpers  # pop() is atomic: a helper takes its place to begin, and the caller takes what is left
    ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def job() -> None:
        if not _taken(places):
            return
        try:
            work()
        except BaseException as error:
            ended.put(error)
        else:
            ended.put(None)

    _pool.submit(job, helpers)
    try:
        work()
    finally:
        while _taken(places):
            helpers -= 1
        errors = [error for error in (ended.get() for _ in range(helpers)) if error is not None]
    if errors:
        raise errors[0]


def _taken(places: list[None]) -> bool:
    """Whether there was a place left to take."""
    try:
        places.pop()
    except IndexError:
        return False
    return True
