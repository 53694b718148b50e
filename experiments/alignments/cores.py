"""Six sediment cores against a dated stack, with radiocarbon ages as independent checks.

A core is δ18O by depth, unevenly sampled and partly measured more than once; the stack is δ18O by age with a standard
deviation for every age. Aligned, every depth gets an age. Calibrated radiocarbon ages judge it, beside the bands that
BIGMACS published. Read from ``alignments/cores`` of the data folder.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.alignments.pairs import Checks, Pair
from udtw.data.folder import data_root
from udtw.errors import DataError, OptionError

CORES = ("GeoB7920-2", "GeoB9508-5", "MD95-2042", "MD99-2334", "ODP658C", "SU81-18")
STACK = "stacks/Prob-Stack.txt"
ONE_SIGMA = 0.6827


@dataclass(frozen=True)
class Band:
    """Published or estimated ages (kyr) by depth: expected, and the bounds of an interval."""

    depth: NDArray
    age: NDArray
    low: NDArray
    high: NDArray


@dataclass(frozen=True, kw_only=True)
class Core(Pair):
    """A core x (M,) by depth and a stack y (N,) by age; the truth is known at depths that were dated."""

    depth: NDArray
    """Of the steps of x, in meters."""
    age: NDArray
    """Of the steps of y, in kyr, evenly spaced."""
    sigma: NDArray
    """Standard deviation of the stack at each step of y."""
    dated: Band
    """Calibrated radiocarbon ages within the depths of the core; low and high bound 68 %."""
    published: Band
    """BIGMACS' ages of the core's depths with 95 % bounds."""

    def checks(self) -> Checks:
        """Return the dated depths as positions in x, their ages as positions in y, and the errors in steps of y."""
        at = np.interp(self.dated.depth, self.depth, np.arange(len(self.depth)))
        truth = (self.dated.age - self.age[0]) / self.step
        return Checks(at, truth, (self.dated.high - self.dated.low) / 2 / self.step)


def cores_folder(data_dir: str | os.PathLike | None) -> Path:
    """Return the folder of the cores, the data folder itself or ``alignments/cores`` of it."""
    root = data_root(data_dir)
    for path in (root / "alignments" / "cores", root):
        if (path / STACK).is_file():
            return path
    raise DataError(f"{root} has neither alignments/cores/{STACK} nor {STACK}.")


def read_numbers(path: Path, n_columns: int) -> NDArray:
    """Read a table of numbers below one line of names, separated by white space, sorted by the first column."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[1:]
        table = np.array([[float(cell) for cell in line.split()] for line in lines if line.strip()])
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a table of numbers: {error}.") from error
    if table.ndim != 2 or table.shape[1] < n_columns or not np.isfinite(table[:, :n_columns]).all():
        raise DataError(f"{path} must have at least {n_columns} columns of finite numbers; got shape {table.shape}.")
    return table[np.argsort(table[:, 0], kind="stable")]


def read_band(path: Path, low: str, high: str) -> Band:
    """Read ages that BIGMACS wrote: depth, lower 95, lower 68, median, mean, upper 68, upper 95."""
    columns = {"95": (1, 6), "68": (2, 5)}
    table = read_numbers(path, 7)
    return Band(table[:, 0], table[:, 3], table[:, columns[low][0]], table[:, columns[high][1]])


def load_core(
    name: str, data_dir: str | os.PathLike | None = None, *, spacing: float | None = None, step: float = 1.0,
    until: float | None = None,
) -> Core:  # fmt: skip
    """Read a core and the part of the stack that it is aligned with.

    Parameters
    ----------
    name : str
        One of `CORES`.
    spacing : float, optional
        Meters between the steps of x, interpolated; by default the measured depths, with replicates averaged.
    step : float
        kyr between the steps of the stack, interpolated; its own spacing is 1 kyr in these ages.
    until : float, optional
        Oldest age of the stack in kyr; by default the published age of the core's lowest sample, rounded up.
    """
    if name not in CORES:
        raise OptionError(f"name must be one of {', '.join(CORES)}; got {name!r}.")
    folder = cores_folder(data_dir)
    samples = read_numbers(folder / "records" / name / "d18O_data.txt", 2)
    depth, place = np.unique(samples[:, 0], return_inverse=True)
    values = np.bincount(place, samples[:, 1]) / np.bincount(place)
    if spacing is not None:
        even = np.arange(depth[0], depth[-1] + 1e-9, spacing)
        depth, values = even, np.interp(even, depth, values)
    published = read_band(folder / "bigmacs" / f"{name}-ages.txt", "95", "95")
    stack = read_numbers(folder / STACK, 3)
    end = until or np.ceil(np.interp(depth[-1], published.depth, published.age))
    age = np.arange(0.0, end + 1e-9, step)
    mean, sigma = (np.interp(age, stack[:, 0], stack[:, column]) for column in (1, 2))
    dated = read_band(folder / "bigmacs" / f"{name}-c14-ages.txt", "68", "68")
    inside = (dated.depth >= depth[0]) & (dated.depth <= depth[-1])
    dated = Band(*(one[inside] for one in (dated.depth, dated.age, dated.low, dated.high)))
    return Core(
        name, values, mean, np.full(len(values), np.nan), step,
        depth=depth, age=age, sigma=sigma, dated=dated, published=published,
    )  # fmt: skip
