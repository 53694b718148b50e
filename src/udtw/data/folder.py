"""Folders of data and of caches, by arguments or environment variables, and text files in them."""

import os
from pathlib import Path

from udtw.errors import DataError

ENVIRONMENT_VARIABLE = "UDTW_DATA"
CACHE_VARIABLE = "UDTW_CACHE"


def data_root(data_dir: str | os.PathLike | None) -> Path:
    """Return ``data_dir`` or UDTW_DATA; raise `DataError` if it does not exist."""
    chosen = data_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    if not chosen:
        raise DataError(f"No data folder: pass data_dir, or set the environment variable {ENVIRONMENT_VARIABLE}.")
    root = Path(chosen).expanduser()
    if not root.exists():
        raise DataError(f"{root} does not exist.")
    return root


def cache_root() -> Path:
    """Return UDTW_CACHE or the platform's folder for caches (~/.cache/udtw on Linux), which may not exist yet."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen).expanduser().absolute()
    try:
        import platformdirs
    except ModuleNotFoundError as error:
        raise ImportError(
            f"The cache folder is found by platformdirs; set {CACHE_VARIABLE}, or: pip install 'udtw[images]'"
        ) from error
    return platformdirs.user_cache_path("udtw", appauthor=False)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a text file in UTF-8."""
    try:
        # Not splitlines(): it also splits at characters that editors do not count as line ends.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file: {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
