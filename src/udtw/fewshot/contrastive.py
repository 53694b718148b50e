"""Training a few-shot model without labels, by telling augmented samples apart."""

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from udtw._io.distributed import Processes
from udtw._io.training import Task, cosine, own_randomness
from udtw.errors import OptionError
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.stages import Stages, together
from udtw.fewshot.tasks import adamw, keep_near, moved
from udtw.fewshot.tokens import Tokens, as_tokens


class ViewSource(Protocol):
    """Samples that can be augmented. Labels are not read."""

    def __len__(self) -> int: ...

    def two_views(self, indices: np.ndarray, generator: np.random.Generator) -> tuple[Any, Any]:
        """Return two different augmented versions of each sample, as batches for the encoder."""


class ContrastiveTask(Task):
    """Training without labels by telling samples apart: ``InfoNCE(−score/τ) + β·mean Ω of the positives``.

    A step draws ``batch_size`` samples and two views of each. The first view of sample i must be closer to its second
    view than to the second views of all others, and the other way round. The score is that by which the model
    classifies: d², d² + βΩ with the objective "cross_entropy", or with ``weighting="likelihood"`` of the model the
    divergence of the free energy, in which Ω is contained. AdamW; the learning rate falls to zero as a cosine.

    With a ``fabric`` (lightning-fabric) of several processes, each compares its share of the first views with all
    second views, and the scores are exchanged: the same step, up to rounding.

    Parameters
    ----------
    model : FewShotModel
    source : object with ``len`` and ``two_views(indices, generator)``
        The samples.
    batch_size : int
        At least 2.
    temperature : float
        τ.
    learning_rate, weight_decay : float
    stages : callable
        What learns in a step, see `Stages`.
    seed : int
    fabric : lightning-fabric object, optional
        Already launched.
    one_way : bool
        Only the first view must be closest to its second one, as in the paper.
    """

    schedule = staticmethod(cosine)

    def __init__(  # noqa: PLR0913 (keyword options of a public class)
        self, model: FewShotModel, source: ViewSource, *, batch_size: int = 32, temperature: float = 0.1,
        learning_rate: float = 1e-3, weight_decay: float = 1e-6, stages: Stages = together, seed: int = 0,
        fabric: Any = None, one_way: bool = False,
    ) -> None:  # fmt: skip
        if not temperature > 0:
            raise OptionError(f"temperature must be positive; got {temperature}.")
        if batch_size < 2 or len(source) < 2:
            raise OptionError(
                f"Telling samples apart takes two in a batch; got batch_size={batch_size} of {len(source)} samples."
            )
        self.processes = Processes(fabric)
        self.model = model if fabric is None else fabric.to_device(model)
        self.source, self.seed, self.temperature, self.stages = source, seed, temperature, stages
        self.one_way = one_way
        self.batch_size = min(batch_size, len(source))
        self.optimizer = adamw(model, learning_rate, weight_decay)
        self.modules = {"model": model}
        self.optimizers = {"model": self.optimizer}
        keep_near(source, model)

    def step(self, number: int) -> float:
        device = next(self.model.parameters()).device
        generator = np.random.default_rng((self.seed, number))
        chosen = generator.choice(len(self.source), self.batch_size, replace=False)
        views = self.source.two_views(chosen, generator)
        self.optimizer.zero_grad(set_to_none=True)
        with own_randomness(self.seed, number, device=device):
            encoded = [as_tokens(self.model.encoder(moved(view, device))) for view in views]
            losses = [
                self._backward(*(self.model.with_variance(one, stage) for one in encoded))
                for stage in self.stages(number)
            ]
        self.processes.sum_gradients(self.model.parameters())
        self.optimizer.step()
        return sum(losses)

    def _backward(self, first: Tokens, second: Tokens) -> float:
        """Add the gradients of one stage; return its loss."""
        rows = self.processes.rows(len(first), first.features.device)
        comparison = self.model.comparator(first[rows], second)
        # (rows, B + 1): the scores, and Ω of the positive pair
        omega = comparison.regularizer.gather(1, rows[:, None])
        mine = torch.cat([self.model.objective.scores(comparison), omega], dim=1)
        every = self.processes.gather(mine, len(first)).requires_grad_()
        loss = (
            info_nce(every[:, :-1], self.temperature, one_way=self.one_way)
            + self.model.objective.beta * every[:, -1].mean()
        )
        [gradient] = torch.autograd.grad(loss, every)
        mine.backward(self.processes.own(gradient))
        return float(loss.detach())


def info_nce(scores: Tensor, temperature: float, *, one_way: bool = False) -> Tensor:
    """Return ``−mean log softmax(−scores/τ)_ii`` of ``scores`` (B, B), over rows and columns or, one way, over rows.

    Lower scores are closer.
    """
    logits = -scores / temperature
    own = torch.arange(len(logits), device=logits.device)
    if one_way:
        return cross_entropy(logits, own)
    return 0.5 * (cross_entropy(logits, own) + cross_entropy(logits.T, own))
