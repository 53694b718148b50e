"""Arrays of numbers in MATLAB's `.mat` files of versions 5 to 7.

SciPy's reader ends the process (a segmentation fault) on some damaged files, one with an unknown type of data for
instance, so that it cannot be used on files that nobody has checked. The part of the format that is needed is small: a
header of 128 bytes, then elements, each with its type, its size and its bytes, some of them compressed.
"""

import math
import struct
import zlib
from collections.abc import Iterator

import numpy as np

MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
NUMERIC_CLASSES = range(6, 16)
COMPLEX = 0x08
MAX_DIMENSIONS = 8
ENDIAN = {b"IM": "<", b"MI": ">"}


def read_array(content: bytes, name: str, max_bytes: int) -> np.ndarray:
    """The real numbers called ``name``, of any shape; `ValueError` if they are not there or the file is damaged.

    ``max_bytes`` bounds what a compressed element may unpack to.
    """
    if len(content) < 128:
        raise ValueError(f"{len(content)} bytes, shorter than a header")
    endian = ENDIAN.get(content[126:128])
    if endian is None:
        raise ValueError("no header of version 5 to 7")
    if struct.unpack(f"{endian}H", content[124:126])[0] != 0x0100:
        raise ValueError("another version than 5 to 7; in MATLAB, save it with -v7")
    for kind, data in _elements(memoryview(content)[128:], endian):
        inner = (
            _elements(memoryview(_unpacked(data, max_bytes)), endian) if kind == COMPRESSED else iter([(kind, data)])
        )
        for part, values in inner:
            found, array = _matrix(values, endian, name) if part == MATRIX else ("", np.zeros(0))
            if found == name:
                return array
    raise ValueError(f"no array called {name}")


def _unpacked(data: memoryview, max_bytes: int) -> bytes:
    try:
        unpacked = zlib.decompressobj().decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(unpacked) > max_bytes:
        raise ValueError(f"an array of more than {max_bytes} bytes")
    return unpacked


def _elements(data: memoryview, endian: str) -> Iterator[tuple[int, memoryview]]:
    """Type and bytes of each element."""
    at = 0
    while at < len(data):
        if at + 8 > len(data):
            raise ValueError("cut off inside a tag")
        kind, size = struct.unpack(f"{endian}II", data[at : at + 8])
        start = at + 8
        if kind >> 16:  # up to four bytes are inside the tag
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
            if size > 4:
                raise ValueError("a short element of more than four bytes")
        if start + size > len(data):
            raise ValueError(f"an element of {size} bytes where {len(data) - start} are left")
        yield kind, data[start : start + size]
        # Compressed elements are not padded.
        at = start + size if kind == COMPRESSED else start + size + (-(start + size)) % 8


def _matrix(data: memoryview, endian: str, wanted: str) -> tuple[str, np.ndarray]:
    """The name of a matrix, and its values if it is the wanted one."""
    parts = _elements(data, endian)
    flags, dimensions, title = (_numbers(next(parts, None), endian) for _ in range(3))
    name = title.astype(np.uint8).tobytes().decode("latin-1")
    if name != wanted:
        return name, np.zeros(0)
    if flags.size < 2 or int(flags[0]) & 0xFF not in NUMERIC_CLASSES or (int(flags[0]) >> 8) & COMPLEX:
        raise ValueError(f"{name} is not an array of real numbers")
    shape = tuple(int(size) for size in dimensions)
    values = _numbers(next(parts, None), endian)
    if not 2 <= len(shape) <= MAX_DIMENSIONS or min(shape) < 0 or math.prod(shape) != values.size:
        raise ValueError(f"{values.size} values for the shape {shape}")
    return name, values.reshape(shape, order="F")


def _numbers(element: tuple[int, memoryview] | None, endian: str) -> np.ndarray:
    kind, data = element or (0, memoryview(b""))
    if kind not in TYPES:
        raise ValueError(f"data of the unknown type {kind}" if element else "a matrix that is cut off")
    dtype = np.dtype(endian + TYPES[kind])
    if len(data) % dtype.itemsize:
        raise ValueError(f"{len(data)} bytes of numbers of {dtype.itemsize}")
    return np.frombuffer(data, dtype)
