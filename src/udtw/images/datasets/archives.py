"""Members of zip and tar files, read into memory by their own names. Hostile archives are refused as a whole."""

import lzma
import os
import re
import stat
import struct
import tarfile
import threading
import zipfile
import zlib
from abc import abstractmethod
from bisect import bisect_left
from pathlib import Path
from typing import IO, Any

from udtw.errors import DataError
from udtw.images.datasets.gzip_file import SeekableGzip
from udtw.images.datasets.safe_images import MAX_FILE, is_image
from udtw.images.datasets.trees import Tree, is_hidden

# What zipfile and tarfile raise on damaged files, by experiment; their documentation promises a part of it.
ARCHIVE_ERRORS = (
    OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError, MemoryError, struct.error, zlib.error,
    lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
)  # fmt: skip
DRIVE = re.compile("[A-Za-z]:")
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Images are compressed already. A member that grows much more than text does was made to fill memories.
MAX_RATIO, RATIO_FROM = 200, 2**20


class Archive(Tree):
    """An archive that is opened when it is first asked, once in each process, and may be asked by several threads."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.where = str(self.path)
        self._forget()

    def _forget(self) -> None:
        self._lock = threading.RLock()
        self._process = -1
        self._open: Any = None
        self._members: dict[str, Any] = {}
        self._names: list[str] = []

    @abstractmethod
    def _load(self) -> tuple[Any, dict[str, Any]]:
        """The open archive, and what is needed to read each of its files, by name."""

    @abstractmethod
    def _read(self, opened: Any, member: Any, max_bytes: int) -> bytes:
        """Up to ``max_bytes`` + 1 bytes of a member."""

    def _opened(self) -> Any:
        """Opened again after a fork, since processes that share a file also share the place where they read."""
        if self._process != os.getpid():
            try:
                self._open, members = self._load()
            except DataError:
                raise
            except ARCHIVE_ERRORS as error:
                raise DataError(
                    f"{self.path} cannot be read, or is damaged: {error or type(error).__name__}. Get the file again."
                ) from error
            self._members = {name: member for name, member in members.items() if not _is_junk(name)}
            self._names = sorted(self._members)
            self._process = os.getpid()
        return self._open

    def files(self, below: str = "") -> list[str]:
        with self._lock:
            self._opened()
            prefix = f"{below}/" if below else ""
            start = bisect_left(self._names, prefix)
            stop = bisect_left(self._names, f"{below}0") if below else len(self._names)  # "0" comes after "/"
            return self._names[start:stop]

    def has(self, name: str) -> bool:
        with self._lock:
            self._opened()
            return name in self._members or bool(self.files(name))

    def read(self, name: str, max_bytes: int = MAX_FILE) -> bytes:
        with self._lock:
            opened = self._opened()
            if name not in self._members:
                raise DataError(f"{self.path} has no member {name}.")
            try:
                content = self._read(opened, self._members[name], max_bytes)
            except ARCHIVE_ERRORS as error:
                raise DataError(
                    f"{self.place(name)} is damaged: {error or type(error).__name__}. Get the file again."
                ) from error
        if len(content) > max_bytes:
            raise DataError(f"{self.place(name)} has more bytes than the {max_bytes} that are read of one file.")
        return content

    def place(self, name: str) -> str:
        return f"{self.path}, member {name}"

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]

    def _refuse(self, member: str, why: str) -> DataError:
        return DataError(f"{self.path} is refused: its member {member!r} {why}.")

    def _check_name(self, name: str, seen: dict[str, Any]) -> None:
        parts = name.split("/")
        if name.startswith("/") or ".." in parts or "\\" in name or "\0" in name or DRIVE.match(name):
            raise self._refuse(name, "leads out of the archive")
        if name in seen:
            raise self._refuse(name, "is there twice")

    def _check_size(self, name: str, size: int) -> None:
        if is_image(name) and size > MAX_FILE:
            raise self._refuse(name, f"unpacks to {size} bytes, too many for an image")


class ZipArchive(Archive):
    def _load(self) -> tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]:
        archive = zipfile.ZipFile(self.path)
        members: dict[str, zipfile.ZipInfo] = {}
        try:
            for info in archive.infolist():
                self._check(info, members)
                if not info.is_dir():
                    members[_plain(info.filename)] = info
        except DataError:
            archive.close()
            raise
        return archive, members

    def _check(self, info: zipfile.ZipInfo, members: dict[str, zipfile.ZipInfo]) -> None:
        name = info.filename
        # zipfile cuts a name at its first NUL, and turns the system's separators into "/".
        self._check_name(info.orig_filename if "\\" in info.orig_filename else name, {})
        self._check_name(_plain(name), members)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise self._refuse(name, "is a link or a device")
        if info.flag_bits & 1:
            raise self._refuse(name, "is encrypted")
        if info.compress_type not in METHODS:
            raise self._refuse(name, f"is packed by method {info.compress_type}, not stored or deflated")
        self._check_size(name, info.file_size)
        if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * max(info.compress_size, 1):
            raise self._refuse(name, f"unpacks from {info.compress_size} to {info.file_size} bytes")

    def _read(self, opened: zipfile.ZipFile, member: zipfile.ZipInfo, max_bytes: int) -> bytes:
        # The size in the directory may be a lie, so that one more byte than allowed is asked for, and no more.
        with opened.open(member) as file:
            return file.read(max_bytes + 1)


class TarArchive(Archive):
    """A tar file, plain or gzipped: its headers are read once, its members where they lie."""

    def _load(self) -> tuple["_TarFile", dict[str, tuple[int, int]]]:
        opened = _TarFile(self.path)
        members: dict[str, tuple[int, int]] = {}
        try:
            # Kept nowhere but in ``members``: a TarFile remembers every header.
            with tarfile.open(fileobj=opened.file, mode="r:") as archive:
                for info in archive:
                    name = _plain(info.name)
                    self._check_name(info.name, {})
                    self._check_name(name, members)
                    if info.isdir():
                        continue
                    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.sparse is not None:
                        raise self._refuse(name, "is a link, a device or a file with holes")
                    self._check_size(name, info.size)
                    members[name] = (info.offset_data, info.size)
                end = archive.offset
            # tarfile takes a damaged header for the end of the archive.
            opened.file.seek(end)
            if opened.file.read(tarfile.BLOCKSIZE).strip(b"\0"):
                raise DataError(f"{self.path} is damaged after {len(members)} files. Get the file again.")
        except BaseException:
            opened.file.close()
            raise
        return opened, members

    def _read(self, opened: "_TarFile", member: tuple[int, int], max_bytes: int) -> bytes:
        start, size = member
        opened.file.seek(start)
        wanted = min(size, max_bytes + 1)
        content = opened.file.read(wanted)
        if len(content) < wanted:
            raise EOFError(f"{len(content)} of {size} bytes are there")
        return content


class _TarFile:
    """The bytes of a tar file, closed when nobody has it any more."""

    def __init__(self, path: Path) -> None:
        raw = path.open("rb")
        self.file: IO[bytes] | SeekableGzip = raw
        if raw.read(2) == b"\x1f\x8b":
            self.file = SeekableGzip(raw)
        raw.seek(0)

    def __del__(self) -> None:
        if hasattr(self, "file"):
            self.file.close()


def _plain(name: str) -> str:
    """Without the "./" that tar writes before names."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _is_junk(name: str) -> bool:
    return any(is_hidden(part) for part in name.split("/"))
