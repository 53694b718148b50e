"""A parser with every fault that fuzzing has to notice; run as a process, since faults may end it."""

import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np
from hardening import fuzz
from hardening.parsers import Parser, Read, Seed, demand

from udtw.errors import DataError

FAULTS = ("none", "error", "value", "crash", "hang", "memory")
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
        if rare and content[1:2] != b"a":
            if fault == "crash":
                os.abort()
            if fault == "hang":
                time.sleep(60)
            if fault == "memory":
                np.ones(2**25).sum()

    def prepare(folder: Path) -> tuple[list[Seed], Read]:
        return [Seed(b"valid", "text")], read

    return Parser(fault, "nothing", prepare)


def main() -> None:
    """Prints the tally; with a second argument it is kept there, and with a third the run stops after so many."""
    fault, *rest = sys.argv[1:]
    fuzz.SECONDS, fuzz.MEMORY, fuzz.CHUNK = 0.5, 2**26, 50
    path = Path(rest[0]) if rest else None
    count = int(rest[1]) if len(rest) > 1 else COUNT
    print(json.dumps(asdict(fuzz.fuzz(faulty(fault), count, 0, path))))


if __name__ == "__main__":
    main()
