"""Image files by relative names: in a folder, in an archive that is unpacked on first use, or in several of these."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from udtw.data.folder import data_root
from udtw.errors import DataError
from udtw.images.datasets.archives import SUFFIXES, is_hidden, unpack
from udtw.images.datasets.safe_images import MAX_FILE

REFUSED_SUFFIXES = (".tar.bz2", ".tar.xz")


class Files(Protocol):
    """Names have "/" between folders and are relative to ``where``. Hidden files are not listed."""

    where: str

    def files(self) -> list[str]:
        """Return the sorted names of all files, also in folders below."""

    def read(self, name: str) -> bytes:
        """Read the bytes of a file; raise `DataError` if it cannot be read or is too large."""

    def place(self, name: str) -> str:
        """Return where a file is, for messages."""


class Folder:
    """Files of a folder, or of an archive, which stands for the folder that it is unpacked to.

    ``source`` is the folder or archive, ``inner`` a folder in it. Links in a folder are followed: it is the user's own.
    A `Folder` can be sent to other processes, also on machines with another cache, as long as they see ``source``.
    """

    def __init__(self, source: Path, inner: str = "") -> None:
        self.source, self.inner = source.absolute(), inner
        self.where = str(self.source / inner)

    @cached_property
    def root(self) -> Path:
        """Folder of the files on the disk."""
        return (unpack(self.source) if self.source.is_file() else self.source) / self.inner

    def files(self, below: str = "") -> list[str]:
        """Return the sorted names of all files in the folder ``below``, and in folders in it."""
        try:
            return sorted(self._walk(below, frozenset()))
        except OSError as error:
            raise DataError(f"{error.filename} cannot be read: {error.strerror}.") from error

    def _walk(self, below: str, above: frozenset[tuple[int, int]]) -> Iterator[str]:
        folder = self.root / below
        info = folder.stat()
        if (info.st_dev, info.st_ino) in above:  # a link to a folder that this one is in
            return
        with os.scandir(folder) as entries:
            for entry in entries:
                name = f"{below}/{entry.name}" if below else entry.name
                if is_hidden(entry.name):
                    continue
                if entry.is_dir():
                    yield from self._walk(name, above | {(info.st_dev, info.st_ino)})
                elif entry.is_file():
                    yield name

    def has(self, name: str) -> bool:
        """Return whether there is a file or a folder of this name."""
        return (self.root / name).exists()

    def read(self, name: str, max_bytes: int = MAX_FILE) -> bytes:
        """Read the bytes of a file; raise `DataError` if it cannot be read or has more than ``max_bytes``."""
        path, place = self.root / name, self.place(name)
        try:
            info = path.stat()
            if not stat.S_ISREG(info.st_mode):
                raise DataError(f"{place} is not a file.")
            if info.st_size > max_bytes:
                raise DataError(f"{place} has {info.st_size} bytes, more than the {max_bytes} that are read of a file.")
            with path.open("rb") as file:
                return file.read(max_bytes)
        except OSError as error:
            raise DataError(f"{place} cannot be read: {error.strerror}.") from error

    def read_text(self, name: str) -> str:
        """Read the text of a file in UTF-8."""
        try:
            return self.read(name).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{self.place(name)} is damaged, or not text in UTF-8: {error}.") from error

    def place(self, name: str) -> str:
        """Return where a file is, for messages: of an archive its own name in it, not the unpacked file."""
        return f"{self.where}/{name}"

    def part(self, *stems: str) -> "Folder | None":
        """Return the first of the folders ``stems`` that is here, or else the first of the archives, or None.

        "train" is the folder train, or train.zip, train.tar, train.tar.gz or train.tgz. An archive that holds nothing
        but a folder of its own name stands for that folder.
        """
        for stem in stems:
            if (self.root / stem).is_dir():
                return Folder(self.source, f"{self.inner}/{stem}" if self.inner else stem)
        for stem in stems:
            for suffix in (*SUFFIXES, *REFUSED_SUFFIXES):
                if (path := self.root / f"{stem}{suffix}").is_file():
                    archive = open_folder(path)
                    # CIFAR-FS has a class "train" in train.zip, among others.
                    only = [one for one in os.listdir(archive.root) if not is_hidden(one)] == [stem]
                    return Folder(path, stem) if only and (archive.root / stem).is_dir() else archive
        return None

    def only_archive(self) -> "Folder | None":
        """Return the archive that is all that this folder holds, or None."""
        there = [one for one in os.listdir(self.root) if not is_hidden(one)]
        whole = len(there) == 1 and there[0].lower().endswith(SUFFIXES) and (self.root / there[0]).is_file()
        return Folder(self.root / there[0]) if whole else None

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "root"}


class Mounted:
    """Several folders side by side, each under a name of its own."""

    def __init__(self, where: str, folders: Mapping[str, Folder]) -> None:
        self.where, self.folders = where, dict(folders)

    def files(self) -> list[str]:
        return sorted(f"{mount}/{name}" for mount, folder in self.folders.items() for name in folder.files())

    def read(self, name: str) -> bytes:
        mount, _, rest = name.partition("/")
        if mount not in self.folders:
            raise DataError(f"{self.place(name)} does not exist.")
        return self.folders[mount].read(rest)

    def place(self, name: str) -> str:
        mount, _, rest = name.partition("/")
        return self.folders[mount].place(rest) if mount in self.folders else f"{self.where}/{name}"


def open_folder(path: Path) -> Folder:
    """Open a folder or an archive."""
    name = path.name.lower()
    if path.is_dir() or (path.is_file() and name.endswith(SUFFIXES)):
        return Folder(path)
    if name.endswith(REFUSED_SUFFIXES):
        raise DataError(f"{path}: of tar files only plain and gzipped ones are read. Unpack it: tar -xf {path.name}")
    kinds = "a folder, a .zip, .tar, .tar.gz or .tgz file"
    raise DataError(f"{path} {'is not' if path.exists() else 'does not exist; expected'} {kinds}.")


def places(names: Sequence[str], data_dir: str | os.PathLike | None) -> Iterator[Folder]:
    """Return where a data set may be: folders and archives with one of its ``names``, else the folder itself."""
    root = data_root(data_dir)
    if not root.is_dir():
        yield open_folder(root)
        return
    inner = False
    for one in names:
        for above in (root / "images", root):
            if above.is_dir() and (part := Folder(above).part(one)) is not None:
                inner = True
                yield part
    if not inner:
        yield Folder(root)
