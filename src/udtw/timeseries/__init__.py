"""Time series: barycenters, classifiers, clusters, forecasters and search in long series (extra ``timeseries``)."""

try:
    import sklearn
except ModuleNotFoundError as error:
    if error.name != "sklearn":
        raise
    raise ImportError(
        "udtw.timeseries needs scikit-learn and SciPy; install them with: pip install 'udtw[timeseries]'"
    ) from error

from udtw.timeseries.barycenter import Barycenter, barycenter, class_barycenters
from udtw.timeseries.centroid import NearestCentroidTimeSeriesClassifier
from udtw.timeseries.forecaster import SequenceForecaster
from udtw.timeseries.kmeans import TimeSeriesKMeans
from udtw.timeseries.kmedoids import TimeSeriesKMedoids
from udtw.timeseries.model_files import load_model, save_model
from udtw.timeseries.neighbors import KNeighborsTimeSeriesClassifier
from udtw.timeseries.subsequence import SubsequenceMatch, SubsequenceSearch

__all__ = [
    "KNeighborsTimeSeriesClassifier",
    "NearestCentroidTimeSeriesClassifier",
    "SequenceForecaster",
    "SubsequenceSearch",
    "TimeSeriesKMeans",
    "TimeSeriesKMedoids",
    "barycenter",
    "class_barycenters",
    "load_model",
    "save_model",
]
