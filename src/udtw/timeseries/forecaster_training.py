"""The phases of a forecaster's training, one after the other, kept in a file where one is given."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from udtw.distributed import Processes
from udtw.timeseries.training import History, Training, progress
from udtw.timeseries.training_file import Progress, TrainingFile

Data = tuple[Tensor, Tensor]


def train_phases(
    model: nn.Module,
    phases: Mapping[str, nn.Module],
    data: Data,
    valid: Data | None,
    history: dict[str, History],
    *,
    options: Mapping[str, Any],
    generator: torch.Generator,
    file: TrainingFile | None,
    processes: Processes,
    verbose: bool,
) -> None:
    """Train ``model`` with the loss of each phase in turn; ``history`` grows on the way. ``options`` of `Training`.

    Where ``file`` holds an unfinished training, it goes on there: finished phases have only their history in it, the
    last one all its state.
    """
    found = Progress() if file is None else file.read()
    for name, loss in phases.items():
        if name in found.numbers and name != list(found.numbers)[-1]:
            history[name] = History(**found.numbers[name])
            continue
        phase = Training(model, loss, generator=generator, processes=processes, **options)
        if file is not None and name in found.numbers:
            file.restore(phase, found, name)
        history[name] = phase.history
        with progress(f"{name} loss", phase.max_epochs, verbose) as show:
            phase.run(data, valid, _after_epoch(phase, history, file, show))


def _after_epoch(
    phase: Training, history: dict[str, History], file: TrainingFile | None, show: Callable[[float], None]
) -> Callable[[float], None]:
    def tick(value: float) -> None:
        show(value)
        if file is not None:
            file.write(Progress({name: vars(one) for name, one in history.items()}, phase.tensors()))

    return tick
