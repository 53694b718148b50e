"""A data set in parts: a folder of safetensors files, each named by its number and its own checksum, and a manifest.

Half a shard, or an altered one, does not have the checksum in its name. Shards are written one by one, the manifest
last, each in full or not at all: stopped at any time, the same call goes on after the last whole shard. What an item of
a shard is, a clip or an image, is the matter of the classes that build on `CheckedShard`. Nothing is pickled.
"""

import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np

from udtw.data import strict_json
from udtw.data.atomic import leftovers, write_atomically
from udtw.errors import DataError, FileFormatError, UdtwError

FILE = re.compile(r"shard-(\d{5})-([0-9a-f]{64})\.safetensors")
MANIFEST = "manifest.json"
LEFTOVER_SECONDS = 3600


class Planned(Protocol):
    """What a shard says of itself; ``plan`` is a checksum of all that it was made from."""

    @property
    def plan(self) -> str: ...


class CheckedShard(ABC):
    """A shard that is mapped into memory: only what is asked for is read. Compared with its checksum on opening."""

    items: ClassVar[str]
    """What it holds, for messages: "clips"."""
    kind: ClassVar[str]
    """What it is, for messages: "a shard of skeletons"."""
    mend: ClassVar[str]
    """How to get a missing or damaged one back."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        check_file(path, self.mend)
        self.path = path
        try:
            self._file = safe_open(path, framework="numpy")
            self._map(self._file)
        except (SafetensorError, OSError, LookupError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"{path} is not {self.kind} ({error}).") from error

    @abstractmethod
    def _map(self, file: Any) -> None:
        """Take the arrays from the opened file; a `ValueError` says what is wrong with them."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def contents(self) -> Planned:
        """What it says of itself in the header."""

    def header(self, key: str) -> Any:
        """The JSON value that was written with it."""
        return strict_json.loads((self._file.metadata() or {})[key])


Shard = TypeVar("Shard", bound=CheckedShard)
Contents = TypeVar("Contents", bound=Planned)


def write_checked(folder: Path, number: int, arrays: dict[str, np.ndarray], header: Mapping[str, Any]) -> Path:
    """Write a shard, there in full or not at all; its path comes back. ``header`` holds JSON values."""
    from safetensors.numpy import save

    content = save(arrays, metadata={key: json.dumps(value) for key, value in header.items()})
    path = folder / f"shard-{number:05d}-{hashlib.sha256(content).hexdigest()}.safetensors"
    write_atomically(path, content)
    return path


def check_file(path: Path, mend: str) -> None:
    """Read the whole file once and compare it with the checksum in its name."""
    match = FILE.fullmatch(path.name)
    if not match:
        raise FileFormatError(f"{path} does not have the name of a shard.")
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise FileFormatError(f"{path} is missing. {mend}; the other shards are kept.") from None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from error
    if found != match[2]:
        raise FileFormatError(
            f"{path} is damaged: its checksum is not the one in its name. {mend}; the other shards are kept."
        )


def plan_of(*made_from: Any) -> str:
    """A checksum of JSON values: it changes when they do."""
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()


def finished(folder: Path, number: int, plan: str, read: Callable[[Path], Contents]) -> tuple[str, Contents] | None:
    """Name and contents of a whole shard that was made by this plan. ``read`` opens a shard and gives its contents."""
    for path in sorted(folder.glob(f"shard-{number:05d}-*.safetensors")):
        try:
            contents = read(path)
        except UdtwError:
            continue  # a damaged one is made again
        if contents.plan == plan:
            return path.name, contents
    return None


def refuse_other_sets(folder: Path, form: str, name: str) -> None:
    """Raise if the manifest in ``folder`` is of another format, or of a set that is not called ``name``."""
    path = folder / MANIFEST
    try:
        found = strict_json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return  # none, or a damaged one, which is made again
    if not isinstance(found, dict) or found.get("format") != form:
        raise DataError(f"{path} does not describe a {form}. Choose another folder for {name!r}, or delete that file.")
    if found.get("name") != name:
        raise DataError(
            f"{folder} holds the prepared data set {found.get('name')!r}. Choose another folder for {name!r}."
        )


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write it, which names its ``shards``, and only then remove the other shards and old temporaries."""
    write_atomically(folder / MANIFEST, json.dumps(manifest, ensure_ascii=False).encode())
    # Not before: until here the folder held the old set as a whole.
    _remove_others(folder, {shard["file"] for shard in manifest["shards"]})


def _remove_others(folder: Path, files: Collection[str]) -> None:
    for path in folder.glob("shard-*.safetensors"):
        if FILE.fullmatch(path.name) and path.name not in files:
            path.unlink(missing_ok=True)
    for path in leftovers(folder):
        # A younger one may belong to a second run that is writing the same files.
        if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
            path.unlink(missing_ok=True)


class Shards(Generic[Shard]):
    """All shards of a set: finds item i in the one that holds it. Sent to another process it opens them anew."""

    def __init__(self, folder: Path, listed: Sequence[Mapping[str, Any]], items: int, kind: type[Shard]) -> None:
        """``listed`` as in the manifest: the ``file`` of each and how many ``clips`` (say) are in it."""
        counts = [int(shard[kind.items]) for shard in listed]
        self.folder, self.kind = folder, kind
        self.files = [str(shard["file"]) for shard in listed]
        self.ends = np.cumsum([0, *counts])[1:]
        self._open: dict[int, Shard] = {}
        foreign = [name for name in self.files if not FILE.fullmatch(name)]
        if foreign:
            raise ValueError(f"{foreign[0]!r} is not the name of a shard")
        if sum(counts) != items or any(count < 0 for count in counts):
            raise ValueError(f"the shards' {kind.items} do not add up to the names")

    def find(self, index: int) -> tuple[Shard, int]:
        """The shard that holds item ``index``, and the item's place in it."""
        number = int(np.searchsorted(self.ends, index, side="right"))
        return self._shard(number), index - self._start(number)

    def _shard(self, number: int) -> Shard:
        # Once opened they stay so: a mapped file costs address space, and its checksum would be computed again.
        if number not in self._open:
            shard = self.kind(self.folder / self.files[number])
            expected = int(self.ends[number]) - self._start(number)
            if len(shard) != expected:
                raise FileFormatError(f"{shard.path} holds {len(shard)} {shard.items}; {MANIFEST} says {expected}.")
            self._open[number] = shard
        return self._open[number]

    def _start(self, number: int) -> int:
        return int(self.ends[number - 1]) if number else 0

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": {}}
