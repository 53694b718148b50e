"""What a forecaster trains: the network from the past to the future, and the loss that judges it."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from udtw.align import soft_dtw, soft_dtw_divergence
from udtw.errors import OptionError
from udtw.nn import SigmaNet, UDTWLoss
from udtw.timeseries.sigma_kinds import make_sigma

LOSSES = ("euclidean", "soft_dtw", "soft_dtw_divergence", "udtw")


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


class AlignmentLoss(nn.Module):
    """Mean over the batch of a distance ``measure(pred, target)``; no parameters of its own."""

    def __init__(self, measure: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.measure = measure

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        return self.measure(pred, target).mean()


def make_loss(name: str, future: tuple[int, int], *, sigma: str | None, sigma_range: Any, **options: Any) -> nn.Module:
    """The loss of that name for futures (T_out, d); ``options`` are gamma, beta, normalize and band of `udtw.align`."""
    if name not in LOSSES:
        raise OptionError(f"loss must be one of {LOSSES}; got {name!r}.")
    beta = options.pop("beta")
    if name == "euclidean":
        return AlignmentLoss(lambda pred, target: (pred - target).square().mean((1, 2)))
    if name == "soft_dtw":
        return AlignmentLoss(lambda pred, target: soft_dtw(pred, target, **options))
    if name == "soft_dtw_divergence":
        return AlignmentLoss(lambda pred, target: soft_dtw_divergence(pred, target, **options))
    return UDTWLoss(None if sigma is None else make_sigma(sigma, *future, sigma_range), beta=beta, **options)


def sigma_of(loss: nn.Module) -> SigmaNet | None:
    """The SigmaNet that is trained with ``loss``, if there is one."""
    sigma = getattr(loss, "sigma", None)
    return sigma if isinstance(sigma, SigmaNet) else None


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights anew from ``generator``, so that no global random state decides the result."""
    in_sigma = {id(layer) for part in module.modules() if isinstance(part, SigmaNet) for layer in part.modules()}
    for layer in module.modules():
        if not isinstance(layer, nn.Linear | nn.Conv1d):
            continue
        if id(layer) in in_sigma:  # its biases carry the starting σ
            nn.init.xavier_normal_(layer.weight, generator=generator)
        else:
            bound = 1 / math.sqrt(layer.weight[0].numel())
            for parameter in layer.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
