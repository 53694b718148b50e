"""What a forecaster may be asked for: named errors for everything else."""

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from udtw.errors import OptionError, ShapeError
from udtw.timeseries.forecaster_networks import LOSSES

if TYPE_CHECKING:
    from udtw.timeseries.forecaster import SequenceForecaster


def check_options(forecaster: "SequenceForecaster") -> None:
    """Those that no other part checks where it uses them."""
    if forecaster.loss not in LOSSES:
        raise OptionError(f"loss must be one of {LOSSES}; got {forecaster.loss!r}.")
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


def with_features(name: str, array: NDArray[np.floating]) -> NDArray[np.floating]:
    """(n, T, d) from (n, T) or (n, T, d)."""
    if array.ndim not in (2, 3):
        raise ShapeError(f"{name} must have shape (n, T) or (n, T, d); got {array.shape}.")
    return array[..., None] if array.ndim == 2 else array
