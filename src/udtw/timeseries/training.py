"""Mini-batch training with early stopping, and how many threads a step is worth."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

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


def train(
    model: nn.Module,
    loss: nn.Module,
    train_set: tuple[Tensor, Tensor],
    valid_set: tuple[Tensor, Tensor] | None,
    *,
    learning_rate: float,
    weight_decay: float,
    batch_size: int,
    max_epochs: int,
    patience: int | None,
    generator: torch.Generator,
    tick: Callable[[float], None] = lambda value: None,
) -> History:
    """Minimise ``loss(model(X), y)`` over the parameters of both, by Adam.

    The weights with the least validation loss are kept; without a validation set, those with the least training loss
    (mean over the epoch). Training ends after ``patience`` epochs without a new least value (None: never), or after
    ``max_epochs``. Weight decay applies to the model, not to the parameters of the loss.

    The best weights are put in place also when an exception, such as KeyboardInterrupt, ends the loop early.
    ``tick(value)`` is called after every epoch.
    """
    both = nn.ModuleList([model, loss])
    groups = [{"params": list(model.parameters()), "weight_decay": weight_decay}]
    if any(True for _ in loss.parameters()):
        groups.append({"params": list(loss.parameters()), "weight_decay": 0.0})
    optimizer = torch.optim.AdamW(groups, lr=learning_rate, fused=True)
    history = History()
    best: list[Tensor] = []
    least = float("inf")
    try:
        with threads_for(batch_size * train_set[1].shape[1] ** 2):
            for epoch in range(max_epochs):
                history.train.append(_epoch(model, loss, train_set, batch_size, optimizer, generator))
                if valid_set is not None:
                    history.valid.append(mean_loss(model, loss, valid_set))
                value = (history.valid or history.train)[-1]
                if value < least:
                    least, history.best = value, epoch
                    best = [p.detach().clone() for p in both.parameters()]
                elif patience is not None and epoch - history.best >= patience:
                    break
                tick(value)
    finally:
        with torch.no_grad():
            for parameter, kept in zip(both.parameters(), best, strict=False):
                parameter.copy_(kept)
    return history


def _epoch(
    model: nn.Module,
    loss: nn.Module,
    data: tuple[Tensor, Tensor],
    batch_size: int,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> float:
    """One pass over the shuffled data; the mean loss on the way."""
    x, y = data
    model.train()
    order = torch.randperm(len(x), generator=generator).to(x.device)
    total = x.new_zeros(())
    for batch in order.split(batch_size):
        optimizer.zero_grad()
        value = loss(model(x[batch]), y[batch])
        value.backward()
        optimizer.step()
        total += len(batch) * value.detach()
    return total.item() / len(x)


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
