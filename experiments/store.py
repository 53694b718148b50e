"""Results on disk: one JSON file for each finished unit, written atomically, and a lock for the folder."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.units import Unit, plain, restored, to_json
from udtw._io import strict_json
from udtw._io.atomic import leftovers, write_atomically
from udtw.errors import StoreBusyError, StoreError, UdtwError

LOCK = ".lock"


class Store:
    """The results in ``folder``, which is created when the first one is written.

    A result is a dict of JSON values. NumPy and torch numbers are converted to plain ones; NaN and infinity are kept.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from experiments import Store, Unit
    >>> unit = Unit("demo", "GunPoint", "dtw", seed=0)
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(folder)
    ...     store.write(unit, {"accuracy": 0.9})
    ...     store.has(unit), store.read(unit)
    (True, {'accuracy': 0.9})
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)

    def path(self, unit: Unit) -> Path:
        """Return the file of a unit's result."""
        return self.folder / f"{unit.key}.json"

    def has(self, unit: Unit) -> bool:
        """Return whether the unit is finished."""
        return self.path(unit).is_file()

    def read(self, unit: Unit) -> dict[str, Any]:
        """Read the result of a finished unit."""
        if not self.has(unit):
            raise StoreError(f"{self.folder} has no result of {unit}. Compute it first.")
        found, result = self._read(self.path(unit))
        if found != unit:
            raise StoreError(f"{self.path(unit)} holds the result of another unit, {found}. Remove the file.")
        return result

    def write(self, unit: Unit, result: dict[str, Any]) -> None:
        """Store the result of a unit atomically; an earlier one is replaced."""
        if not isinstance(result, dict):
            raise StoreError(f"A result must be a dict of JSON values; got a {type(result).__name__}.")
        content = {"unit": unit.fields, "result": plain("result", result)}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path(unit), (to_json(content, indent=1) + "\n").encode())

    def results(self) -> list[tuple[Unit, dict[str, Any]]]:
        """Return all finished units, ordered by experiment, data set, method, seed and parameters."""
        found = [self._read(path) for path in self.folder.glob("*.json")]
        return sorted(found, key=lambda pair: pair[0])

    def clean_leftovers(self) -> int:
        """Remove unfinished files of killed runs and return their number; only while no other run uses the folder."""
        files = leftovers(self.folder)
        for file in files:
            file.unlink(missing_ok=True)
        return len(files)

    def _read(self, path: Path) -> tuple[Unit, dict[str, Any]]:
        try:
            content = strict_json.loads(path.read_bytes())
            unit, result = Unit(**content["unit"]), restored(content["result"])
            # The name must belong to the unit: a renamed copy would be counted twice.
            if not isinstance(result, dict) or path.name != self.path(unit).name:
                raise ValueError("its name or content is not that of a unit")
        except (OSError, ValueError, KeyError, TypeError, RecursionError, UdtwError) as error:
            raise StoreError(
                f"{path} is damaged, or not a result that udtw wrote ({type(error).__name__}: {error}). "
                "Remove the file; if it was a result, the next run computes it again."
            ) from error
        return unit, result


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Lock the folder for this process, or raise `StoreBusyError` at once.

    The system releases the lock when the process ends, however it ends. The lock file is not removed: a third process
    could then lock a new file while the second still holds the old one.
    """
    import fcntl  # not on Windows, where everything but the runner works

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
