"""Weights, optimiser state and history in one safetensors file, replaced in one step. Nothing is pickled."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from udtw.data import strict_json
from udtw.data.atomic import write_atomically
from udtw.errors import FileFormatError, OptionError

FORMAT, VERSION = "udtw.fewshot", 1
MOST_STEPS = 2**53


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
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "pt") as file:
            described = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (safe_open is no mapping)
    except FileNotFoundError:
        raise FileFormatError(f"There is no checkpoint at {path}.") from None
    except (OSError, SafetensorError) as error:
        raise FileFormatError(f"{path} cannot be read as a checkpoint: {error}.") from error
    if (
        described.get("format") != FORMAT
        or described.get("version") != str(VERSION)
        or not _is_column(tensors.get("losses"))
    ):
        raise FileFormatError(f"{path} is not a checkpoint of {FORMAT}, version {VERSION}.")
    try:
        config = strict_json.loads(described.get("config", ""))
    except ValueError as error:
        raise FileFormatError(f"{path} has a damaged configuration: {error}.") from error
    if not isinstance(config, dict):
        raise FileFormatError(f"{path} has a configuration that is no dictionary: {config!r}.")
    return tensors, config


def _is_column(losses: Tensor | None) -> bool:
    return losses is not None and losses.ndim == 1 and losses.dtype == torch.float64


def _load_optimizer(path: Path, tensors: Mapping[str, Tensor], name: str, optimizer: Optimizer) -> None:
    prefix = f"optimizer.{name}."
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        if key.startswith(prefix):
            number, _, field = key.removeprefix(prefix).partition(".")
            state.setdefault(int(number) if number.isdecimal() and len(number) < 10 else -1, {})[field] = tensor
    parameters = dict(enumerate(one for group in optimizer.param_groups for one in group["params"]))
    for index, fields in state.items():
        found = {field: (tensor.dtype, tuple(tensor.shape)) for field, tensor in fields.items()}
        own = (parameters[index].dtype, tuple(parameters[index].shape)) if index in parameters else None
        wanted = {"step": (torch.float32, ()), "exp_avg": own, "exp_avg_sq": own}
        # Otherwise the damage would show in the next step, as an error of torch's.
        if own is None or found != wanted or not 1 <= float(fields["step"]) <= MOST_STEPS:
            raise FileFormatError(
                f"{path} does not fit this optimiser: it holds {found}, step {fields.get('step')}, for a parameter "
                f"{index} of {own}."
            )
    described = optimizer.state_dict()
    try:
        optimizer.load_state_dict({"state": state, "param_groups": described["param_groups"]})
    except (ValueError, KeyError, RuntimeError) as error:
        raise FileFormatError(f"{path} does not fit this optimiser: {error}") from error
