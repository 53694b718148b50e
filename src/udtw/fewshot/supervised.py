"""Episodic training: every step averages the losses of a few episodes."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from udtw.errors import OptionError
from udtw.fewshot.episodes import EpisodeSampler
from udtw.fewshot.loop import cosine_rate, own_randomness
from udtw.fewshot.model import FewShotModel
from udtw.fewshot.source import Source, moved


class EpisodicTask:
    """Steps of Adam on ``mean over episodes of model(episode)``; see `udtw.fewshot.loop.run`.

    Step n takes episodes ``n·episodes_per_step …`` of the sampler. Each has random numbers of its own (augmentation,
    dropout), so the result does not depend on which process computes it. With a ``fabric`` (lightning-fabric) of w
    processes each computes every w-th episode of the step and gradients are averaged: the same step, up to rounding.
    """

    def __init__(
        self, model: FewShotModel, source: Source, sampler: EpisodeSampler, *, n_steps: int,
        learning_rate: float = 1e-3, weight_decay: float = 1e-6, episodes_per_step: int = 1, fabric: Any = None,
    ) -> None:  # fmt: skip
        self.source, self.sampler, self.fabric = source, sampler, fabric
        self.n_steps, self.rate, self.episodes_per_step = n_steps, learning_rate, episodes_per_step
        self.optimizer: Any = torch.optim.AdamW(
            model.parameters(), lr=learning_rate, weight_decay=weight_decay, fused=True
        )
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
        self.modules: Mapping[str, nn.Module] = {"model": model}
        self.optimizers: Mapping[str, Optimizer] = {"model": self.optimizer}

    def step(self, number: int) -> float:
        cosine_rate(self.optimizer, self.rate, number, self.n_steps)
        first = number * self.episodes_per_step
        mine = range(first + self.rank, first + self.episodes_per_step, self.world)
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros(())
        for which in mine:
            with self._sync(which == mine[-1]):
                loss = self._loss(which) / len(mine)
                if self.fabric is None:
                    loss.backward()
                else:
                    self.fabric.backward(loss)
            total = total + loss.detach().cpu()
        if self.fabric is not None:
            total = self.fabric.all_reduce(total, reduce_op="mean").cpu()
        self.optimizer.step()
        return float(total)

    def _loss(self, which: int) -> torch.Tensor:
        episode = self.sampler.episode(which)
        device = next(self.model.parameters()).device
        generator = np.random.default_rng((self.sampler.seed, which, 1))
        batch = self.source.batch(np.concatenate([episode.support.ravel(), episode.query.ravel()]), generator)
        labels = (torch.from_numpy(own).to(device) for own in (episode.support_labels, episode.query_labels))
        with own_randomness(self.sampler.seed, which, device=device):
            return self.model(moved(batch, device), *labels)

    def _sync(self, last: bool) -> AbstractContextManager:
        """Gradients of several processes are exchanged once a step, with the last episode."""
        if self.fabric is None or self.world == 1:
            return nullcontext()
        return self.fabric.no_backward_sync(self.model, enabled=not last)
