"""Members of zip files, read into memory by their own names and never unpacked: a name cannot lead out of a folder."""

import io
import lzma
import struct
import zipfile
import zlib

# What zipfile raises on damaged files, by experiment; its documentation promises BadZipFile alone.
ZIP_ERRORS = (
    OSError, EOFError, ValueError, LookupError, ArithmeticError, RuntimeError, struct.error, zipfile.BadZipFile,
    zlib.error, lzma.LZMAError,
)  # fmt: skip


class ArchiveError(ValueError):
    """A zip file that is damaged, or holds more than it may; to be raised again with the name of the file."""


def open_zip(content: bytes) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except ZIP_ERRORS as error:
        raise ArchiveError(str(error)) from error


def read_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo, max_bytes: int) -> bytes:
    try:
        # The size in the directory may be a lie, so that one more byte than allowed is asked for, and no more.
        with archive.open(member) as file:
            content = file.read(max_bytes + 1)
    except ZIP_ERRORS as error:
        raise ArchiveError(str(error)) from error
    if len(content) > max_bytes:
        raise ArchiveError(f"more than {max_bytes} bytes, too many for one member")
    return content
