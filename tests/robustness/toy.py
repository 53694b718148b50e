"""A parser with every fault that fuzzing has to notice; run as a process, since faults may end it."""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from hardening.fuzz import Limits, fuzz
from hardening.parsers import Parser, Read, Seed, demand
from udtw.errors import DataError

COUNT = 600


def faulty(fault: str) -> Parser:
    def read(file: str, content: bytes) -> None:
        if content == b"valid":
            return
        if not content.startswith(b"v"):
            raise DataError("another beginning")
        rare = len(content) % 97 == 5  # as long as the valid one, or much longer
        if rare and fault == "error":
            {}["nothing"]
        demand(not (rare and fault == "value"), "a valid value")
        if rare and fault == "crash":
            os.abort()
        if rare and fault == "hang":
            time.sleep(60)
        if rare and fault == "memory":
            np.ones(2**25).sum()

    def prepare(folder: Path) -> tuple[list[Seed], Read]:
        return [Seed(b"valid", "text")], read

    return Parser(fault, "nothing", prepare)


if __name__ == "__main__":
    found = fuzz(faulty(sys.argv[1]), COUNT, 0, Path(sys.argv[2]), Limits(seconds=1, memory=2**26), shown=False)
    print(json.dumps(asdict(found)))
