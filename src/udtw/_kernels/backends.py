"""Backend selection: one table, one place that chooses.

Modules are imported on first use, so that ``import udtw`` stays fast and works where Numba does not.
"""

import builtins
import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from udtw._kernels.base import Backend
from udtw.errors import BackendError

BACKENDS = {
    "numba": "udtw._kernels.cpu.backend",
    "triton": "udtw._kernels.gpu.backend",
    "portable": "udtw._kernels.reference.torch_backends",
    "enumeration": "udtw._kernels.reference.torch_backends",
}
"""Name to the module whose ``BACKENDS`` holds the `Backend`; ``"auto"`` takes the first that fits."""

_loaded: dict[str, Backend] = {}
_BUILTINS = max, min, math.pow


@contextmanager
def _original_builtins() -> Iterator[None]:
    """Undo, for an import, what torch.export does to them while it traces: Numba cannot be imported otherwise."""
    replaced = builtins.max, builtins.min, math.pow
    builtins.max, builtins.min, math.pow = _BUILTINS
    try:
        yield
    finally:
        builtins.max, builtins.min, math.pow = replaced


_failed: dict[str, str] = {}
"""Why a backend could not be loaded: trying again at every call would take long."""


def _unavailable(name: str) -> str | None:
    """Why the backend cannot be used on this machine; None if it can. Loads it."""
    if name not in _loaded and name not in _failed:
        try:
            with _original_builtins():
                _loaded[name] = importlib.import_module(BACKENDS[name]).BACKENDS[name]
        except BackendError as error:
            _failed[name] = str(error)
        except ModuleNotFoundError as error:
            _failed[name] = f"the package {error.name} is not installed (pip install {error.name})"
        except Exception as error:  # a broken LLVM or an incompatible NumPy raises any exception
            _failed[name] = f"it does not work here: {type(error).__name__}: {error}"
    return _failed.get(name)


# torch.compile takes the result instead of tracing the import. This is what torch.compiler.assume_constant_result does,
# without its import of the whole compiler.
_unavailable._dynamo_marked_constant = True  # type: ignore[attr-defined]


def available_backends() -> dict[str, str | None]:
    """Each backend's name, with None if it is available or else the reason why not.

    >>> import udtw
    >>> udtw.available_backends()["portable"] is None
    True
    """
    return {name: _unavailable(name) for name in BACKENDS}


def choose(name: str, main: Tensor) -> Backend:
    """The backend of that name, or for ``"auto"`` the first of the table that fits the dtype and device of ``main``."""
    if name == "auto":
        for candidate in BACKENDS:
            if _unavailable(candidate) is None and _loaded[candidate].misfit(main) is None:
                return _loaded[candidate]
    if name not in BACKENDS:
        raise BackendError(f"backend={name!r} is not known; choose 'auto' or one of {tuple(BACKENDS)}.")
    reason = _unavailable(name) or _loaded[name].misfit(main)
    if reason is not None:
        raise BackendError(f"backend={name!r} is not available: {reason}. Use backend='auto' or 'portable'.")
    return _loaded[name]
