"""What a forecaster does behind its methods: prepare pasts and futures, build and train networks, forecast."""

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from udtw._io.checkpoint import Checkpoint, History
from udtw._io.device import generator_on
from udtw._io.distributed import Processes
from udtw._io.progress import progress_bar
from udtw._io.training import Training
from udtw.errors import OptionError, ShapeError
from udtw.nn import SigmaNet
from udtw.timeseries import forecaster_files
from udtw.timeseries.forecaster_bands import Bands
from udtw.timeseries.forecaster_model import (
    Floats,
    Forecaster,
    ForecastLoss,
    ForecastTask,
    Pair,
    PastSigma,
    Scale,
    initialise,
    make_loss,
)
from udtw.timeseries.forecaster_options import hidden_widths, loss_options
from udtw.timeseries.forecaster_windows import cut_windows, last_windows, long_series, window_for

Arrays = tuple[Floats, Floats]
"""Pasts (n, T_in, d) and futures (n, T_out, d), as NumPy arrays in the units of the user."""


class ForecasterBase(RegressorMixin, BaseEstimator):
    """The private half of `SequenceForecaster`, whose options it reads."""

    loss: str
    hidden: Any
    dropout: float
    warm_start_euclidean: bool
    learning_rate: float
    weight_decay: float
    batch_size: int
    max_epochs: int
    patience: int | None
    validation_fraction: float
    verbose: bool

    model_: Forecaster
    sigma_: SigmaNet | PastSigma | None
    bands_: Bands
    history_: dict[str, History]
    n_iter_: int

    _device: torch.device
    _past_shape: tuple[int, int]
    _future_shape: tuple[int, int]
    _y_ndim: int
    _relative: bool
    _tail: Floats | None
    """The last windows of the long series given to `fit`; None if it was given futures."""
    _single: bool
    _x_scale: Scale
    _y_scale: Scale

    def _given_pairs(
        self, X: Any, y: Any, X_val: Any, y_val: Any, generator: torch.Generator
    ) -> tuple[Arrays, Arrays | None]:
        """Pasts and futures for training and for validation, from those of the user."""
        x, future, self._y_ndim = self._validated(X, y, reset=True)
        self._past_shape, self._future_shape = x.shape[1:], future.shape[1:]
        self._tail = None
        if (X_val is None) != (y_val is None):
            raise OptionError("Give X_val and y_val together, or neither.")
        if X_val is not None:
            valid = self._validated(X_val, y_val, reset=False)[:2]
            self._check_shapes(*valid)
            return (x, future), valid
        count = int(self.validation_fraction * len(x))
        if count == 0:
            return (x, future), None
        order = torch.randperm(len(x), generator=generator).numpy()
        held, rest = order[:count], order[count:]
        return (x[rest], future[rest]), (x[held], future[held])

    def _window_pairs(self, X: Any, horizon: int, window: int | None) -> tuple[Arrays, Arrays | None]:
        """Pasts and futures for training and for validation, cut from long series."""
        series, form = long_series("X", X)
        window = window_for(series, window, horizon)
        train, valid = cut_windows(series, window, horizon, self.validation_fraction)
        self._past_shape, self._future_shape = train[0].shape[1:], train[1].shape[1:]
        self.n_features_in_, self._y_ndim = window, form.axes
        self._tail, self._single = last_windows("X", series, window), form.single
        return train, valid

    def _fit(
        self, train: Arrays, valid: Arrays | None, generator: torch.Generator,
        checkpoint_path: str | Path | None, processes: Processes,
    ) -> Self:  # fmt: skip
        x, future = train
        level = self._level(x)
        self._x_scale, self._y_scale = Scale.of(x - level), Scale.of(future - level)
        data = self._standardised(x, future), None if valid is None else self._standardised(*valid)
        self.model_, loss = self._networks(generator)
        self.sigma_ = loss.sigma
        generator = generator_on(self._device, generator)
        self.model_.generator = generator
        if loss.past_sigma is not None:
            loss.past_sigma.generator = generator
        self.history_ = {}
        checkpoint = None
        if checkpoint_path is not None:
            settings = forecaster_files.settings_of(self, x, future, *(valid or ()))
            checkpoint = Checkpoint(checkpoint_path, settings, writes=processes.writes)
        try:
            for phase, one in self._phases(loss).items():
                self._train(phase, one, data, generator, processes, checkpoint)
        finally:  # an interrupt finds the best weights in place
            for module in (self.model_, self.sigma_):
                if module is not None:
                    module.generator = None
                    module.to("cpu", torch.float64).eval().requires_grad_(False)
            past, truth = valid or train
            mean, sigma = self._forecast(past)
            self.bands_ = Bands.of(truth - mean, None if self.sigma_ is None else sigma)
            self.n_iter_ = len(self.history_[self.loss].train) if self.loss in self.history_ else 0
        return self

    def _predicted(self, X: Any) -> tuple[Floats, Floats, tuple[int, ...]]:
        """Forecasts and standard deviations (n, T_out, d), and the shape in which they are returned."""
        check_is_fitted(self, "bands_")
        axes, single = self._y_ndim, False
        if self._tail is None:
            X = validate_data(self, X, reset=False, allow_nd=True, dtype=(np.float64, np.float32))
            past = _with_features("X", X)
        elif X is None:
            past, single = self._tail, self._single
        else:
            series, form = long_series("X", X)
            past, axes, single = last_windows("X", series, self._past_shape[0]), form.axes, form.single
        mean, sigma = self._forecast(past)
        shape = (len(mean), *self._future_shape[: axes - 1]) if axes > 1 else (len(mean),)
        return mean, self.bands_.std(sigma), shape[1:] if single else shape

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[Floats, Floats, int]:
        """X (n, T_in, d), y (n, T_out, d) and the number of axes of the given y."""
        if y is not None and not hasattr(y, "shape"):
            y = np.asarray(y)
        shape = () if y is None else tuple(y.shape)
        if len(shape) > 3:
            raise ShapeError(f"y must have shape (n,), (n, T_out) or (n, T_out, d); got {shape}.")
        flat = np.reshape(y, (shape[0], -1)) if len(shape) == 3 else y
        X, checked = validate_data(
            self, X, flat, reset=reset, allow_nd=True, multi_output=True, y_numeric=True, dtype=(np.float64, np.float32)
        )
        full = (len(checked), *shape[1:], *[1] * (3 - len(shape)))
        return _with_features("X", X), checked.reshape(full).astype(float, copy=False), len(shape)

    def _check_shapes(self, x: Floats, future: Floats | None = None) -> None:
        for name, array, shape in (("X", x, self._past_shape), ("y", future, self._future_shape)):
            if array is not None and array.shape[1:] != shape:
                raise ShapeError(f"{name} must have (steps, features) = {shape} as in fit; got {array.shape[1:]}.")

    def _level(self, x: Floats) -> Any:
        """What is subtracted from past and future before they are standardised: (n, 1, d) or zero."""
        return x[:, -1:] if self._relative else 0.0

    def _standardised(self, x: Floats, future: Floats) -> tuple[Tensor, Tensor]:
        level = self._level(x)
        return tuple(  # type: ignore[return-value]
            torch.tensor(scale.apply(array - level), dtype=torch.float32, device=self._device)
            for scale, array in ((self._x_scale, x), (self._y_scale, future))
        )

    def _networks(self, generator: torch.Generator | None = None) -> tuple[Forecaster, ForecastLoss]:
        """The forecaster and its loss; on the meta device, without weights, if there is no generator."""
        hidden, options = hidden_widths(self.hidden), loss_options(self)
        # fork_rng restores the global generator, from which torch initialises new layers.
        with torch.device("meta") if generator is None else torch.random.fork_rng(devices=[]):
            model = Forecaster(self._past_shape, self._future_shape, hidden, self.dropout)
            loss = make_loss(self.loss, self._past_shape, self._future_shape, dropout=self.dropout, **options)
        if generator is not None:
            for module in (model, loss):
                initialise(module, generator)
                module.to(self._device)
        return model, loss

    def _phases(self, loss: ForecastLoss) -> dict[str, ForecastLoss]:
        """The losses to train with, in order."""
        if not self.warm_start_euclidean or self.loss == "euclidean":
            return {self.loss: loss}
        first = make_loss("euclidean", self._past_shape, self._future_shape, sigma=None, sigma_range=None)
        return {"euclidean": first, self.loss: loss}

    def _train(
        self, phase: str, loss: ForecastLoss, data: tuple[Pair, Pair | None], generator: torch.Generator,
        processes: Processes, checkpoint: Checkpoint | None,
    ) -> None:  # fmt: skip
        """Train ``model_`` with the loss of one phase; continue or skip it if the checkpoint says so."""
        if checkpoint is not None and checkpoint.is_past(phase):
            self.history_[phase] = checkpoint.history[phase]
            return
        task = ForecastTask(
            self.model_, loss, *data, generator, rates=(self.learning_rate, self.weight_decay),
            batch_size=self.batch_size, processes=processes,
        )  # fmt: skip
        training = Training(
            task, self.max_epochs, keep_best=True, patience=self.patience, checkpoint=checkpoint, phase=phase
        )
        self.history_[phase] = training.history
        with progress_bar(f"{phase} loss", self.max_epochs, self.verbose) as advance:
            training.run(lambda number, value: advance(note=f"loss {value:.4g}"))

    @torch.no_grad()
    def _forecast(self, x: Floats) -> tuple[Floats, Floats]:
        """Forecast (n, T_out, d) in the units of y and σ (n, T_out, d or 1), which is 1 without a network for it."""
        self._check_shapes(x)
        level = self._level(x)
        past = torch.tensor(self._x_scale.apply(x - level), dtype=torch.float64)
        mean = self.model_(past)
        if self.sigma_ is None:
            sigma = torch.ones_like(mean[..., :1])
        elif isinstance(self.sigma_, PastSigma):
            sigma = self.sigma_(past).sqrt()
        else:
            sigma = self.sigma_(mean).sqrt()[..., None]
        return self._y_scale.undo(mean.numpy()) + level, sigma.numpy()


def _with_features(name: str, array: Floats) -> Floats:
    """(n, T, d) from (n, T) or (n, T, d)."""
    if array.ndim not in (2, 3):
        raise ShapeError(f"{name} must have shape (n, T) or (n, T, d); got {array.shape}.")
    return array[..., None] if array.ndim == 2 else array
