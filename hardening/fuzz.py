"""Coverage-guided fuzzing of every parser: ``python -m hardening.fuzz --count 100000 --seed 0``.

Atheris (libFuzzer for Python) mutates valid files, keeps the mutants that reach new code, and limits time and memory.
`mutated` adds what its byte-wise mutations rarely produce: numbers and JSON values replaced as a whole. A parser has to
return a valid value or raise a `UdtwError`; everything else is a finding, which ends the run of that parser.

Not used: hypothesis 6.170, which has no coverage feedback and cannot limit the memory of an example.
"""

import argparse
import contextlib
import io
import json
import logging
import mmap
import os
import pkgutil
import random
import re
import resource
import shutil
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import atheris

import udtw._kernels
from hardening.parsers import Parser, Read, Seed, Wrong, parsers
from udtw._io.progress import progress_bar
from udtw.errors import UdtwError

RESULTS = Path("hardening/results")
NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
HOSTILE_NUMBERS = (
    b"nan", b"-inf", b"1e999", b"1e308", b"1e-320", b"0", b"-1", b"99999999999", b"9223372036854775808", b"9" * 5000,
    b"0x10", b"1_000", b"1.5", b"", b"?", "٣".encode(), b"\x00",
)  # fmt: skip
HOSTILE_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2, 2**31, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), "", "nan", "../x",
    "/etc/x", "\x00", "\ud800", [], {}, [None], {"": None}, {"$float": "nan"}, {"$float": []}, [0] * 50, "y" * 500,
)  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Seconds per input, and bytes by which the process may grow."""

    seconds: int = 5
    memory: int = 2**30


@dataclass(frozen=True)
class Tally:
    """Outcome of one parser's run; ``finding`` is empty if there was none."""

    accepted: int
    refused: int
    finding: str

    @property
    def inputs(self) -> int:
        return self.accepted + self.refused + bool(self.finding)


def _replace_number(content: bytes, rng: random.Random) -> bytes:
    found = list(NUMBER.finditer(content))
    if not found:
        return content
    start, end = rng.choice(found).span()
    return content[:start] + rng.choice(HOSTILE_NUMBERS) + content[end:]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return (container, key) of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield value, key
        yield from _places(inner)


def _change_json(content: bytes, rng: random.Random) -> bytes:
    """Replace, delete, wrap in a list, or copy from elsewhere one value of a JSON text."""
    try:
        whole = json.loads(content)
    except (ValueError, RecursionError):
        return content
    places = list(_places(whole))
    if not places:
        return content
    container, key = rng.choice(places)
    change = rng.randrange(5)
    if change == 0:
        del container[key]
    elif change == 1:
        container[key] = [container[key]]
    elif change == 2:
        source, source_key = rng.choice(places)
        container[key] = json.loads(json.dumps(source[source_key]))
    else:
        container[key] = rng.choice(HOSTILE_VALUES)
    return json.dumps(whole).encode()


def mutated(content: bytes, kind: str, rng: random.Random) -> bytes:
    """Replace a number or a JSON value in the content, or leave mutation to libFuzzer."""
    if kind == "json" and rng.random() < 0.6:
        return _change_json(content, rng)
    if kind != "binary" and rng.random() < 0.4:
        return _replace_number(content, rng)
    return content


@contextlib.contextmanager
def workplace() -> Iterator[Path]:
    """Create an empty folder, in memory where the system supports it."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="udtw-fuzz-", dir=memory if os.access(memory, os.W_OK) else None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Shared:
    """Memory that outlives the fuzzing process: how many inputs were accepted and refused, and the last input."""

    def __init__(self, max_bytes: int) -> None:
        self.memory = mmap.mmap(-1, 24 + max_bytes)

    @property
    def counts(self) -> tuple[int, int]:
        accepted, refused = struct.unpack_from("qq", self.memory)
        return accepted, refused

    @property
    def last_input(self) -> bytes:
        (size,) = struct.unpack_from("q", self.memory, 16)
        return self.memory[24 : 24 + size]

    def begin(self, data: bytes) -> None:
        struct.pack_into("q", self.memory, 16, len(data))
        self.memory[24 : 24 + len(data)] = data

    def count(self, was_accepted: bool) -> None:
        accepted, refused = self.counts
        struct.pack_into("qq", self.memory, 0, accepted + was_accepted, refused + (not was_accepted))


@dataclass(frozen=True)
class Target:
    """What libFuzzer calls. The first byte of an input chooses the seed whose file the others stand for."""

    seeds: list[Seed]
    read: Read
    limits: Limits
    max_bytes: int
    shared: Shared

    def seed_of(self, data: bytes) -> Seed:
        return self.seeds[data[0] % len(self.seeds)]

    def one_input(self, data: bytes) -> None:
        if not data:
            return
        self.shared.begin(data)
        seed, before = self.seed_of(data), _peak_memory()
        was_accepted = True
        try:
            self.read(seed.file, seed.pack(data[1:]))
        except UdtwError:
            was_accepted = False
        self.shared.count(was_accepted)
        if _peak_memory() - before > self.limits.memory:
            raise Wrong(f"more than {self.limits.memory} bytes")

    def mutate(self, data: bytes, max_size: int, seed: int) -> bytes:
        if not data:
            return b"\x00"
        rng, index, new = random.Random(seed), data[0] % len(self.seeds), data[1:]
        # libFuzzer drops seeds that reach no new code and keeps inputs that are refused early. So every second input
        # starts from a valid file instead.
        if rng.random() < 0.5:
            index = rng.randrange(len(self.seeds))
            new = self.seeds[index].content
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            before, new = new, mutated(new, self.seeds[index].kind, rng)
            new = (atheris.Mutate(new, max_size - 1) if new == before else new)[: max_size - 1]
        return bytes([index]) + new

    def run(self, options: list[str], log: Path) -> None:
        """Fuzz in this process, and end it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
        with log.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        logging.disable(logging.CRITICAL)  # libraries warn of damaged files
        warnings.simplefilter("ignore")
        rss = _peak_memory() + 2 * self.limits.memory  # a backstop; `one_input` compares with the input before
        limits = [f"-timeout={self.limits.seconds}", f"-rss_limit_mb={rss >> 20}", f"-max_len={self.max_bytes}"]
        atheris.Setup(["fuzz", *limits, *options], self.one_input, custom_mutator=self.mutate)
        atheris.Fuzz()


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextlib.contextmanager
def prepared(parser: Parser, limits: Limits) -> Iterator[Target]:
    """Build a target whose seeds are read without an error; otherwise nothing behind the first check is reached.

    Modules that this imports are instrumented, except the kernels, whose bytecode Numba compiles.
    """
    with workplace() as folder:
        kernels = [module.name for module in pkgutil.walk_packages(udtw._kernels.__path__, "udtw._kernels.")]
        instrumented = atheris.instrument_imports(include=["udtw"], exclude=kernels)
        with contextlib.redirect_stderr(io.StringIO()), instrumented:  # it names every module
            seeds, read = parser.prepare(folder)
            for seed in seeds:
                read(seed.file, seed.pack(seed.content))
        max_bytes = max(4096, *(2 * len(seed.content) for seed in seeds))
        yield Target(seeds, read, limits, max_bytes, Shared(max_bytes))


def fuzz(parser: Parser, count: int, seed: int, out: Path, limits: Limits | None = None, shown: bool = True) -> Tally:
    """Feed ``count`` inputs to ``parser``; ``out`` holds its corpus (extended by later runs), log and findings."""
    corpus, log = out / "corpus" / parser.name, out / f"{parser.name}.log"
    corpus.mkdir(parents=True, exist_ok=True)
    with prepared(parser, limits or Limits()) as target:
        for index, valid in enumerate(target.seeds):
            (corpus / f"seed-{index}").write_bytes(bytes([index]) + valid.content)
        kept = out / f"{parser.name}-finding"
        # A seed of 0 means a random one to libFuzzer.
        options = [f"-runs={count}", f"-seed={seed + 1}", f"-exact_artifact_path={kept}", str(corpus)]
        child = os.fork()
        if child == 0:
            target.run(options, log)
        try:
            status = _wait(child, target.shared, parser.name, count, shown)
        except BaseException:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        if not status:
            return Tally(*target.shared.counts, "")
        kept.write_bytes(target.shared.last_input)  # libFuzzer writes none for a Python exception
        return Tally(*target.shared.counts, f"{_reason(log)}, see {log.name} and {kept.name}")


def _wait(child: int, shared: Shared, name: str, total: int, shown: bool) -> int:
    """Return the child's exit status; the progress bar has a thread and therefore starts after the fork."""
    done = 0
    with progress_bar(f"{name:20}", total, shown) as advance:
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            now = sum(shared.counts)
            advance(now - done)
            done = now
            time.sleep(0.05)
    return ended[1]


def _reason(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    uncaught = [lines[at + 1] for at, line in enumerate(lines[:-1]) if "Uncaught Python exception" in line]
    return (uncaught or [line for line in lines if "ERROR: libFuzzer" in line] or ["the process ended"])[-1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hardening.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--parser", nargs="+", default=["all"], metavar="NAME", help="names, or all")
    parser.add_argument("--count", type=int, default=100_000, help="inputs for each parser")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for corpora, logs and inputs of findings")
    parser.add_argument("--input", type=Path, help="read this file of a finding once more, to see its traceback")
    parser.add_argument("--list", action="store_true", help="names of the parsers")
    options = parser.parse_args()
    known = parsers()
    if options.list:
        for name, entry in known.items():
            print(f"{name:20} {entry.reads}")
        return 0
    wanted = list(known) if "all" in options.parser else options.parser
    if unknown := sorted(set(wanted) - set(known)):
        print(f"There is no parser {', '.join(unknown)}; there are {', '.join(known)}.")
        return 2
    if options.input:
        with prepared(known[wanted[0]], Limits()) as target:
            data = options.input.read_bytes()
            seed = target.seed_of(data)
            target.read(seed.file, seed.pack(data[1:]))  # without catching a named error
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child is ended too
    findings = 0
    print("| parser | reads | inputs | accepted | named error | findings |\n| --- | --- | --- | --- | --- | --- |")
    for name in wanted:
        tally = fuzz(known[name], options.count, options.seed, options.out, shown=sys.stderr.isatty())
        numbers = " | ".join(
            f"{number:,}".replace(",", " ") for number in (tally.inputs, tally.accepted, tally.refused)
        )
        print(f"| `{name}` | {known[name].reads} | {numbers} | {tally.finding or 'none'} |", flush=True)
        findings += bool(tally.finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
