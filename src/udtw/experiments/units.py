"""The unit of work of every experiment: one data set, method, seed and choice of parameters."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from udtw.errors import OptionError
from udtw.experiments.values import plain, to_json


@dataclass(frozen=True, order=True)
class Unit:
    """``params``: a dict of JSON values; kept as a sorted tuple of (name, JSON text), so that 1 and True differ."""

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
        """The parameters as a dict, in alphabetical order; a new one each time."""
        return {name: json.loads(text) for name, text in self.params}

    @property
    def fields(self) -> dict[str, Any]:
        """All that identifies the unit, as JSON values: ``Unit(**unit.fields) == unit``."""
        return {
            "experiment": self.experiment,
            "dataset": self.dataset,
            "method": self.method,
            "seed": self.seed,
            "params": self.options,
        }

    @property
    def key(self) -> str:
        """A name for files: readable, safe on every file system, different for different units."""
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
