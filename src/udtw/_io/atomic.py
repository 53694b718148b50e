"""Files that are written in full or not at all, even if the process or the machine stops."""

import os
import secrets
from pathlib import Path

TEMPORARY = ".tmp"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file beside ``path``, flush it to disk, and rename it to ``path``."""
    # The name is cut because it may be as long as the file system allows.
    temporary = path.parent / f".{path.name[:80]}.{secrets.token_hex(8)}{TEMPORARY}"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def leftovers(folder: Path) -> list[Path]:
    """Return temporary files of processes that were killed while they wrote into ``folder``."""
    return sorted(folder.glob(f".*{TEMPORARY}"))


def _sync_folder(folder: Path) -> None:
    # The rename survives a power cut only after this. Windows cannot open folders, and does not need it.
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
