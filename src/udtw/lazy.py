"""A property that is computed once. Unlike functools.cached_property it holds no lock, and torch.compile traces it."""

from collections.abc import Callable
from typing import Any

import torch


def lazy(method: Callable[[Any], Any]) -> property:
    """Like `property`; the first result is kept in the instance, frozen or not.

    What was computed under ``torch.no_grad()`` is kept apart: it must not be handed to who asks for a gradient later.
    """
    names = (f"_lazy_{method.__name__}", f"_lazy_{method.__name__}_with_grad")

    def get(self: Any) -> Any:
        name = names[torch.is_grad_enabled()]
        if not hasattr(self, name):
            object.__setattr__(self, name, method(self))
        return getattr(self, name)

    return property(get, doc=method.__doc__)
