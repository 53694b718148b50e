"""JSON from untrusted files: one kind of error for all damage, and duplicate keys are refused.

Readers differ in which of two equal keys they use, so that a file with duplicates could pass a check by one reader and
mean something else to another.
"""

import json
from typing import Any


def loads(text: str | bytes) -> Any:
    """The value in ``text``; `ValueError` if it is not JSON, is nested too deeply, or has a duplicate key."""
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
