"""Training a few-shot model with labels, by episodes; and what the other tasks share."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from udtw._io.training import Task, cosine, own_randomness
from udtw.errors import OptionError
from udtw.fewshot.episodes import EpisodeSampler
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.stages import Stages, together


class Source(Protocol):
    """Labeled samples that are made into batches for an encoder."""

    labels: np.ndarray
    """(n,) integer class of every sample."""

    def batch(self, indices: np.ndarray, generator: np.random.Generator | None = None) -> Any:
        """Return the samples as the encoder takes them, augmented by random numbers of ``generator`` if there is one.

        They are moved to the device of the model, unless the source has a method ``to(device)`` and makes them there.
        """


class EpisodicTask(Task):
    """Training with labels: AdamW on the mean loss ``model(episode)`` of a few episodes per step.

    Step n takes episodes ``n·episodes_per_step …`` of the sampler; the learning rate falls to zero as a cosine. Each
    episode has random numbers of its own (augmentation, dropout), so the result does not depend on which process
    computes it. With a ``fabric`` (lightning-fabric) of w processes, each computes every w-th episode of the step and
    gradients are averaged: the same step, up to rounding.

    Parameters
    ----------
    model : FewShotModel
    source : object with ``labels`` (n,) and ``batch(indices, generator)``
        The samples.
    sampler : EpisodeSampler
    learning_rate, weight_decay : float
    episodes_per_step : int
        A multiple of the number of processes.
    stages : callable
        What learns in a step, see `Stages`.
    fabric : lightning-fabric object, optional
        Already launched.
    """

    schedule = staticmethod(cosine)

    def __init__(
        self, model: FewShotModel, source: Source, sampler: EpisodeSampler, *, learning_rate: float = 1e-3,
        weight_decay: float = 1e-6, episodes_per_step: int = 1, stages: Stages = together, fabric: Any = None,
    ) -> None:  # fmt: skip
        self.source, self.sampler, self.fabric, self.stages = source, sampler, fabric, stages
        self.episodes_per_step = episodes_per_step
        self.optimizer: Any = adamw(model, learning_rate, weight_decay)
        self.model: Any = model
        self.rank, self.world = 0, 1
        if fabric is not None:
            self.rank, self.world = fabric.global_rank, fabric.world_size
            if episodes_per_step % self.world:
                raise OptionError(
                    f"episodes_per_step must be a multiple of the {self.world} processes, so that all have the same "
                    f"work; got {episodes_per_step}."
                )
            self.model, self.optimizer = fabric.setup(model, self.optimizer)
        self.modules = {"model": model}
        self.optimizers = {"model": self.optimizer}
        device = keep_near(source, model)
        episode = sampler.episode(0)  # the labels of all episodes are the same
        self._labels = [torch.from_numpy(own).to(device) for own in (episode.support_labels, episode.query_labels)]

    def step(self, number: int) -> float:
        first = number * self.episodes_per_step
        mine = range(first + self.rank, first + self.episodes_per_step, self.world)
        stages = self.stages(number)
        if self.world > 1 and stages in (("features",), ("sigma",)):
            raise OptionError(
                "Steps in which features or variances learn alone are not possible in several processes; use one, or "
                "sigma_training 'joint', 'faithful' or 'beta_nll'."
            )
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros(())
        for which in mine:
            with self._sync(which == mine[-1]):
                loss = self._loss(which, stages) / len(mine)
                if self.fabric is None:
                    loss.backward()
                else:
                    self.fabric.backward(loss)
            total = total + loss.detach().cpu()
        if self.fabric is not None:
            total = self.fabric.all_reduce(total, reduce_op="mean").cpu()
        self.optimizer.step()
        return float(total)

    def _loss(self, which: int, stages: tuple[str, ...]) -> Tensor:
        episode = self.sampler.episode(which)
        device = next(self.model.parameters()).device
        generator = np.random.default_rng((self.sampler.seed, which, 1))
        batch = self.source.batch(np.concatenate([episode.support.ravel(), episode.query.ravel()]), generator)
        with own_randomness(self.sampler.seed, which, device=device):
            return self.model(moved(batch, device), *self._labels, stages)

    def _sync(self, last: bool) -> AbstractContextManager:
        """Exchange gradients between processes once per step, with its last episode."""
        if self.fabric is None or self.world == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self.model, enabled=not last)


def keep_near(source: Any, model: nn.Module) -> torch.device:
    """Move the source, if it has a method ``to``, to the device of the model, and return that device."""
    device = next(model.parameters()).device
    if hasattr(source, "to"):
        source.to(device)
    return device


def moved(batch: Any, device: torch.device) -> Any:
    """Move a batch (a tensor, or tuples of tensors) to another device."""
    if isinstance(batch, Tensor):
        return batch.to(device)
    return tuple(moved(part, device) for part in batch)


def adamw(model: nn.Module, learning_rate: float, weight_decay: float) -> torch.optim.AdamW:
    """Build the optimizer of all tasks but the dictionary's."""
    return torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True)
