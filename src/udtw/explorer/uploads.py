"""Files that the browser sends: size limits are checked first, then the content; a small cache keeps what was read.

Nothing is written to disk, and the name of a file is only displayed.
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
from udtw.errors import DataError, SizeError, UdtwError
from udtw.images.datasets.safe_images import decode

if TYPE_CHECKING:
    from PIL.Image import Image

UPLOAD = "upload"
"""Name of the set of uploads."""

MAX_SERIES_BYTES = 2 * 2**20
MAX_UNPACKED = 8 * 2**20
"""Bytes that a packed file of numbers may have after unpacking."""
MAX_IMAGE_BYTES = 6 * 2**20
MIN_STEPS, MAX_STEPS, MAX_FEATURES = 3, 2048, 16
MAX_LINE = 2**18
ELSEWHERE = "Select a part of it, or use `udtw align` with --band, which takes long series."
MAX_PIXELS = 24_000_000
MAX_NAME = 60
CACHED = 32
"""How many uploads of one kind are kept; the oldest is dropped first."""

Kept = TypeVar("Kept")


@dataclass(frozen=True)
class UploadedSeries:
    """A series (T, d), its times as texts if it has any, and what was decided when it was read."""

    values: np.ndarray
    times: list[str] | None
    notes: list[str]


def file_name(name: Any) -> str:
    """A name that is safe to display: no folders, no control characters, not too long."""
    text = name if isinstance(name, str) else "file"
    text = "".join(letter for letter in text.replace("\\", "/").rpartition("/")[2] if letter.isprintable()).strip()
    return (text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…") or "file"


def decode_contents(contents: Any, name: str, limit: int) -> bytes:
    """The bytes of a data URL ``data:TYPE;base64,…``, at most ``limit`` of them."""
    if not isinstance(contents, str) or not contents.startswith("data:") or ";base64," not in contents[:200]:
        raise DataError(f"{name} did not arrive as a file. Choose it again.")
    encoded = contents.partition(";base64,")[2]
    if len(encoded) * 3 // 4 > limit + 3:
        raise SizeError(f"{name} has about {len(encoded) * 3 // 4:,} bytes; at most {limit:,} are accepted.")
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(f"{name} was damaged in transfer ({error}). Choose it again.") from error


def read_upload(content: bytes, name: str) -> UploadedSeries:
    """The series in any file that the command line reads.

    Sizes are checked before anything is parsed, so that a file which is refused costs little.
    """
    if len(content) > MAX_SERIES_BYTES:
        raise SizeError(f"{name} has {len(content):,} bytes; at most {MAX_SERIES_BYTES:,} are accepted.")
    content = _plain(content, name)
    if not content.startswith((b"PK", b"PAR1", b"\x93NUMPY")) and b"\0" not in content:
        _check_lines(content, name)
    try:
        found = read_series(name, content=content)
    except UdtwError as error:
        raise type(error)(_without_flags(str(error))) from error
    notes = [_without_flags(note) for note in found.notes]
    return UploadedSeries(check_series(found.values, name), found.time_text, notes)


def _plain(content: bytes, name: str) -> bytes:
    """``content`` without gzip; an error if it, or what else is packed, would become too large."""
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
        found = read_metadata(io.BytesIO(content))
        groups = [found.row_group(number).total_byte_size for number in range(found.num_row_groups)]
    except (ArrowException, OSError) as error:
        raise DataError(f"{name} is a damaged Parquet file ({error}).") from error
    # Runs of equal values take nearly no bytes.
    return max(sum(groups), 8 * found.num_rows * found.num_columns)


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
    """``text`` without advice about flags of the command line."""
    plain = re.sub(r" \([^()]*--[^()]*\)", "", text)
    return " ".join(one for one in re.split(r"(?<=[.;]) ", plain) if "--" not in one)


def check_series(series: np.ndarray, name: str) -> np.ndarray:
    """The series (T, d) as finite float64 within the limits of the page."""
    steps, features = series.shape
    if steps < MIN_STEPS:
        raise DataError(f"{name} has {steps} time step(s); a series needs at least {MIN_STEPS}.")
    if steps > MAX_STEPS:
        raise SizeError(f"{name} has {steps} time steps; at most {MAX_STEPS} are shown. {ELSEWHERE}")
    if features > MAX_FEATURES:
        raise SizeError(f"{name} has {features} columns; at most {MAX_FEATURES} features are shown.")
    if not np.isfinite(series).all():
        raise DataError(f"{name} has missing values. Choose a series without any.")
    if np.abs(series).max() > 1e100:
        raise DataError(f"{name} has values beyond 1e100, whose squares overflow when they are summed.")
    return np.ascontiguousarray(series, dtype=np.float64)


def read_image(content: bytes, name: str) -> "Image":
    """An image in PNG, JPEG or a similar format, decoded with the size checks of the data sets."""
    if len(content) > MAX_IMAGE_BYTES:
        raise SizeError(f"{name} has {len(content):,} bytes; at most {MAX_IMAGE_BYTES:,} are accepted.")
    return decode(content, name, MAX_PIXELS)


class UploadCache(Generic[Kept]):
    """The most recent uploads by key, a hash of name and content made by the server."""

    def __init__(self, kept: int = CACHED) -> None:
        self._kept = kept
        self._items: OrderedDict[str, tuple[str, Kept]] = OrderedDict()
        self._lock = threading.Lock()  # requests run in threads

    def put(self, name: str, content: bytes, item: Kept) -> str:
        """The key under which the item is stored."""
        key = hashlib.sha256(name.encode() + b"\0" + content).hexdigest()[:24]
        with self._lock:
            self._items[key] = (name, item)
            self._items.move_to_end(key)
            while len(self._items) > self._kept:
                self._items.popitem(last=False)
        return key

    def get(self, key: Any) -> tuple[str, Kept]:
        """Name and item of an upload."""
        with self._lock:
            if not isinstance(key, str) or key not in self._items:
                raise DataError("The uploaded file is no longer stored. Upload it again.")
            self._items.move_to_end(key)
            return self._items[key]
