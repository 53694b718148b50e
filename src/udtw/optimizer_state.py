"""The state of Adam and its like as tensors, and back: checked, as damage would show only in the next step."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim import Optimizer

MOST_STEPS = 2**53
"""Floats are exact up to here."""


def state_tensors(optimizer: Optimizer, prefix: str) -> dict[str, Tensor]:
    """The state by name, "PREFIXparameter.field"; nothing before the first step."""
    states = optimizer.state_dict()["state"].items()
    return {f"{prefix}{i}.{field}": torch.as_tensor(value) for i, state in states for field, value in state.items()}


def restore_state(optimizer: Optimizer, tensors: Mapping[str, Tensor], prefix: str) -> None:
    """Put back what `state_tensors` gave; other tensors are passed over. `ValueError` if it does not fit."""
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
        if own is None or found != wanted or not 1 <= float(fields["step"]) <= MOST_STEPS:
            raise ValueError(f"it holds {found}, step {fields.get('step')}, for a parameter {index} of {own}")
        if not all(tensor.isfinite().all() for tensor in fields.values()):
            raise ValueError(f"the state of parameter {index} is not finite")
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
