"""Results on disk: one JSON file per finished unit, written in one step."""

import os
from pathlib import Path
from typing import Any

from udtw.data import strict_json
from udtw.data.atomic import leftovers, write_atomically
from udtw.errors import StoreError, UdtwError
from udtw.experiments.units import Unit
from udtw.experiments.values import plain, restored, to_json


class Store:
    """The results in ``folder``, which is made when the first one is written.

    A result is a dict of JSON values; NumPy and torch numbers become such, NaN and infinity are kept (see `values`).
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = Path(folder)

    def path(self, unit: Unit) -> Path:
        return self.folder / f"{unit.key}.json"

    def has(self, unit: Unit) -> bool:
        return self.path(unit).is_file()

    def read(self, unit: Unit) -> dict[str, Any]:
        if not self.has(unit):
            raise StoreError(f"{self.folder} has no result of {unit}. Compute it first.")
        found, result = self._read(self.path(unit))
        if found != unit:
            raise StoreError(f"{self.path(unit)} holds the result of another unit, {found}. Remove the file.")
        return result

    def write(self, unit: Unit, result: dict[str, Any]) -> None:
        if not isinstance(result, dict):
            raise StoreError(f"A result must be a dict of JSON values; got a {type(result).__name__}.")
        content = {"unit": unit.fields, "result": plain("result", result)}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path(unit), (to_json(content, indent=1) + "\n").encode())

    def results(self) -> list[tuple[Unit, dict[str, Any]]]:
        """All finished units, ordered by experiment, data set, method, seed and parameters."""
        found = [self._read(path) for path in self.folder.glob("*.json")]
        return sorted(found, key=lambda pair: pair[0])

    def clean_leftovers(self) -> int:
        """Remove what killed runs had begun to write; only while no other run uses the folder. Returns how many."""
        files = leftovers(self.folder)
        for file in files:
            file.unlink(missing_ok=True)
        return len(files)

    def _read(self, path: Path) -> tuple[Unit, dict[str, Any]]:
        try:
            content = strict_json.loads(path.read_bytes())
            unit, result = Unit(**content["unit"]), restored(content["result"])
            # Only units that the runner could have written there: a renamed file would be counted twice.
            if not isinstance(result, dict) or path.name != self.path(unit).name:
                raise ValueError("its name or content is not that of a unit")
        except (OSError, ValueError, KeyError, TypeError, RecursionError, UdtwError) as error:
            raise StoreError(
                f"{path} is damaged, or not a result that udtw wrote ({type(error).__name__}: {error}). "
                "Remove the file; if it was a result, the next run computes it again."
            ) from error
        return unit, result
