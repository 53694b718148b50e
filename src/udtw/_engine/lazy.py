"""`lazy`: a property that is computed once. torch.compile traces it, unlike functools.cached_property."""

from collections.abc import Callable
from typing import Any

import torch


def lazy(method: Callable[[Any], Any]) -> property:
    """Return a property whose first result is kept in the instance, also in a frozen dataclass.

    Results are cached separately with and without grad mode: one made under ``torch.no_grad()`` has no gradient.
    """
    names = (f"_lazy_{method.__name__}", f"_lazy_{method.__name__}_with_grad")

    def get(self: Any) -> Any:
        name = names[torch.is_grad_enabled()]
        if not hasattr(self, name):
            object.__setattr__(self, name, method(self))
        return getattr(self, name)

    return property(get, doc=method.__doc__)
