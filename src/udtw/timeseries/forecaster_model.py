"""The parts of a forecaster: standardisation, network, loss, training by epochs, and calibration of its band."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from udtw.distributed import Processes
from udtw.metrics import Metric, get_metric
from udtw.nn import SigmaNet, UDTWLoss
from udtw.pair_block import Batch
from udtw.timeseries.uncertainty import make_sigma
from udtw.training import Task

Floats = NDArray[np.floating]
Pair = tuple[Tensor, Tensor]

VALIDATION_BATCH = 1024
"""Series per validation batch: bounds the memory of the alignment, not the result."""
POWERS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Of σ in the calibrated standard deviation."""


@dataclass(frozen=True)
class Scale:
    """Standardisation that keeps shapes: ``apply(x) = (x − mean) / std`` for x (n, T, d); mean and std are (d,)."""

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, series: Floats) -> "Scale":
        """From all series and steps together; a constant feature keeps its unit."""
        mean, std = series.mean((0, 1), dtype=float), series.std((0, 1), dtype=float)
        rounding = 10 * np.finfo(float).eps * np.abs(series).max((0, 1))
        return cls(mean, np.where(std > rounding, std, 1.0))

    def apply(self, series: Floats) -> Floats:
        return (series - self.mean) / self.std

    def undo(self, series: Floats) -> Floats:
        return series * self.std + self.mean


class Forecaster(nn.Module):
    """A multilayer perceptron from the past (B, T_in, d_in) to the future (B, T_out, d_out).

    ReLU follows every hidden layer, and in training dropout, whose masks are drawn from ``generator``.
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
        h = x.flatten(1)
        for layer in self.layers[:-1]:
            h = torch.relu(layer(h))
            if self.training and self.dropout:
                kept = torch.empty(h.shape, dtype=h.dtype).bernoulli_(1 - self.dropout, generator=self.generator)
                h = h * (kept / (1 - self.dropout)).to(h.device)
        return self.layers[-1](h).unflatten(1, self.future)


class MetricLoss(nn.Module):
    """Mean over the batch of a metric; it has no parameters to train."""

    def __init__(self, metric: Metric) -> None:
        super().__init__()
        self.metric = metric

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        return self.metric.between(Batch(pred), Batch(target)).mean()


def make_loss(
    metric: str | Metric, future: tuple[int, int], *, sigma: str | None, sigma_range: Any, **options: Any
) -> nn.Module:
    """The metric as a loss for futures (T_out, d); ``options`` are gamma, beta, normalize and band of `udtw.align`.

    "euclidean" is divided by the length, whatever ``normalize`` says. The name "udtw" means the paper's weighting:
    trained by the free energy, forecasts have a larger squared error (``python -m benchmarks.objectives``).
    """
    normalize = options.pop("normalize", None)
    chosen = get_metric(metric, **options)
    if isinstance(metric, str) and "normalize" in chosen.params:
        chosen = chosen.with_params(normalize=normalize if chosen.elastic else "length")
    if isinstance(metric, str) and "weighting" in chosen.params:
        chosen = chosen.with_params(weighting="precision")
    chosen.check()
    if chosen.uncertain:
        return UDTWLoss(None if sigma is None else make_sigma(sigma, *future, sigma_range), **chosen.params)
    return MetricLoss(chosen)


def sigma_of(loss: nn.Module) -> SigmaNet | None:
    """The SigmaNet that is trained with ``loss``, if there is one."""
    sigma = getattr(loss, "sigma", None)
    return sigma if isinstance(sigma, SigmaNet) else None


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights again from ``generator``, so that the result does not depend on global random state."""
    in_sigma = {id(layer) for part in module.modules() if isinstance(part, SigmaNet) for layer in part.modules()}
    for layer in module.modules():
        if not isinstance(layer, nn.Linear | nn.Conv1d):
            continue
        if id(layer) in in_sigma:  # its biases hold the initial σ
            nn.init.xavier_normal_(layer.weight, generator=generator)
        else:
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)


class ForecastTask(Task):
    """Epochs of AdamW on ``loss(model(past), future)``, over the parameters of both; one epoch is one `step`.

    Weight decay applies to the model, not to the parameters of the loss. Several ``processes`` share the series of
    every batch.

    Parameters
    ----------
    model, loss : modules
    train, valid : (past, future), each (n, T, d); ``valid`` may be None
    generator : torch.Generator
        Of the order of the series, and of dropout.
    rates : (learning_rate, weight_decay)
    batch_size : int
    processes : Processes
    """

    def __init__(
        self, model: nn.Module, loss: nn.Module, train: Pair, valid: Pair | None, generator: torch.Generator, *,
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
        self.model.train()
        order = torch.randperm(len(x), generator=self.generator).to(x.device)
        total = x.new_zeros(())
        for batch in order.split(self.batch_size):
            self.optimizer.zero_grad()
            total += len(batch) * self._descend(x[batch], y[batch])
            self.optimizer.step()
        return total.item() / len(x)

    def _descend(self, x: Tensor, y: Tensor) -> Tensor:
        """Compute gradients of the mean loss of a batch and return the loss.

        The forecast is cheap compared to the alignment, so every process makes it for all series, with the same
        dropout, and aligns its own share.
        """
        forecast = self.model(x)
        if self.processes.world == 1:
            value = self.loss(forecast, y)
            value.backward()
            return value.detach()
        rows = self.processes.share(len(x)).to(x.device)
        value = (self.loss(forecast[rows], y[rows]) if len(rows) else forecast.sum() * 0) * (len(rows) / len(x))
        value.backward()
        self.processes.sum_gradients([*self.model.parameters(), *self.loss.parameters()])
        return self.processes.sum(value.detach())

    @torch.no_grad()
    def validate(self) -> float | None:
        """The mean loss over the validation series."""
        if self.valid is None:
            return None
        self.model.eval()
        total = 0.0
        for x, y in zip(*(part.split(VALIDATION_BATCH) for part in self.valid), strict=True):
            total += len(x) * float(self.loss(self.model(x), y))
        return total / len(self.valid[0])


def calibrate(errors: Floats, sigma: Floats | None) -> tuple[float, Floats]:
    """Power p and scale s (T, d) with the greatest Gaussian likelihood of ``errors`` (n, T, d) under std ``s·σᵖ``.

    ``sigma``: (n, T, 1), or None for σ = 1 (then p = 0). For each p of `POWERS`, s is the root of the mean of
    ``(error/σᵖ)²`` over the series.
    """
    fits = []
    for power in (0.0,) if sigma is None else POWERS:
        shape = np.ones(()) if sigma is None else sigma**power
        scale = np.sqrt(np.square(errors / shape).mean(0))
        # With this scale the squared ratios average to 1 for any power: only the logarithms are left to compare.
        with np.errstate(divide="ignore"):
            fits.append((float(np.log(shape * scale).mean()), power, scale))
    _, power, scale = min(fits, key=lambda fit: fit[0])
    return power, scale
