"""Few-shot recognition of actions from skeletons: joint graphs, blocks of frames, encoders and the recogniser."""

from udtw.skeleton.blocks import Augmentation, SkeletonSource, normalize
from udtw.skeleton.confidence import position_variance, repaired
from udtw.skeleton.encoder import SkeletonEncoder
from udtw.skeleton.graphs import GRAPHS, Graph, from_edges, graph
from udtw.skeleton.recognizer import ActionRecognizer, Recipe

__all__ = [
    "GRAPHS",
    "ActionRecognizer",
    "Augmentation",
    "Graph",
    "Recipe",
    "SkeletonEncoder",
    "SkeletonSource",
    "from_edges",
    "graph",
    "normalize",
    "position_variance",
    "repaired",
]
