"""Kinetics-skeleton lifted to 3D by a method of the user's: one `.npz` file a clip, without pickles.

Its array ``frames`` is (T, P, 18, 3), float32 or float64: time, one or two people, the joints of OpenPose, x, y, z; NaN
where a joint is missing. Further arrays are passed over.
"""

import io
import math
import zipfile
import zlib

import numpy as np

from udtw.errors import DataError

ARRAY = "frames.npy"
MAX_FRAMES, JOINTS = 10_000, 18


def read_lifted(content: bytes, where: str) -> np.ndarray:
    """Frames (T, P, 18, 3) float32 of the bytes of such a file."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as members, members.open(ARRAY) as file:
            # The header is looked at first: a damaged shape must not decide how much memory is taken.
            shape, fortran, dtype = _header(file)
            _check(where, shape, dtype)
            size = math.prod(shape) * dtype.itemsize
            data = file.read(size + 1)
            if len(data) != size:
                raise ValueError(f"{len(data)} bytes where {size} belong")
    except DataError:
        raise
    except (KeyError, ValueError, OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{where} is not an .npz file with an array frames ({error}). Write it again.") from error
    frames = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
    with np.errstate(over="ignore"):
        frames = np.array(frames, np.float32, order="C")
    frames[~np.isfinite(frames).all(-1)] = np.nan
    return frames


def _header(file) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(file)
    raise ValueError(f"version {version} of NumPy's format")


def _check(where: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    fits = len(shape) == 4 and 1 <= shape[0] <= MAX_FRAMES and shape[1] in (1, 2) and shape[2:] == (JOINTS, 3)
    if not fits or dtype.kind != "f" or dtype.itemsize not in (4, 8):
        raise DataError(
            f"{where}: frames must be (T, P, {JOINTS}, 3) with T up to {MAX_FRAMES} and P 1 or 2, float32 or float64; "
            f"got {dtype} of shape {shape}."
        )
