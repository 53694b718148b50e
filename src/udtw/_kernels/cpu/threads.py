"""Threads and scratch memory for the compiled kernels.

The kernels release the GIL, so plain threads run them in parallel, and take pairs from a common queue. The calling
thread takes part and never waits for a helper that has not begun: where the other cores are busy, it does all the work
itself. Tasks never wait for tasks, and the pool is forgotten in a forked child: concurrent callers and forks are safe.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue

import numpy as np

from udtw._io.joblib_tasks import available_cores
from udtw._kernels.cpu.work_queue import NEXT, RUNG, new_bell, new_queue, settled, wait_for_bell

LINE = 64
"""Bytes of a cache line."""
CHECKS = 2**20
"""How often to check whether the other threads are done before sleeping: about a millisecond. Waking a thread takes
longer than aligning a few dozen short pairs."""
PAUSE = 1e-4
"""Seconds of sleep between later checks."""
SHORT_GAP = 5e-4
"""Seconds between two jobs up to which a helper stays awake: waking it would take a good part of a short job."""
AWAKE_CHECKS = 2**21
"""How often it then checks for the next job, at most: about half a millisecond."""


class _Pool:
    """Helper threads of the process, started when first needed. They end with it."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self.lock = threading.Lock()
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.bell = new_bell()
        self.address = self.bell.ctypes.data
        self.size = 0

    def submit(self, job: Callable[[], None], count: int) -> None:
        """Let up to ``count`` helpers run the job, which must not raise."""
        if count > self.size:
            with self.lock:
                wanted = min(count, max(1, available_cores() - 1))
                for number in range(self.size, wanted):
                    threading.Thread(
                        target=self.serve, args=(self.jobs, self.bell), name=f"udtw-{number}", daemon=True
                    ).start()
                self.size = max(self.size, wanted)
        for _ in range(count):
            self.jobs.put(job)

    @staticmethod
    def serve(jobs: "SimpleQueue[Callable[[], None]]", bell: np.ndarray) -> None:
        """Run jobs for ever.

        As long as they follow each other quickly, as in the training of a small model, the thread stays awake between
        them, without the interpreter, until a kernel has begun: then its caller does not hold the interpreter's lock,
        and the thread need not sleep for that either.
        """
        ended = -SHORT_GAP
        while True:
            job = jobs.get()
            quick = time.perf_counter() - ended < SHORT_GAP
            job()
            ended = time.perf_counter()
            rung = bell[RUNG]
            if quick and jobs.empty():  # a job that comes after this will ring
                wait_for_bell(bell, rung, AWAKE_CHECKS)


_pool = _Pool()
_scratch = threading.local()
_told: list[bool] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.forget)


NOTICE = "udtw is compiling its kernels for this machine. It takes about a minute, and only the first time."
NOTICE_AFTER = 2.0
"""Seconds; a kernel that was compiled before is loaded in a tenth of this."""


@contextmanager
def compiling() -> Iterator[None]:
    """Log `NOTICE` once a process (to stderr, unless logging is configured) if what is inside takes long."""
    timer = threading.Timer(NOTICE_AFTER, _tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _tell() -> None:
    if not _told:
        _told.append(True)
        logging.getLogger("udtw").warning(NOTICE)


def scratch(name: str, size: int, dtype: np.dtype) -> np.ndarray:
    """Return this thread's reusable flat buffer of at least ``size`` numbers. It never holds NaN.

    See `clear_scratch`.
    """
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


def share(task: Callable[[np.ndarray, int], None], begin: int, end: int, helpers: int) -> np.ndarray:
    """Run ``task(queue, end)`` here and on up to ``helpers`` threads, all on one queue of the pairs [begin, end).

    Returns the queue (see `work_queue`) when all pairs are done. An exception of any thread is raised here, after all
    have stopped.
    """
    queue = new_queue(begin, _pool.address if helpers > 0 else 0)
    errors: list[BaseException] = []

    def job() -> None:
        if queue[NEXT] < end:  # else the caller has left already
            try:
                task(queue, end)
            except BaseException as error:
                errors.append(error)

    if helpers > 0:
        _pool.submit(job, helpers)
    try:
        task(queue, end)
    finally:
        queue[NEXT] = end
        checks = CHECKS
        while helpers > 0 and not settled(queue, _pool.bell, checks) and not errors:
            time.sleep(PAUSE)
            checks = 1
    if errors:
        raise errors[0]
    return queue
