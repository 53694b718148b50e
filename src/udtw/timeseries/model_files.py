"""Files of fitted estimators. Nothing is pickled, and no code in a file is run.

Classifiers and clusterers are one safetensors file: class, options and fitted attributes as JSON, in which each array
is replaced by the name of a tensor. Only the kinds of objects listed here are written and read.

A forecaster is a folder; see `forecaster_files`.
"""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._engine.metrics import Metric, get_metric
from udtw._engine.series_set import SeriesSet
from udtw._io.tensor_file import read_tensors, write_tensors
from udtw.errors import FileFormatError, OptionError
from udtw.nn import LocalSigmaNet, SigmaNet, TrainingSettings
from udtw.nn.sigma import SigmaRange
from udtw.timeseries.centroid import NearestCentroidTimeSeriesClassifier
from udtw.timeseries.forecaster import SequenceForecaster
from udtw.timeseries.kmeans import TimeSeriesKMeans
from udtw.timeseries.kmedoids import TimeSeriesKMedoids
from udtw.timeseries.matched_means import Means
from udtw.timeseries.neighbors import KNeighborsTimeSeriesClassifier
from udtw.timeseries.prototypes import Prototypes
from udtw.timeseries.uncertainty import LearnedPrices
from udtw.timeseries.views import SlopeView, ValueView

FORMAT, VERSION = "udtw.timeseries", 1
ESTIMATORS: dict[str, Any] = {
    one.__name__: one
    for one in (
        KNeighborsTimeSeriesClassifier, NearestCentroidTimeSeriesClassifier, TimeSeriesKMeans, TimeSeriesKMedoids,
    )
}  # fmt: skip
RECORDS: dict[str, type] = {one.__name__: one for one in (SeriesSet, Prototypes, Means, SigmaRange, TrainingSettings)}
"""Data classes in the state of estimators."""
NETWORKS: dict[str, Any] = {"sigma_net": SigmaNet, "local_sigma_net": LocalSigmaNet}


def save_model(path: str | Path, estimator: Any, about: Mapping[str, Any] | None = None) -> None:
    """Write a fitted classifier or clusterer to one file, with JSON values ``about``; or a forecaster to a folder.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from udtw.timeseries import KNeighborsTimeSeriesClassifier, load_model, save_model
    >>> model = KNeighborsTimeSeriesClassifier(metric="dtw").fit([[0.0, 1.0, 0.0], [3.0, 4.0, 5.0]], ["low", "high"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(Path(folder) / "model.safetensors", model, {"unit": "K"})
    ...     again, about = load_model(Path(folder) / "model.safetensors")
    >>> again.predict([[0.0, 0.0, 1.0]]).tolist(), about
    (['low'], {'unit': 'K'})
    """
    name = type(estimator).__name__
    if isinstance(estimator, SequenceForecaster):
        if about:
            raise OptionError("A forecaster is saved without about; write it to a file of your own.")
        estimator.save(path)
        return
    if ESTIMATORS.get(name) is not type(estimator):
        raise OptionError(f"{name} cannot be saved; save_model supports {', '.join(ESTIMATORS)}.")
    if not hasattr(estimator, "n_features_in_"):
        raise OptionError(f"This {name} is not fitted; call fit first.")
    params = estimator.get_params(deep=False) | {"device": None}  # another machine may have none but the CPU
    writer = _Writer()
    state = {
        "estimator": name,
        "params": {key: writer.encode(f"params.{key}", value) for key, value in params.items()},
        "fitted": {
            key: writer.encode(f"fitted.{key}", value) for key, value in vars(estimator).items() if key not in params
        },
    }
    write_tensors(Path(path), FORMAT, VERSION, writer.tensors, {"state": state, "about": dict(about or {})})


def load_model(path: str | Path) -> tuple[Any, dict[str, Any]]:
    """Load an estimator and its JSON values from a file, or a folder of a forecaster, that `save_model` wrote.

    Other or damaged files raise a `FileFormatError`.

    Examples
    --------
    >>> from udtw.timeseries import load_model
    >>> load_model("nothing.safetensors")
    Traceback (most recent call last):
    udtw.errors.FileFormatError: There is no saved model at nothing.safetensors.
    """
    if Path(path).is_dir():
        return SequenceForecaster.load(path), {}
    tensors, content = read_tensors(Path(path), FORMAT, VERSION, ("state", "about"), "saved model")
    try:
        state = content["state"]
        if state["estimator"] not in ESTIMATORS:
            raise FileFormatError(f"{path} holds an unknown estimator: {state['estimator']!r:.60}.")
        reader = _Reader(tensors)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # files of version 0.2 have its options
            params = {key: reader.decode(one) for key, one in state["params"].items()}
            estimator = ESTIMATORS[state["estimator"]](**params)
            vars(estimator).update({key: reader.decode(one) for key, one in state["fitted"].items()})
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} does not describe a saved model: {error!r:.200}.") from error
    return estimator, content["about"]


class _Writer:
    """Encodes values as JSON and collects the tensors that they refer to."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def encode(self, name: str, value: Any) -> Any:
        """Return ``value`` as JSON; ``name`` prefixes the names of its tensors."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, bool | int | str):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"number": str(value)}
        if isinstance(value, np.random.RandomState | LearnedPrices):
            return None  # used in training only
        if isinstance(value, list | tuple):
            items = [self.encode(f"{name}.{at}", one) for at, one in enumerate(value)]
            return items if isinstance(value, list) else {"tuple": items}
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            return {"map": {key: self.encode(f"{name}.{key}", one) for key, one in value.items()}}
        if isinstance(value, np.ndarray) and value.dtype.kind in "UO" and value.ndim == 1:
            return {"labels": [self.encode(name, one) for one in value.tolist()], "dtype": value.dtype.kind}
        if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
            self.tensors[name] = torch.from_numpy(np.ascontiguousarray(value))
            return {"array": name}
        if isinstance(value, Tensor):
            self.tensors[name] = value.detach().cpu()
            return {"tensor": name}
        if isinstance(value, Metric):
            return {"metric": value.name, "params": self.encode(name, dict(value.params))}
        if isinstance(value, SigmaNet | LocalSigmaNet):
            self.tensors |= {f"{name}.{key}": one.cpu() for key, one in value.state_dict().items()}
            kind = "sigma_net" if isinstance(value, SigmaNet) else "local_sigma_net"
            return {kind: name, "config": _config(value), "dtype": str(next(value.parameters()).dtype)}
        if isinstance(value, ValueView):
            return {"value_view": self.encode(f"{name}.net", value.net)}
        if isinstance(value, SlopeView):
            weights = self.encode(f"{name}.weights", value.log_weights)
            net = self.encode(f"{name}.net", value.net)
            return {"slope_view": net, "weights": weights, "standardised": value.standardized}
        if type(value) is RECORDS.get(type(value).__name__):
            kept = {key: one for key, one in vars(value).items() if key != "device" and not key.startswith("_")}
            return {
                "record": type(value).__name__,
                "fields": {key: self.encode(f"{name}.{key}", one) for key, one in kept.items()},
            }
        raise OptionError(f"{name}, a {type(value).__name__}, cannot be saved in a model file.")


class _Reader:
    """Decodes the values of `_Writer`."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self.tensors = tensors

    def decode(self, value: Any) -> Any:
        """Return the value of its JSON."""
        if isinstance(value, list):
            return [self.decode(one) for one in value]
        if not isinstance(value, dict):
            return value
        kind = next(iter(value))
        if kind == "number":
            return float(value["number"])
        if kind == "tuple":
            return tuple(self.decode(one) for one in value["tuple"])
        if kind == "map":
            return {key: self.decode(one) for key, one in value["map"].items()}
        if kind == "labels":
            return np.array(value["labels"], dtype=object if value["dtype"] == "O" else np.str_)
        if kind == "array":
            return self.tensors[value["array"]].numpy()
        if kind == "tensor":
            return self.tensors[value["tensor"]]
        if kind == "metric":
            return get_metric(value["metric"]).with_params(**self.decode(value["params"]))
        if kind in NETWORKS:
            return self._network(NETWORKS[kind], value[kind], value)
        if kind == "value_view":
            return ValueView(self.decode(value["value_view"]))
        if kind == "slope_view":
            parts = (self.decode(value[key]) for key in ("slope_view", "weights", "standardised"))
            return SlopeView(*parts).requires_grad_(False)
        if kind == "record":
            return RECORDS[value["record"]](**{key: self.decode(one) for key, one in value["fields"].items()})
        raise FileFormatError(f"The file holds a value of an unknown kind, {kind!r:.60}.")

    def _network(self, make: Any, name: str, value: dict[str, Any]) -> Any:
        net = make(**value["config"]).to(torch.float64 if value["dtype"] == "torch.float64" else torch.float32)
        prefix = f"{name}."
        own = {key.removeprefix(prefix): one for key, one in self.tensors.items() if key.startswith(prefix)}
        net.load_state_dict(own, strict=True)
        return net.requires_grad_(False)


def _config(net: SigmaNet | LocalSigmaNet) -> dict[str, Any]:
    """Return constructor arguments for a network of the same layers."""
    if isinstance(net, SigmaNet):
        return net.hub_config
    return {
        "dim": net.dim, "outputs": net.outputs, "hidden": net.out.in_channels,
        "sigma_range": [net.range.low, net.range.high],
    }  # fmt: skip
