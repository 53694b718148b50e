"""Options of a forecaster: their checks, and what those that were left open mean for each loss."""

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from udtw._engine.likelihood import check_weighting
from udtw._engine.metrics import METRICS, metric_names
from udtw.errors import OptionError

if TYPE_CHECKING:
    from udtw.timeseries.forecaster import SequenceForecaster

OPEN = "auto"
WITHOUT_VARIANCES = {"gamma": 0.1, "warp_penalty": 0.0, "beta": 0.0, "sigma": None, "sigma_range": (0.05, 5.0)}
DEFAULTS: dict[str, dict[str, Any]] = {
    "likelihood": {"gamma": 1.0, "warp_penalty": 2.0, "beta": 1.0, "sigma": "past", "sigma_range": (0.05, 5.0)},
    "precision": {"gamma": 0.1, "warp_penalty": 0.0, "beta": 0.1, "sigma": "context", "sigma_range": (1.0, 1.5)},
}
"""Weighting to the options of a loss with variances that are "auto"; chosen on training series of ECG5000 only."""


def loss_options(forecaster: "SequenceForecaster") -> dict[str, Any]:
    """Options of the loss, with values for those that are "auto"."""
    row = METRICS.get(forecaster.loss)
    uncertain = row is not None and row.uncertain
    defaults = DEFAULTS[forecaster.weighting] if uncertain else WITHOUT_VARIANCES
    given = {name: getattr(forecaster, name) for name in defaults}
    found = {name: defaults[name] if value == OPEN else value for name, value in given.items()}
    if uncertain:
        found["weighting"] = forecaster.weighting
    return found | {"normalize": forecaster.normalize, "band": forecaster.band}


def check_options(forecaster: "SequenceForecaster") -> None:
    """Raise for options that no other part checks where it uses them."""
    if forecaster.loss not in metric_names():
        raise OptionError(f"loss must be one of {metric_names()}; got {forecaster.loss!r}.")
    check_weighting(forecaster.weighting, 0.0)
    for name in ("batch_size", "max_epochs"):
        value = getattr(forecaster, name)
        if not isinstance(value, Integral) or value < 1:
            raise OptionError(f"{name} must be a whole number, 1 or more; got {value!r}.")
    if not forecaster.learning_rate > 0 or not forecaster.weight_decay >= 0:
        raise OptionError(
            "learning_rate must be positive and weight_decay not negative; got "
            f"{forecaster.learning_rate!r} and {forecaster.weight_decay!r}."
        )
    for name in ("validation_fraction", "dropout"):
        if not 0 <= getattr(forecaster, name) < 1:
            raise OptionError(f"{name} must lie in [0, 1); got {getattr(forecaster, name)!r}.")


def hidden_widths(hidden: Any) -> tuple[int, ...]:
    """The widths of the hidden layers, from one number or several."""
    widths = tuple(hidden) if isinstance(hidden, Sequence) else (hidden,)
    if not all(isinstance(width, Integral) and int(width) > 0 for width in widths):
        raise OptionError(f"hidden must be one or several positive whole numbers; got {hidden!r}.")
    return tuple(int(width) for width in widths)
