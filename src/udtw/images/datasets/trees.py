"""Files by relative names, wherever they lie: in a folder, in an archive, in a part of either, in several of them.

Nothing is ever unpacked to the disk. A tree can be sent to worker processes, which open its files for themselves.
"""

import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path

from udtw.errors import DataError
from udtw.images.datasets.safe_images import MAX_FILE

ARCHIVE_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
APPLE_FOLDER = "__MACOSX"


class Tree(ABC):
    """Names have "/" between folders and are relative to ``where``. Hidden files are not listed."""

    where: str

    @abstractmethod
    def files(self, below: str = "") -> list[str]:
        """Names of all files in the folder ``below``, and in folders in it; sorted."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether there is a file or a folder of this name."""

    @abstractmethod
    def read(self, name: str, max_bytes: int = MAX_FILE) -> bytes:
        """The bytes of a file; `DataError` if it cannot be read or has more than ``max_bytes``."""

    def place(self, name: str) -> str:
        """Where a file is, for messages."""
        return f"{self.where}/{name}"

    def part(self, *stems: str) -> "Tree | None":
        """The first of the folders ``stems`` that is here, or None."""
        return next((Below(self, stem) for stem in stems if self.has(stem)), None)

    def read_text(self, name: str) -> str:
        try:
            return self.read(name).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise DataError(f"{self.place(name)} is damaged, or not text in UTF-8: {error}.") from error


class Folder(Tree):
    """A folder of the disk. Links in it are followed: it is the user's own."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.where = str(self.root)

    def files(self, below: str = "") -> list[str]:
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
        return (self.root / name).exists()

    def read(self, name: str, max_bytes: int = MAX_FILE) -> bytes:
        path = self.root / name
        try:
            info = path.stat()
            if not stat.S_ISREG(info.st_mode):
                raise DataError(f"{path} is not a file.")
            if info.st_size > max_bytes:
                raise DataError(
                    f"{path} has {info.st_size} bytes, more than the {max_bytes} that are read of one file."
                )
            with path.open("rb") as file:
                return file.read(max_bytes)
        except OSError as error:
            raise DataError(f"{path} cannot be read: {error.strerror}.") from error

    def part(self, *stems: str) -> Tree | None:
        """Also archives: "train" is the folder train, or else train.zip, train.tar, train.tar.gz or train.tgz.

        A folder with the archive's own name that holds all of it is left out of the names.
        """
        for stem in stems:
            if (self.root / stem).is_dir():
                return Folder(self.root / stem)
        for stem in stems:
            for suffix in ARCHIVE_SUFFIXES:
                if (path := self.root / f"{stem}{suffix}").is_file():
                    archive = open_tree(path)
                    # CIFAR-FS has a class "train" in train.zip, among others.
                    inner = bool(archive.files()) and all(name.startswith(f"{stem}/") for name in archive.files())
                    return Below(archive, stem) if inner else archive
        return None


class Below(Tree):
    """One folder of another tree."""

    def __init__(self, tree: Tree, prefix: str) -> None:
        self.tree, self.prefix = tree, prefix
        self.where = tree.place(prefix)

    def files(self, below: str = "") -> list[str]:
        inner = self.tree.files(f"{self.prefix}/{below}" if below else self.prefix)
        return [name[len(self.prefix) + 1 :] for name in inner]

    def has(self, name: str) -> bool:
        return self.tree.has(f"{self.prefix}/{name}")

    def read(self, name: str, max_bytes: int = MAX_FILE) -> bytes:
        return self.tree.read(f"{self.prefix}/{name}", max_bytes)

    def place(self, name: str) -> str:
        return self.tree.place(f"{self.prefix}/{name}")


class Mounted(Tree):
    """Several trees side by side, each as a folder of its own name."""

    def __init__(self, where: str, trees: Mapping[str, Tree]) -> None:
        self.where, self.trees = where, dict(trees)

    def files(self, below: str = "") -> list[str]:
        if not below:
            return sorted(f"{mount}/{name}" for mount, tree in self.trees.items() for name in tree.files())
        mount, _, rest = below.partition("/")
        return [f"{mount}/{name}" for name in self.trees[mount].files(rest)] if mount in self.trees else []

    def has(self, name: str) -> bool:
        mount, _, rest = name.partition("/")
        return mount in self.trees and (not rest or self.trees[mount].has(rest))

    def read(self, name: str, max_bytes: int = MAX_FILE) -> bytes:
        mount, _, rest = name.partition("/")
        if mount not in self.trees:
            raise DataError(f"{self.place(name)} does not exist.")
        return self.trees[mount].read(rest, max_bytes)

    def place(self, name: str) -> str:
        mount, _, rest = name.partition("/")
        return self.trees[mount].place(rest) if mount in self.trees else f"{self.where}/{name}"


def open_tree(path: Path) -> Tree:
    """A folder or an archive."""
    from udtw.images.datasets.archives import TarArchive, ZipArchive

    if path.is_dir():
        return Folder(path)
    name = path.name.lower()
    if name.endswith(".zip"):
        return ZipArchive(path)
    if name.endswith((".tar", ".tar.gz", ".tgz")):
        return TarArchive(path)
    if name.endswith((".tar.bz2", ".tar.xz")):
        raise DataError(f"{path} cannot be read at any place but its beginning. Unpack it first: tar -xf {path.name}")
    kinds = "a folder, a .zip, .tar, .tar.gz or .tgz file"
    raise DataError(f"{path} {'is not' if path.exists() else 'does not exist; expected'} {kinds}.")


def is_hidden(part: str) -> bool:
    """Files that systems leave behind: .DS_Store, ._image.png, __MACOSX."""
    return part.startswith(".") or part == APPLE_FOLDER
