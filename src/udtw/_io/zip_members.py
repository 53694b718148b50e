"""Members of zip files, read into memory by their own names: nothing is written, so no name can leave a folder."""

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
    """A zip file that is damaged or too large; callers raise it again with the name of the file."""


def open_zip(content: bytes) -> zipfile.ZipFile:
    """Open the zip file in ``content``; raise `ArchiveError` if it is damaged."""
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except ZIP_ERRORS as error:
        raise ArchiveError(str(error)) from error


def read_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo, max_bytes: int) -> bytes:
    """Read the bytes of a member; raise `ArchiveError` if it is damaged or has more than ``max_bytes``."""
    try:
        # The size in the directory may be wrong, so that at most one byte more than allowed is read.
        with archive.open(member) as file:
            content = file.read(max_bytes + 1)
    except ZIP_ERRORS as error:
        raise ArchiveError(str(error)) from error
    if len(content) > max_bytes:
        raise ArchiveError(f"more than {max_bytes} bytes, too many for one member")
    return content
