"""SequenceForecaster: forecasts the future of a series from its past, trained by a distance between sequences."""

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from udtw.checkpoint import Checkpoint, History
from udtw.distributed import Processes
from udtw.errors import OptionError, ShapeError
from udtw.metrics import metric_names
from udtw.progress import progress_bar
from udtw.timeseries import forecaster_files
from udtw.timeseries.forecaster_model import (
    Floats,
    Forecaster,
    ForecastTask,
    Pair,
    Scale,
    calibrate,
    initialise,
    make_loss,
    sigma_of,
)
from udtw.training import Training


class SequenceForecaster(RegressorMixin, BaseEstimator):
    """A multilayer perceptron from the past of a series to its future, trained by an alignment loss.

    Past and future are standardised, each by one mean and standard deviation per feature (of the training data, over
    all series and steps), so that ``gamma``, ``beta`` and ``learning_rate`` mean the same for every data set. Forecasts
    are returned in the units of ``y``.

    Parameters
    ----------
    loss : str
        Distance between forecast and true future, a metric of `udtw.metrics.METRICS`. "udtw" is
        ``E[D/Σ] + β·E[log Σ]``, with Σ from a SigmaNet that is trained with the forecaster.
    gamma : float
        Temperature of the paths, in units of a standardised squared difference.
    beta : float
        Weight of the uncertainty regulariser ("udtw" only).
    sigma : "series", "context", "step" or None
        Input of the SigmaNet: the whole future, 9 steps, or one. None: Σ = 1, the sharp soft-DTW ("udtw" only).
    sigma_range : (low, high)
        Bounds of σ, in standardised units ("udtw" only). Below σ = 1 the regulariser is negative and rewards every
        further step of a path, and forecasts out of phase have longer paths. From 1 up, long paths cost.
    normalize, band
        As in `udtw.align`; not used by "euclidean".
    hidden : int or sequence of int
        Width of the hidden layer(s), ReLU after each; () for a linear forecaster.
    dropout : float in [0, 1)
        Share of hidden units dropped at random in training.
    warm_start_euclidean : bool
        Train with the Euclidean loss first, with the same options, and continue from its best weights. It costs one
        short training and keeps the forecast in phase: an alignment loss alone accepts a future that is right but too
        early or too late.
    learning_rate, weight_decay, batch_size, max_epochs
        Of Adam with decoupled weight decay, for either phase.
    patience : int or None
        End a phase after that many epochs without a new least validation loss (its own loss, the same as in
        training); the best weights are kept in any case. None: train for all ``max_epochs``.
    validation_fraction : float in [0, 1)
        Share of the series set aside if ``fit`` is given no validation set. If that is less than one series, the
        training loss is used instead.
    random_state : int, RandomState or None
        Seed of split, weights and order of the batches. An int makes ``fit`` reproducible; no global random state is
        read or changed.
    device : str
        Device of the training. A fitted forecaster predicts on the CPU, in float64.
    verbose : bool
        Show a progress bar (needs rich).

    Attributes
    ----------
    model_ : torch.nn.Module
        The network, on standardised series.
    sigma_ : SigmaNet or None
        Predicts variances of standardised futures.
    std_scale_ : (T_out, d), std_power_ : float
        Calibration of the uncertainty: see `predict`.
    history_ : dict of str to History
        Losses by epoch of each phase, "euclidean" (the warm start) and that of ``loss``.
    n_iter_ : int
        Epochs of the last phase.
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
    >>> forecaster = SequenceForecaster("udtw", hidden=32, learning_rate=0.01, max_epochs=20, random_state=0)
    >>> forecast, std = forecaster.fit(past, future).predict(past, return_std=True)
    >>> forecast.shape, std.shape
    ((60, 10), (60, 10))
    >>> forecaster.score(past, future) > 0.9
    True
    """

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        loss: str = "udtw",
        *,
        gamma: float = 0.1,
        beta: float = 0.1,
        sigma: str | None = "context",
        sigma_range: tuple[float, float] = (1.0, 1.5),
        normalize: str | None = "length",
        band: Any = None,
        hidden: int | Sequence[int] = 256,
        dropout: float = 0.2,
        warm_start_euclidean: bool = True,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 50,
        max_epochs: int = 100,
        patience: int | None = 20,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.gamma = gamma
        self.beta = beta
        self.sigma = sigma
        self.sigma_range = sigma_range
        self.normalize = normalize
        self.band = band
        self.hidden = hidden
        self.dropout = dropout
        self.warm_start_euclidean = warm_start_euclidean
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any, X_val: Any = None, y_val: Any = None, *, checkpoint_path: str | Path | None = None,
        fabric: Any = None,
    ) -> "SequenceForecaster":  # fmt: skip
        """Learn to forecast ``y`` (n, T_out[, d]) from ``X`` (n, T_in[, d]); a 1-D ``y`` is one step each.

        ``X_val`` and ``y_val``, if given, decide when to stop and how uncertain forecasts are; otherwise
        ``validation_fraction`` of the training series does. With ``checkpoint_path`` the state of the training is
        written there after every epoch, and an interrupted training continues from it with the same result.
        ``fabric``: a launched lightning-fabric object, whose processes share the series of every batch.
        """
        self._check_options()
        if (checkpoint_path is not None or fabric is not None) and not isinstance(self.random_state, Integral):
            raise OptionError(
                "A training with a checkpoint or with several processes needs the same random numbers each time: "
                f"give random_state as an integer; got {self.random_state!r}."
            )
        self._device = self.device if fabric is None else str(fabric.device)
        x, future, self._y_ndim = self._validated(X, y, reset=True)
        self._past_shape, self._future_shape = x.shape[1:], future.shape[1:]
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        if (X_val is None) != (y_val is None):
            raise OptionError("Give X_val and y_val together, or neither.")
        valid: tuple[Floats, Floats] | None
        if X_val is not None:
            valid = self._validated(X_val, y_val, reset=False)[:2]
            self._check_shapes(*valid)
        else:
            x, future, valid = self._split(x, future, generator)
        self._x_scale, self._y_scale = Scale.of(x), Scale.of(future)
        data = self._standardised(x, future)
        valid_data = None if valid is None else self._standardised(*valid)
        self.model_, loss = self._networks(generator)
        self.sigma_ = sigma_of(loss)
        self.history_: dict[str, History] = {}
        processes, checkpoint = Processes(fabric), None
        if checkpoint_path is not None:
            settings = forecaster_files.settings_of(self, x, future, *(valid or ()))
            checkpoint = Checkpoint(checkpoint_path, settings, writes=processes.writes)
        try:
            for phase, one in self._phases(loss).items():
                self._train(phase, one, (data, valid_data), generator, processes, checkpoint)
        finally:  # an interrupt finds the best weights in place
            self.model_.generator = None
            for module in (self.model_, self.sigma_):
                if module is not None:
                    module.to("cpu", torch.float64).eval().requires_grad_(False)
            past, truth = valid or (x, future)
            mean, sigma = self._forecast(past)
            self.std_power_, self.std_scale_ = calibrate(truth - mean, None if self.sigma_ is None else sigma)
            self.n_iter_ = len(self.history_[self.loss].train) if self.loss in self.history_ else 0
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The forecast (n, T_out[, d]) for ``X`` (n, T_in[, d]), in the form of the ``y`` given to `fit`.

        With ``return_std`` also its standard deviation, of the same shape: ``s·σᵖ``. Here σ is that of the SigmaNet on
        the forecast itself (1 for other losses), one number per series and step, and both ``s`` and p are fitted to the
        errors on the validation series: ``s`` (``std_scale_``), for every step and feature, is the root of the mean of
        ``(error/σᵖ)²``; p (``std_power_``), one of a few, has the greatest Gaussian likelihood. It widens a σ that was
        trained in narrow bounds, and is 0 if σ is unrelated to the errors. The result estimates the deviation of the
        true future from the forecast at the same step, errors in time included, for series like those of validation.
        """
        check_is_fitted(self, "std_scale_")
        X = validate_data(self, X, reset=False, allow_nd=True, dtype=(np.float64, np.float32))
        mean, sigma = self._forecast(_with_features("X", X))
        shape = (len(mean), *self._future_shape[: self._y_ndim - 1]) if self._y_ndim > 1 else (len(mean),)
        if not return_std:
            return mean.reshape(shape)
        return mean.reshape(shape), (sigma**self.std_power_ * self.std_scale_).reshape(shape)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R², the mean over all steps and features of the future."""
        y, pred = np.asarray(y), self.predict(X)
        if y.shape != pred.shape:
            raise ShapeError(f"y must have the shape of the forecasts, {pred.shape}; got {y.shape}.")
        count = len(pred)
        return r2_score(y.reshape(count, -1), pred.reshape(count, -1), sample_weight=sample_weight)

    def save(self, path: str | Path) -> None:
        """Write ``config.json`` and the weights (safetensors) to the folder ``path``; an earlier one is replaced."""
        check_is_fitted(self, "std_scale_")
        forecaster_files.save(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> "SequenceForecaster":
        """The forecaster that `save` wrote; other or damaged files are a `FileFormatError`. No code in them is run."""
        return forecaster_files.load(cls, Path(path))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.three_d_array = True
        return tags

    def _check_options(self) -> None:
        """Raise for options that no other part checks where it uses them."""
        if self.loss not in metric_names():
            raise OptionError(f"loss must be one of {metric_names()}; got {self.loss!r}.")
        for name in ("batch_size", "max_epochs"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise OptionError(f"{name} must be a whole number, 1 or more; got {value!r}.")
        if not self.learning_rate > 0 or not self.weight_decay >= 0:
            raise OptionError(
                "learning_rate must be positive and weight_decay not negative; got "
                f"{self.learning_rate!r} and {self.weight_decay!r}."
            )
        for name in ("validation_fraction", "dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"{name} must lie in [0, 1); got {getattr(self, name)!r}.")

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

    def _split(
        self, x: Floats, future: Floats, generator: torch.Generator
    ) -> tuple[Floats, Floats, tuple[Floats, Floats] | None]:
        count = int(self.validation_fraction * len(x))
        if count == 0:
            return x, future, None
        order = torch.randperm(len(x), generator=generator).numpy()
        held, rest = order[:count], order[count:]
        return x[rest], future[rest], (x[held], future[held])

    def _standardised(self, x: Floats, future: Floats) -> tuple[Tensor, Tensor]:
        return tuple(  # type: ignore[return-value]
            torch.tensor(scale.apply(array), dtype=torch.float32, device=self._device)
            for scale, array in ((self._x_scale, x), (self._y_scale, future))
        )

    def _networks(self, generator: torch.Generator | None = None) -> tuple[Forecaster, nn.Module]:
        """The forecaster and its loss; on the meta device, without weights, if there is no generator."""
        hidden = _hidden_widths(self.hidden)
        # fork_rng restores the global generator, from which torch initialises new layers.
        with torch.device("meta") if generator is None else torch.random.fork_rng(devices=[]):
            model = Forecaster(self._past_shape, self._future_shape, hidden, self.dropout)
            loss = make_loss(
                self.loss, self._future_shape, sigma=self.sigma, sigma_range=self.sigma_range, gamma=self.gamma,
                beta=self.beta, normalize=self.normalize, band=self.band,
            )  # fmt: skip
        if generator is not None:
            model.generator = generator
            for module in (model, loss):
                initialise(module, generator)
                module.to(self._device)
        return model, loss

    def _phases(self, loss: nn.Module) -> dict[str, nn.Module]:
        """The losses to train with, in order."""
        if not self.warm_start_euclidean or self.loss == "euclidean":
            return {self.loss: loss}
        first = make_loss("euclidean", self._future_shape, sigma=None, sigma_range=None, beta=0.0)
        return {"euclidean": first, self.loss: loss}

    def _train(
        self, phase: str, loss: nn.Module, data: tuple[Pair, Pair | None], generator: torch.Generator,
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
        """Forecast (n, T_out, d) in the units of y and σ (n, T_out, 1), which is 1 without a SigmaNet."""
        self._check_shapes(x)
        mean = self.model_(torch.tensor(self._x_scale.apply(x), dtype=torch.float64))
        sigma = torch.ones_like(mean[..., :1]) if self.sigma_ is None else self.sigma_(mean).sqrt()[..., None]
        return self._y_scale.undo(mean.numpy()), sigma.numpy()


def _hidden_widths(hidden: Any) -> tuple[int, ...]:
    """The widths of the hidden layers, from one number or several."""
    widths = tuple(hidden) if isinstance(hidden, Sequence) else (hidden,)
    if not all(isinstance(width, Integral) and int(width) > 0 for width in widths):
        raise OptionError(f"hidden must be one or several positive whole numbers; got {hidden!r}.")
    return tuple(int(width) for width in widths)


def _with_features(name: str, array: Floats) -> Floats:
    """(n, T, d) from (n, T) or (n, T, d)."""
    if array.ndim not in (2, 3):
        raise ShapeError(f"{name} must have shape (n, T) or (n, T, d); got {array.shape}.")
    return array[..., None] if array.ndim == 2 else array
