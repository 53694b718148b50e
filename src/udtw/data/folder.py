"""Where the user's data is, and where files that can be made again are kept: arguments or environment variables."""

import os
from pathlib import Path

from udtw.errors import DataError

ENVIRONMENT_VARIABLE = "UDTW_DATA"
CACHE_VARIABLE = "UDTW_CACHE"


def data_root(data_dir: str | os.PathLike | None) -> Path:
    """``data_dir``, or the value of UDTW_DATA; it must exist."""
    chosen = data_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    if not chosen:
        raise DataError(f"No data folder: pass data_dir, or set the environment variable {ENVIRONMENT_VARIABLE}.")
    root = Path(chosen).expanduser()
    if not root.exists():
        raise DataError(f"{root} does not exist.")
    return root


def cache_root() -> Path:
    """The value of UDTW_CACHE, or the platform's folder for caches (~/.cache/udtw on Linux); it may not exist yet."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    try:
        import platformdirs
    except ModuleNotFoundError as error:
        raise ImportError(
            f"The cache folder is found by platformdirs; set {CACHE_VARIABLE}, or: pip install 'udtw[images]'"
        ) from error
    return platformdirs.user_cache_path("udtw", appauthor=False)
