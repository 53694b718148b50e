"""Tools for time series with the scikit-learn API (extra ``timeseries``)."""

from udtw.timeseries.forecaster import SequenceForecaster

__all__ = ["SequenceForecaster"]
