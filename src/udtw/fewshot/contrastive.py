"""Training without labels by telling images, or anything else that can be augmented, apart: InfoNCE over distances."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from udtw.distributed import Processes
from udtw.errors import OptionError
from udtw.fewshot.loop import cosine_rate, own_randomness
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.source import moved


class ViewSource(Protocol):
    """Samples that come in augmented versions. Labels are not read."""

    def __len__(self) -> int: ...

    def two_views(self, indices: np.ndarray, generator: np.random.Generator) -> tuple[Any, Any]:
        """Two different versions of each sample, as batches for the encoder."""


class ContrastiveTask:
    """``InfoNCE(−score/τ) + β·mean Ω of the positives``; see `udtw.fewshot.loop.run`.

    A step draws ``batch_size`` samples and two views of each. The first view of sample i must be closer to its second
    view than to the second views of all others, and the other way round. The score is that by which the model
    classifies: d², or d² + βΩ with the objective "cross_entropy".

    With a ``fabric`` (lightning-fabric) of several processes, each compares its share of the first views with all
    second views, and the scores are exchanged: the same step, up to rounding.
    """

    def __init__(
        self, model: FewShotModel, source: ViewSource, *, n_steps: int, batch_size: int = 32, temperature: float = 0.1,
        learning_rate: float = 1e-3, weight_decay: float = 1e-6, seed: int = 0, fabric: Any = None,
    ) -> None:  # fmt: skip
        if not temperature > 0:
            raise OptionError(f"temperature must be positive; got {temperature}.")
        if batch_size < 2 or len(source) < 2:
            raise OptionError(
                f"Telling samples apart takes two in a batch; got batch_size={batch_size} of {len(source)} samples."
            )
        self.processes = Processes(fabric)
        self.model = model if fabric is None else fabric.to_device(model)
        self.source, self.seed = source, seed
        self.n_steps, self.rate, self.temperature = n_steps, learning_rate, temperature
        self.batch_size = min(batch_size, len(source))
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
        self.modules: Mapping[str, nn.Module] = {"model": model}
        self.optimizers: Mapping[str, Optimizer] = {"model": self.optimizer}

    def step(self, number: int) -> float:
        cosine_rate(self.optimizer, self.rate, number, self.n_steps)
        device = next(self.model.parameters()).device
        generator = np.random.default_rng((self.seed, number))
        chosen = generator.choice(len(self.source), self.batch_size, replace=False)
        views = self.source.two_views(chosen, generator)
        with own_randomness(self.seed, number, device=device):
            first, second = (self.model.encode(moved(view, device)) for view in views)
            rows = self.processes.rows(len(first)).to(device)
            comparison = self.model.comparator(first[rows], second)
        # (rows, B + 1): the scores, and Ω of the positive pair
        omega = comparison.regularizer.gather(1, rows[:, None])
        mine = torch.cat([self.model.objective.scores(comparison), omega], dim=1)
        every = self.processes.gather(mine, len(first)).requires_grad_()
        loss = info_nce(every[:, :-1], self.temperature) + self.model.objective.beta * every[:, -1].mean()
        [gradient] = torch.autograd.grad(loss, every)
        self.optimizer.zero_grad(set_to_none=True)
        mine.backward(self.processes.own(gradient))
        self.processes.sum_gradients(self.model.parameters())
        self.optimizer.step()
        return float(loss.detach())


def info_nce(scores: Tensor, temperature: float) -> Tensor:
    """``−mean log softmax(−scores/τ)_ii``, over rows and over columns, of ``scores`` (B, B); lower is closer."""
    logits = -scores / temperature
    own = torch.arange(len(logits), device=logits.device)
    return 0.5 * (cross_entropy(logits, own) + cross_entropy(logits.T, own))
