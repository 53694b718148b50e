"""Distances for other libraries, as functions and matrices; estimators for sktime and aeon in their modules."""

from udtw.interop.callables import DistanceFunction, dissimilarity, distance_function

__all__ = ["dissimilarity", "distance_function"]
