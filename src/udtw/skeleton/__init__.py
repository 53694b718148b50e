"""Few-shot recognition of actions from skeletons: joint graphs, blocks of frames, encoders and the recogniser."""

from udtw.skeleton.blocks import SkeletonSource, normalize
from udtw.skeleton.encoder import SkeletonEncoder
from udtw.skeleton.graphs import GRAPHS, from_edges, graph
from udtw.skeleton.recognizer import ActionRecognizer, Recipe

__all__ = [
    "GRAPHS",
    "ActionRecognizer",
    "Recipe",
    "SkeletonEncoder",
    "SkeletonSource",
    "from_edges",
    "graph",
    "normalize",
]
