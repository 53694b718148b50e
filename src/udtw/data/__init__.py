"""Labeled time series: files of the UCR archive, generators, normalization and splits."""

from udtw.data.faults import add_faults
from udtw.data.generators import cylinder_bell_funnel, known_warps, synthetic_control
from udtw.data.labelled import LabelledSeries, UCRData, split_by_seed, znormalize
from udtw.data.ucr import available_ucr, load_ucr, save_npz

__all__ = [
    "LabelledSeries",
    "add_faults",
    "available_ucr",
    "cylinder_bell_funnel",
    "known_warps",
    "load_ucr",
    "synthetic_control",
    "znormalize",
]
