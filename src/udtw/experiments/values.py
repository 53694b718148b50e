"""What a unit's parameters and results may be: JSON values, and NumPy or torch numbers that become such.

JSON has no NaN and no infinity, but a training that diverged is a result too: in results they are kept as
``{"$float": "nan"}`` and come back as floats.
"""

import json
import math
from typing import Any

from udtw.errors import StoreError

FLOAT = "$float"


def plain(where: str, value: Any) -> Any:
    """``value`` made of dict, list, str, bool, int, float and None only, not-finite floats marked."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {FLOAT: repr(float(value))}
    if isinstance(value, list | tuple):
        return [plain(f"{where}[{i}]", item) for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == FLOAT:
                raise StoreError(f"{where} has the key {key!r}; keys must be strings other than {FLOAT!r}.")
        return {key: plain(f"{where}.{key}", item) for key, item in value.items()}
    raise StoreError(f"{where} is a {type(value).__name__}, which JSON cannot keep. Make it a number, string or list.")


def restored(value: Any) -> Any:
    """The inverse of `plain`, as far as JSON knows the types."""
    if isinstance(value, list):
        return [restored(item) for item in value]
    if isinstance(value, dict):
        return float(value[FLOAT]) if set(value) == {FLOAT} else {key: restored(item) for key, item in value.items()}
    return value


def to_json(value: Any, indent: int | None = None) -> str:
    """The same text for the same value, on every machine."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False, indent=indent)
