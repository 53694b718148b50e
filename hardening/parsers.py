"""Every parser of udtw that reads files of other origin, and how to feed it: one `Parser` each.

To add one, write a function like those in the modules of `MODULES` and an entry in the list ``PARSERS`` of its module.
"""

import importlib
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Read = Callable[[str, bytes], None]


@dataclass(frozen=True)
class Seed:
    """Valid content to be mutated. ``kind``: "binary", "text" or "json"; ``file``: which of the parser's files it is.

    ``pack`` puts the damaged content into its container (a zip file, a checksum, a length before it), so that damage
    reaches what is read after the container.
    """

    content: bytes
    kind: str = "binary"
    file: str = "file"
    pack: Callable[[bytes], bytes] = bytes


@dataclass(frozen=True)
class Parser:
    """``prepare(folder)`` writes a valid set of files into an empty folder and returns the seeds and a function
    ``read(file, content)``, which parses as users do and raises `Wrong` if the value is not valid.
    """

    name: str
    reads: str
    prepare: Callable[[Path], tuple[list[Seed], Read]]


class Wrong(AssertionError):
    """A parser returned a value that breaks its promise: infinity, another type, another shape."""


def demand(condition: Any, what: str) -> None:
    if not condition:
        raise Wrong(what)


def put(path: Path, content: bytes) -> None:
    """Write a new file instead of overwriting: the old one may be mapped into memory, where truncating it is fatal."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def reader(folder: Path, load: Callable[[], Any], check: Callable[[Any], None]) -> Read:
    """Return a function that replaces ``folder/file`` and calls ``check(load())``; all other files are valid."""
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


def zip_of(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def zip_seeds(members: dict[str, bytes], file: str, damaged: Sequence[str]) -> list[Seed]:
    """Return seeds of the zip file itself, and of each of the members ``damaged`` inside an intact one."""

    def packer(name: str) -> Callable[[bytes], bytes]:
        return lambda content: zip_of({**members, name: content}, zipfile.ZIP_STORED)

    return [Seed(zip_of(members), file=file), *(Seed(members[name], file=file, pack=packer(name)) for name in damaged)]


def safetensors_seeds(content: bytes, file: str, texts: Sequence[str] = ()) -> list[Seed]:
    """Return seeds of the whole file; its header, behind the right length; its values; and JSON texts of its metadata.

    The parts are those of a file without checksum, which would otherwise refuse all damage behind it.
    """
    size = int.from_bytes(content[:8], "little")
    described, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    metadata = described.get("__metadata__", {})
    metadata.pop("sha256", None)
    header = json.dumps(described).encode()

    def with_header(new: bytes) -> bytes:
        return len(new).to_bytes(8, "little") + new + data

    def with_text(key: str) -> Callable[[bytes], bytes]:
        def pack(new: bytes) -> bytes:
            changed = described | {"__metadata__": metadata | {key: new.decode("utf-8", "replace")}}
            return with_header(json.dumps(changed, ensure_ascii=False).encode())

        return pack

    values = Seed(data, file=file, pack=lambda new: len(header).to_bytes(8, "little") + header + new)
    seeds = [Seed(content, file=file), Seed(with_header(header), file=file)]
    seeds += [Seed(header, "json", file, with_header), values]
    return seeds + [Seed(metadata[key].encode(), "json", file, with_text(key)) for key in texts]


def mat_seeds(content: bytes, file: str) -> list[Seed]:
    """Return seeds of an uncompressed MATLAB file, and the same with its elements compressed after the mutation."""

    def compressed(new: bytes) -> bytes:
        body = zlib.compress(new[128:])
        return new[:128] + (15).to_bytes(4, "little") + len(body).to_bytes(4, "little") + body

    return [Seed(content, file=file), Seed(content, file=file, pack=compressed), Seed(compressed(content), file=file)]


MODULES = tuple(f"hardening.{name}" for name in ("series", "skeletons", "images", "models"))


def parsers() -> dict[str, Parser]:
    """Return all parsers by name."""
    found: dict[str, Parser] = {}
    for module in MODULES:
        found |= {parser.name: parser for parser in importlib.import_module(module).PARSERS}
    return found
