"""Archives of images, unpacked once into a cache folder. Hostile and damaged archives are refused as a whole.

`tarfile.extractall(filter="data")` keeps members inside the target folder, but neither it nor pooch 1.9 bounds how much
is written. So members are checked and copied one by one here, as plain files.
"""

import gzip
import hashlib
import io
import lzma
import os
import re
import secrets
import shutil
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

from udtw._io.atomic import TEMPORARY, leftovers
from udtw._io.progress import progress_bar
from udtw.data.folder import CACHE_VARIABLE, cache_root
from udtw.errors import DataError
from udtw.images.datasets.safe_images import MAX_FILE, is_image

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
# What zipfile and tarfile raise on damaged files, by experiment; their documentation promises a part of it.
ARCHIVE_ERRORS = (
    OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError, MemoryError, struct.error, zlib.error,
    lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError,
)  # fmt: skip
DRIVE = re.compile("[A-Za-z]:")
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
MAX_MEMBERS = 4_000_000  # three times ImageNet
# Images are compressed already. What grows much more than text does was made to fill a disk.
MAX_RATIO, RATIO_FROM, STREAM_RATIO_FROM = 200, 2**20, 64 * 2**20
SHOWN_FROM = 2**28  # bytes of an archive that takes long enough for a progress bar
CHUNK, MEGABYTE = 2**18, 2**20
LEFTOVER_SECONDS = 2 * 86400
APPLE_FOLDER = "__MACOSX"


class Member(NamedTuple):
    """A file of an archive; ``name`` has "/" between folders. ``independent``: others can be read if it is damaged."""

    name: str
    size: int
    independent: bool
    open: Callable[[], IO[bytes]]


def unpack(path: Path) -> Path:
    """Unpack the archive ``path`` into a folder below `udtw.data.folder.cache_root`, and return that folder.

    It is unpacked on first use into a temporary folder, which is then renamed: the folder is there in full or not at
    all. The folder's name has a checksum of the archive's size, time and first and last megabyte, so that a changed
    archive is unpacked again. Hidden files are left out. A damaged image of a zip file becomes an empty file, which is
    refused by name when it is read; any other damage refuses the archive.
    """
    cache = cache_root() / "archives"
    try:
        folder = cache / f"{path.name[:80]}-{_stamp(path)}"
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    if folder.is_dir():
        return folder
    temporary = cache / f".{secrets.token_hex(8)}{TEMPORARY}"
    try:
        temporary.mkdir(parents=True)
        _remove_leftovers(cache)
    except OSError as error:
        raise DataError(
            f"{path} cannot be unpacked into {cache}: {error.strerror}. Set the environment variable {CACHE_VARIABLE} "
            "to a folder that can be written to, or unpack the archive and pass its folder."
        ) from error
    try:
        _unpack_into(temporary, path)
        _rename(temporary, folder)
    except DataError:
        raise
    except ARCHIVE_ERRORS as error:
        raise DataError(
            f"{path} cannot be read, or is damaged: {error or type(error).__name__}. Get the file again."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def is_hidden(part: str) -> bool:
    """Return whether a file or folder was left behind by an operating system: .DS_Store, ._image.png, __MACOSX."""
    return part.startswith(".") or part == APPLE_FOLDER


def _stamp(path: Path) -> str:
    with path.open("rb") as file:
        info = os.fstat(file.fileno())
        checksum = hashlib.sha256(f"{info.st_size} {info.st_mtime_ns} ".encode())
        checksum.update(file.read(MEGABYTE))
        file.seek(max(0, info.st_size - MEGABYTE))
        checksum.update(file.read(MEGABYTE))
    return checksum.hexdigest()[:24]


def _remove_leftovers(cache: Path) -> None:
    """Delete files left by a killed run, once they are so old that no run can still be writing to them."""
    for path in leftovers(cache):
        if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _rename(temporary: Path, folder: Path) -> None:
    try:
        os.rename(temporary, folder)
    except OSError:
        if not folder.is_dir():  # otherwise another process was faster, with the same files
            raise


def _unpack_into(folder: Path, path: Path) -> None:
    packed, free = path.stat().st_size, shutil.disk_usage(folder).free
    opened = _zip_members if path.name.lower().endswith(".zip") else _tar_members
    title = f"unpacking {path.name}, {packed / 1e9:.1f} GB, once into {folder.parent}"
    with opened(path) as (members, total):
        _check_room(path, folder, total, free)
        with progress_bar(title, total // MEGABYTE or None, shown=packed >= SHOWN_FROM) as advance:
            written = 0
            for member in members:
                _check_room(path, folder, written + member.size, free)
                _write(member, folder, path)
                advance((written + member.size) // MEGABYTE - written // MEGABYTE)
                written += member.size


def _check_room(path: Path, folder: Path, wanted: int, free: int) -> None:
    if wanted > free:
        raise DataError(
            f"{path} unpacks to {wanted / 1e9:.2f} GB or more, and {folder.parent} has {free / 1e9:.2f} GB free. "
            f"Set the environment variable {CACHE_VARIABLE} to a folder with more room."
        )


def _write(member: Member, folder: Path, path: Path) -> None:
    target = folder / member.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            try:
                for chunk in _chunks(member):
                    file.write(chunk)
            except _DamagedMember as error:
                if not (member.independent and is_image(member.name)):
                    raise DataError(f"{path}, member {member.name} is damaged: {error}. Get the file again.") from error
                file.truncate(0)
    except OSError as error:
        raise _refused(path, member.name, f"cannot be written to {folder}: {error.strerror or error}") from error


class _DamagedMember(Exception):
    """A file of an archive that cannot be read, as against one that cannot be written."""


def _chunks(member: Member) -> Iterator[bytes]:
    left = member.size
    try:
        with member.open() as source:
            # One byte more than announced, so that the end of the member is reached and its checksum compared.
            while chunk := source.read(min(CHUNK, left + 1)):
                left -= len(chunk)
                if left < 0:
                    raise EOFError(f"it has more than the {member.size} bytes that are announced")
                yield chunk
        if left:
            raise EOFError(f"{left} of {member.size} bytes are missing")
    except ARCHIVE_ERRORS as error:
        raise _DamagedMember(str(error) or type(error).__name__) from error


@contextmanager
def _zip_members(path: Path) -> Iterator[tuple[Iterator[Member], int]]:
    """Return the files of a zip archive, all checked, and the sum of their sizes."""
    with zipfile.ZipFile(path) as archive:
        seen: dict[str, Member] = {}
        for info in archive.infolist():
            _check_zip_info(path, info)
            if not info.is_dir():
                name = _plain(info.filename)
                _check_member(path, name, info.file_size, seen)
                seen[name] = Member(name, info.file_size, True, partial(archive.open, info))
        wanted = [member for member in seen.values() if not _is_junk(member.name)]
        total = sum(member.size for member in wanted)
        packed = path.stat().st_size
        if total > STREAM_RATIO_FROM and total > MAX_RATIO * packed:
            raise DataError(f"{path} is refused: its {packed} bytes unpack to {total}.")
        yield iter(wanted), total


def _check_zip_info(path: Path, info: zipfile.ZipInfo) -> None:
    name = info.filename
    # zipfile cuts a name at its first NUL, and turns the system's separators into "/".
    _check_name(path, info.orig_filename if "\\" in info.orig_filename else name)
    if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _refused(path, name, "is a link or a device")
    if info.flag_bits & 1:
        raise _refused(path, name, "is encrypted")
    if info.compress_type not in METHODS:
        raise _refused(path, name, f"is packed by method {info.compress_type}, not stored or deflated")
    if info.file_size > RATIO_FROM and info.file_size > MAX_RATIO * max(info.compress_size, 1):
        raise _refused(path, name, f"unpacks from {info.compress_size} to {info.file_size} bytes")


@contextmanager
def _tar_members(path: Path) -> Iterator[tuple[Iterator[Member], int]]:
    """Return the files of a tar archive, plain or gzipped, each checked when reached, and the least sum of sizes."""
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw) if packed else raw as unpacked:
            stream = _Stream(unpacked, raw)
            yield _read_tar(path, stream), 0 if packed else path.stat().st_size


def _read_tar(path: Path, stream: "_Stream") -> Iterator[Member]:
    seen: dict[str, None] = {}
    with tarfile.open(fileobj=stream, mode="r:") as archive:
        while (info := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every header
            name = _plain(info.name)
            _check_name(path, info.name)
            if info.isdir():
                continue
            _check_member(path, name, info.size, seen)
            seen[name] = None
            if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or info.sparse is not None:
                raise _refused(path, name, "is a link, a device or a file with holes")
            if not _is_junk(name):
                yield Member(name, info.size, False, partial(_opened, archive, info))
        # tarfile takes a damaged header for the end of the archive.
        if stream.last.strip(b"\0"):
            raise DataError(f"{path} is damaged after {len(seen)} files. Get the file again.")
        while stream.read(CHUNK):  # up to the checksum at the end
            pass


def _opened(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    file = archive.extractfile(info)
    assert file is not None, "only regular files are opened"
    return file


class _Stream(io.RawIOBase):
    """An unpacked stream that is read forwards only; an `OSError` where it grows as no images do.

    ``last`` are the bytes that were read last. ``raw`` is the packed file.
    """

    def __init__(self, unpacked: IO[bytes] | gzip.GzipFile, raw: IO[bytes]) -> None:
        self.unpacked, self.raw, self.last, self._at = unpacked, raw, b"", 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        self.last = self.unpacked.read(size)
        self._at += len(self.last)
        if self._at > STREAM_RATIO_FROM and self._at > MAX_RATIO * self.raw.tell():
            raise OSError(f"{self.raw.tell()} bytes unpack to more than {self._at}")
        return self.last

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or offset < self._at:
            raise OSError("the archive has members in another order than its headers")
        while self._at < offset and self.read(min(CHUNK, offset - self._at)):
            pass
        return self._at


def _check_name(path: Path, name: str) -> None:
    if name.startswith("/") or ".." in name.split("/") or "\\" in name or "\0" in name or DRIVE.match(name):
        raise _refused(path, name, "leads out of the archive")


def _check_member(path: Path, name: str, size: int, seen: dict[str, Member] | dict[str, None]) -> None:
    if not name or name in seen:
        raise _refused(path, name, "occurs twice" if name else "has no name")
    if len(seen) >= MAX_MEMBERS:
        raise DataError(f"{path} is refused: it has more than {MAX_MEMBERS} files.")
    if is_image(name) and size > MAX_FILE:
        raise _refused(path, name, f"unpacks to {size} bytes, too many for an image")


def _refused(path: Path, member: str, why: str) -> DataError:
    return DataError(f"{path} is refused: its member {member!r} {why}.")


def _plain(name: str) -> str:
    """Remove the "./" that tar writes before names."""
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def _is_junk(name: str) -> bool:
    return any(is_hidden(part) for part in name.split("/"))
