"""A data set in shards: a folder of plain safetensors files, each named by its number and checksum, and a manifest.

Any reader of safetensors opens a shard; its header lists its items as JSON. Names and manifest add what the
format lacks: safetensors 0.8.0 refuses a file that is cut off, but reads altered values without an error (one flipped
bit of an array of 1000 numbers), and it does not know whether a set is complete. Shards are written one by one and the
manifest last, each in full or not at all: a run that was stopped continues after its last complete shard. Nothing is
pickled. A subclass of `Shard` defines what an item is (a clip, an image); `ShardStore` does the rest.
"""

import hashlib
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from udtw._io import strict_json
from udtw._io.atomic import leftovers, write_atomically
from udtw._io.items import Skipped
from udtw._io.strict_json import read_versioned
from udtw.errors import DataError, FileFormatError, UdtwError

FILE = re.compile(r"shard-(\d{5})-([0-9a-f]{64})\.safetensors")
MANIFEST = "manifest.json"
LEFTOVER_SECONDS = 3600
# What the readers of safetensors, JSON and the arrays raise on damaged input, besides SafetensorError.
DAMAGE = (OSError, LookupError, TypeError, ValueError, OverflowError, AttributeError)

ArraySpec = tuple[str, tuple[int | None, ...]]
"""Type as safetensors names it ("F32") and shape of an array; None for a size that is unknown in advance."""


@dataclass(frozen=True)
class Contents:
    """The description in a shard's header, which is JSON.

    ``plan`` is a checksum of everything the shard was made from (see `checksum`). ``names`` and each of ``columns``
    have one value per item; ``skipped`` lists items that could not be read. ``layout`` is optional metadata needed to
    decode the arrays. ``file`` is the name of the shard's file.
    """

    plan: str
    names: list[str]
    skipped: list[Skipped]
    columns: dict[str, list[int]] = field(default_factory=dict)
    layout: Any = None
    file: str = ""

    def as_json(self) -> dict[str, Any]:
        layout = {} if self.layout is None else {"layout": self.layout}
        skipped = [asdict(one) for one in self.skipped]
        return {"plan": self.plan, **layout, "names": self.names, **self.columns, "skipped": skipped}


class Shard(ABC):
    """A shard mapped into memory: its checksum is compared on opening, and then only requested items are read.

    A subclass sets the class variables and lists the required arrays in `array_specs`.
    """

    format: ClassVar[str]
    """``format`` of the manifest: "udtw.SkeletonSet"."""
    version: ClassVar[int] = 1
    """``version`` of the manifest."""
    items: ClassVar[str]
    """Word for its items in messages, and key of the header: "clips"."""
    content: ClassVar[str]
    """Word for the content in messages: "skeletons"."""
    remedy: ClassVar[str]
    """Advice for a missing or damaged shard: "Prepare the data set again"."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Whole numbers per item that the header holds beside the names: ("labels",)."""

    def __init__(self, path: Path) -> None:
        from safetensors import SafetensorError, safe_open

        check_file(path, self.remedy)
        self.path = path
        try:
            self._file = safe_open(path, framework="numpy")
            header = (self._file.metadata() or {})[self.items]
        except (SafetensorError, *DAMAGE) as error:
            raise FileFormatError(f"{path} is not a shard of {self.content} ({error}).") from error
        self.contents = self._contents(header)
        try:
            self.arrays = {name: _array(self._file, name, spec) for name, spec in self.array_specs().items()}
            self.check()
        except (SafetensorError, *DAMAGE) as error:
            raise FileFormatError(f"{path} is not a shard of {self.content} ({error}).") from error

    @abstractmethod
    def array_specs(self) -> dict[str, ArraySpec]:
        """Return the arrays that a shard with these ``contents`` has; raise `ValueError` for impossible contents."""

    def check(self) -> None:  # noqa: B027 (a subclass may leave it out)
        """Raise a `ValueError` if the values in ``arrays`` do not fit together."""

    def __len__(self) -> int:
        return len(self.contents.names)

    def whole(self, name: str) -> np.ndarray:
        """Read all values of an array; ``arrays[name][i]`` reads only item i, and cannot read an empty array."""
        return self._file.get_tensor(name)

    def _contents(self, header: str) -> Contents:
        try:
            values = strict_json.loads(header)
            columns = {name: list(values[name]) for name in self.columns}
            skipped = as_skipped(values["skipped"])
            contents = Contents(
                str(values["plan"]), list(values["names"]), skipped, columns, values.get("layout"), self.path.name
            )
            if not all(isinstance(name, str) for name in contents.names):
                raise ValueError("a name is not a string")
            if any(type(value) is not int for column in columns.values() for value in column):
                raise ValueError(f"{', '.join(columns)} must be whole numbers")
        except DAMAGE as error:
            raise FileFormatError(f"{self.path} does not list its {self.items} ({error!r}).") from error
        counts = {len(column) for column in (contents.names, *columns.values())}
        if len(counts) > 1:
            raise FileFormatError(f"{self.path} describes different numbers of {self.items}: {sorted(counts)}.")
        return contents


@dataclass(frozen=True)
class Part:
    """A required shard: its number, a checksum of what it is made from, and its items by their indices.

    ``skipped`` are items that are known to be unreadable; they are not among the ``indices``.
    """

    number: int
    plan: str
    indices: Sequence[int]
    skipped: tuple[Skipped, ...] = ()

    def __len__(self) -> int:
        return len(self.indices)


ShardT = TypeVar("ShardT", bound=Shard)
SetT = TypeVar("SetT")


class ShardStore(Generic[ShardT]):
    """A folder of shards of one ``kind`` and their manifest: written by `fill` and `finish`, read by `open`."""

    def __init__(self, folder: Path, kind: type[ShardT]) -> None:
        self.folder, self.kind, self.manifest = folder, kind, folder / MANIFEST

    def start(self, name: str) -> None:
        """Make the folder for the data set ``name``; raise if it already holds another one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            present = strict_json.loads(self.manifest.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return  # none, or a damaged one, which is written again
        if not isinstance(present, dict) or present.get("format") != self.kind.format:
            raise DataError(
                f"{self.manifest} does not describe a {self.kind.format}. Choose another folder for {name!r}, or "
                "delete that file."
            )
        if present.get("name") != name:
            raise DataError(
                f"{self.folder} holds the prepared data set {present.get('name')!r}. Choose another folder for "
                f"{name!r}."
            )

    def fill(
        self,
        parts: Iterable[Part],
        make: Callable[[list[Part]], Iterable[tuple[int, Contents]]],
        *,
        on_error: str,
        advance: Callable[[int], None],
    ) -> tuple[list[Contents], int]:
        """Return the contents of the shards of all ``parts``, in order, and how many of them were written now.

        Complete shards with the plan of their part are kept; ``make`` writes the others and gives the number and
        contents of each. ``advance`` is called with the number of items of each kept shard.
        """
        done: dict[int, Contents] = {}
        missing = []
        for part in parts:
            kept = self._finished(part)
            if kept is None:
                missing.append(part)
            elif on_error == "raise" and kept.skipped:
                raise DataError(kept.skipped[0].reason)
            else:
                done[part.number] = kept
                advance(len(part))
        done.update(make(missing))
        return [done[number] for number in sorted(done)], len(missing)

    def write(self, number: int, contents: Contents, arrays: dict[str, np.ndarray]) -> Contents:
        """Write a shard in full or not at all; its contents as read back, with the name of its file."""
        from safetensors.numpy import save

        content = save(arrays, metadata={self.kind.items: json.dumps(contents.as_json())})
        path = self.folder / f"shard-{number:05d}-{hashlib.sha256(content).hexdigest()}.safetensors"
        write_atomically(path, content)
        return self.kind(path).contents

    def finish(
        self,
        name: str,
        description: Mapping[str, Any],
        parts: Sequence[Contents],
        columns: Mapping[str, Sequence],
        skipped: Sequence[Skipped],
    ) -> None:
        """Write the manifest, and only then remove shards that it does not name, and old temporary files.

        ``description`` are JSON values that describe the set, ``columns`` lists with one value per item.
        """
        content = {
            "format": self.kind.format,
            "version": self.kind.version,
            "name": name,
            **description,
            "shards": [{"file": part.file, self.kind.items: len(part.names)} for part in parts],
            "names": [item for part in parts for item in part.names],
            **columns,
            "skipped": [asdict(one) for one in skipped],
        }
        write_atomically(self.manifest, json.dumps(content, ensure_ascii=False).encode())
        # Not before: until here the folder held the previous set in full.
        _remove_others(self.folder, {part.file for part in parts})

    def is_there(self) -> bool:
        return self.manifest.is_file()

    def read_manifest(self) -> dict[str, Any]:
        """Read the manifest; raise `FileFormatError` if there is none of this format and version."""
        what = f"a folder of shards of {self.kind.content}"
        return read_versioned(self.manifest, self.kind.format, self.kind.version, what)

    def open(self, make: Callable[[dict[str, Any], "Shards[ShardT]"], SetT]) -> SetT:
        """Return what ``make`` builds from manifest and shards; raise `FileFormatError` if the manifest is damaged."""
        manifest = self.read_manifest()
        try:
            manifest["skipped"] = as_skipped(manifest["skipped"])
            return make(manifest, Shards(self.folder, manifest["shards"], len(manifest["names"]), self.kind))
        except DAMAGE as error:
            raise FileFormatError(
                f"{self.manifest} does not describe a set of {self.kind.content}: {error!r}."
            ) from error

    def _finished(self, part: Part) -> Contents | None:
        """Return the contents of a complete shard that was made by the plan of ``part``, or None."""
        for path in sorted(self.folder.glob(f"shard-{part.number:05d}-*.safetensors")):
            try:
                contents = self.kind(path).contents
            except UdtwError:
                continue  # a damaged one is made again
            if contents.plan == part.plan:
                return contents
        return None


class Shards(Generic[ShardT]):
    """All shards of a set: finds the shard that holds item i. A copy in another process opens the files again."""

    def __init__(self, folder: Path, listed: Sequence[Mapping[str, Any]], items: int, kind: type[ShardT]) -> None:
        """Take ``listed`` from the manifest: the ``file`` of each shard and how many ``clips`` (for example) it has."""
        counts = [int(shard[kind.items]) for shard in listed]
        self.folder, self.kind = folder, kind
        self.files = [str(shard["file"]) for shard in listed]
        self.ends = np.cumsum([0, *counts])[1:]
        self._open: dict[int, ShardT] = {}
        foreign = [name for name in self.files if not FILE.fullmatch(name)]
        if foreign:
            raise ValueError(f"{foreign[0]!r} is not the name of a shard")
        if sum(counts) != items or any(count < 0 for count in counts):
            raise ValueError(f"the shards' {kind.items} do not add up to the names")

    def find(self, index: int) -> tuple[ShardT, int]:
        """Return the shard that holds item ``index``, and the item's place in it."""
        number = int(np.searchsorted(self.ends, index, side="right"))
        return self._shard(number), index - self._start(number)

    def _shard(self, number: int) -> ShardT:
        # Shards stay open: a mapped file costs address space only, and opening it again would read it all.
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


def check_file(path: Path, remedy: str) -> None:
    """Read the whole file once and compare it with the checksum in its name."""
    match = FILE.fullmatch(path.name)
    if not match:
        raise FileFormatError(f"{path} does not have the name of a shard.")
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise FileFormatError(f"{path} is missing. {remedy}; the other shards are kept.") from None
    except OSError as error:
        raise FileFormatError(f"{path} cannot be read: {error.strerror}.") from error
    if digest != match[2]:
        raise FileFormatError(
            f"{path} is damaged: its checksum is not the one in its name. {remedy}; the other shards are kept."
        )


def checksum(*values: Any) -> str:
    """Return the sha256 of JSON values, which changes when they do."""
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def as_skipped(values: Sequence[Mapping[str, str]]) -> list[Skipped]:
    """Return skipped items from JSON."""
    return [Skipped(**one) for one in values]


def _array(file: Any, name: str, spec: ArraySpec) -> Any:
    """Return the mapped array ``name``; indexing it reads from the file."""
    dtype, shape = spec
    array = file.get_slice(name)
    present = array.get_shape()
    fits = len(present) == len(shape) and all(want in (None, size) for want, size in zip(shape, present, strict=True))
    if not fits or array.get_dtype() != dtype:
        sizes = ["any" if size is None else size for size in shape]
        raise ValueError(f"{name}: {array.get_dtype()} of {present}, not {dtype} of {sizes}")
    return array


def _remove_others(folder: Path, files: Collection[str]) -> None:
    for path in folder.glob("shard-*.safetensors"):
        if FILE.fullmatch(path.name) and path.name not in files:
            path.unlink(missing_ok=True)
    for path in leftovers(folder):
        # A younger one may belong to a second run that is writing the same files.
        if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
            path.unlink(missing_ok=True)
