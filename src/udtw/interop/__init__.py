"""udtw inside other libraries: distances as functions and matrices here; estimators in `sktime` and `aeon`."""

from udtw.interop.callables import DistanceFunction, dissimilarity, distance_function

__all__ = ["DistanceFunction", "dissimilarity", "distance_function"]
