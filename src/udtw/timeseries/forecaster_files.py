"""Files of fitted forecasters.

A forecaster is a folder with ``config.json`` and one safetensors file of weights. The weights are written first, under
the name of their own checksum; ``config.json``, which names them, is then replaced atomically. So the folder holds one
complete forecaster whenever the process is killed.
"""

import hashlib
import json
import math
import re
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from udtw._io.atomic import write_atomically
from udtw._io.checkpoint import History
from udtw._io.strict_json import read_versioned
from udtw.errors import FileFormatError, OptionError
from udtw.nn import TrainingSettings
from udtw.timeseries.forecaster_model import Scale
from udtw.timeseries.forecaster_windows import RESOLUTION, Bands
from udtw.timeseries.simple_forecasts import SimpleForecast

FORMAT, VERSION = "udtw.SequenceForecaster", 1
CONFIG = "config.json"
WEIGHTS = re.compile(r"weights-[0-9a-f]{64}\.safetensors")


def save_forecaster(forecaster: Any, folder: Path) -> None:
    """Write ``forecaster`` into ``folder``, created if needed, replacing a forecaster there."""
    from safetensors.torch import save as to_bytes

    arrays = {
        "x_mean": forecaster._x_scale.mean, "x_std": forecaster._x_scale.std, "y_mean": forecaster._y_scale.mean,
        "y_std": forecaster._y_scale.std, "std_scale": forecaster.bands_.scale,
        "quantiles": forecaster.bands_.quantiles,
    }  # fmt: skip
    if forecaster._tail is not None:
        arrays["tail"] = forecaster._tail
    tensors = {name: torch.tensor(array, dtype=torch.float64).contiguous() for name, array in arrays.items()}
    for prefix, module in _modules(forecaster.model_, forecaster.sigma_).items():
        tensors |= {f"{prefix}.{name}": tensor.contiguous() for name, tensor in module.state_dict().items()}
    weights = to_bytes(tensors)
    name = f"weights-{hashlib.sha256(weights).hexdigest()}.safetensors"
    config = {
        "format": FORMAT,
        "version": VERSION,
        "weights": name,
        "params": {key: _plain(key, value) for key, value in forecaster.get_params(deep=False).items()},
        "past": list(forecaster._past_shape),
        "future": list(forecaster._future_shape),
        "y_ndim": forecaster._y_ndim,
        "relative": forecaster._relative,
        "single": forecaster._tail is not None and forecaster._single,
        "simple": None if forecaster._simple is None else vars(forecaster._simple),
        "std_power": forecaster.bands_.power,
        "unit_power": forecaster.bands_.unit_power,
        "calibration_series": forecaster.bands_.count,
        "channel_names": forecaster._names,
        "feature_names": [str(n) for n in getattr(forecaster, "feature_names_in_", [])],
        "loss": forecaster.loss_,
        "history": {phase: vars(history) for phase, history in forecaster.history_.items()},
    }
    text = json.dumps(config, indent=1)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / name, weights)
    write_atomically(folder / CONFIG, text.encode())
    for old in folder.glob("weights-*.safetensors"):
        if old.name != name and WEIGHTS.fullmatch(old.name):
            old.unlink(missing_ok=True)


def check_folder(folder: Path) -> None:
    """Raise `OptionError` if the folder holds files but no forecaster, which are somebody else's."""
    if folder.exists() and not folder.is_dir():
        raise OptionError(f"{folder} is a file; a forecaster is saved to a folder.")
    others = [one.name for one in folder.glob("[!.]*") if not WEIGHTS.fullmatch(one.name)]
    if not others:
        return
    try:
        own = json.loads((folder / CONFIG).read_text(encoding="utf-8")).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        own = False
    if not own:
        raise OptionError(
            f"{folder} holds other files ({', '.join(sorted(others)[:3])}), so a forecaster is not saved there. Choose "
            "a new folder."
        )


def forecaster_settings(forecaster: Any, *arrays: np.ndarray) -> dict[str, Any]:
    """Return everything that the training depends on, as JSON values; the data by their checksum."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype} {array.shape}".encode() + np.ascontiguousarray(array).tobytes())
    params = forecaster.get_params(deep=False)
    settings = {key: _plain(key, value) for key, value in params.items() if key != "device"}
    if settings["training"] is not None:
        settings["training"].pop("progress", None)
    return settings | {"data": digest.hexdigest()}


def load_forecaster(cls: Callable[..., Any], folder: Path, make_networks: Callable) -> Any:
    """Load the forecaster in ``folder``, with model and loss from ``make_networks(forecaster)``.

    Raise a `FileFormatError` for anything that `save_forecaster` did not write.
    """
    if not folder.exists():
        raise FileNotFoundError(f"There is no forecaster at {folder}.")
    config = read_versioned(folder / CONFIG, FORMAT, VERSION, "a saved forecaster")
    try:
        return _build(cls, config, _read_weights(folder, config["weights"]), make_networks)
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{folder / CONFIG} does not describe a forecaster: {error!r}.") from error


def _build(cls: Callable[..., Any], config: dict[str, Any], tensors: dict[str, Tensor], make_networks: Callable) -> Any:
    params: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in config["params"].items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # files of version 0.2 have its options
        if "metric_params" not in params:
            # Files of version 0.2.0 have neither a weighting, which was the paper's, nor quantiles of errors.
            params = {"weighting": "precision"} | params
        forecaster = cls(**params)
    forecaster._relative, forecaster._single = bool(config.get("relative")), bool(config.get("single"))
    forecaster._names = config.get("channel_names")
    forecaster._past_shape, forecaster._future_shape = tuple(config["past"]), tuple(config["future"])
    forecaster._y_ndim = config["y_ndim"]
    sizes = [*config["past"], *config["future"]]
    if len(sizes) != 4 or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise FileFormatError(f"shapes of past and future must be positive; got {sizes}.")
    if forecaster._y_ndim not in (1, 2, 3) or (forecaster._y_ndim == 1 and sizes[2:] != [1, 1]):
        raise FileFormatError(f"y_ndim does not fit the future {sizes[2:]}; got {forecaster._y_ndim!r}.")
    forecaster._simple = _simple_forecast(config.get("simple"), sizes[0])
    power, count = float(config["std_power"]), config.get("calibration_series", 1)
    if not isinstance(count, int) or count < 1:
        raise FileFormatError(f"calibration_series must be a positive number of series; got {count!r:.60}.")
    unit_power = float(config.get("unit_power", 0.0))
    numbers = {"std_power": torch.tensor(power), "unit_power": torch.tensor(unit_power), **tensors}
    bad = [name for name, tensor in numbers.items() if not torch.isfinite(tensor).all()]
    if bad:
        raise FileFormatError(f"{bad[0]} holds NaN or infinity, which makes a forecast impossible.")
    forecaster.n_features_in_ = forecaster._past_shape[0]
    if config["feature_names"]:
        forecaster.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    forecaster.history_ = {phase: History(**history) for phase, history in config["history"].items()}
    forecaster.loss_ = config.get("loss", forecaster.loss)
    trained = forecaster.history_.get(forecaster.loss_)
    forecaster.n_iter_ = 0 if trained is None else len(trained.train)

    def array(name: str, *shape: int) -> Any:
        if tuple(tensors[name].shape) != shape:
            raise FileFormatError(f"{name} must have shape {shape}; got {tuple(tensors[name].shape)}.")
        return tensors[name].double().numpy()

    forecaster._x_scale = Scale(array("x_mean", sizes[1]), array("x_std", sizes[1]))
    forecaster._y_scale = Scale(array("y_mean", sizes[3]), array("y_std", sizes[3]))
    scale = array("std_scale", *sizes[2:])
    if "quantiles" in tensors and count > 0:
        forecaster.bands_ = Bands(power, scale, array("quantiles", RESOLUTION + 1), count, unit_power)
    else:
        forecaster.bands_ = Bands.gaussian(power, scale)
    forecaster._tail = array("tail", len(tensors["tail"]), *sizes[:2]) if "tail" in tensors else None
    forecaster.model_, loss = make_networks(forecaster)
    forecaster.sigma_ = loss.sigma
    for prefix, module in _modules(forecaster.model_, forecaster.sigma_).items():
        own = {k.removeprefix(f"{prefix}."): t for k, t in tensors.items() if k.startswith(f"{prefix}.")}
        module.load_state_dict(own, strict=True, assign=True)
        module.to(torch.float64).eval().requires_grad_(False)
    return forecaster


def _simple_forecast(saved: dict[str, Any] | None, steps: int) -> SimpleForecast | None:
    """Return the simple forecast that windows of so many ``steps`` are compared with."""
    if saved is None:
        return None
    simple = SimpleForecast(**saved | {"least_unit": tuple(map(float, saved["least_unit"]))})
    if not isinstance(simple.season, int) or not 1 <= simple.season < steps:
        raise FileFormatError(f"season must be a number of steps below {steps}; got {simple.season!r:.60}.")
    if not all(math.isfinite(one) for one in (simple.rate or 0.0, simple.drift, *simple.least_unit)):
        raise FileFormatError("The simple forecast has NaN or infinity, which makes a forecast impossible.")
    return simple


def _modules(model: torch.nn.Module, sigma: torch.nn.Module | None) -> dict[str, torch.nn.Module]:
    return {"model": model} if sigma is None else {"model": model, "sigma": sigma}


def _plain(name: str, value: Any) -> Any:
    """Return ``value`` as JSON. A RandomState becomes None, since it is not used after the fit."""
    if isinstance(value, np.random.RandomState):
        return None
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, tuple | list):
        return [_plain(name, item) for item in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(key, item) for key, item in value.items()}
    if isinstance(value, TrainingSettings):
        return {key: _plain(key, item) for key, item in vars(value).items()}
    raise OptionError(f"{name}={value!r} cannot be saved: only numbers, strings, None and collections of them can.")


def _read_weights(folder: Path, name: Any) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load as from_bytes

    if not isinstance(name, str) or not WEIGHTS.fullmatch(name):
        raise FileFormatError(f"{folder / CONFIG} names weights of another form: {name!r}.")
    try:
        content = (folder / name).read_bytes()
        if hashlib.sha256(content).hexdigest() not in name:
            raise FileFormatError(f"{folder / name} is damaged: its checksum is not the one in its name.")
        return from_bytes(content)
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"{folder / name} cannot be read as safetensors: {error}.") from error
