"""Read uploaded files: check size limits first, then the content; keep recent uploads in a small cache.

Nothing is written to disk, and file names are only displayed.
"""

import base64
import binascii
import hashlib
import io
import re
import threading
import zipfile
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np

from udtw.data.series_files import read_series
from udtw.data.table import ReadOptions
from udtw.errors import DataError, SizeError, UdtwError
from udtw.images.datasets.safe_images import decode

if TYPE_CHECKING:
    from PIL.Image import Image

UPLOAD = "upload"
"""Name of the set of uploads."""

MAX_SERIES_BYTES = 2 * 2**20
MAX_UNPACKED = 8 * 2**20
"""Largest size of a compressed file of numbers after unpacking."""
MAX_IMAGE_BYTES = 6 * 2**20
MIN_STEPS, MAX_STEPS, MAX_FEATURES = 3, 2048, 16
MAX_LINE = 2**18
ELSEWHERE = "Select a part of it, or use `udtw align` with --band for long series."
MAX_PIXELS = 24_000_000
MAX_NAME = 60
CACHED = 32
"""Number of uploads of one kind to keep; the least recently used is dropped first."""

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class UploadedSeries:
    """Hold a series (T, d), its times as text if any, and notes on how it was read."""

    values: np.ndarray
    times: list[str] | None
    notes: list[str]


def file_name(name: Any) -> str:
    """Return a name that is safe to display: without folders and control characters, and not too long."""
    text = name if isinstance(name, str) else "file"
    text = "".join(letter for letter in text.replace("\\", "/").rpartition("/")[2] if letter.isprintable()).strip()
    return (text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…") or "file"


def decode_contents(contents: Any, name: str, limit: int) -> bytes:
    """Decode a data URL ``data:TYPE;base64,…`` of at most ``limit`` bytes."""
    if not isinstance(contents, str) or not contents.startswith("data:") or ";base64," not in contents[:200]:
        raise DataError(f"{name} was not received as a file. Choose it again.")
    encoded = contents.partition(";base64,")[2]
    if len(encoded) * 3 // 4 > limit + 3:
        raise SizeError(f"{name} has about {len(encoded) * 3 // 4:,} bytes; at most {limit:,} are accepted.")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{name} was damaged in transfer ({error}). Choose it again.") from error


def read_upload(content: bytes, name: str, decimal: str | None = None) -> UploadedSeries:
    """Read a series from any file that the command line reads; ``decimal`` is its decimal separator, if set.

    Sizes are checked before parsing, so that refusing a file is cheap.
    """
    if len(content) > MAX_SERIES_BYTES:
        raise SizeError(f"{name} has {len(content):,} bytes; at most {MAX_SERIES_BYTES:,} are accepted.")
    content = _plain(content, name)
    if not content.startswith((b"PK", b"PAR1", b"\x93NUMPY")) and b"\0" not in content:
        _check_lines(content, name)
    try:
        series = read_series(name, ReadOptions(decimal=decimal), content)
    except UdtwError as error:
        advice = " Choose the decimal separator below the file." if "--decimal" in str(error) else ""
        raise type(error)(_without_flags(str(error)) + advice) from error
    notes = [_without_flags(note) for note in series.notes]
    return UploadedSeries(check_series(series.values, name), series.time_text, notes)


def _plain(content: bytes, name: str) -> bytes:
    """Remove gzip from ``content``; raise an error if it, or another packed format, would become too large."""
    if content.startswith(b"\x1f\x8b"):
        unpacking = zlib.decompressobj(wbits=31)
        try:
            content = unpacking.decompress(content, MAX_UNPACKED + 1)
        except zlib.error as error:
            raise DataError(f"{name} is a damaged gzip file ({error}).") from error
        if len(content) <= MAX_UNPACKED and not unpacking.eof:
            raise DataError(f"{name} is a damaged gzip file (it ends too early).")
    size = len(content)
    if content.startswith(b"PK"):
        try:
            size = sum(one.file_size for one in zipfile.ZipFile(io.BytesIO(content)).infolist())
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise DataError(f"{name} is a damaged spreadsheet or archive ({error}).") from error
    elif content.startswith(b"PAR1"):
        size = _parquet_size(content, name)
    if size > MAX_UNPACKED:
        raise SizeError(f"{name} has more than {MAX_UNPACKED:,} bytes after unpacking. {ELSEWHERE}")
    return content


def _parquet_size(content: bytes, name: str) -> int:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_metadata

    try:
        metadata = read_metadata(io.BytesIO(content))
        groups = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    except (ArrowException, OSError) as error:
        raise DataError(f"{name} is a damaged Parquet file ({error}).") from error
    # Runs of equal values take almost no bytes.
    return max(sum(groups), 8 * metadata.num_rows * metadata.num_columns)


def _check_lines(content: bytes, name: str) -> None:
    lines = content.replace(b"\r", b"\n").split(b"\n")
    if sum(bool(line.strip()) for line in lines) > MAX_STEPS + 1:
        raise SizeError(f"{name} has more than {MAX_STEPS} rows. {ELSEWHERE}")
    if max(map(len, lines)) > MAX_LINE:
        raise SizeError(f"{name} has a line of more than {MAX_LINE:,} characters.")
    widest = max(max(line.count(mark) for mark in b",;\t| ") for line in lines)
    if widest > max(MAX_STEPS, MAX_FEATURES):
        raise SizeError(f"{name} has a row of {widest + 1} values; at most {MAX_STEPS} time steps are shown.")


def _without_flags(text: str) -> str:
    """Remove advice about command-line flags from ``text``."""
    plain = re.sub(r" \([^()]*--[^()]*\)", "", text)
    return " ".join(one for one in re.split(r"(?<=[.;]) ", plain) if "--" not in one)


def check_series(series: np.ndarray, name: str) -> np.ndarray:
    """Check a series (T, d) against the limits of the page, and return it as finite float64."""
    steps, features = series.shape
    if steps < MIN_STEPS:
        raise DataError(f"A series needs at least {MIN_STEPS} time steps; {name} has {steps}.")
    if steps > MAX_STEPS:
        raise SizeError(f"{name} has {steps} time steps; at most {MAX_STEPS} are shown. {ELSEWHERE}")
    if features > MAX_FEATURES:
        raise SizeError(f"{name} has {features} columns; at most {MAX_FEATURES} features are shown.")
    if not np.isfinite(series).all():
        raise DataError(f"{name} has missing values. Choose a series without missing values.")
    if np.abs(series).max() > 1e100:
        raise DataError(f"{name} has values beyond 1e100, whose squares overflow when they are summed.")
    return np.ascontiguousarray(series, dtype=np.float64)


def read_image(content: bytes, name: str) -> "Image":
    """Decode an image in PNG, JPEG or a similar format, with the size checks of the data sets."""
    if len(content) > MAX_IMAGE_BYTES:
        raise SizeError(f"{name} has {len(content):,} bytes; at most {MAX_IMAGE_BYTES:,} are accepted.")
    return decode(content, name, MAX_PIXELS)


class UploadCache(Generic[Kept]):
    """Keep the most recent uploads by key, a hash of name and content computed by the server."""

    def __init__(self, kept: int = CACHED) -> None:
        self._kept = kept
        self._items: OrderedDict[str, tuple[str, Kept]] = OrderedDict()
        self._lock = threading.Lock()  # requests run in threads

    def put(self, name: str, content: bytes, item: Kept) -> str:
        """Store an item and return its key."""
        key = hashlib.sha256(name.encode() + b"\0" + content).hexdigest()[:24]
        with self._lock:
            self._items[key] = (name, item)
            self._items.move_to_end(key)
            while len(self._items) > self._kept:
                self._items.popitem(last=False)
        return key

    def get(self, key: Any) -> tuple[str, Kept]:
        """Return the name and item of an upload."""
        with self._lock:
            if not isinstance(key, str) or key not in self._items:
                raise DataError("The uploaded file is no longer stored. Upload it again.")
            self._items.move_to_end(key)
            return self._items[key]
