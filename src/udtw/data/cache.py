"""Data sets cached as `.npz` files: fast to read, without pickles."""

import io
import os
import zipfile
from pathlib import Path

import numpy as np

from udtw._io.atomic import write_atomically
from udtw._io.npy import read_npy
from udtw._io.zip_members import open_zip, read_member
from udtw.data.labelled import LabelledSeries, UCRData, stack_if_equal
from udtw.errors import DataError

PARTS = ("train", "test")
MAX_RATIO, RATIO_FROM = 200, 64 * 2**20


def save_npz(data: UCRData, path: str | os.PathLike) -> Path:
    """Write a data set as an `.npz` file, which `load_ucr` finds if it is called NAME.npz, and return its path.

    It is written in full or not at all. For each part it holds ``values`` (all steps of all series, d), ``lengths``
    (n,) and ``labels`` (n,).

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.data import UCRData, cylinder_bell_funnel, load_ucr, save_npz
    >>> data = UCRData("CBF", cylinder_bell_funnel(2, random_state=0), cylinder_bell_funnel(5, random_state=1))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = save_npz(data, Path(folder, "CBF.npz"))
    ...     load_ucr("CBF", folder).test.X.shape
    (15, 128)
    """
    arrays = {}
    for part in PARTS:
        labelled: LabelledSeries = getattr(data, part)
        series = [np.asarray(steps, np.float64) for steps in labelled.X]
        arrays[f"{part}_values"] = np.concatenate([s[:, None] if s.ndim == 1 else s for s in series])
        arrays[f"{part}_lengths"] = labelled.lengths
        arrays[f"{part}_labels"] = labelled.y
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **arrays)
    path = Path(path)
    write_atomically(path, buffer.getvalue())
    return path


def read_npz(path: Path, name: str) -> UCRData:
    """The data set that `save_npz` wrote."""
    try:
        content = path.read_bytes()
        # Real series compress far less; a file that expands more was made to exhaust the memory.
        limit = max(RATIO_FROM, MAX_RATIO * len(content))
        with open_zip(content) as archive:
            return UCRData(name, *(_part(archive, part, limit) for part in PARTS))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is not a cache that udtw wrote, or it is damaged ({error}). Delete it.") from error


def _part(archive: zipfile.ZipFile, part: str, limit: int) -> LabelledSeries:
    values, lengths, labels = (
        read_npy(io.BytesIO(read_member(archive, f"{part}_{key}.npy", limit)))
        for key in ("values", "lengths", "labels")
    )
    fits = values.ndim == 2 and lengths.ndim == 1 and lengths.shape == labels.shape and lengths.dtype.kind == "i"
    if not fits or values.dtype != np.float64 or labels.dtype.kind not in "iU" or not len(lengths):
        raise ValueError(f"{part}: arrays of unexpected shape or type")
    if lengths.min() < 1 or lengths.sum() != len(values):
        raise ValueError(f"{part}: the lengths do not add up to the number of steps")
    if np.isinf(values).any():
        raise ValueError(f"{part}: an infinite value")
    values = values[:, 0] if values.shape[1] == 1 else values
    return LabelledSeries(stack_if_equal(np.split(values, np.cumsum(lengths)[:-1])), labels)
