"""SequenceForecaster: forecasts the future of a series from its past, trained by a distance between sequences."""

from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from udtw._io.device import Device, checked_device
from udtw._io.distributed import Processes
from udtw.errors import OptionError, ShapeError
from udtw.timeseries import forecaster_files
from udtw.timeseries.forecaster_base import ForecasterBase
from udtw.timeseries.forecaster_model import Floats
from udtw.timeseries.forecaster_options import check_options


class SequenceForecaster(ForecasterBase):
    """A multilayer perceptron from the past of a series to its future, trained by an alignment loss.

    Past and future are standardised, each by one mean and standard deviation per feature (of the training data, over
    all series and steps), so that ``gamma``, ``beta`` and ``learning_rate`` mean the same for every data set. Forecasts
    are returned in the units of ``y``.

    Parameters
    ----------
    loss : str
        Distance between forecast and true future, a metric of `udtw._engine.metrics.METRICS`. "udtw" aligns them by the
        posterior over paths, with a variance for every step of the future that is learned with the forecaster.
    weighting : "likelihood" or "precision"
        Of "udtw". "likelihood": paths pay for uncertainty, and forecast and variances learn by the "faithful"
        objective of `udtw.nn.UDTWLoss`. "precision": the paper's ``E[D/Σ] + β·E[log Σ]``.
    gamma : float or "auto"
        Temperature of the paths, in units of a standardised squared difference, divided by Σ for "udtw".
    beta : float or "auto"
        Price of log Σ ("udtw" only).
    warp_penalty : float or "auto"
        Price ω of every step of a path that is not diagonal, for losses that have it. The greater, the closer to a
        loss step by step.
    sigma : "past", "series", "context", "step", "auto" or None
        What the variances of "udtw" are learned from: the past, or by a SigmaNet from the future that is aligned, all
        of it, 9 steps, or one. None: Σ = 1.
    sigma_range : (low, high) or "auto"
        Bounds of σ, in standardised units ("udtw" only). With the paper's weighting, σ < 1 makes the regulariser
        negative and rewards every further step of a path, and forecasts out of phase have longer paths.
    normalize, band
        As in `udtw.align`; not used by "euclidean".
    hidden : int or sequence of int
        Width of the hidden layer(s), ReLU after each; () for a linear forecaster.
    dropout : float in [0, 1)
        Share of hidden units dropped at random in training.
    relative : bool or None
        Forecast the difference from the last observed value, for series whose level drifts. None: if `fit` is given
        a ``horizon``.
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
    device : str, torch.device or None
        Where the training is computed; None is the CPU. A fitted forecaster predicts on the CPU, in
        float64.
    verbose : bool
        Show a progress bar (needs rich).

    Attributes
    ----------
    model_ : torch.nn.Module
        The network, on standardised series.
    sigma_ : torch.nn.Module or None
        Predicts variances of standardised futures.
    bands_ : Bands
        Calibration of the uncertainty: see `predict` and `predict_interval`.
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
    >>> low, high = forecaster.predict_interval(past, level=0.8)
    >>> bool(0.6 < ((low <= future) & (future <= high)).mean() < 1)
    True

    One long series: the forecaster learns from windows of it, and forecasts beyond its end.

    >>> forecaster = SequenceForecaster("udtw", hidden=32, learning_rate=0.01, max_epochs=20, random_state=0)
    >>> forecaster.fit(np.sin(np.arange(200) / 3), horizon=10, window=20).predict().shape
    (10,)
    """

    def __init__(  # noqa: PLR0913 (scikit-learn wants every option here)
        self,
        loss: str = "udtw",
        *,
        weighting: str = "likelihood",
        gamma: float | str = "auto",
        beta: float | str = "auto",
        warp_penalty: float | str = "auto",
        sigma: str | None = "auto",
        sigma_range: tuple[float, float] | str = "auto",
        normalize: str | None = "length",
        band: Any = None,
        hidden: int | Sequence[int] = 256,
        dropout: float = 0.2,
        relative: bool | None = None,
        warm_start_euclidean: bool = True,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.0,
        batch_size: int = 50,
        max_epochs: int = 100,
        patience: int | None = 20,
        validation_fraction: float = 0.2,
        random_state: Any = None,
        device: Device = None,
        verbose: bool = False,
    ) -> None:
        self.loss = loss
        self.weighting = weighting
        self.gamma = gamma
        self.beta = beta
        self.warp_penalty = warp_penalty
        self.sigma = sigma
        self.sigma_range = sigma_range
        self.normalize = normalize
        self.band = band
        self.hidden = hidden
        self.dropout = dropout
        self.relative = relative
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
        self, X: Any, y: Any = None, X_val: Any = None, y_val: Any = None, *, horizon: int | None = None,
        window: int | None = None, checkpoint_path: str | Path | None = None, fabric: Any = None,
    ) -> "SequenceForecaster":  # fmt: skip
        """Learn to forecast ``y`` (n, T_out[, d]) from ``X`` (n, T_in[, d]), or long series ``X`` from their own past.

        - With ``y``, each row of ``X`` is a past and each row of ``y`` its future; a 1-D ``y`` is one step each.
          ``X_val`` and ``y_val``, if given, decide when to stop and how uncertain forecasts are; otherwise
          ``validation_fraction`` of the training series does.
        - With ``horizon``, in steps, ``X`` is one series (T,) or (T, d), or a list of such. The forecaster learns to
          forecast ``horizon`` steps from the ``window`` steps before them (twice the horizon, if not given) at every
          place; the last ``validation_fraction`` of each series is for validation.

        With ``checkpoint_path`` the state of the training is written there after every epoch, and an interrupted
        training continues from it with the same result. ``fabric``: a launched lightning-fabric object, whose
        processes share the series of every batch.
        """
        check_options(self)
        if (checkpoint_path is not None or fabric is not None) and not isinstance(self.random_state, Integral):
            raise OptionError(
                "A training with a checkpoint or with several processes needs the same random numbers each time: "
                f"give random_state as an integer; got {self.random_state!r}."
            )
        self._device = checked_device(self.device if fabric is None else fabric.device)
        generator = torch.Generator().manual_seed(int(check_random_state(self.random_state).randint(2**31 - 1)))
        if horizon is None:
            if window is not None:
                raise OptionError("window belongs to horizon; give both, or y.")
            train, valid = self._given_pairs(X, y, X_val, y_val, generator)
        elif any(one is not None for one in (y, X_val, y_val)):
            raise OptionError("With horizon, the futures are cut from X itself: leave out y, X_val and y_val.")
        else:
            train, valid = self._window_pairs(X, horizon, window)
        self._relative = horizon is not None if self.relative is None else bool(self.relative)
        if self._relative and self._past_shape[1] != self._future_shape[1]:
            raise OptionError(
                f"relative=True needs as many features in the future as in the past; got {self._future_shape[1]} and "
                f"{self._past_shape[1]}."
            )
        return self._fit(train, valid, generator, checkpoint_path, Processes(fabric))

    def predict(self, X: Any = None, return_std: bool = False) -> Any:
        """The forecast (n, T_out[, d]) for ``X`` (n, T_in[, d]), in the form of the ``y`` given to `fit`.

        After ``fit(X, horizon=)``, ``X`` is one or several series as given there, of which the last window is read, and
        the forecast (horizon[, d]), or (n, horizon[, d]), is what follows their end. Without ``X``, it is what follows
        the end of the series given to `fit`.

        With ``return_std`` also its standard deviation, of the same shape: ``s·σᵖ``. Here σ is that of ``sigma_``, or 1
        for losses without variances, and both ``s`` and p are fitted to the errors on the validation series: ``s`` is
        the root of the mean of ``(error/σᵖ)²``, for every step and feature; p, one of a few, has the greatest Gaussian
        likelihood, and is 0 if σ is unrelated to the errors. The result estimates the deviation of the true future from
        the forecast at the same step, errors in time included, for series like those of validation.
        """
        mean, std, shape = self._predicted(X)
        return (mean.reshape(shape), std.reshape(shape)) if return_std else mean.reshape(shape)

    def predict_interval(self, X: Any = None, level: float = 0.9) -> tuple[Floats, Floats]:
        """Lower and upper bounds, each in the form of `predict`, between which a share ``level`` of true values lies.

        Split conformal prediction: the forecast plus and minus a multiple of its standard deviation. The multiple is
        the quantile of ``|error| / std`` on the validation series, all steps together. The share holds on average over
        steps and series, for series like those of validation; it does not assume Gaussian errors.
        """
        mean, std, shape = self._predicted(X)
        half = self.bands_.half_width(level) * std
        return (mean - half).reshape(shape), (mean + half).reshape(shape)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Coefficient of determination R², the mean over all steps and features of the future."""
        y, pred = np.asarray(y), self.predict(X)
        if y.shape != pred.shape:
            raise ShapeError(f"y must have the shape of the forecasts, {pred.shape}; got {y.shape}.")
        count = len(pred)
        return r2_score(y.reshape(count, -1), pred.reshape(count, -1), sample_weight=sample_weight)

    def save(self, path: str | Path) -> None:
        """Write ``config.json`` and the weights (safetensors) to the folder ``path``; an earlier one is replaced."""
        check_is_fitted(self, "bands_")
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
