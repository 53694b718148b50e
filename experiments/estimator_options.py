"""Options of estimators from the settings that are stored with results."""

from collections.abc import Mapping
from typing import Any


def estimator_options(estimator: Any, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings, which have the flat names of version 0.2, as options of the estimator.

    >>> from udtw.timeseries import KNeighborsTimeSeriesClassifier
    >>> estimator_options(KNeighborsTimeSeriesClassifier, {"metric": "dtw", "band": 0.1, "sigma_iter": 5})
    {'metric': 'dtw', 'metric_params': {'band': 0.1}, 'max_iter': 5}
    """
    options: dict[str, Any] = {}
    for name, value in settings.items():
        group, _, key = estimator.old_options.get(name, name).partition(".")
        if key:
            options.setdefault(group, {})[key] = value
        else:
            options[group] = value
    return options
