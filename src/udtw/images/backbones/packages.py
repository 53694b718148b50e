"""Packages that are imported on first use."""

import importlib
from typing import Any


def needed(module: str, what: str, install: str = "udtw[images]") -> Any:
    """The module of that name; where it is missing, an ImportError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = error.name or module.partition(".")[0]
        raise ImportError(f"{what} need the package {package}; install it with: pip install '{install}'") from error
