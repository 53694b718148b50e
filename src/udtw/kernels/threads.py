"""Threads and scratch memory for the compiled kernels.

The kernels release the GIL, so a plain thread pool runs them in parallel. The calling thread takes part, tasks never
wait for tasks, and the pool is forgotten in a forked child: concurrent callers and forks are safe.
"""

import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

LINE = 64
"""Bytes of a cache line."""


class _Pool:
    """One pool of helper threads for the process, made when first needed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.executor: ThreadPoolExecutor | None = None

    def get(self) -> ThreadPoolExecutor:
        with self.lock:
            if self.executor is None:
                self.executor = ThreadPoolExecutor(max(1, available_cores() - 1), thread_name_prefix="udtw")
            return self.executor


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
    futures = [_pool.get().submit(work) for _ in range(helpers)] if helpers > 0 else []
    try:
        work()
    finally:
        errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise errors[0]
