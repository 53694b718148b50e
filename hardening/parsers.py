"""Every parser of udtw that reads files of others, and how to feed it: one `Parser` each, in the registry `PARSERS`.

To add one: write a function as those in the modules of `MODULES`, and add it to the module's list.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Read = Callable[[str, bytes], None]


@dataclass(frozen=True)
class Seed:
    """Valid content to be damaged. ``kind``: "binary", "text" or "json"; ``file``: which of the parser's files it is.

    ``pack`` puts the damaged content into its container (a zip file, a checksum, a length before it), so that damage
    reaches what is read after the container.
    """

    content: bytes
    kind: str = "binary"
    file: str = "file"
    pack: Callable[[bytes], bytes] = bytes

    @property
    def whole(self) -> bytes:
        return self.pack(self.content)


@dataclass(frozen=True)
class Parser:
    """``prepare(folder)`` writes what belongs to a valid set of files into an empty folder, and gives the seeds and a
    function ``read(file, content)``, which parses as users do and raises `Wrong` if what comes back is not valid.
    """

    name: str
    reads: str
    prepare: Callable[[Path], tuple[list[Seed], Read]]


class Wrong(AssertionError):
    """A parser returned what it does not promise: infinity, another type, another shape."""


def demand(condition: Any, what: str) -> None:
    if not condition:
        raise Wrong(what)


def put(path: Path, content: bytes) -> None:
    """A new file, never the old one overwritten: that may still be mapped into memory, where cutting it is fatal."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def reader(folder: Path, load: Callable[[], Any], check: Callable[[Any], None]) -> Read:
    """Replaces ``folder/file`` by the content and calls ``check(load())``; other files are valid at that time."""
    damaged: dict[Path, bytes | None] = {}  # what was there before

    def read(file: str, content: bytes) -> None:
        path = folder / file
        if path not in damaged:
            for other, valid in damaged.items():
                put(other, valid) if valid is not None else other.unlink(missing_ok=True)
            damaged.clear()
            damaged[path] = path.read_bytes() if path.exists() else None
        put(path, content)
        check(load())

    return read


MODULES = tuple(f"hardening.{name}" for name in ("series", "skeletons", "images", "models", "trainings", "uploads"))


def parsers() -> dict[str, Parser]:
    """All of them by name."""
    found: dict[str, Parser] = {}
    for module in MODULES:
        found |= {parser.name: parser for parser in importlib.import_module(module).PARSERS}
    return found
