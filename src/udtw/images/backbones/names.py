"""Names to choose from, for error messages."""

import difflib
from collections.abc import Sequence


def choices(wanted: str, names: Sequence[str], count: int = 8) -> str:
    """Of ``names`` those most like ``wanted``, or the last ones if none is like it."""
    if not names:
        return "there are none"
    close = difflib.get_close_matches(wanted, names, n=count, cutoff=0.4) or list(names[-count:])
    return f"some of the {len(names)} there are: {', '.join(close)}"
