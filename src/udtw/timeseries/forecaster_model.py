"""Parts of a forecaster: standardization, networks, loss, and training by epochs."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from udtw._engine.likelihood import squared_distances
from udtw._engine.metrics import Metric, get_metric
from udtw._engine.pair_block import Batch
from udtw._io.distributed import Processes
from udtw._io.training import Task
from udtw.nn import SigmaNet, UDTWLoss
from udtw.nn.sigma import SigmaRange
from udtw.timeseries.uncertainty import make_sigma

Floats = NDArray[np.floating]
Pair = tuple[Tensor, Tensor]

VALIDATION_BATCH = 1024
"""Series per validation batch; limits memory and does not change the result."""


@dataclass(frozen=True)
class Scale:
    """Standardization per feature: ``apply(x) = (x − mean) / std`` for x (n, T, d); mean and std are (d,)."""

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, series: Floats) -> "Scale":
        """Compute mean and std over all series and steps; a constant feature keeps its unit."""
        mean, std = series.mean((0, 1), dtype=float), series.std((0, 1), dtype=float)
        rounding = 10 * np.finfo(float).eps * np.abs(series).max((0, 1))
        return cls(mean, np.where(std > rounding, std, 1.0))

    def apply(self, series: Floats) -> Floats:
        """Standardize."""
        return (series - self.mean) / self.std

    def undo(self, series: Floats) -> Floats:
        """Invert `apply`."""
        return series * self.std + self.mean


class Forecaster(nn.Module):
    """A multilayer perceptron from the past (B, T_in, d_in) to the future (B, T_out, d_out).

    Each hidden layer is followed by ReLU and, in training, by dropout with masks from ``generator``.
    """

    def __init__(
        self, past: tuple[int, int], future: tuple[int, int], hidden: Sequence[int], dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.future, self.dropout = future, dropout
        self.generator: torch.Generator | None = None
        widths = [math.prod(past), *hidden, math.prod(future)]
        self.layers = nn.ModuleList(nn.Linear(inputs, outputs) for inputs, outputs in itertools.pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        """Return the future of the pasts ``x``."""
        h = x.flatten(1)
        for layer in self.layers[:-1]:
            h = torch.relu(layer(h))
            if self.training and self.dropout:
                kept = torch.empty_like(h).bernoulli_(1 - self.dropout, generator=self.generator)
                h = h * (kept / (1 - self.dropout))
        return self.layers[-1](h).unflatten(1, self.future)


class PastSigma(Forecaster):
    """Perceptron from the past (B, T_in, d_in) to variances (B, T_out, d) of the future, with one hidden layer.

    ``log σ`` is bounded by ``sigma_range`` and starts near `SigmaRange.start`. The network is separate, so that
    learning the variances does not change what the forecaster has learned.
    """

    def __init__(
        self, past: tuple[int, int], future: tuple[int, int], sigma_range: Any, hidden: int = 64, dropout: float = 0.0
    ) -> None:
        super().__init__(past, future, [hidden], dropout)
        bounds = SigmaRange.of(sigma_range)
        self.low, self.high = math.log(bounds.low), math.log(bounds.high)
        share = (math.log(bounds.start) - self.low) / (self.high - self.low)
        for layer, bias in zip(self.layers, (0.0, math.log(share / (1 - share))), strict=True):
            nn.init.constant_(layer.bias, bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        """Return the variances for the pasts ``x``."""
        share = torch.sigmoid(super().forward(x))
        return (2 * (self.low + (self.high - self.low) * share)).exp()


class ForecastLoss(nn.Module):
    """Loss ``loss(forecast, future, past)``: the mean of a metric over the batch.

    For a metric with variances, ``sigma`` predicts them: a `PastSigma` for the steps of the future, with the same
    variances for forecast and truth, or a SigmaNet, which reads either of them; None is Σ = 1.
    """

    def __init__(self, metric: Metric, sigma: SigmaNet | PastSigma | None = None, objective: str | None = None) -> None:
        super().__init__()
        self.metric = metric
        self.past_sigma = sigma if isinstance(sigma, PastSigma) else None
        net = sigma if isinstance(sigma, SigmaNet) else None
        self.aligned = UDTWLoss(net, objective=objective, **metric.params) if metric.uncertain else None

    @property
    def sigma(self) -> SigmaNet | PastSigma | None:
        """Return the network of the variances, trained with the forecaster."""
        return self.past_sigma or (None if self.aligned is None else self.aligned.sigma)  # type: ignore[return-value]

    def forward(self, forecast: Tensor, future: Tensor, past: Tensor, rows: Tensor | None = None) -> Tensor:
        """Return the mean over the batch, or over some ``rows`` of it; zero for none.

        Variances are computed for all series in any case, so that all processes draw the same dropout.
        """
        variances = self._variances(past)
        if rows is not None:
            if not len(rows):
                return forecast.sum() * 0
            forecast, future, variances = forecast[rows], future[rows], tuple(one[rows] for one in variances)
        if self.aligned is None:
            return self.metric.between(Batch(forecast), Batch(future)).mean()
        return self.aligned(forecast, future, *variances)

    def judge(self, forecast: Tensor, future: Tensor, past: Tensor) -> Tensor:
        """Return the validation loss: the loss itself, or for the "faithful" objective ``E[D]`` per step.

        The likelihood of the variances is dominated by a few series with large errors.
        """
        if self.aligned is None or self.aligned.objective != "faithful":
            return self(forecast, future, past)
        coupling = self.aligned.align(forecast, future, *self._variances(past)).coupling
        return (coupling * squared_distances(forecast, future)).sum((1, 2)).mean() / future.shape[1]

    def _variances(self, past: Tensor) -> tuple[Tensor, ...]:
        """Return variances of forecast and future, if they are predicted from the past."""
        if self.past_sigma is None:
            return ()
        variance = self.past_sigma(past)
        variance = variance[..., 0] if variance.shape[-1] == 1 else variance
        return variance, variance


def make_loss(
    metric: str | Metric, past: tuple[int, int], future: tuple[int, int], *, sigma: str | None, sigma_range: Any,
    dropout: float = 0.0, **options: Any,
) -> ForecastLoss:  # fmt: skip
    """Build the loss of a metric for futures (T_out, d); ``options`` are parameters of the metric.

    "euclidean" is always divided by the length.
    """
    normalize = options.pop("normalize", None)
    chosen = get_metric(metric, **options)
    if isinstance(metric, str) and "normalize" in chosen.params:
        chosen = chosen.with_params(normalize=normalize if chosen.elastic else "length")
    chosen.check()
    if not chosen.uncertain or sigma is None:
        return ForecastLoss(chosen)
    if sigma == "past":
        net: SigmaNet | PastSigma = PastSigma(past, future, sigma_range, dropout=dropout)
    else:
        net = make_sigma(sigma, *future, sigma_range)
    return ForecastLoss(chosen, net, "faithful" if chosen.params["weighting"] == "likelihood" else None)


def initialize(module: nn.Module, generator: torch.Generator) -> None:
    """Redraw all weights from ``generator``, so that the result does not depend on global random state."""
    in_sigma = {
        id(layer) for part in module.modules() if isinstance(part, SigmaNet | PastSigma) for layer in part.modules()
    }
    for layer in module.modules():
        if not isinstance(layer, nn.Linear | nn.Conv1d):
            continue
        if id(layer) in in_sigma:  # its biases set the initial σ
            nn.init.xavier_normal_(layer.weight, generator=generator)
        else:
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)


class ForecastTask(Task):
    """AdamW on ``loss(model(past), future, past)`` over the parameters of both; one epoch is one `step`.

    Weight decay applies to the model, not to the parameters of the loss. Several ``processes`` share the series of
    each batch. ``train`` and ``valid`` are pasts and futures, (n, T, d) each; the ``generator``, on their device, draws
    the order of the series and the dropout; ``rates`` are the learning rate and the weight decay.
    """

    def __init__(
        self, model: nn.Module, loss: ForecastLoss, train: Pair, valid: Pair | None, generator: torch.Generator, *,
        rates: tuple[float, float], batch_size: int, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        self.model, self.loss, self.train, self.valid, self.generator = model, loss, train, valid, generator
        self.batch_size, self.processes = batch_size, processes or Processes()
        self.cells = batch_size * train[1].shape[1] ** 2
        self.modules = {"model": model, "loss": loss}
        groups = [{"params": list(model.parameters()), "weight_decay": rates[1]}]
        if any(True for _ in loss.parameters()):
            groups.append({"params": list(loss.parameters()), "weight_decay": 0.0})
        self.optimizer = torch.optim.AdamW(groups, lr=rates[0], fused=True)
        self.optimizers = {"all": self.optimizer}

    def step(self, number: int) -> float:
        """Make one pass over the shuffled series and return its mean loss."""
        x, y = self.train
        for module in self.modules.values():
            module.train()
        order = torch.randperm(len(x), generator=self.generator, device=x.device)
        total = x.new_zeros(())
        for batch in order.split(self.batch_size):
            self.optimizer.zero_grad()
            total += len(batch) * self._descend(x[batch], y[batch])
            self.optimizer.step()
        return total.item() / len(x)

    def _descend(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute gradients of the mean loss of a batch and return the loss.

        The forecast is cheap compared to the alignment, so each process computes it for all series, with the same
        dropout, and aligns its own share.
        """
        forecast = self.model(x)
        if self.processes.world == 1:
            value = self.loss(forecast, y, x)
            value.backward()
            return value.detach()
        rows = self.processes.share(len(x)).to(x.device)
        value = self.loss(forecast, y, x, rows) * (len(rows) / len(x))
        value.backward()
        self.processes.sum_gradients([*self.model.parameters(), *self.loss.parameters()])
        return self.processes.sum(value.detach())

    @torch.no_grad()
    def validate(self) -> float | None:
        """Return the mean of `ForecastLoss.judge` over the validation series."""
        if self.valid is None:
            return None
        for module in self.modules.values():
            module.eval()
        total = 0.0
        for x, y in zip(*(part.split(VALIDATION_BATCH) for part in self.valid), strict=True):
            total += len(x) * float(self.loss.judge(self.model(x), y, x))
        return total / len(self.valid[0])
