"""A forecaster's training on disk after every epoch, in one file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from udtw.data.tensor_file import read_tensors, refuse_other_settings, write_tensors
from udtw.errors import FileFormatError

FORMAT, VERSION = "udtw.forecaster-training", 1


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
        if self.writes:
            about = {"settings": self.settings, "numbers": progress.numbers}
            write_tensors(self.path, FORMAT, VERSION, progress.tensors, about)

    def read(self) -> Progress:
        """What was written last; nothing yet if there is no file."""
        if not self.path.exists():
            return Progress()
        tensors, about = read_tensors(self.path, FORMAT, VERSION, ("settings", "numbers"), "training of a forecaster")
        refuse_other_settings(self.path, about["settings"], self.settings)
        numbers = about["numbers"]
        if not isinstance(numbers, dict) or not all(map(_is_history, numbers.values())):
            raise FileFormatError(f"{self.path} has a damaged history.")
        return Progress(numbers, tensors)

    def restore(self, training: Any, found: Progress, phase: str) -> None:
        """Put the state of ``phase`` into ``training``."""
        try:
            training.restore(found.numbers[phase], found.tensors)
        except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
            raise FileFormatError(f"{self.path} does not fit this forecaster: {error!r}.") from error


def _is_history(numbers: Any) -> bool:
    """Losses of training and validation, and the number of the best epoch."""
    if not isinstance(numbers, dict) or numbers.keys() != {"train", "valid", "best"}:
        return False
    train, valid, best = numbers["train"], numbers["valid"], numbers["best"]
    columns = [isinstance(part, list) and all(isinstance(one, float) for one in part) for part in (train, valid)]
    if not all(columns) or len(valid) not in (0, len(train)):
        return False
    return isinstance(best, int) and not isinstance(best, bool) and -1 <= best < len(train)
