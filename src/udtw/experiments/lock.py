"""One run a folder: a lock that the system takes back when its process ends, however it ends."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from udtw.errors import StoreBusyError

LOCK = ".lock"


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold the folder, or fail at once. The lock file stays behind: removing it would let two runs in."""
    import fcntl  # not on Windows, where only the runner is out of reach

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise StoreBusyError(
                f"{folder} is in use by another run (process {file.read().strip() or 'unknown'}). "
                "Wait for it to end, stop it, or choose another folder."
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
