"""Data sets of skeletons: read once, kept in a form that is fast and safe, split by published protocols."""

from udtw.data.skipping import Skipped
from udtw.skeleton.datasets.clip import Clip
from udtw.skeleton.datasets.loading import find_source, load_skeletons
from udtw.skeleton.datasets.protocols import ClassSplit, Protocol, class_split, protocol
from udtw.skeleton.datasets.skeleton_set import SkeletonSet
from udtw.skeleton.datasets.source import Entry, Source
from udtw.skeleton.datasets.store import Prepared, open_prepared, prepare
from udtw.skeleton.datasets.synthetic import Sensor, make_actions

__all__ = [
    "ClassSplit",
    "Clip",
    "Entry",
    "Prepared",
    "Protocol",
    "Sensor",
    "SkeletonSet",
    "Skipped",
    "Source",
    "class_split",
    "find_source",
    "load_skeletons",
    "make_actions",
    "open_prepared",
    "prepare",
    "protocol",
]
