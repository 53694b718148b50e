"""Rules for torch.func.vmap: fold the mapped axis into the batch, run the operator once, take it out again."""

from typing import Any

import torch
from torch import Tensor


def _fold(size: int, dim: int | None, tensor: Tensor | None, batch_axis: int) -> Tensor | None:
    """Merge the mapped axis of ``tensor`` (or ``size`` copies of it) into its batch axis."""
    if tensor is None:
        return None
    if dim is None:
        moved = tensor.unsqueeze(batch_axis).expand(*tensor.shape[:batch_axis], size, *tensor.shape[batch_axis:])
    else:
        moved = tensor.movedim(dim, batch_axis)
    return moved.flatten(batch_axis, batch_axis + 1)


def register_vmap(op: Any, batch_axes: dict[str, int], out_axes: tuple[int, ...] | int) -> None:
    """``batch_axes``: the batch axis of each tensor argument; ``out_axes``: of each output."""
    names = [argument.name for argument in op._schema.arguments]

    def rule(info, in_dims, *args):
        folded: list[Any] = []
        for name, arg, dim in zip(names, args, in_dims, strict=True):
            if name == "mask" and arg is not None and (dim is not None or arg.shape[0] > 1):
                pairs = folded[names.index("lengths")].shape[1] // info.batch_size  # the lengths come before the mask
                each = arg.unsqueeze(0) if dim is None else arg.movedim(dim, 0)  # a mask for all, or one per pair
                folded.append(each.expand(info.batch_size, pairs, -1, -1).flatten(0, 1))
            elif name in batch_axes and isinstance(arg, Tensor):
                folded.append(_fold(info.batch_size, dim, arg, batch_axes[name]))
            else:
                folded.append(arg)

        def split(out: Tensor, axis: int) -> Tensor:
            return out.unflatten(axis, (info.batch_size, out.shape[axis] // info.batch_size))

        result = op(*folded)
        if isinstance(out_axes, int):
            return split(result, out_axes), out_axes
        return tuple(split(r, a) for r, a in zip(result, out_axes, strict=True)), out_axes

    torch.library.register_vmap(op._schema.name, rule)
