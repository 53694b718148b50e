"""A forecaster's training on disk after every epoch: one safetensors file, replaced in one step. Nothing is pickled."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from udtw.data.atomic import write_atomically
from udtw.errors import FileFormatError, OptionError

FORMAT, VERSION = "udtw.forecaster-training", "1"


@dataclass
class Progress:
    """How far a training has come: ``numbers`` of every phase by name, and the ``tensors`` of the unfinished one."""

    numbers: dict[str, dict[str, Any]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainingFile:
    """``settings``: what the training depends on; a file of other settings is refused, not overwritten."""

    path: Path
    settings: Mapping[str, Any]
    writes: bool = True

    def write(self, progress: Progress) -> None:
        from safetensors.torch import save

        if not self.writes:
            return
        described = {
            "format": FORMAT,
            "version": VERSION,
            "settings": json.dumps(self.settings, sort_keys=True),
            "numbers": json.dumps(progress.numbers),
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Copies, because safetensors refuses tensors that share memory.
        tensors = {name: t.detach().cpu().clone().contiguous() for name, t in progress.tensors.items()}
        write_atomically(self.path, save(tensors, described))

    def read(self) -> Progress:
        """What was written last; nothing yet if there is no file."""
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return Progress()
        try:
            with safe_open(str(self.path), "pt") as file:
                described = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (safe_open is no mapping)
            if (described.get("format"), described.get("version")) != (FORMAT, VERSION):
                raise FileFormatError(f"{self.path} is not a training of {FORMAT}, version {VERSION}.")
            settings, numbers = json.loads(described["settings"]), json.loads(described["numbers"])
        except (OSError, SafetensorError, KeyError, RecursionError) as error:
            raise FileFormatError(f"{self.path} cannot be read as a training of a forecaster: {error!r}.") from error
        except ValueError as error:
            if isinstance(error, FileFormatError):
                raise
            raise FileFormatError(f"{self.path} describes its training in damaged JSON: {error}.") from error
        self._check(settings)
        if not isinstance(numbers, dict) or not all(map(_is_history, numbers.values())):
            raise FileFormatError(f"{self.path} has a damaged history.")
        return Progress(numbers, tensors)

    def restore(self, training: Any, found: Progress, phase: str) -> None:
        """Put the state of ``phase`` into ``training``."""
        try:
            training.restore(found.numbers[phase], found.tensors)
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
            raise FileFormatError(f"{self.path} does not fit this forecaster: {error!r}.") from error

    def _check(self, settings: Any) -> None:
        wanted = json.loads(json.dumps(self.settings))
        if settings == wanted:
            return
        saved = settings if isinstance(settings, dict) else {}
        changed = sorted(name for name in {*saved, *wanted} if saved.get(name) != wanted.get(name))
        raise OptionError(
            f"{self.path} is of a training with other settings or data ({', '.join(changed)}). Go on with those, or "
            "remove the file."
        )


def _is_history(numbers: Any) -> bool:
    """Losses of training and validation, and the number of the best epoch."""
    if not isinstance(numbers, dict) or numbers.keys() != {"train", "valid", "best"}:
        return False
    train, valid, best = numbers["train"], numbers["valid"], numbers["best"]
    columns = [isinstance(part, list) and all(isinstance(one, float) for one in part) for part in (train, valid)]
    if not all(columns) or len(valid) not in (0, len(train)):
        return False
    return isinstance(best, int) and not isinstance(best, bool) and -1 <= best < len(train)


def state_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state as "NUMBER.FIELD"."""
    every = optimizer.state_dict()["state"].items()
    return {f"{number}.{name}": torch.as_tensor(value) for number, state in every for name, value in state.items()}


def restore_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Put back what `state_tensors` gave."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = tensor
    every = [p for group in optimizer.param_groups for p in group["params"]]
    for index, parameter in enumerate(every):
        for name, tensor in state[index].items():
            if tensor.shape not in ((), parameter.shape) or not tensor.isfinite().all():
                raise ValueError(f"{name} of parameter {index} has shape {tuple(tensor.shape)}, or is not finite")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
