"""Weights, optimiser state and history of a few-shot training in one file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from udtw.data.tensor_file import read_tensors, refuse_other_settings, write_tensors
from udtw.errors import FileFormatError
from udtw.optimizer_state import restore_state, state_tensors

FORMAT, VERSION = "udtw.fewshot", 1


def save(
    path: Path,
    modules: Mapping[str, nn.Module],
    optimizers: Mapping[str, Optimizer],
    config: Mapping[str, Any],
    losses: list[float],
) -> None:
    """Write everything that the next step depends on, and the losses so far."""
    tensors = {f"module.{name}.{key}": t for name, m in modules.items() for key, t in m.state_dict().items()}
    for name, optimizer in optimizers.items():
        tensors |= state_tensors(optimizer, f"optimizer.{name}.")
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    write_tensors(path, FORMAT, VERSION, tensors, {"config": config})


def restore(
    path: Path, modules: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer], config: Mapping[str, Any]
) -> list[float]:
    """Put the saved state into modules and optimisers; returns the losses of the steps done."""
    tensors, saved = read(path)
    refuse_other_settings(path, saved, config)
    load_modules(path, tensors, modules)
    for name, optimizer in optimizers.items():
        try:
            restore_state(optimizer, tensors, f"optimizer.{name}.")
        except (ValueError, KeyError, RuntimeError) as error:
            raise FileFormatError(f"{path} does not fit this optimiser: {error}.") from error
    return tensors["losses"].tolist()


def check_shapes(path: Path, tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module]) -> None:
    """Raise unless ``tensors`` holds the weights of ``modules``, which may be without memory, in the same shapes."""
    for name, module in modules.items():
        for key, wanted in module.state_dict().items():
            found = tensors.get(f"module.{name}.{key}")
            if found is None or found.shape != wanted.shape:
                said = "is not there" if found is None else f"has shape {tuple(found.shape)}"
                raise FileFormatError(f"{path} does not fit this model: {key} {said}, not {tuple(wanted.shape)}.")


def load_modules(path: Path, tensors: Mapping[str, Tensor], modules: Mapping[str, nn.Module]) -> None:
    """Put the weights in ``tensors`` into modules of the same shapes."""
    for name, module in modules.items():
        prefix = f"module.{name}."
        own = {key.removeprefix(prefix): t for key, t in tensors.items() if key.startswith(prefix)}
        try:
            module.load_state_dict(own, strict=True)
        except RuntimeError as error:
            raise FileFormatError(f"{path} does not fit this model: {error}") from error


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the configuration of a checkpoint; anything that `save` did not write is a `FileFormatError`."""
    tensors, about = read_tensors(path, FORMAT, VERSION, ("config",), "checkpoint")
    losses, config = tensors.get("losses"), about["config"]
    if losses is None or losses.ndim != 1 or losses.dtype != torch.float64:
        raise FileFormatError(f"{path} is not a checkpoint: it has no losses of its steps.")
    if not isinstance(config, dict):
        raise FileFormatError(f"{path} has a configuration that is no dictionary: {config!r:.100}.")
    return tensors, config
