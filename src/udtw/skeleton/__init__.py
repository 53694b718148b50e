"""Skeleton sequences: joint graphs, blocks and the encoder of few-shot action recognition."""

from udtw.skeleton.encoder import SkeletonEncoder
from udtw.skeleton.graphs import GRAPHS, Graph, from_edges, graph
from udtw.skeleton.recipe import Recipe
from udtw.skeleton.recognizer import ActionRecognizer
from udtw.skeleton.source import SkeletonSource

__all__ = ["GRAPHS", "ActionRecognizer", "Graph", "Recipe", "SkeletonEncoder", "SkeletonSource", "from_edges", "graph"]
