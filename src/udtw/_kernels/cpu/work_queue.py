"""A queue from which threads take the pairs of a batch, a few at a time.

All run the same kernel on one queue, an array of three integers on cache lines of their own. A kernel takes from it
without the interpreter, so that threads neither wait for its lock nor have more than one pack to wait for at the end,
however late they began and however slow their cores are.
"""

import numpy as np
from numba import njit

from udtw._kernels.cpu.atomics import add, add_at, read
from udtw._kernels.cpu.rows import INNER

OUTER = {"nogil": True, "cache": True}
"""Options of the functions that Python calls."""
OK, BAD_VALUE = 0, -1
"""Kernels return OK, BAD_VALUE (a value out of range was met), or the size of scratch memory that they lack."""

NEXT, ACTIVE, BAD, BELL, BEGUN = 0, 8, 16, 17, 18
"""Positions in the queue: the first pair that is not taken yet, the number of kernels at work, whether one met a value
out of range, the address of a number to increase when a kernel begins (0: none), and how many have begun."""
RUNG, IDLE = 0, 8
"""Positions in a bell: how many kernels have begun, and how many threads wait for the next one."""

MOMENT = 2**15
"""Reads that take about ten microseconds."""


def new_queue(begin: int, bell: int = 0) -> np.ndarray:
    """Return a queue of the pairs from ``begin`` on.

    Where they end, the kernels are told. ``bell`` is the address `BELL`.
    """
    queue = np.zeros(24, np.int64)
    queue[NEXT], queue[BELL] = begin, bell
    return queue


def new_bell() -> np.ndarray:
    """Return a bell, which kernels ring when they begin; see `RUNG` and `IDLE`."""
    return np.zeros(16, np.int64)


@njit(**INNER)
def begin_work(queue, pack_size, end):
    """Return the first share [first, stop) of a kernel, which from now on is at work.

    Empty if ``first`` is not below end.
    """
    add(queue, ACTIVE, 1)  # before it takes work, so that idle threads see every thread that has some
    add(queue, BEGUN, 1)
    if queue[BELL] != 0:
        add_at(queue[BELL], 1)
    return go_on(queue, 0, 0, pack_size, end)


@njit(**INNER)
def go_on(queue, first, stop, pack_size, end):
    """Return what is left of the share [first, stop), or if nothing is, the next share."""
    if first == stop:
        first = add(queue, NEXT, pack_size)
        stop = min(first + pack_size, end)
    return first, stop


@njit(**INNER)
def end_work(queue, end, status):
    """To be called last; returns the status. After a bad value the queue is empty."""
    if status == BAD_VALUE:
        add(queue, BAD, 1)
        add(queue, NEXT, end)
    add(queue, ACTIVE, -1)
    return status


@njit(**OUTER)
def settled(queue, bell, checks):
    """Whether no kernel is at work, at the latest after so many checks.

    The thread of one that had to be waited for gets a moment more, to end its work in the interpreter: if it met this
    one there, one of them would have to sleep and be woken, which takes longer.
    """
    if read(queue, ACTIVE) == 0:
        return True
    for _ in range(checks):
        if read(queue, ACTIVE) == 0:
            for _ in range(MOMENT):
                if read(bell, IDLE) + 1 >= read(queue, BEGUN):
                    break
            return True
    return False


@njit(**OUTER)
def wait_for_bell(bell, rung, checks):
    """Wait until ``bell[RUNG]`` differs from ``rung``, but for no more than so many checks."""
    add(bell, IDLE, 1)
    for _ in range(checks):
        if read(bell, RUNG) != rung:
            break
    add(bell, IDLE, -1)
