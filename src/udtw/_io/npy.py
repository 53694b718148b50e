"""Arrays in NumPy's `.npy` format from untrusted files: no pickles, one kind of error, no allocation by false sizes.

`numpy.load` allocates the shape that a header claims before it checks that so many bytes follow, and parses the header
as a Python literal, so that damage raises nearly any exception.
"""

import math
import tokenize
from typing import IO

import numpy as np

READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read shape, whether columns come first, and type; raise `ValueError` if the header is damaged.

    The position of ``file`` is then that of the values.
    """
    version = np.lib.format.read_magic(file)
    if version not in READERS:
        raise ValueError(f"version {version} of NumPy's format")
    try:
        return READERS[version](file)
    # NumPy parses the header as a Python literal; the exception depends on the damage.
    except (SyntaxError, TypeError, RecursionError, MemoryError, OverflowError, tokenize.TokenError) as error:
        raise ValueError(str(error)) from error


def read_values(file: IO[bytes], shape: tuple[int, ...], fortran: bool, dtype: np.dtype) -> np.ndarray:
    """Read the rest of ``file`` as a read-only array; raise `ValueError` if it has more or fewer bytes."""
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which would have to be unpickled")
    data = file.read()
    if len(data) != math.prod(shape) * dtype.itemsize or any(not 0 <= size < 2**62 for size in shape):
        raise ValueError(f"{len(data)} bytes of numbers do not make the shape {shape}")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")


def read_npy(file: IO[bytes]) -> np.ndarray:
    """Read the array in ``file``; raise `ValueError` if it is not one, or damaged."""
    return read_values(file, *read_header(file))
