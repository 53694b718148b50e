"""A training loop that can stop anywhere and go on as if it had not: step n depends on n, the seed and the weights."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from udtw.fewshot import checkpoint


class Task(Protocol):
    """What is trained."""

    modules: Mapping[str, nn.Module]
    optimizers: Mapping[str, Optimizer]

    def step(self, number: int) -> float:
        """One step; returns the loss."""


def run(
    task: Task,
    n_steps: int,
    *,
    config: Mapping[str, Any] | None = None,
    checkpoint_path: str | Path | None = None,
    checkpoint_every: int = 100,
    tick: Callable[[int, float], None] = lambda number, loss: None,
    writes: bool = True,
) -> list[float]:
    """Do steps 0 … n_steps − 1 and return their losses.

    With ``checkpoint_path``, weights and optimiser state are written there every ``checkpoint_every`` steps and at the
    end, in one atomic step; where the file exists, training goes on from it and ends with the same bits as an unbroken
    run. ``config`` is kept with it: resuming with another one is refused. Of several processes only one has ``writes``.
    """
    losses: list[float] = []
    if checkpoint_path is not None and Path(checkpoint_path).exists():
        losses = checkpoint.restore(Path(checkpoint_path), task.modules, task.optimizers, config or {})
    for module in task.modules.values():
        module.train()
    for number in range(len(losses), n_steps):
        losses.append(task.step(number))
        tick(number, losses[-1])
        if checkpoint_path is not None and writes and ((number + 1) % checkpoint_every == 0 or number + 1 == n_steps):
            checkpoint.save(Path(checkpoint_path), task.modules, task.optimizers, config or {}, losses)
    if checkpoint_path is not None and writes and not Path(checkpoint_path).exists():
        checkpoint.save(Path(checkpoint_path), task.modules, task.optimizers, config or {}, losses)
    for module in task.modules.values():
        module.eval()
    return losses


def cosine_rate(optimizer: Optimizer, rate: float, number: int, n_steps: int) -> None:
    """Set the learning rate of step ``number``: from ``rate`` down to zero along half a cosine."""
    for group in optimizer.param_groups:
        group["lr"] = rate * 0.5 * (1 + math.cos(math.pi * number / max(1, n_steps)))


@contextmanager
def own_randomness(*seed: int, device: torch.device) -> Iterator[None]:
    """Dropout and the like draw from a generator made of ``seed``; torch's global one is left as it was."""
    mixed = 0
    for part in seed:
        mixed = (mixed * 1_000_003 + part) % (2**63)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(mixed)
        yield
