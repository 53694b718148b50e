"""Values in MATLAB's `.mat` files of versions 5 to 7.

Not by `scipy.io.loadmat`: SciPy 1.17.1 crashes (segmentation fault) on a data element of an unknown type, and takes
4 GB for a file of 500 bytes whose structure claims 2¹⁴ × 2¹⁴ rows; both are tests here. The part of the format that is
needed is small: a header of 128 bytes, then elements, each with its type, its size and its bytes, some compressed.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

MATRIX, COMPRESSED = 14, 15
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
ENCODINGS = {1: "latin-1", 2: "latin-1", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}
CELL_CLASS, STRUCT_CLASS, TEXT_CLASS = 1, 2, 4
NUMERIC_CLASSES = range(6, 16)
COMPLEX = 0x08
MAX_DIMENSIONS, MAX_DEPTH = 8, 8
ENDIAN = {b"IM": "<", b"MI": ">"}

Parts = Iterator[tuple[int, memoryview]]


def read_array(content: bytes, name: str, max_bytes: int) -> np.ndarray:
    """Return the array of real numbers ``name``, of any shape; raise `ValueError` if it is missing or damaged.

    ``max_bytes`` is the largest size that a compressed element may unpack to.
    """
    data, endian = _find(content, name, max_bytes)
    parts = _elements(data, endian)
    kind, shape, _ = _header(parts, endian)
    return _array(name, kind, shape, parts, endian)


def read_value(content: bytes, name: str, max_bytes: int) -> Any:
    """Return the value ``name``; numbers as by `read_array`, with the same `ValueError`.

    Text (one row) is a str, a cell array a list of its values, and an array of structures a list of dictionaries, both
    in MATLAB's order (columns first).
    """
    data, endian = _find(content, name, max_bytes)
    return _value(data, endian, name, depth=0)


def _find(content: bytes, wanted: str, max_bytes: int) -> tuple[memoryview, str]:
    """Return the content of the matrix with a name, and its byte order."""
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
            if part == MATRIX and _header(_elements(values, endian), endian)[2] == wanted:
                return values, endian
    raise ValueError(f"no array called {wanted}")


def _unpacked(data: memoryview, max_bytes: int) -> bytes:
    try:
        unpacked = zlib.decompressobj().decompress(data, max_bytes + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if len(unpacked) > max_bytes:
        raise ValueError(f"an array of more than {max_bytes} bytes")
    return unpacked


def _elements(data: memoryview, endian: str) -> Parts:
    """Yield type and bytes of each element."""
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


def _header(parts: Parts, endian: str) -> tuple[int, tuple[int, ...], str]:
    """Read class (-1 for complex numbers), shape and name of a matrix; its values are still in ``parts``."""
    flags, dimensions, title = (_numbers(next(parts, None), endian) for _ in range(3))
    kind = int(flags[0]) if flags.size >= 2 else 0
    shape = tuple(int(size) for size in dimensions)
    name = title.astype(np.uint8).tobytes().decode("latin-1")
    return -1 if (kind >> 8) & COMPLEX else kind & 0xFF, shape, name


def _value(data: memoryview, endian: str, name: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ValueError(f"{name} has cells inside cells, more than {MAX_DEPTH} deep")
    parts = _elements(data, endian)
    kind, shape, _ = _header(parts, endian)
    if kind == TEXT_CLASS:
        return _text(name, shape, next(parts, None), endian)
    if kind not in (CELL_CLASS, STRUCT_CLASS):
        return _array(name, kind, shape, parts, endian)
    fields = _fields(parts, endian) if kind == STRUCT_CLASS else [""]
    # Every value takes at least its tag of eight bytes: a larger count is wrong, and is not looped over.
    if min(shape, default=0) < 0 or (count := math.prod(shape)) * max(len(fields), 1) > len(data) // 8:
        raise ValueError(f"{name} is cut off: {len(data)} bytes for the shape {shape}")
    rows = []
    for _ in range(count):
        row = {}
        for field in fields:
            part, inner = next(parts, (0, memoryview(b"")))
            if part != MATRIX:
                raise ValueError(f"{name} is cut off")
            # An empty matrix may be stored without even its header.
            row[field] = _value(inner, endian, f"{name}.{field}", depth + 1) if len(inner) else np.zeros((0, 0))
        rows.append(row)
    return rows if kind == STRUCT_CLASS else [row[""] for row in rows]


def _fields(parts: Parts, endian: str) -> list[str]:
    size, names = (_numbers(next(parts, None), endian) for _ in range(2))
    width = int(size[0]) if size.size == 1 else 0
    if width < 1 or names.size % width:
        raise ValueError(f"{names.size} letters for names of {width} letters")
    letters = names.astype(np.uint8).tobytes()
    return [letters[at : at + width].split(b"\0")[0].decode("latin-1") for at in range(0, len(letters), width)]


def _text(name: str, shape: tuple[int, ...], element: tuple[int, memoryview] | None, endian: str) -> str:
    kind, data = element or (0, memoryview(b""))
    if math.prod(shape) == 0:
        return ""
    if kind not in ENCODINGS or shape[:-1] != (1,) * (len(shape) - 1):
        raise ValueError(f"{name} is not one row of text")
    order = "" if kind in (1, 2, 16) else {"<": "-le", ">": "-be"}[endian]
    return bytes(data).decode(ENCODINGS[kind] + order)  # a UnicodeDecodeError is a ValueError


def _array(name: str, kind: int, shape: tuple[int, ...], parts: Parts, endian: str) -> np.ndarray:
    if kind not in NUMERIC_CLASSES:
        raise ValueError(f"{name} is not an array of real numbers")
    values = _numbers(next(parts, None), endian)
    if not 2 <= len(shape) <= MAX_DIMENSIONS or min(shape) < 0 or math.prod(shape) != values.size:
        raise ValueError(f"{values.size} values for the shape {shape}")
    return values.reshape(shape, order="F")


def _numbers(element: tuple[int, memoryview] | None, endian: str) -> np.ndarray:
    kind, data = element or (0, memoryview(b""))
    if kind not in TYPES:
        raise ValueError(f"data of the unknown type {kind}" if element else "a matrix that is cut off")
    dtype = np.dtype(endian + TYPES[kind])
    if len(data) % dtype.itemsize:
        raise ValueError(f"{len(data)} bytes of numbers of {dtype.itemsize}")
    return np.frombuffer(data, dtype)
