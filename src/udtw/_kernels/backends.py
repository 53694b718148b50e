"""Select a backend: one table, one place that chooses.

Modules are imported on first use, so that ``import udtw`` stays fast and works where Numba does not.
"""

import builtins
import importlib
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache

import numpy as np
import torch
from torch import Tensor

from udtw._engine.prior import Prior
from udtw._kernels.base import Backend
from udtw._kernels.differentiable import in_forward_mode
from udtw.errors import BackendError

BACKENDS = {
    "numba": "udtw._kernels.cpu.backend",
    "triton": "udtw._kernels.gpu.backend",
    "portable": "udtw._kernels.reference.torch_backends",
    "enumeration": "udtw._kernels.reference.torch_backends",
}
"""Name to the module whose ``BACKENDS`` holds the `Backend`; ``"auto"`` takes the first that fits."""
COMPILED = ("numba", "triton")
"""Backends without derivatives in forward mode."""

ANY_PATH = Prior()
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
    """Load the backend; return why it cannot be used on this machine, or None if it can."""
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
            if "no locator available" in str(error):  # Numba found no folder that can be written
                warnings.warn(
                    f"Kernels cannot be kept in any folder, so that backend={REFERENCE!r}, which is far slower, takes "
                    "their place. Set NUMBA_CACHE_DIR to a folder that can be written.",
                    RuntimeWarning,
                    stacklevel=2,
                )
    return _failed.get(name)


# torch.compile takes the result instead of tracing the import. This is what torch.compiler.assume_constant_result does,
# without its import of the whole compiler.
_unavailable._dynamo_marked_constant = True  # type: ignore[attr-defined]


def available_backends() -> dict[str, str | None]:
    """Return each backend's name, with None if it is available and otherwise the reason.

    >>> import udtw
    >>> udtw.available_backends()["portable"] is None
    True
    """
    return {name: _unavailable(name) for name in BACKENDS}


def choose(name: str, main: Tensor, prior: Prior = ANY_PATH) -> Backend:
    """Return the backend of that name; for ``"auto"`` the first that fits ``prior``, and dtype and device of ``main``.

    A backend for accelerators is trusted by ``"auto"`` only after `self_check` on that device.
    """
    if prior.order != "path":
        return _unordered(name)
    if prior.ties is not None:
        from udtw._kernels.ties import TiedBackend

        return TiedBackend(choose(name, main, replace(prior, ties=None)))
    forward_mode = in_forward_mode()
    if name == "auto" and forward_mode:
        name = REFERENCE
    if name == "auto":
        for candidate in BACKENDS:
            if (
                _unavailable(candidate) is None
                and _loaded[candidate].misfit(main) is None
                and _loaded[candidate].refusal(prior) is None
                and _trust(candidate, main)
            ):
                return _loaded[candidate]
    if name not in BACKENDS:
        raise BackendError(f"backend={name!r} is not known; choose 'auto' or one of {tuple(BACKENDS)}.")
    reason = _unavailable(name) or _loaded[name].misfit(main)
    if forward_mode and name in COMPILED:
        reason = "it has no derivatives in forward mode (jvp)"
    if reason is not None:
        raise BackendError(f"backend={name!r} is not available: {reason}. Use backend='auto' or 'portable'.")
    if (reason := _loaded[name].refusal(prior)) is not None:
        raise BackendError(f"backend={name!r} {reason}. Use backend='auto' or 'portable'.")
    return _loaded[name]


def dtw_of_pair(x: np.ndarray, y: np.ndarray) -> np.floating | None:
    """Return the DTW of two arrays (N, d) and (M, d) without a `Problem`; None if no backend takes them so."""
    if torch.compiler.is_compiling() or in_forward_mode() or _unavailable("numba") is not None:
        return None
    return _loaded["numba"].dtw_of_pair(x, y)


def _unordered(name: str) -> Backend:
    """Return what answers for sets and grids, whatever the backend: operations of torch on any device."""
    from udtw._kernels.unordered import UNORDERED

    if name not in ("auto", *BACKENDS):
        raise BackendError(f"backend={name!r} is not known; choose 'auto' or one of {tuple(BACKENDS)}.")
    return UNORDERED


def _trust(name: str, main: Tensor) -> bool:
    return name == REFERENCE or not _loaded[name].needs_check or _checked(name, str(main.device)) is None


# Traced like `_unavailable`: the check runs outside of the graph.
_trust._dynamo_marked_constant = True  # type: ignore[attr-defined]


@cache
def _checked(name: str, device: str) -> str | None:
    """Run `self_check` once per backend, device and process; warn once if it fails."""
    problem = self_check(device, name)
    if problem is not None:
        warnings.warn(
            f"backend={name!r} failed its check on {device} and is not used there: {problem}. backend={REFERENCE!r} "
            "takes its place; please report this.",
            RuntimeWarning,
            stacklevel=4,
        )
    return problem


REFERENCE = "portable"
"""Backend that others are compared with."""
TOLERANCE = 1e-3
"""Largest relative difference from the reference that `self_check` accepts, in float32."""


def self_check(device: str, name: str = "triton") -> str | None:
    """Compare a small problem with the reference on ``device``, values and gradients.

    Return None if both agree, otherwise the difference or the error in words.
    """
    from udtw._engine.problem import make_problem

    if (reason := _unavailable(name) or _unavailable(REFERENCE)) is not None:
        return reason
    generator = torch.Generator().manual_seed(0)
    drawn = {"x": (3, 19, 2), "y": (3, 23, 2), "var_x": (3, 19), "var_y": (3, 23)}
    numbers = {key: torch.rand(shape, generator=generator) + 0.5 for key, shape in drawn.items()}
    results = []
    try:
        for one in (name, REFERENCE):
            with torch.inference_mode(False), torch.enable_grad():
                tensors = {key: value.to(device).requires_grad_() for key, value in numbers.items()}
                problem = make_problem({**tensors}, 0.5, (None, None), beta=1.0, warp_penalty=0.1)
                value = _loaded[one].free_energy(problem)
                value.sum().backward()
            results.append([value.detach(), *(tensor.grad for tensor in tensors.values())])
    except Exception as error:  # a driver or compiler that does not fit may raise anything
        return f"{type(error).__name__}: {error}"
    for label, own, other in zip(("free energy", *(f"gradient of {key}" for key in drawn)), *results, strict=True):
        difference = float((own - other).abs().max() / other.abs().max())
        if not difference <= TOLERANCE:
            return f"{label} differs by {difference:.2g} (relative) from that of {REFERENCE!r}"
    return None
