"""TrainingSettings: how the networks of losses and estimators are trained."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

from udtw.errors import OptionError

DEFAULT: Any = "auto"
"""Value of a setting that takes the default of the estimator or function."""
RANGES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "batch_size": (lambda value: hasattr(value, "__index__") and value >= 1, "a whole number, 1 or more"),
    "learning_rate": (lambda value: 0 < value < math.inf, "a positive number"),
    "weight_decay": (lambda value: 0 <= value < math.inf, "a number, 0 or more"),
    "dropout": (lambda value: 0 <= value < 1, "in [0, 1)"),
    "validation_fraction": (lambda value: 0 <= value < 1, "in [0, 1)"),
}
"""Setting to a check of its value, and the description for messages."""


@dataclass(frozen=True, repr=False)
class TrainingSettings:
    """Settings of a training, for the option ``training`` of estimators and of `fit_noise`.

    A setting that is "auto" takes the default of the estimator. A dictionary with some of the settings is accepted
    wherever a `TrainingSettings` is. Settings that an estimator does not use raise an `OptionError`.

    Examples
    --------
    >>> from udtw.nn import TrainingSettings
    >>> from udtw.timeseries import KNeighborsTimeSeriesClassifier
    >>> model = KNeighborsTimeSeriesClassifier(training=TrainingSettings(batch_size=16, progress=True))
    >>> same = KNeighborsTimeSeriesClassifier(training={"batch_size": 16, "progress": True})
    """

    batch_size: int = DEFAULT
    """Series (or pairs) per step."""
    learning_rate: float = DEFAULT
    """Rate of Adam; except for forecasters it falls to zero as a cosine."""
    sigma_range: tuple[float, float] = DEFAULT
    """Range (low, high) of σ."""
    objective: str = DEFAULT
    """Training objective, for estimators with several."""
    weight_decay: float = DEFAULT
    """Decoupled weight decay of Adam."""
    dropout: float = DEFAULT
    """Share of hidden units, in [0, 1), dropped at random in training."""
    patience: int | None = DEFAULT
    """Epochs without a new least validation loss after which training ends; None trains for all epochs."""
    validation_fraction: float = DEFAULT
    """Share of the series, in [0, 1), set aside for validation."""
    progress: bool = False
    """Show a progress bar (needs the package rich)."""

    def __repr__(self) -> str:
        given = [f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if self._is_set(one.name)]
        return f"TrainingSettings({', '.join(given)})"

    def _is_set(self, name: str) -> bool:
        return getattr(self, name) != getattr(TrainingSettings, name)


def training_settings(training: Any, user: str, **defaults: Any) -> TrainingSettings:
    """Return the settings ``training`` over ``defaults``, which name the settings that ``user`` has.

    >>> training_settings({"batch_size": 8}, "fit_noise", batch_size=32, learning_rate=0.02).learning_rate
    0.02
    """
    if isinstance(training, TrainingSettings):
        training = vars(training)
    if training is not None and not isinstance(training, Mapping):
        raise OptionError(
            f"training must be a TrainingSettings, a dictionary of its settings or None; got {training!r:.100}."
        )
    given = {name: value for name, value in (training or {}).items() if not isinstance(value, str) or value != DEFAULT}
    if unused := sorted(given.keys() - defaults.keys() - {"progress"}):
        raise OptionError(
            f"{user} has no training setting {', '.join(unused)}; it has {', '.join(defaults)}, progress."
        )
    settings = replace(TrainingSettings(), **{**defaults, **given})
    for name in RANGES.keys() & defaults.keys():
        value, (holds, described) = getattr(settings, name), RANGES[name]
        if not (isinstance(value, Real) and holds(value)):
            raise OptionError(f"{name} must be {described}; got {value!r}.")
    return settings
