"""Whether Triton can be used here."""

import os
import sys

LEAST = (3, 3)
"""The first Triton with `tl.gather`; torch 2.7 brings it."""


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on the CPU: TRITON_INTERPRET=1 was set before the first import."""
    return os.environ.get("TRITON_INTERPRET", "0") not in ("", "0")


def missing() -> str | None:
    """Why Triton's kernels cannot be compiled on this machine; None if they can."""
    if sys.platform != "linux":
        return f"Triton is published for Linux, and this is {sys.platform}"
    try:
        import triton
    except ImportError as error:
        return f"Triton cannot be imported ({error}); builds of torch with CUDA or ROCm bring it (pip install triton)"
    version = tuple(int(part) for part in triton.__version__.split(".")[:2])
    if version < LEAST:
        return f"Triton {triton.__version__} is installed, and at least {'.'.join(map(str, LEAST))} is needed"
    if interpreted():
        return None
    import torch

    return None if torch.cuda.is_available() else "torch finds no CUDA or ROCm device"
