"""JSON from untrusted files: one kind of error for all damage, and no duplicate keys.

Readers differ in which of two equal keys they use, so that a file with duplicates could pass a check by one reader and
mean something else to another.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from udtw.errors import FileFormatError, StoreError


def loads(text: str | bytes) -> Any:
    """Return the value in ``text``; raise `ValueError` for bad JSON, too much nesting, or a duplicate key."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("lists or objects inside one another, too deep to be read") from None


def plain(where: str, value: Any, non_finite: Callable[[float], Any], reserved: str | None = None) -> Any:
    """Return ``value`` as dict, list, str, bool, int, float and None, which JSON can represent.

    ``non_finite`` replaces NaN and infinity. Raise `StoreError` for other types, and for a key ``reserved``; ``where``
    is the name of the value in messages.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else non_finite(float(value))
    if isinstance(value, list | tuple):
        return [plain(f"{where}[{i}]", item, non_finite, reserved) for i, item in enumerate(value)]
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or key == reserved:
                other = "" if reserved is None else f" other than {reserved!r}"
                raise StoreError(f"{where} has the key {key!r}; keys must be strings{other}.")
        return {key: plain(f"{where}.{key}", item, non_finite, reserved) for key, item in value.items()}
    raise StoreError(
        f"{where} is a {type(value).__name__}, which JSON cannot represent. Convert it to a number, string or list."
    )


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"duplicate key {twice!r:.60}")
    return values


def read_versioned(path: Path, form: str, version: int, what: str) -> dict[str, Any]:
    """Return the JSON object in ``path``, which must name this ``format`` and ``version`` beside its content.

    ``what`` describes the folder of ``path`` in messages: "a folder of tokens".
    """
    try:
        content = loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileFormatError(f"{path.parent} holds no {path.name}, so it is not {what}.") from None
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path} is damaged or not JSON: {error}.") from error
    if not isinstance(content, dict) or content.get("format") != form:
        raise FileFormatError(f"{path} does not describe a {form}, so {path.parent} is not {what}.")
    if content.get("version") != version:
        raise FileFormatError(
            f"{path} has version {content.get('version')!r}; this udtw reads version {version}. Install a newer udtw, "
            "or write it again."
        )
    return content
