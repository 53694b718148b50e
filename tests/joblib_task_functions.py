"""What workers are given to do in test_joblib_tasks.py. A worker imports this module, so it is kept light."""

import os
import signal
import time

import torch

from udtw._io import joblib_tasks
from udtw.errors import OptionError


def slow_square(number):
    time.sleep(0.2)
    return number**2, os.getpid()


def die_once(marker, number):
    if number == 1 and not marker.exists():
        marker.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def die(number):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(number):
    raise OptionError(f"{number} is refused")


def chosen_there(number):
    return joblib_tasks.chosen()


def square(unit):
    if unit.seed == 2:
        raise RuntimeError("two is not wanted")
    return {"value": unit.seed**2, "process": os.getpid(), "threads": torch.get_num_threads()}
