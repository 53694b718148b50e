"""A unit of work (one data set, method, seed and choice of parameters), and the JSON values that it consists of.

Parameters and results are JSON values; NumPy and torch numbers are converted. JSON has no NaN and no infinity, but a
training that diverged is a result too: in results they are stored as ``{"$float": "nan"}`` and read back as floats.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from udtw._io import strict_json
from udtw.errors import OptionError

FLOAT = "$float"


@dataclass(frozen=True, order=True)
class Unit:
    """One computation of an experiment; units with equal fields are equal.

    Parameters
    ----------
    experiment, dataset, method : str
    seed : int
    params : dict
        Finite JSON values. Stored as a sorted tuple of (name, JSON text), so that 1 and True differ.

    Examples
    --------
    >>> from experiments import Unit
    >>> unit = Unit("ucr", "GunPoint", "knn udtw", 0, {"gamma": 0.1})
    >>> unit.options
    {'gamma': 0.1}
    >>> unit.key.startswith("ucr-GunPoint-knn_udtw-s0-")
    True
    """

    experiment: str
    dataset: str
    method: str
    seed: int
    params: Any = field(default=())

    def __post_init__(self) -> None:
        for name in ("experiment", "dataset", "method"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise OptionError(f"{name} must be a string that is not empty; got {getattr(self, name)!r}.")
        if not isinstance(self.seed, int) or isinstance(self.seed, bool):
            raise OptionError(f"seed must be an integer; got {self.seed!r}.")
        if isinstance(self.params, Mapping):
            object.__setattr__(self, "params", _frozen(dict(self.params)))
        elif not isinstance(self.params, tuple) or not all(_is_pair(pair) for pair in self.params):
            raise OptionError(f"params must be a dict of JSON values; got {self.params!r}.")

    @property
    def options(self) -> dict[str, Any]:
        """Return the parameters as a new dict, in alphabetical order."""
        return {name: json.loads(text) for name, text in self.params}

    @property
    def fields(self) -> dict[str, Any]:
        """Return all that identifies the unit, as JSON values: ``Unit(**unit.fields) == unit``."""
        return {
            "experiment": self.experiment,
            "dataset": self.dataset,
            "method": self.method,
            "seed": self.seed,
            "params": self.options,
        }

    @property
    def key(self) -> str:
        """Return a file name: readable, safe on every file system, different for different units."""
        readable = "-".join(_safe(part) for part in (self.experiment, self.dataset, self.method, f"s{self.seed}"))
        return f"{readable}-{hashlib.sha256(to_json(self.fields).encode()).hexdigest()[:16]}"


def _frozen(params: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    values = plain("params", params)
    if '{"$float": ' in to_json(values):
        raise OptionError(f"params must be finite, since a unit with NaN does not equal itself; got {params}.")
    return tuple((name, to_json(values[name])) for name in sorted(values))


def _is_pair(pair: Any) -> bool:
    return isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(part, str) for part in pair)


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", text)[:40]


def plain(where: str, value: Any) -> Any:
    """Return ``value`` as dict, list, str, bool, int, float and None only, with marked NaN and infinity."""
    return strict_json.plain(where, value, lambda number: {FLOAT: repr(number)}, reserved=FLOAT)


def restored(value: Any) -> Any:
    """Invert `plain`, up to types that JSON does not have."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if isinstance(value, dict):
        return float(value[FLOAT]) if set(value) == {FLOAT} else {key: restored(item) for key, item in value.items()}
    return value


def to_json(value: Any, indent: int | None = None) -> str:
    """Return the same text for the same value, on every machine."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent)
