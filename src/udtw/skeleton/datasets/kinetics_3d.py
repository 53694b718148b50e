"""Kinetics-skeleton lifted to 3D by a method of the user's: one `.npz` file a clip, without pickles.

Its array ``frames`` is (T, P, 18, 3), float32 or float64: time, one or two people, the joints of OpenPose, x, y, z; NaN
where a joint is missing. Further arrays are passed over.
"""

import io

import numpy as np

from udtw.data.npy import read_header, read_values
from udtw.data.zip_members import open_zip, read_member
from udtw.errors import DataError

ARRAY = "frames.npy"
MAX_FRAMES, JOINTS, MAX_BYTES = 10_000, 18, 64 * 2**20


def read_lifted(content: bytes, where: str) -> np.ndarray:
    """Frames (T, P, 18, 3) float32 of the bytes of such a file."""
    try:
        file = io.BytesIO(read_member(open_zip(content), ARRAY, MAX_BYTES))
        shape, fortran, dtype = read_header(file)
    except ValueError as error:
        raise DataError(f"{where} is not an .npz file with an array frames ({error}). Write it again.") from error
    _check(where, shape, dtype)
    try:
        frames = read_values(file, shape, fortran, dtype)
    except ValueError as error:
        raise DataError(f"{where}: {error}. Write it again.") from error
    with np.errstate(over="ignore", invalid="ignore"):
        frames = np.array(frames, np.float32, order="C")
    frames[~np.isfinite(frames).all(-1)] = np.nan
    return frames


def _check(where: str, shape: tuple[int, ...], dtype: np.dtype) -> None:
    fits = len(shape) == 4 and 1 <= shape[0] <= MAX_FRAMES and shape[1] in (1, 2) and shape[2:] == (JOINTS, 3)
    if not fits or dtype.kind != "f" or dtype.itemsize not in (4, 8):
        raise DataError(
            f"{where}: frames must be (T, P, {JOINTS}, 3) with T up to {MAX_FRAMES} and P 1 or 2, float32 or float64; "
            f"got {dtype} of shape {shape}."
        )
