"""How callbacks answer: their outputs by name, or a message in place of what cannot be shown."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from dash import no_update

from udtw.errors import UdtwError

log = logging.getLogger("udtw.explorer")


def guarded(work: Callable[[], dict[str, Any]], outputs: Mapping[str, Any]) -> dict[str, Any]:
    """What ``work`` found, with an empty "message"; after an error the message alone, all else stays as it is.

    "took" is the time that it needed.
    """
    begin = time.perf_counter()
    nothing = dict.fromkeys(outputs, no_update)
    try:
        found = nothing | work() | {"message": ""}
    except UdtwError as error:
        return nothing | {"message": str(error)}
    except Exception as error:
        log.exception("not expected")
        return nothing | {"message": f"{type(error).__name__}: not expected; the terminal shows where."}
    if "took" in outputs:
        found["took"] = f"computed in {1e3 * (time.perf_counter() - begin):.0f} ms"
    return found
