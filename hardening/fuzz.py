"""Feed mutated files to a parser in a process of its own, and notice all that is not a value or a named error.

A finding is any other exception, a value that is not valid, a crash of the process, more than `SECONDS` for one input,
or more than `MEMORY` bytes. Input i of a parser depends on the seed, the parser's name and i alone, so that a run can
be stopped at any time and goes on, and any finding can be fed again.
"""

import contextlib
import json
import mmap
import os
import random
import resource
import select
import shutil
import signal
import struct
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardening.mutations import mutated
from hardening.parsers import Parser, Read, Seed
from udtw.data.atomic import write_atomically
from udtw.errors import UdtwError

SECONDS = 5.0
MEMORY = 2**30
CHUNK = 250
KEPT_BYTES = 4000
POLL = 0.25
TOO_MUCH = 3
"""Exit code of a worker whose memory grew beyond `MEMORY`."""


@dataclass
class Tally:
    """What came of the inputs 0 … ``done`` − 1. ``findings``: by what happened and where, how often and an example."""

    parser: str
    seed: int
    done: int = 0
    accepted: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    lost: list[int] = field(default_factory=list)
    """Inputs that ended the process; they are among the findings."""
    seconds: float = 0.0

    def find(self, what: str, index: int, count: int, example: str) -> None:
        known = self.findings.setdefault(what, {"count": 0, "index": index, "example": example})
        known["count"] += count

    @property
    def named_errors(self) -> int:
        return sum(self.refused.values())


def load_tally(path: Path, parser: str, seed: int) -> Tally:
    """The tally of an earlier run with the same seed, or an empty one."""
    try:
        found = Tally(**json.loads(path.read_text()))
    except FileNotFoundError:
        return Tally(parser, seed)
    return found if (found.parser, found.seed) == (parser, seed) else Tally(parser, seed)


def damaged_input(parser: str, seeds: list[Seed], seed: int, index: int) -> tuple[str, bytes]:
    """Name of the file and the bytes of input ``index``."""
    rng = random.Random(f"{seed} {parser} {index}")
    chosen = rng.choice(seeds)
    return chosen.file, chosen.pack(mutated(chosen.content, chosen.kind, rng))


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """An empty folder, in memory where the system has one for that."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="udtw-fuzz-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def check_seeds(parser: Parser, seeds: list[Seed], read: Read) -> None:
    """Undamaged files must be read: otherwise nothing behind their first check would be tried."""
    for seed in seeds:
        try:
            read(seed.file, seed.whole)
        except UdtwError as error:
            raise AssertionError(f"{parser.name}: a valid file is refused: {error}") from error


def fuzz(
    parser: Parser, count: int, seed: int, path: Path | None = None, tick: Callable[[Tally], None] = lambda tally: None
) -> Tally:
    """Feed inputs up to number ``count``; with ``path`` the tally is kept there, and a stopped run goes on from it."""
    tally = load_tally(path, parser.name, seed) if path else Tally(parser.name, seed)
    if tally.done >= count:
        return tally
    with workplace() as folder:
        seeds, read = parser.prepare(folder)
        begin, before = time.monotonic(), tally.seconds
        saved = begin
        while tally.done < count:
            check_seeds(parser, seeds, read)  # also puts right what a worker that crashed left behind
            for chunk in _worker(parser.name, seeds, read, tally, count):
                _add(tally, chunk)
                tally.seconds = before + time.monotonic() - begin
                tick(tally)
                if path and (time.monotonic() - saved > 5 or tally.done >= count):
                    save(tally, path)
                    saved = time.monotonic()
    return tally


def save(tally: Tally, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(asdict(tally), indent=1).encode())


def _add(tally: Tally, chunk: dict[str, Any]) -> None:
    if "lost" in chunk:
        tally.lost.append(chunk["lost"])
        tally.find(chunk["what"], chunk["lost"], 1, "")
        return
    tally.done = chunk["stop"]
    tally.accepted += chunk["accepted"]
    for name, number in chunk["refused"].items():
        tally.refused[name] = tally.refused.get(name, 0) + number
    for what, (index, number, example) in chunk["findings"].items():
        tally.find(what, index, number, example)


def _worker(name: str, seeds: list[Seed], read: Read, tally: Tally, count: int) -> Iterator[dict[str, Any]]:
    """Results of chunk after chunk from a forked process; the last one says which input ended it, if one did."""
    shared = mmap.mmap(-1, 16)  # which input is being read, and since when
    shared[:] = struct.pack("qd", tally.done, time.monotonic())
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _work(theirs, shared, name, seeds, read, tally, count)
    os.close(theirs)
    try:
        with open(ours, "rb") as pipe:
            while True:
                while not select.select([pipe], [], [], POLL)[0]:
                    index, since = struct.unpack("qd", shared)
                    if time.monotonic() - since > SECONDS:
                        os.kill(child, signal.SIGKILL)
                        os.waitpid(child, 0)
                        child = 0
                        yield {"lost": index, "what": f"more than {SECONDS:g} s"}
                        return
                line = pipe.readline()
                if not line.endswith(b"\n"):
                    break
                yield json.loads(line)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        child = 0
        if status:
            index, _ = struct.unpack("qd", shared)
            said = f"the process ended: {signal.Signals(-status).name if status < 0 else f'exit code {status}'}"
            yield {"lost": index, "what": f"more than {MEMORY} bytes" if status == TOO_MUCH else said}
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _work(
    pipe: int, shared: mmap.mmap, name: str, seeds: list[Seed], read: Read, tally: Tally, count: int
) -> None:  # pragma: no cover (another process)
    """In the child: read input after input and report each chunk as a line of JSON. Never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for the parent, which ends its child
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _quiet()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lost = set(tally.lost)
    status = 1
    try:
        for start in range(tally.done, count, CHUNK):
            stop = min(start + CHUNK, count)
            accepted, refused = 0, Counter[str]()
            findings: dict[str, tuple[int, int, str]] = {}
            for index in range(start, stop):
                if index in lost:
                    continue
                shared[:] = struct.pack("qd", index, time.monotonic())
                file, content = damaged_input(name, seeds, tally.seed, index)
                what = _outcome(read, file, content)
                if what == "":
                    accepted += 1
                elif what.startswith("!"):
                    first, number, example = findings.get(what, (index, 0, content[:KEPT_BYTES].hex()))
                    findings[what] = (first, number + 1, example)
                else:
                    refused[what] += 1
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
                if peak - used > MEMORY:
                    os._exit(TOO_MUCH)  # the next worker begins with little memory again
            line = {"stop": stop, "accepted": accepted, "refused": refused, "findings": findings}
            os.write(pipe, json.dumps(line).encode() + b"\n")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _outcome(read: Read, file: str, content: bytes) -> str:
    """ "" for a valid value, the name of a named error, or "!" and what else happened where."""
    try:
        read(file, content)
    except UdtwError as error:
        return type(error).__name__
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/udtw/" in frame.filename] or list(frames)
        place = f"{ours[-1].filename.rpartition('/udtw/')[2]}:{ours[-1].lineno} {ours[-1].name}"
        return (
            f"!{type(error).__name__} in {place}: {str(error)[:80]}"
            if "Wrong" in type(error).__name__
            else (f"!{type(error).__name__} in {place}")
        )
    return ""


def _quiet() -> None:
    """Libraries warn of damaged files on standard error, a hundred thousand times."""
    import logging
    import warnings

    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
