"""Files of clips whose names match a pattern: in a folder, or in a zip file that is read without unpacking."""

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from udtw._io.zip_members import ArchiveError, open_zip, read_member
from udtw.errors import DataError

MAX_ARCHIVE = 512 * 2**20


@dataclass(frozen=True, eq=False)
class ClipFile:
    """A file or a member of a zip file: ``read()`` gives its bytes, ``where`` its name in messages.

    ``stamp`` changes when the file does; ``size`` is in bytes.
    """

    where: str
    stamp: str
    size: int
    read: Callable[[], bytes]


def numbered_files(path: Path, pattern: re.Pattern, max_bytes: int) -> dict[str, ClipFile]:
    """Find files by name in the zip file ``path``, or in a folder with the files at any depth or with their zip file.

    Only names that match ``pattern`` count. A file of more than ``max_bytes`` is refused when it is read.
    """
    if path.is_file():
        return _in_zip(path, pattern, max_bytes)
    found = _in_folder(path, pattern, max_bytes)
    return found or next(
        (clips for archive in sorted(path.glob("*.zip")) if (clips := _in_zip(archive, pattern, max_bytes))), {}
    )


def _in_folder(folder: Path, pattern: re.Pattern, max_bytes: int) -> dict[str, ClipFile]:
    found = {}
    for file in sorted(folder.rglob("*")):
        if pattern.fullmatch(file.name) and file.is_file():
            info = file.stat()
            read = partial(read_file, file, max_bytes)
            found[file.name] = ClipFile(str(file), f"{info.st_size} {info.st_mtime_ns}", info.st_size, read)
    return found


def read_file(file: Path, max_bytes: int) -> bytes:
    """Read a file, which may not be larger than a clip of its set can be."""
    try:
        size = file.stat().st_size
        if size > max_bytes:
            raise DataError(f"{file} has {size} bytes; a clip of this set may have {max_bytes}.")
        return file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error


def _in_zip(archive: Path, pattern: re.Pattern, max_bytes: int) -> dict[str, ClipFile]:
    found: dict[str, ClipFile] = {}
    try:
        size = archive.stat().st_size
        # As bytes: the directory is read once, and no file stays open while clips are read.
        members = open_zip(archive.read_bytes()) if size <= MAX_ARCHIVE else None
    except OSError as error:
        raise DataError(f"{archive} cannot be read: {error.strerror}.") from error
    except ArchiveError as error:
        raise DataError(f"{archive} is not a complete zip file ({error}). Get it again.") from error
    if members is None:
        raise DataError(f"{archive} has {size} bytes, more than this data set has. Unpack it into a folder first.")
    for info in members.infolist():
        name = PurePosixPath(info.filename).name
        if pattern.fullmatch(name):
            if name in found:
                raise DataError(f"{archive} is refused: it holds {name} twice. Get the file again.")
            where = f"{archive}, member {info.filename}"
            read = partial(_read_member, members, info, where, max_bytes)
            found[name] = ClipFile(where, f"{info.file_size} {info.CRC:08x}", info.file_size, read)
    return found


def _read_member(members: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, max_bytes: int) -> bytes:
    try:
        return read_member(members, info, max_bytes)
    except ArchiveError as error:
        raise DataError(f"{where} is damaged: {error}. Get the file again.") from error
