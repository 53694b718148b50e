"""Where the user's data is: an argument, or an environment variable."""

import os
from pathlib import Path

from udtw.errors import DataError

ENVIRONMENT_VARIABLE = "UDTW_DATA"


def data_root(data_dir: str | os.PathLike | None) -> Path:
    """``data_dir``, or what UDTW_DATA says; it must exist."""
    chosen = data_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    if not chosen:
        raise DataError(f"No data folder: pass data_dir, or set the environment variable {ENVIRONMENT_VARIABLE}.")
    root = Path(chosen).expanduser()
    if not root.exists():
        raise DataError(f"{root} does not exist.")
    return root
