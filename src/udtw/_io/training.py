"""The training loop: steps of a task that can be interrupted and resumed with the same bits.

A `Task` defines one step; `Training` runs the steps with learning-rate schedules, early stopping, a `Checkpoint`
and a sensible number of threads. Forecasters, few-shot models and the classifiers' SigmaNets are all trained by it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from udtw._io.checkpoint import (
    Checkpoint,
    History,
    check_shapes,
    load_modules,
    module_tensors,
    restore_state,
    state_tensors,
)
from udtw._io.device import seeded_generator
from udtw.errors import FileFormatError

CELLS_FOR_THREADS = 1_000_000
"""Cells to align per step from which threads are used. Smaller steps take a millisecond or two: threads gain little on
idle cores, and on busy cores waiting for each other costs ten times the work."""


class Task(ABC):
    """A training problem: the modules that are trained, and one step of training.

    Step ``number`` may depend only on the number, the weights, the state of the optimizers and ``generator``; these
    are what a checkpoint holds, so that a resumed training ends with the same bits.
    """

    modules: Mapping[str, nn.Module] = {}
    """Everything with weights, by name."""
    optimizers: Mapping[str, Optimizer]
    generator: torch.Generator | None = None
    """Random numbers of all steps, if they have a common source."""
    schedule: Callable[[int, int], float] | None = None
    """``schedule(number, n_steps)``: what the learning rates are multiplied by; None keeps them constant."""
    cells: int | None = None
    """Cells aligned per step, which decides the number of threads; None leaves that number alone."""

    @abstractmethod
    def step(self, number: int) -> float:
        """Do one step and return its loss."""

    def validate(self) -> float | None:
        """Return the loss on validation data after a step; None without any."""
        return None


class Training:
    """``n_steps`` steps of ``task``.

    Parameters
    ----------
    task : Task
    n_steps : int
        Steps in all, including those that a checkpoint already holds.
    keep_best : bool
        End with the weights of the step with the least validation loss (training loss without validation data),
        also if an exception such as KeyboardInterrupt ends the loop early.
    patience : int, optional
        With ``keep_best``: end after that many steps without a new least loss.
    checkpoint : Checkpoint, optional
        Where the state is written; if it holds an unfinished training, that one is continued.
    phase : str
        Name of this training in the file, where several follow each other.
    """

    def __init__(
        self, task: Task, n_steps: int, *, keep_best: bool = False, patience: int | None = None,
        checkpoint: Checkpoint | None = None, phase: str = "training",
    ) -> None:  # fmt: skip
        self.task, self.n_steps, self.keep_best, self.patience = task, n_steps, keep_best, patience
        self.checkpoint = checkpoint
        self.history = History()
        self._best: dict[str, Tensor] = {}
        if checkpoint is not None:
            if phase in checkpoint.history:
                self._restore(checkpoint, checkpoint.history[phase])
            checkpoint.history[phase] = self.history
        self._schedules = [] if task.schedule is None else [self._lambda_lr(one) for one in task.optimizers.values()]

    @property
    def finished(self) -> bool:
        done = len(self.history.train)
        late = self.keep_best and self.patience is not None and done - 1 - self.history.best >= self.patience
        return done >= self.n_steps or (done > 0 and late)

    def run(self, tick: Callable[[int, float], None] | None = None) -> History:
        """Do all steps that are left. ``tick(number, loss)`` is called after each, before the file is written."""
        for module in self.task.modules.values():
            module.train()
        try:
            with threads_for(self.task.cells):
                while not self.finished:
                    self._step(tick)
            if self.checkpoint is not None and not self.checkpoint.path.exists():
                self.checkpoint.save(self.tensors())
        finally:
            for name, module in self.task.modules.items():
                if self._best:
                    prefix = f"best.{name}."
                    module.load_state_dict(
                        {key.removeprefix(prefix): t for key, t in self._best.items() if key.startswith(prefix)}
                    )
                module.eval()
        return self.history

    def _step(self, tick: Callable[[int, float], None] | None) -> None:
        history, number = self.history, len(self.history.train)
        history.train.append(self.task.step(number))
        for schedule in self._schedules:
            schedule.step()
        validation = self.task.validate()
        if validation is not None:
            history.valid.append(validation)
        losses = history.valid or history.train
        if self.keep_best and losses[-1] < (losses[history.best] if history.best >= 0 else math.inf):
            history.best = number
            self._best = {key: t.detach().clone() for key, t in module_tensors(self.task.modules, "best").items()}
        if tick is not None:
            tick(number, losses[-1])
        if self.checkpoint is not None and ((number + 1) % self.checkpoint.every == 0 or self.finished):
            self.checkpoint.save(self.tensors())

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that the next step depends on, beside the history."""
        tensors = module_tensors(self.task.modules) | self._best
        for name, optimizer in self.task.optimizers.items():
            tensors |= state_tensors(optimizer, f"optimizer.{name}.")
        if self.task.generator is not None:
            tensors["generator"] = self.task.generator.get_state()
        return tensors

    def _restore(self, checkpoint: Checkpoint, history: History) -> None:
        """Put the saved state into modules, optimizers and generator."""
        path, tensors, modules = checkpoint.path, checkpoint.tensors, self.task.modules
        weights = {name: t for name, t in tensors.items() if name.startswith(("module.", "best."))}
        trained = {f"{name}.{key}" for name, module in modules.items() for key, _ in module.named_parameters()}
        for name, tensor in weights.items():
            # A buffer may hold infinities on purpose, such as the scale of a constant feature; never NaN.
            usable = tensor.isfinite() if name.partition(".")[2] in trained else ~tensor.isnan()
            if not usable.all():
                raise FileFormatError(f"{path} does not fit this model: {name} is not finite.")
        load_modules(path, weights, modules)
        if history.best >= 0:
            check_shapes(path, weights, modules, "best")
            self._best = {name: weights[name] for name in module_tensors(modules, "best")}
        for name, optimizer in self.task.optimizers.items():
            try:
                restore_state(optimizer, tensors, f"optimizer.{name}.")
            except (ValueError, KeyError, RuntimeError) as error:
                raise FileFormatError(f"{path} does not fit this optimizer: {error}.") from error
        if self.task.generator is not None:
            try:
                self.task.generator.set_state(tensors["generator"])
            except (KeyError, TypeError, RuntimeError) as error:
                raise FileFormatError(f"{path} has no state of the random numbers: {error!r}.") from error
        self.history = history

    def _lambda_lr(self, optimizer: Optimizer) -> LambdaLR:
        """Return the task's schedule, from the next step on.

        A function of the step's number needs no state in the file.
        """
        schedule = self.task.schedule
        assert schedule is not None, "asked by the caller"
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        return LambdaLR(optimizer, lambda number: schedule(number, self.n_steps), len(self.history.train) - 1)


def cosine(number: int, n_steps: int) -> float:
    """Return half a cosine, from 1 at the first step to 0 after the last: a `Task.schedule`.

    >>> [round(cosine(number, 4), 3) for number in range(5)]
    [1.0, 0.854, 0.5, 0.146, 0.0]
    """
    return 0.5 * (1 + math.cos(math.pi * number / max(1, n_steps)))


@contextmanager
def threads_for(cells: int | None) -> Iterator[None]:
    """Use one torch thread while steps align fewer cells than `CELLS_FOR_THREADS`; None leaves the number alone."""
    with torch_threads(1) if cells is not None and cells < CELLS_FOR_THREADS else nullcontext():
        yield


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of torch's threads while the block runs."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def own_randomness(*seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generator by ``seed`` inside the block (dropout reads it), and restore it afterwards."""
    mixed = 0
    for part in seed:
        mixed = (mixed * 1_000_003 + part) % (2**63)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(mixed)
        yield


@dataclass(frozen=True)
class Descent:
    """Steps of Adam, series per step, learning rate (it falls to zero as a cosine) and seed of a training."""

    max_iter: int
    batch_size: int
    learning_rate: float
    seed: int


def minimize(
    parameters: Sequence[Tensor], loss: Callable[[Tensor], Tensor], count: int, *, cells: int, descent: Descent,
    tick: Callable[[int, float], None] | None = None,
) -> list[float]:  # fmt: skip
    """Minimize ``loss(indices)`` by Adam, with shuffled batches of indices below ``count``; return the losses of the
    steps.

    ``cells``: how many a step aligns; it decides the number of threads.
    """
    optimizer = torch.optim.Adam(parameters, lr=descent.learning_rate)
    generator = seeded_generator(descent.seed, parameters[0].device)
    task = BatchTask(optimizer, loss, count, descent.batch_size, generator, cells)
    return Training(task, descent.max_iter).run(tick).train


class BatchTask(Task):
    """Per step, one gradient step on the loss of the next batch of shuffled indices below ``count``.

    A last batch of less than half the size is joined to the one before it.
    """

    schedule = staticmethod(cosine)
    generator: torch.Generator

    def __init__(
        self, optimizer: torch.optim.Optimizer, loss: Callable[[Tensor], Tensor], count: int, batch_size: int,
        generator: torch.Generator, cells: int,
    ) -> None:  # fmt: skip
        self.optimizers = {"all": optimizer}
        self.generator, self.cells = generator, cells
        self.loss, self.count, self.batch_size = loss, count, batch_size
        self._waiting: list[Tensor] = []

    def step(self, number: int) -> float:
        if not self._waiting:
            order = torch.randperm(self.count, generator=self.generator, device=self.generator.device)
            self._waiting = list(order.split(self.batch_size))
            if len(self._waiting) > 1 and len(self._waiting[-1]) < self.batch_size // 2:
                self._waiting[-2:] = [torch.cat(self._waiting[-2:])]
        value = self.loss(self._waiting.pop())
        optimizer = self.optimizers["all"]
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return float(value.detach())
