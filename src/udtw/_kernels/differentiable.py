"""Derivatives of torch operators that also serve torch.func, torch.compile and plain autograd."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

_WATCHED_BY_AUTOGRAD_ALONE = {Tensor, Parameter, type(None), bool, int, float, list}
"""Types of arguments for which torch's dispatcher would find the device's implementation and nothing else."""


def in_forward_mode() -> bool:
    """Whether derivatives are taken in forward mode (``jvp``, dual numbers), which needs operations of torch."""
    return not torch.compiler.is_compiling() and forward_ad._current_level >= 0


def plain(*args: Any) -> bool:
    """Whether an operator on these arguments may be skipped in favour of its implementation, autograd aside."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._functorch.peek_interpreter_stack() is None
        and torch._C._len_torch_dispatch_stack() == 0
        and forward_ad._current_level < 0
        and _WATCHED_BY_AUTOGRAD_ALONE.issuperset(map(type, args))
    )


def differentiable(operator: Any, implementation: Callable, setup_context: Callable, backward: Callable):
    """Give the operator its derivative; returns what to call.

    Autograd and torch.compile take the derivative from the operator itself. torch.func does not look there: under its
    transforms the same two functions serve as an autograd.Function. So they do on plain tensors, around the bare
    implementation: finding it through torch's dispatcher takes as long as aligning a few dozen short pairs.
    """
    torch.library.register_autograd(operator._schema.name, backward, setup_context=setup_context)

    def forward(ctx, *args):
        output = implementation(*args)
        setup_context(ctx, args, output)
        return output

    def function(**members) -> Any:
        members = {name: staticmethod(member) for name, member in members.items()}
        return type(operator._opname, (torch.autograd.Function,), members | {"generate_vmap_rule": True})

    transformed = function(forward=operator, setup_context=setup_context, backward=backward)
    # Without setup_context, which makes torch inspect signatures.
    direct = function(forward=forward, backward=backward)

    def call(*args):
        if plain(*args):
            return direct.apply(*args) if torch.is_grad_enabled() else implementation(*args)
        if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:
            return transformed.apply(*args)
        return operator(*args)

    return call
