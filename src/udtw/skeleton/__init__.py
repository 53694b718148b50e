"""Few-shot recognition of actions from skeletons: joint graphs, blocks of frames, encoders and the recogniser."""

from udtw.skeleton.blocks import Augmentation, SkeletonSource, normalize, turned
from udtw.skeleton.confidence import plausible_confidence, position_variance, repaired
from udtw.skeleton.encoder import SkeletonEncoder
from udtw.skeleton.graphs import GRAPHS, Graph, from_edges, graph
from udtw.skeleton.recognizer import ActionRecognizer, Recipe
from udtw.skeleton.sides import swapped_limbs, unswapped

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
    "plausible_confidence",
    "position_variance",
    "repaired",
    "swapped_limbs",
    "turned",
    "unswapped",
]
