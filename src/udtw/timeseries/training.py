"""Mini-batch training with early stopping, and how many threads a step is worth."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from udtw.distributed import Processes
from udtw.optimizer_state import restore_state, state_tensors

VALIDATION_BATCH = 1024
"""Series a validation batch: bounds the memory of the alignment, not the result."""

CELLS_FOR_THREADS = 1_000_000
"""Cells to align in a step, from which threads pay. Steps below take a millisecond or two: there threads gain little on
idle cores, and on busy ones their waiting for each other costs ten times the work."""


@contextmanager
def threads_for(cells: int) -> Iterator[None]:
    """One torch thread while steps align fewer cells than `CELLS_FOR_THREADS`; all of them otherwise."""
    before = torch.get_num_threads()
    if cells < CELLS_FOR_THREADS:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@dataclass
class History:
    """Loss of every epoch; ``best`` is the epoch whose weights were kept, -1 if there was none."""

    train: list[float] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    best: int = -1


class Training:
    """Minimise ``loss(model(X), y)`` over the parameters of both, by Adam, epoch by epoch.

    The weights with the least validation loss are kept; without a validation set, those with the least training loss
    (mean over the epoch). Training ends after ``patience`` epochs without a new least value (None: never), or after
    ``max_epochs``. Weight decay applies to the model, not to the parameters of the loss. Several ``processes`` share
    the series of every batch.
    """

    def __init__(
        self, model: nn.Module, loss: nn.Module, *, learning_rate: float, weight_decay: float, batch_size: int,
        max_epochs: int, patience: int | None, generator: torch.Generator, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        self.model, self.loss, self.generator = model, loss, generator
        self.batch_size, self.max_epochs, self.patience = batch_size, max_epochs, patience
        self.processes = processes or Processes()
        groups = [{"params": list(model.parameters()), "weight_decay": weight_decay}]
        if any(True for _ in loss.parameters()):
            groups.append({"params": list(loss.parameters()), "weight_decay": 0.0})
        self.optimizer = torch.optim.AdamW(groups, lr=learning_rate, fused=True)
        self.parameters = list(nn.ModuleList([model, loss]).parameters())
        self.history = History()
        self.best: list[Tensor] = []

    @property
    def finished(self) -> bool:
        done = len(self.history.train)
        late = self.patience is not None and done - 1 - self.history.best >= self.patience
        return done >= self.max_epochs or (done > 0 and late)

    def run(
        self, train_set: tuple[Tensor, Tensor], valid_set: tuple[Tensor, Tensor] | None,
        tick: Callable[[float], None] = lambda value: None,
    ) -> History:  # fmt: skip
        """All epochs that are left. ``tick(value)`` is called after each.

        The best weights are put in place also when an exception, such as KeyboardInterrupt, ends the loop early.
        """
        history = self.history
        try:
            with threads_for(self.batch_size * train_set[1].shape[1] ** 2):
                while not self.finished:
                    history.train.append(self._epoch(train_set))
                    if valid_set is not None:
                        history.valid.append(mean_loss(self.model, self.loss, valid_set))
                    values = history.valid or history.train
                    if values[-1] < (values[history.best] if history.best >= 0 else math.inf):
                        history.best = len(values) - 1
                        self.best = [p.detach().clone() for p in self.parameters]
                    tick(values[-1])
        finally:
            with torch.no_grad():
                for parameter, kept in zip(self.parameters, self.best, strict=False):
                    parameter.copy_(kept)
        return history

    def _epoch(self, data: tuple[Tensor, Tensor]) -> float:
        """One pass over the shuffled data; the mean loss on the way."""
        x, y = data
        self.model.train()
        order = torch.randperm(len(x), generator=self.generator).to(x.device)
        total = x.new_zeros(())
        for batch in order.split(self.batch_size):
            self.optimizer.zero_grad()
            total += len(batch) * self._descend(x[batch], y[batch])
            self.optimizer.step()
        return total.item() / len(x)

    def _descend(self, x: Tensor, y: Tensor) -> Tensor:
        """Gradients of the mean loss of a batch, and the loss. The forecast costs little beside the alignment, so every
        process makes it for all series, with the same dropout, and aligns its own."""
        forecast = self.model(x)
        if self.processes.world == 1:
            value = self.loss(forecast, y)
            value.backward()
            return value.detach()
        rows = self.processes.share(len(x)).to(x.device)
        value = (self.loss(forecast[rows], y[rows]) if len(rows) else forecast.sum() * 0) * (len(rows) / len(x))
        value.backward()
        self.processes.sum_gradients(self.parameters)
        return self.processes.sum(value.detach())

    def tensors(self) -> dict[str, Tensor]:
        """All that the next epoch depends on, beside the history."""
        tensors = {"generator": self.generator.get_state()}
        tensors |= {f"now.{i}": p for i, p in enumerate(self.parameters)}
        tensors |= {f"best.{i}": p for i, p in enumerate(self.best)}
        return tensors | state_tensors(self.optimizer, "optimizer.")

    def restore(self, numbers: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        """Put back the history ``numbers`` and what `tensors` gave."""
        self.history = History(**numbers)
        self.generator.set_state(tensors["generator"])
        if self.history.best >= 0:
            self.best = [tensors[f"best.{i}"].to(p).reshape(p.shape) for i, p in enumerate(self.parameters)]
        with torch.no_grad():
            for i, parameter in enumerate(self.parameters):
                now = tensors[f"now.{i}"]
                if now.shape != parameter.shape or not now.isfinite().all():
                    raise ValueError(f"parameter {i} has shape {tuple(now.shape)}, or is not finite")
                parameter.copy_(now)
        restore_state(self.optimizer, tensors, "optimizer.")
        if len(self.optimizer.state) < len(self.parameters):
            raise ValueError("the optimiser's state of some parameters is missing")


@torch.no_grad()
def mean_loss(model: nn.Module, loss: nn.Module, data: tuple[Tensor, Tensor]) -> float:
    """Mean of ``loss(model(X), y)`` over all series of ``data``."""
    model.eval()
    total = 0.0
    for x, y in zip(data[0].split(VALIDATION_BATCH), data[1].split(VALIDATION_BATCH), strict=True):
        total += len(x) * float(loss(model(x), y))
    return total / len(data[0])


@contextmanager
def progress(title: str, epochs: int, shown: bool) -> Iterator[Callable[[float], None]]:
    """A progress bar over epochs with the current loss beside it; does nothing unless ``shown``."""
    if not shown:
        yield lambda value: None
        return
    try:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    except ModuleNotFoundError as error:
        raise ImportError("The progress bar is drawn by rich; install it with: pip install 'udtw[progress]'") from error
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("loss {task.fields[loss]:.4g}")) as bar:
        task = bar.add_task(title, total=epochs, loss=float("nan"))

        def tick(value: float) -> None:
            bar.update(task, advance=1, loss=value)

        yield tick
