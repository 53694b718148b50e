"""A device that is none: tensors on "lazy", which torch has no kernels for here, are computed on the CPU underneath.

Like a GPU, it refuses an operation on tensors of two devices (but for single numbers and indices on the CPU), and NumPy
cannot read its tensors without `cpu()`. So code that runs on it, and returns what it returns on the CPU, makes every
tensor where its data is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

NAME = "lazy"
DEVICE = torch.device(NAME)
INDEXING = (torch.ops.aten.index.Tensor, torch.ops.aten.index_put.default, torch.ops.aten.index_put_.default)
COPYING = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
MOVED: list[str] = []
"""What was copied from the CPU to the device since it exists; single numbers are not counted."""


class Remote(Tensor):
    """A tensor on the simulated device; ``held`` is where its numbers are."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "Remote":
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(), dtype=held.dtype,
            device=DEVICE, requires_grad=held.requires_grad,
        )  # fmt: skip
        made.held = held
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Remote({self.held})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of an operator of torch, on the device of its arguments, or where it says that it goes."""
    given = [one for one in tree_flatten((args, kwargs))[0] if isinstance(one, Tensor)]
    remote = any(isinstance(one, Remote) for one in given)
    if remote and func not in COPYING:
        local = [one for one in given if not isinstance(one, Remote)]
        if func in INDEXING:
            local = [one for one in local if one.dtype not in (torch.int64, torch.bool)]
        if any(one.ndim > 0 for one in local):
            raise RuntimeError(f"{func}: expected all tensors on one device, but found {DEVICE} and cpu.")
    there = remote
    if kwargs.get("device") is not None:
        there = torch.device(kwargs["device"]).type == NAME
        kwargs = kwargs | {"device": torch.device("cpu")}
    if func is torch.ops.aten.copy_.default:
        there = isinstance(args[0], Remote)
    if there and func in COPYING:
        MOVED.extend(f"{one.dtype} {tuple(one.shape)}" for one in given if not isinstance(one, Remote) and one.ndim)
    held_args, held_kwargs = tree_map_only(Remote, lambda one: one.held, (args, kwargs))
    result = func(*held_args, **held_kwargs)
    if not there:
        return result
    own = {id(one.held): one for one in given if isinstance(one, Remote)}
    return tree_map_only(Tensor, lambda one: own[id(one)] if id(one) in own else Remote(one), result)


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


class _Generator(torch.Generator):
    """A generator that is on the device by name only."""

    where: torch.device

    def __new__(cls, device: Any = "cpu") -> "_Generator":
        made = super().__new__(cls, "cpu" if torch.device(device).type == NAME else device)
        made.where = torch.device(device)
        return made

    @property
    def device(self) -> torch.device:
        return self.where


@contextmanager
def nothing_moved() -> Iterator[None]:
    """Fail if anything but single numbers was copied from the CPU to the device in this block."""
    before = len(MOVED)
    yield
    assert not MOVED[before:], f"copied to the device: {MOVED[before:]}"


@contextmanager
def simulated_device() -> Iterator[str]:
    """The name of the simulated device, which exists inside the block."""
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # as in FakeTensorMode: new tensors are moved where the mode sees it
    fused = mock.patch("torch.optim.optimizer._get_fused_kernels_supported_devices", return_value=["cpu", NAME])
    MOVED.clear()
    try:
        with fused, mock.patch("torch.Generator", _Generator), _Mode():
            yield NAME
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
