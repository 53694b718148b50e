"""Files of clips: read whole, as JSON, or found by a pattern in a folder or a zip file that is not unpacked."""

import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from udtw._io import strict_json
from udtw._io.zip_members import ArchiveError, open_zip, read_member
from udtw.errors import DataError

MAX_ARCHIVE = 512 * 2**20


@dataclass(frozen=True, eq=False)
class ClipFile:
    """A file or a member of a zip file: ``read()`` returns its bytes, ``where`` is its name in messages.

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
    listed = _in_folder(path, pattern, max_bytes)
    return listed or next(
        (clips for archive in sorted(path.glob("*.zip")) if (clips := _in_zip(archive, pattern, max_bytes))), {}
    )


def _in_folder(folder: Path, pattern: re.Pattern, max_bytes: int) -> dict[str, ClipFile]:
    clips = {}
    for file in sorted(folder.rglob("*")):
        if pattern.fullmatch(file.name) and file.is_file():
            info = file.stat()
            read = partial(read_file, file, max_bytes)
            clips[file.name] = ClipFile(str(file), f"{info.st_size} {info.st_mtime_ns}", info.st_size, read)
    return clips


def read_file(path: Path, max_bytes: int) -> bytes:
    """Read a file; raise `DataError` if it has more bytes than a file of its set can have."""
    try:
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
    if len(content) > max_bytes:
        raise DataError(f"{path} has more than {max_bytes} bytes, more than a file of this set. Get it again.")
    return content


def parse_json(content: bytes, where: str) -> Any:
    """Parse JSON; ``where`` names the file in errors."""
    try:
        return strict_json.loads(content)
    except ValueError as error:
        raise DataError(f"{where} is not JSON: {error}. Correct it, get it again, or skip it.") from error


def _in_zip(archive: Path, pattern: re.Pattern, max_bytes: int) -> dict[str, ClipFile]:
    clips: dict[str, ClipFile] = {}
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
            if name in clips:
                raise DataError(f"{archive} is refused: it holds {name} twice. Get the file again.")
            where = f"{archive}, member {info.filename}"
            read = partial(_read_member, members, info, where, max_bytes)
            clips[name] = ClipFile(where, f"{info.file_size} {info.CRC:08x}", info.file_size, read)
    return clips


def _read_member(members: zipfile.ZipFile, info: zipfile.ZipInfo, where: str, max_bytes: int) -> bytes:
    try:
        return read_member(members, info, max_bytes)
    except ArchiveError as error:
        raise DataError(f"{where} is damaged: {error}. Get the file again.") from error
