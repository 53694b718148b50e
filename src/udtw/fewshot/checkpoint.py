"""Weights, optimiser state and history in one safetensors file, replaced in one step. Nothing is pickled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from udtw.data.atomic import write_atomically
from udtw.errors import FileFormatError, OptionError

FORMAT, VERSION = "udtw.fewshot", 1


def save(
    path: Path,
    modules: Mapping[str, nn.Module],
    optimizers: Mapping[str, Optimizer],
    config: Mapping[str, Any],
    losses: list[float],
) -> None:
    """Write everything that the next step depends on, and the losses so far."""
    from safetensors.torch import save as to_bytes

    tensors = {f"module.{name}.{key}": t for name, m in modules.items() for key, t in m.state_dict().items()}
    for name, optimizer in optimizers.items():
        for number, state in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{name}.{number}.{key}": torch.as_tensor(value) for key, value in state.items()}
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    described = {"format": FORMAT, "version": str(VERSION), "config": json.dumps(config, sort_keys=True)}
    path.parent.mkdir(parents=True, exist_ok=True)
    # Copies, because safetensors refuses tensors that share memory.
    write_atomically(path, to_bytes({k: t.detach().cpu().clone().contiguous() for k, t in tensors.items()}, described))


def restore(
    path: Path, modules: Mapping[str, nn.Module], optimizers: Mapping[str, Optimizer], config: Mapping[str, Any]
) -> list[float]:
    """Put the saved state into modules and optimisers; returns the losses of the steps done."""
    tensors, saved = read(path)
    wanted = json.loads(json.dumps(config))
    if saved != wanted:
        changed = sorted(k for k in {*saved, *wanted} if saved.get(k) != wanted.get(k))
        raise OptionError(
            f"{path} was written with other settings ({', '.join(changed)}). Go on with those, or remove the file."
        )
    load_modules(path, tensors, modules)
    for name, optimizer in optimizers.items():
        _load_optimizer(path, tensors, name, optimizer)
    return tensors["losses"].tolist()


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
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            described = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (safe_open is no mapping)
    except FileNotFoundError:
        raise FileFormatError(f"There is no checkpoint at {path}.") from None
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"{path} cannot be read as a checkpoint: {error}.") from error
    if described.get("format") != FORMAT or described.get("version") != str(VERSION) or "losses" not in tensors:
        raise FileFormatError(f"{path} is not a checkpoint of {FORMAT}, version {VERSION}.")
    try:
        config = json.loads(described.get("config", ""))
    except ValueError as error:
        raise FileFormatError(f"{path} has a damaged configuration: {error}.") from error
    if not isinstance(config, dict):
        raise FileFormatError(f"{path} has a configuration that is no dictionary: {config!r}.")
    return tensors, config


def _load_optimizer(path: Path, tensors: Mapping[str, Tensor], name: str, optimizer: Optimizer) -> None:
    prefix = f"optimizer.{name}."
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith(prefix):
            number, field = key.removeprefix(prefix).split(".", 1)
            state.setdefault(int(number), {})[field] = tensor
    described = optimizer.state_dict()
    try:
        optimizer.load_state_dict({"state": state, "param_groups": described["param_groups"]})
    except (ValueError, KeyError, RuntimeError) as error:
        raise FileFormatError(f"{path} does not fit this optimiser: {error}") from error
