"""JSON of others: one kind of error for everything that is wrong with it, and no key twice in an object.

Readers differ in which of two equal keys counts, so that a file with both can mean one thing to who checks it and
another to who uses it.
"""

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """The value in ``text``; `ValueError` if it is not JSON, is nested too deeply, or has a key twice."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError("lists or objects inside one another, too deep to be read") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r:.60} is there twice")
    return found
