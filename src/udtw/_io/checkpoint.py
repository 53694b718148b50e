"""The file of a training: weights, state of the optimizers and losses, replaced in one atomic step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from udtw._io.tensor_file import read_tensors, refuse_other_settings, write_tensors
from udtw.errors import FileFormatError

FORMAT, VERSION = "udtw.training", 1
OLD_FEWSHOT, OLD_FORECASTER = "udtw.fewshot", "udtw.forecaster-training"
"""Formats of udtw 0.x before this one. Few-shot models are still read; a forecaster's training starts again."""
MOST_STEPS = 2**53
"""Floats are exact up to here."""


@dataclass
class History:
    """Losses of a training, one per step (per epoch for a forecaster).

    ``valid`` is empty without a validation set. ``best`` is the step whose weights were kept, -1 if none were.
    """

    train: list[float] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    best: int = -1


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint file. ``tensors`` belong to the last phase in ``history``."""

    settings: dict[str, Any]
    history: dict[str, History]
    tensors: dict[str, Tensor]


class Checkpoint:
    """The file of one training: read when it is opened, if it exists, and replaced by `save`.

    ``settings`` (JSON values) are everything that the training depends on: a file with others is refused, not
    overwritten. ``every`` is the number of steps between two writes; the last step is always written. ``writes`` is
    True in one of several processes. ``history`` has one `History` per phase of the training, in order; the last phase
    may be unfinished.
    """

    def __init__(
        self, path: str | Path, settings: Mapping[str, Any] | None = None, *, every: int = 1, writes: bool = True
    ) -> None:
        self.path, self.settings, self.every, self.writes = Path(path), settings or {}, every, writes
        self.history: dict[str, History] = {}
        self.tensors: dict[str, Tensor] = {}
        if self.path.exists():
            saved = read_checkpoint(self.path)
            refuse_other_settings(self.path, saved.settings, self.settings)
            self.history, self.tensors = saved.history, saved.tensors

    def is_past(self, phase: str) -> bool:
        """Return whether the file already holds a later phase than ``phase``."""
        return phase in list(self.history)[:-1]

    def save(self, tensors: Mapping[str, Tensor]) -> None:
        """Replace the file by the history so far and the ``tensors`` of the last phase."""
        if self.writes:
            write_checkpoint(self.path, self.settings, self.history, tensors)


def write_checkpoint(
    path: Path, settings: Mapping[str, Any], history: Mapping[str, History], tensors: Mapping[str, Tensor]
) -> None:
    """Write one file. Losses are tensors, because JSON has no NaN."""
    losses = {
        f"loss.{name}.{part}": torch.tensor(values, dtype=torch.float64)
        for name, one in history.items()
        for part, values in (("train", one.train), ("valid", one.valid))
    }
    described = {
        "settings": settings,
        "phases": {name: one.best for name, one in history.items()},
        "count": len(tensors) + len(losses),
    }
    write_tensors(path, FORMAT, VERSION, {**tensors, **losses}, described)


def read_checkpoint(path: Path) -> Saved:
    """Read a file of `write_checkpoint`; raise `FileFormatError` for anything else."""
    written_as = _format_of(path)
    if written_as == OLD_FORECASTER:
        raise FileFormatError(
            f"{path} holds the unfinished training of a forecaster, written by an earlier version of udtw in a format "
            "that is no longer supported. Remove the file to train from the start, or finish with the earlier version."
        )
    if written_as == OLD_FEWSHOT:
        tensors, about = read_tensors(path, OLD_FEWSHOT, 1, ("config",), "checkpoint")
        history = {"training": History(_losses(path, tensors.pop("losses", None)))}
        return Saved(_dictionary(path, about["config"]), history, tensors)
    tensors, about = read_tensors(path, FORMAT, VERSION, ("settings", "phases", "count"), "checkpoint")
    if about["count"] != len(tensors):
        raise FileFormatError(
            f"{path} is damaged: it holds {len(tensors)} tensors where {about['count']} were written."
        )
    history = {}
    for name, best in _dictionary(path, about["phases"]).items():
        train, valid = (_losses(path, tensors.pop(f"loss.{name}.{part}", None)) for part in ("train", "valid"))
        known = isinstance(best, int) and not isinstance(best, bool) and -1 <= best < len(train)
        if not known or len(valid) not in (0, len(train)):
            raise FileFormatError(f"{path} has a damaged history: phase {name!r}, best step {best!r:.60}.")
        history[name] = History(train, valid, best)
    return Saved(_dictionary(path, about["settings"]), history, tensors)


def module_tensors(modules: Mapping[str, nn.Module], prefix: str = "module") -> dict[str, Tensor]:
    """Return the weights of all modules by name, "PREFIX.module.key"."""
    return {f"{prefix}.{name}.{key}": t for name, module in modules.items() for key, t in module.state_dict().items()}


def check_shapes(
    path: Path, tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module], prefix: str = "module"
) -> None:
    """Raise unless ``tensors`` has the weights of ``modules`` in the same shapes; meta tensors will do."""
    for name, wanted in module_tensors(modules, prefix).items():
        own = tensors.get(name)
        if own is None or own.shape != wanted.shape:
            problem = "is missing" if own is None else f"has shape {tuple(own.shape)}"
            raise FileFormatError(f"{path} does not fit this model: {name} {problem}, not {tuple(wanted.shape)}.")


def load_modules(
    path: Path, tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module], prefix: str = "module"
) -> None:
    """Put the weights in ``tensors`` into modules of the same shapes."""
    for name, module in modules.items():
        start = f"{prefix}.{name}."
        own = {key.removeprefix(start): t for key, t in tensors.items() if key.startswith(start)}
        try:
            module.load_state_dict(own, strict=True)
        except RuntimeError as error:
            raise FileFormatError(f"{path} does not fit this model: {error}") from error


def state_tensors(optimizer: Optimizer, prefix: str) -> dict[str, Tensor]:
    """Return the state of Adam or AdamW by name, "PREFIXparameter.field"; empty before the first step."""
    states = optimizer.state_dict()["state"].items()
    return {f"{prefix}{i}.{field}": torch.as_tensor(value) for i, state in states for field, value in state.items()}


def restore_state(optimizer: Optimizer, tensors: Mapping[str, Tensor], prefix: str) -> None:
    """Put back the result of `state_tensors`; tensors without the prefix are ignored.

    The state is checked first, because damage would show only in the next step: `ValueError` if it does not fit.
    """
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith(prefix):
            number, _, field_name = key.removeprefix(prefix).partition(".")
            state.setdefault(int(number) if number.isdecimal() and len(number) < 10 else -1, {})[field_name] = tensor
    parameters = dict(enumerate(one for group in optimizer.param_groups for one in group["params"]))
    for index, fields in state.items():
        layout = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in fields.items()}
        own = (parameters[index].dtype, tuple(parameters[index].shape)) if index in parameters else None
        wanted = {"step": (torch.float32, ()), "exp_avg": own, "exp_avg_sq": own}
        if own is None or layout != wanted or not 1 <= float(fields["step"]) <= MOST_STEPS:
            raise ValueError(f"it holds {layout}, step {fields.get('step')}, for a parameter {index} of {own}")
        if not all(tensor.isfinite().all() for tensor in fields.values()):
            raise ValueError(f"the state of parameter {index} is not finite")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _format_of(path: Path) -> str | None:
    """Return the format that the file names; None if it cannot be read, which `read_tensors` then reports."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            return (file.metadata() or {}).get("format")
    except (OSError, SafetensorError):
        return None


def _losses(path: Path, tensor: Tensor | None) -> list[float]:
    if tensor is None or tensor.ndim != 1 or tensor.dtype != torch.float64:
        raise FileFormatError(f"{path} is not a checkpoint: it has no losses of its steps.")
    return tensor.tolist()


def _dictionary(path: Path, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FileFormatError(f"{path} has a description that is not a dictionary: {value!r:.100}.")
    return value
