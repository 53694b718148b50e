"""Few-shot recognition of actions from skeletons: data sets, joint graphs, encoders and the recognizer."""

from udtw.skeleton.blocks import SkeletonSource, normalize
from udtw.skeleton.datasets import SkeletonSet, load_skeletons, make_actions, prepare, protocol
from udtw.skeleton.encoder import SkeletonEncoder
from udtw.skeleton.graphs import GRAPHS, from_edges, graph
from udtw.skeleton.recognizer import ActionRecognizer, Recipe

__all__ = [
    "ActionRecognizer",
    "Recipe",
    "SkeletonEncoder",
    "SkeletonSet",
    "from_edges",
    "graph",
    "load_skeletons",
    "make_actions",
    "prepare",
    "protocol",
]
