"""What `udtw.kernels.cpu.atomics` offers, for kernels run as plain Python."""

import threading

_one_at_a_time = threading.Lock()


def read(array, index):
    return array[index]


def add(array, index, amount):
    with _one_at_a_time:
        before = int(array[index])
        array[index] = before + amount
    return before
