"""Data sets of skeletons: their readers, a prepared form that is fast to load, and the published protocols."""

from udtw._io.skipping import Skipped
from udtw.skeleton.datasets.class_splits import ClassSplit
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.faults import Faults
from udtw.skeleton.datasets.loading import DATASETS, find_source, load_skeletons
from udtw.skeleton.datasets.protocols import Protocol, class_split, cross_view, protocol
from udtw.skeleton.datasets.skeleton_set import Entry, SkeletonSet, Source
from udtw.skeleton.datasets.store import Prepared, open_prepared, prepare
from udtw.skeleton.datasets.synthetic import Sensor, make_actions

__all__ = [
    "DATASETS",
    "ClassSplit",
    "Clip",
    "Entry",
    "Faults",
    "Prepared",
    "Protocol",
    "Sensor",
    "SkeletonSet",
    "Skipped",
    "Source",
    "class_split",
    "cross_view",
    "find_source",
    "load_skeletons",
    "make_actions",
    "open_prepared",
    "prepare",
    "protocol",
]
