"""SequenceForecaster: forecast the future of a series from its past, trained by a distance between sequences."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from udtw._engine.likelihood import check_weighting
from udtw._engine.metrics import METRICS, metric_names
from udtw._io.checkpoint import Checkpoint, History
from udtw._io.device import Device, checked_device, generator_on
from udtw._io.distributed import Processes
from udtw._io.progress import progress_bar
from udtw._io.training import Training
from udtw.errors import OptionError, ShapeError
from udtw.nn import SigmaNet, TrainingSettings
from udtw.nn.training import training_settings
from udtw.timeseries.base import MetricEstimator, accepts_old_options, check_counts, checked_params
from udtw.timeseries.forecaster_files import check_folder, forecaster_settings, load_forecaster, save_forecaster
from udtw.timeseries.forecaster_model import (
    Floats,
    Forecaster,
    ForecastLoss,
    ForecastTask,
    Pair,
    PastSigma,
    Scale,
    initialize,
    make_loss,
)
from udtw.timeseries.forecaster_windows import Bands, cut_windows, last_windows, long_series, window_for
from udtw.timeseries.simple_forecasts import SimpleForecast, check_season, choose, find_seasons

Arrays = tuple[Floats, Floats]
"""Pasts (n, T_in, d) and futures (n, T_out, d), as NumPy arrays in the units of the user."""
AUTO = "auto"
WITHOUT_VARIANCES = {"gamma": 0.1, "warp_penalty": 0.0, "beta": 0.0, "sigma": None, "sigma_range": (0.05, 5.0)}
DEFAULTS: dict[str, dict[str, Any]] = {
    "likelihood": {"gamma": 1.0, "warp_penalty": 2.0, "beta": 1.0, "sigma": "past", "sigma_range": (0.05, 5.0)},
    "precision": {"gamma": 0.1, "warp_penalty": 0.0, "beta": 0.1, "sigma": "context", "sigma_range": (1.0, 1.5)},
}
"""Weighting to the defaults of a loss with variances, chosen on training series of ECG5000 only."""
TRAINING_DEFAULTS: dict[str, Any] = {
    "batch_size": 50, "learning_rate": 1e-3, "weight_decay": 0.0, "dropout": 0.2, "patience": 20,
    "validation_fraction": 0.2, "sigma_range": AUTO,
}  # fmt: skip


@accepts_old_options
class SequenceForecaster(RegressorMixin, MetricEstimator):
    """Forecast the future of a series from its past by a multilayer perceptron trained with an alignment loss.

    Past and future are standardized, each by one mean and standard deviation per feature (of the training data, over
    all series and steps), so that γ, β and the learning rate mean the same for every data set. Forecasts are returned
    in the units of ``y``.

    Parameters
    ----------
    loss : str
        Metric between forecast and true future. "udtw" aligns them by the posterior over paths, with a variance for
        each step of the future that is learned with the forecaster. "auto" trains with "euclidean" and then "udtw", and
        keeps the weights with the lower squared error on the validation series.
    metric_params : dict, optional
        Parameters of that metric, as keywords of `udtw.pairwise`, in units of standardized series. Defaults:

        - "udtw" (``weighting="likelihood"``): γ = 1, β = 1, ω = 2. Paths pay for uncertainty; forecast and variances
          learn by the "faithful" objective of `udtw.nn.UDTWLoss`;
        - "udtw" with ``weighting="precision"``, the paper's ``E[D/Σ] + β·E[log Σ]``: γ = 0.1, β = 0.1, ω = 0;
        - others: γ = 0.1, ω = 0.

        ``normalize`` is "length". A large ω (``warp_penalty``) is close to a loss step by step.
    sigma : "past", "series", "context", "step", "auto" or None
        Input of the network for the variances of "udtw": the past, or the aligned future (all of it, 9 steps, or one).
        None: Σ = 1. "auto" is "past", or "context" for ``weighting="precision"``.
    max_iter : int
        Most epochs, for each phase of the training.
    hidden : int or sequence of int
        Width of the hidden layer(s), with ReLU after each; () for a linear forecaster.
    training : TrainingSettings or dict, optional
        Has ``batch_size`` (50), ``learning_rate`` (0.001), ``weight_decay`` (0), ``dropout`` (0.2), ``patience`` (20
        epochs without a new least validation loss; None trains for all epochs; the best weights are kept in any case),
        ``validation_fraction`` (0.2, of the series if ``fit`` gets no validation set; below one series the training
        loss is used instead), ``sigma_range`` and ``progress``. The range of σ, in standardized units, is 0.05 to 5, or
        1 to 1.5 for ``weighting="precision"``, where σ < 1 would make the regularizer negative and reward longer paths.
    relative : bool or None
        Forecast the difference from the last observed value, for series with a drifting level. None: if ``fit`` gets a
        ``horizon``, the difference from the best simple forecast: the last season repeated, or a smoothed level with a
        drift, in units of the changes within each window.
    warm_start_euclidean : bool
        Train with the Euclidean loss first and continue from its best weights. It costs one short training and keeps
        the forecast in phase: an alignment loss alone accepts a future that is right but too early or too late.
    random_state : int, RandomState or None
        Seed of split, weights and order of the batches. An int makes ``fit`` reproducible; no global random state is
        read or changed.
    device : str, torch.device or None
        Device for training; None is the CPU. A fitted forecaster predicts on the CPU, in float64.

    Attributes
    ----------
    model_ : torch.nn.Module
        The network, for standardized series.
    sigma_ : torch.nn.Module or None
        Network for variances of standardized futures.
    loss_ : str
        The loss whose weights were kept.
    season_ : int
        Steps of a season, if ``fit`` got a horizon; 1 if there is none.
    bands_ : Bands
        Calibration of the uncertainty: see `predict` and `predict_interval`.
    history_ : dict of str to History
        Losses by epoch of each phase, "euclidean" (the warm start) and that of ``loss``.
    n_iter_ : int
        Epochs with the loss that was kept.
    n_features_in_ : int
        Steps T_in of the past.

    Notes
    -----
    Ctrl-C during `fit` leaves the best weights so far in place, ready for `predict`, and is raised again.

    Examples
    --------
    >>> import numpy as np
    >>> from udtw.timeseries import SequenceForecaster
    >>> series = np.sin(np.arange(24) / 3 + np.linspace(0, 6, 60)[:, None])  # 60 waves of 24 steps
    >>> past, future = series[:, :14], series[:, 14:]
    >>> options = {"hidden": 32, "max_iter": 20, "training": {"learning_rate": 0.01}, "random_state": 0}
    >>> forecaster = SequenceForecaster("udtw", **options)
    >>> forecast, std = forecaster.fit(past, future).predict(past, return_std=True)
    >>> forecast.shape, std.shape
    ((60, 10), (60, 10))
    >>> low, high = forecaster.predict_interval(past, level=0.8)
    >>> bool(0.6 < ((low <= future) & (future <= high)).mean() < 1)
    True

    For one long series, the forecaster learns from windows of it, and forecasts beyond its end:

    >>> forecaster = SequenceForecaster("udtw", **options)
    >>> forecaster.fit(np.sin(np.arange(200) / 3), horizon=10, window=20).predict().shape
    (10,)
    """

    old_options: ClassVar = {
        **{
            name: f"metric_params.{name}"
            for name in ("gamma", "beta", "warp_penalty", "weighting", "normalize", "band")
        },
        **{name: f"training.{name}" for name in TRAINING_DEFAULTS},
        "max_epochs": "max_iter",
        "verbose": "training.progress",
    }

    model_: Forecaster
    sigma_: SigmaNet | PastSigma | None
    bands_: Bands
    history_: dict[str, History]
    n_iter_: int

    _device: torch.device
    _past_shape: tuple[int, int]
    _future_shape: tuple[int, int]
    _y_ndim: int
    loss_: str
    _relative: bool
    _simple: SimpleForecast | None = None
    """What the network departs from, for long series."""
    _tail: Floats | None
    """The last windows of the long series passed to `fit`; None if it was passed futures."""
    _single: bool
    _names: list[str] | None = None
    """Names of the features of the long series, if these were data frames."""
    _x_scale: Scale
    _y_scale: Scale

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        loss: str = "udtw",
        *,
        metric_params: Mapping[str, Any] | None = None,
        sigma: str | None = AUTO,
        max_iter: int = 100,
        hidden: int | Sequence[int] = 256,
        training: TrainingSettings | Mapping[str, Any] | None = None,
        relative: bool | None = None,
        warm_start_euclidean: bool = True,
        random_state: Any = None,
        device: Device = None,
    ) -> None:
        self.loss = loss
        self.metric_params = metric_params
        self.sigma = sigma
        self.max_iter = max_iter
        self.hidden = hidden
        self.training = training
        self.relative = relative
        self.warm_start_euclidean = warm_start_euclidean
        self.random_state = random_state
        self.device = device

    def fit(  # noqa: PLR0913 (series come with futures or with a horizon)
        self, X: Any, y: Any = None, X_val: Any = None, y_val: Any = None, *, horizon: int | None = None,
        window: int | None = None, season: int | None = None, checkpoint_path: str | Path | None = None,
        fabric: Any = None,
    ) -> "SequenceForecaster":  # fmt: skip
        """Train to forecast ``y`` (n, T_out[, d]) from ``X`` (n, T_in[, d]), or long series ``X`` from their own past.

        - With ``y``, each row of ``X`` is a past and each row of ``y`` its future; a 1-D ``y`` is one step each.
          ``X_val`` and ``y_val``, if given, decide when to stop and how uncertain forecasts are; otherwise
          ``validation_fraction`` of the training series does.
        - With ``horizon``, in steps, ``X`` is one series (T,) or (T, d), or a list of series. The forecaster learns to
          forecast ``horizon`` steps from the ``window`` steps before them (by default twice the horizon, or four
          seasons) at every position; the last ``validation_fraction`` of each series is for validation. ``season`` is
          the number of steps after which they repeat, 1 for none; by default it is found from their autocorrelation.

        With ``checkpoint_path`` the state of the training is written there after each epoch, and an interrupted
        training continues from it with the same result. ``fabric`` is a launched lightning-fabric object, whose
        processes share the series of each batch.
        """
        settings = self._checked_settings()
        if (checkpoint_path is not None or fabric is not None) and not isinstance(self.random_state, Integral):
            raise OptionError(
                "Training with a checkpoint or with several processes requires an integer random_state, for the same "
                f"random numbers each time; got {self.random_state!r}."
            )
        self._device = checked_device(self.device if fabric is None else fabric.device)
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        if self.loss == AUTO and (checkpoint_path is not None or fabric is not None):
            raise OptionError("A training with a checkpoint or several processes needs one loss; got loss='auto'.")
        self._simple = None
        if horizon is None:
            for name, value in (("window", window), ("season", season)):
                if value is not None:
                    raise OptionError(f"{name} requires horizon; pass both, or y.")
            train, valid = self._given_pairs(X, y, X_val, y_val, settings.validation_fraction, generator)
        elif any(one is not None for one in (y, X_val, y_val)):
            raise OptionError("With horizon, futures are cut from X itself; omit y, X_val and y_val.")
        else:
            train, valid = self._window_pairs(X, horizon, window, season, settings.validation_fraction)
        self._relative = horizon is not None if self.relative is None else bool(self.relative)
        if self._relative and self._past_shape[1] != self._future_shape[1]:
            raise OptionError(
                "relative=True requires as many features in the future as in the past; got "
                f"{self._future_shape[1]} and {self._past_shape[1]}."
            )
        self._fit(train, valid, generator, settings, checkpoint_path, Processes(fabric))
        return self

    def predict(self, X: Any = None, return_std: bool = False) -> Any:
        """Return the forecast (n, T_out[, d]) for ``X`` (n, T_in[, d]), in the form of the ``y`` passed to `fit`.

        After ``fit(X, horizon=)``, ``X`` is one or several series as passed there. Their last window is read, and the
        forecast (horizon[, d]), or (n, horizon[, d]), continues them. Without ``X``, the forecast continues the series
        passed to `fit`.

        With ``return_std`` also return its standard deviation ``s·σᵖ``, of the same shape. Here σ is that of
        ``sigma_``, or 1 for losses without variances. Both ``s`` and p are fitted to the errors on the validation
        series: ``s`` is the root mean square of ``error/σᵖ`` for each step and feature; p, one of a few, maximizes the
        Gaussian likelihood, and is 0 if σ is unrelated to the errors. The result estimates the deviation of the true
        future from the forecast at the same step, including errors in time, for series like those of validation.
        """
        mean, std, shape = self._predicted(X)
        return (mean.reshape(shape), std.reshape(shape)) if return_std else mean.reshape(shape)

    def predict_interval(self, X: Any = None, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return lower and upper bounds, in the form of `predict`, that contain a share ``level`` of the true values.

        Split conformal prediction: the forecast plus and minus a multiple of its standard deviation. The multiple is
        the quantile of ``|error| / std`` on the validation series, all steps together. The share holds on average over
        steps and series, for series like those of validation; it does not assume Gaussian errors.
        """
        mean, std, shape = self._predicted(X)
        half = self.bands_.half_width(level) * std
        return (mean - half).reshape(shape), (mean + half).reshape(shape)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination R², averaged over all steps and features of the future."""
        y, pred = np.asarray(y), self.predict(X)
        if y.shape != pred.shape:
            raise ShapeError(f"y must have the shape of the forecasts, {pred.shape}; got {y.shape}.")
        count = len(pred)
        return r2_score(y.reshape(count, -1), pred.reshape(count, -1), sample_weight=sample_weight)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write ``config.json`` and the weights (safetensors) to the folder ``path``.

        An earlier forecaster there is replaced. A folder with other files is refused, unless ``force``.
        """
        check_is_fitted(self, "bands_")
        if not force:
            check_folder(Path(path))
        save_forecaster(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "SequenceForecaster":
        """Load a forecaster written by `save`; other or damaged files raise a `FileFormatError`. No code is run."""
        return load_forecaster(cls, Path(path), make_networks)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _checked_settings(self) -> TrainingSettings:
        """Return the settings of the training; an `OptionError` for wrong options."""
        if self.loss not in (*metric_names(), AUTO):
            raise OptionError(f"loss must be one of {[*metric_names(), AUTO]}; got {self.loss!r}.")
        check_weighting(checked_params(self.metric_params).get("weighting", "likelihood"), 0.0)
        check_counts(self, ("max_iter",))
        return training_settings(self.training, type(self).__name__, **TRAINING_DEFAULTS)

    def _given_pairs(
        self, X: Any, y: Any, X_val: Any, y_val: Any, validation_fraction: float, generator: torch.Generator
    ) -> tuple[Arrays, Arrays | None]:
        """Return pasts and futures for training and for validation."""
        x, future, self._y_ndim = self._validated(X, y, reset=True)
        self._past_shape, self._future_shape = x.shape[1:], future.shape[1:]
        self._tail = self._names = None
        if (X_val is None) != (y_val is None):
            raise OptionError("Pass both X_val and y_val, or neither.")
        if X_val is not None:
            valid = self._validated(X_val, y_val, reset=False)[:2]
            self._check_shapes(*valid)
            return (x, future), valid
        count = int(validation_fraction * len(x))
        if count == 0:
            return (x, future), None
        order = torch.randperm(len(x), generator=generator).numpy()
        held, rest = order[:count], order[count:]
        return (x[rest], future[rest]), (x[held], future[held])

    def _window_pairs(
        self, X: Any, horizon: int, window: int | None, season: int | None, validation_fraction: float
    ) -> tuple[Arrays, Arrays | None]:
        """Cut pasts and futures for training and for validation from long series."""
        series, form = long_series("X", X)
        window_for(series, window, horizon)
        longest = max(len(one) for one in series)
        check_season(season, longest)
        seasons = find_seasons(series, longest // 3) if season is None else [season]
        window = window_for(series, window, horizon, seasons[0] if seasons else 1)
        train, valid = cut_windows(series, window, horizon, validation_fraction)
        if self.relative is None and window > 1:
            past, future = (np.concatenate(parts) for parts in zip(train, *([valid] if valid else []), strict=True))
            self._simple = choose(past, future, seasons, found=season is None)
        self._past_shape, self._future_shape = train[0].shape[1:], train[1].shape[1:]
        self.n_features_in_, self._y_ndim = window, form.axes
        self._tail, self._single, self._names = last_windows("X", series, window), form.single, form.names
        return train, valid

    def _fit(
        self, train: Arrays, valid: Arrays | None, generator: torch.Generator, training: TrainingSettings,
        checkpoint_path: str | Path | None, processes: Processes,
    ) -> None:  # fmt: skip
        """Train the networks and calibrate the bands."""
        x, future = train
        self._x_scale, self._y_scale = (Scale.of(part) for part in self._departures(x, future))
        data = self._standardized(x, future), None if valid is None else self._standardized(*valid)
        self.model_, loss = make_networks(self, generator)
        self.sigma_ = loss.sigma
        generator = generator_on(self._device, generator)
        self.model_.generator = generator
        if loss.past_sigma is not None:
            loss.past_sigma.generator = generator
        self.history_ = {}
        checkpoint = None
        if checkpoint_path is not None:
            settings = forecaster_settings(self, x, future, *(valid or ()))
            checkpoint = Checkpoint(checkpoint_path, settings, writes=processes.writes)
        try:
            self.loss_ = self._final
            kept: dict[str, tuple[float, dict[str, Tensor]]] = {}
            for phase, one in self._phases(loss).items():
                self._train(phase, one, data, generator, training, processes, checkpoint)
                if self.loss == AUTO:
                    weights = {name: value.clone() for name, value in self.model_.state_dict().items()}
                    kept[phase] = self._squared_error(*(data[1] or data[0])), weights
            if kept:
                self.loss_ = min(kept, key=lambda phase: kept[phase][0])
                self.model_.load_state_dict(kept[self.loss_][1])
        finally:  # the best weights are in place after an interrupt
            for module in (self.model_, self.sigma_):
                if module is not None:
                    module.generator = None
                    module.to("cpu", torch.float64).eval().requires_grad_(False)
            past, truth = valid or train
            if valid is not None and self._simple is not None:
                self._shrink(past, truth)
            mean, sigma, unit = self._forecast(past)
            self.bands_ = Bands.of(
                truth - mean, None if self.sigma_ is None else sigma, None if self._simple is None else unit,
                overlap=1 if self._tail is None else max(1, self._future_shape[0] // 2),
            )  # fmt: skip
            self.n_iter_ = len(self.history_[self.loss_].train) if self.loss_ in self.history_ else 0

    def _predicted(self, X: Any) -> tuple[Floats, Floats, tuple[int, ...]]:
        """Return forecasts and standard deviations (n, T_out, d), and the shape to return them in."""
        check_is_fitted(self, "bands_")
        axes, single = self._y_ndim, False
        if self._tail is None:
            X = validate_data(self, X, reset=False, allow_nd=True, dtype=(np.float64, np.float32))
            past = _with_features("X", X)
        elif X is None:
            past, single = self._tail, self._single
        else:
            series, form = long_series("X", X, self._names)
            past, axes, single = last_windows("X", series, self._past_shape[0]), form.axes, form.single
        mean, sigma, unit = self._forecast(past)
        shape = (len(mean), *self._future_shape[: axes - 1]) if axes > 1 else (len(mean),)
        return mean, self.bands_.std(sigma, unit), shape[1:] if single else shape

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[Floats, Floats, int]:
        """Return X (n, T_in, d), y (n, T_out, d) and the number of axes of the given y."""
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

    def _levels(self, x: Floats) -> tuple[Any, Any, Any]:
        """Return the levels that are subtracted from past and future, and the unit (n, 1, d) of both, or 1."""
        if self._simple is not None:
            return x[:, -1:], self._simple.forecast(x, self._future_shape[0]), self._simple.unit(x)
        level = x[:, -1:] if self._relative else 0.0
        return level, level, 1.0

    def _departures(self, x: Floats, future: Floats) -> Arrays:
        past_level, level, unit = self._levels(x)
        return (x - past_level) / unit, (future - level) / unit

    def _standardized(self, x: Floats, future: Floats) -> tuple[Tensor, Tensor]:
        return tuple(  # type: ignore[return-value]
            torch.tensor(scale.apply(array), dtype=torch.float32, device=self._device)
            for scale, array in zip((self._x_scale, self._y_scale), self._departures(x, future), strict=True)
        )

    @torch.no_grad()
    def _squared_error(self, x: Tensor, future: Tensor) -> float:
        return float((self.model_.eval()(x) - future).square().mean())

    def _shrink(self, past: Floats, truth: Floats) -> None:
        """Scale the departure from the simple forecast by the share that is surely right on the validation series.

        The share is the regression coefficient less its standard error. Windows overlap, so that those within a horizon
        count as one; with fewer than three of these the simple forecast is kept.
        """
        _, level, unit = self._levels(past)
        departure, wanted = ((one - level) / unit for one in (self._forecast(past)[0], truth))
        power, product = np.square(departure).sum((1, 2)), (departure * wanted).sum((1, 2))
        if not power.sum() > 0:
            return
        share = product.sum() / power.sum()
        blocks = np.arange(0, len(power), self._future_shape[0])
        count = len(blocks)
        spread = np.square(np.add.reduceat(product - share * power, blocks)).sum() * count / max(1, count - 1)
        error = np.sqrt(spread) / power.sum()
        share = float(np.clip(share - error, 0, 1)) if count > 2 else 0.0
        last: Any = self.model_.layers[-1]
        offset = torch.from_numpy(np.broadcast_to(self._y_scale.mean / self._y_scale.std, self._future_shape).copy())
        for parameter, shift in ((last.weight, 0.0), (last.bias, (share - 1) * offset.flatten())):
            parameter.copy_(share * parameter + shift)

    def _phases(self, loss: ForecastLoss) -> dict[str, ForecastLoss]:
        """Return the losses to train with, in order."""
        if self._final == "euclidean" or not (self.warm_start_euclidean or self.loss == AUTO):
            return {self._final: loss}
        first = make_loss("euclidean", self._past_shape, self._future_shape, sigma=None, sigma_range=None)
        return {"euclidean": first, self._final: loss}

    @property
    def _final(self) -> str:
        """The loss of the last phase."""
        return "udtw" if self.loss == AUTO else self.loss

    @property
    def season_(self) -> int:
        """Return the steps of a season, 1 if there is none."""
        return 1 if self._simple is None else self._simple.season

    def _train(
        self, phase: str, loss: ForecastLoss, data: tuple[Pair, Pair | None], generator: torch.Generator,
        training: TrainingSettings, processes: Processes, checkpoint: Checkpoint | None,
    ) -> None:  # fmt: skip
        """Train ``model_`` with the loss of one phase, continuing from the checkpoint."""
        if checkpoint is not None and checkpoint.is_past(phase):
            self.history_[phase] = checkpoint.history[phase]
            return
        task = ForecastTask(
            self.model_, loss, *data, generator, rates=(training.learning_rate, training.weight_decay),
            batch_size=training.batch_size, processes=processes,
        )  # fmt: skip
        loop = Training(
            task, self.max_iter, keep_best=True, patience=training.patience, checkpoint=checkpoint, phase=phase
        )
        self.history_[phase] = loop.history
        with progress_bar(f"{phase} loss", self.max_iter, training.progress) as advance:
            loop.run(lambda number, value: advance(note=f"loss {value:.4g}"))

    @torch.no_grad()
    def _forecast(self, x: Floats) -> tuple[Floats, Floats, Any]:
        """Return forecasts (n, T_out, d), σ (n, T_out, d or 1), which is 1 without a network, and the units."""
        self._check_shapes(x)
        past_level, level, unit = self._levels(x)
        past = torch.tensor(self._x_scale.apply((x - past_level) / unit), dtype=torch.float64)
        mean = self.model_(past)
        if self.sigma_ is None:
            sigma = torch.ones_like(mean[..., :1])
        elif isinstance(self.sigma_, PastSigma):
            sigma = self.sigma_(past).sqrt()
        else:
            sigma = self.sigma_(mean).sqrt()[..., None]
        return self._y_scale.undo(mean.numpy()) * unit + level, sigma.numpy(), unit


def make_networks(
    forecaster: SequenceForecaster, generator: torch.Generator | None = None
) -> tuple[Forecaster, ForecastLoss]:
    """Build the model of a forecaster and its loss; on the meta device, without weights, if there is no generator."""
    shapes = forecaster._past_shape, forecaster._future_shape
    options, dropout = loss_options(forecaster), forecaster._checked_settings().dropout
    # fork_rng restores the global generator, from which torch initializes new layers.
    with torch.device("meta") if generator is None else torch.random.fork_rng(devices=[]):
        model = Forecaster(*shapes, hidden_widths(forecaster.hidden), dropout)
        loss = make_loss(forecaster._final, *shapes, dropout=dropout, **options)
    if generator is not None:
        for module in (model, loss):
            initialize(module, generator)
            module.to(forecaster._device)
    return model, loss


def loss_options(forecaster: SequenceForecaster) -> dict[str, Any]:
    """Return the parameters of the loss, ``sigma`` and ``sigma_range``, with defaults for those that are open."""
    row = METRICS.get(forecaster._final)
    given = {name: value for name, value in (forecaster.metric_params or {}).items() if value != AUTO}
    weighting = given.pop("weighting", None) or "likelihood"
    options: dict[str, Any] = dict(WITHOUT_VARIANCES)
    if row is not None and row.uncertain:
        options = {**DEFAULTS[weighting], "weighting": weighting}
    settings = training_settings(forecaster.training, "SequenceForecaster", **TRAINING_DEFAULTS)
    given |= {"sigma": forecaster.sigma, "sigma_range": settings.sigma_range}
    given = {name: value for name, value in given.items() if value != AUTO}
    return {**options, "normalize": "length", "band": None, **given}


def hidden_widths(hidden: Any) -> tuple[int, ...]:
    """Return the widths of the hidden layers, from one number or several."""
    widths = tuple(hidden) if isinstance(hidden, Sequence) else (hidden,)
    if not all(isinstance(width, Integral) and int(width) > 0 for width in widths):
        raise OptionError(f"hidden must be one or several positive whole numbers; got {hidden!r}.")
    return tuple(int(width) for width in widths)


def _with_features(name: str, array: Floats) -> Floats:
    """Return (n, T, d) from (n, T) or (n, T, d)."""
    if array.ndim not in (2, 3):
        raise ShapeError(f"{name} must have shape (n, T) or (n, T, d); got {array.shape}.")
    return array[..., None] if array.ndim == 2 else array
