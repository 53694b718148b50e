"""Data sets of skeletons: their readers, a prepared form that is fast to load, and the published protocols."""

from udtw.skeleton.datasets.faults import Faults
from udtw.skeleton.datasets.loading import load_skeletons
from udtw.skeleton.datasets.protocols import protocol
from udtw.skeleton.datasets.skeleton_set import SkeletonSet
from udtw.skeleton.datasets.store import open_prepared, prepare
from udtw.skeleton.datasets.synthetic import make_actions
