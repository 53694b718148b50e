"""Kinetics-skeleton lifted to 3D by a method of the user's: one `.npz` file a clip, without pickles.

Its array ``frames`` is (T, P, 18, 3), float32 or float64: time, one or two people, the joints of OpenPose, x, y, z; NaN
where a joint is missing. Further arrays are passed over.
"""

import io
import math
import tokenize

import numpy as np

from udtw.errors import DataError
from udtw.skeleton.datasets.archives import open_zip, read_member

ARRAY = "frames.npy"
MAX_FRAMES, JOINTS, MAX_BYTES = 10_000, 18, 64 * 2**20


def read_lifted(content: bytes, where: str) -> np.ndarray:
    """Frames (T, P, 18, 3) float32 of the bytes of such a file."""
    try:
        file = io.BytesIO(read_member(open_zip(content), ARRAY, MAX_BYTES))
        shape, fortran, dtype = _header(file)
    except ValueError as error:
        raise DataError(f"{where} is not an .npz file with an array frames ({error}). Write it again.") from error
    _check(where, shape, dtype)
    data = file.read()
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise DataError(f"{where}: {len(data)} bytes of numbers do not make the shape {shape}. Write it again.")
    frames = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    with np.errstate(over="ignore", invalid="ignore"):
        frames = np.array(frames, np.float32, order="C")
    frames[~np.isfinite(frames).all(-1)] = np.nan
    return frames


def _header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order and type, before a damaged shape could decide how much memory is taken."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in readers:
        raise ValueError(f"version {version} of NumPy's format")
    try:
        return readers[version](file)
    # NumPy evaluates the header as a Python literal, and what that raises depends on the damage.
    except (SyntaxError, TypeError, RecursionError, MemoryError, tokenize.TokenError) as error:
        raise ValueError(str(error)) from error


def _check(where: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    fits = len(shape) == 4 and 1 <= shape[0] <= MAX_FRAMES and shape[1] in (1, 2) and shape[2:] == (JOINTS, 3)
    if not fits or dtype.kind != "f" or dtype.itemsize not in (4, 8):
        raise DataError(
            f"{where}: frames must be (T, P, {JOINTS}, 3) with T up to {MAX_FRAMES} and P 1 or 2, float32 or float64; "
            f"got {dtype} of shape {shape}."
        )
