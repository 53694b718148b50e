"""Files of a data set that cannot be read: stop at the first one, or leave them out and list them."""

from dataclasses import dataclass

from udtw.errors import OptionError

ON_ERROR = ("raise", "skip")


@dataclass(frozen=True)
class Skipped:
    """A clip or image that was left out because its file could not be read, and the reason.

    Examples
    --------
    >>> from udtw._io.skipping import Skipped
    >>> Skipped("S001C001P001R001A001", "the file is empty").reason
    'the file is empty'
    """

    name: str
    reason: str


def check_on_error(on_error: str) -> None:
    """Raise unless ``on_error`` is "raise" or "skip"."""
    if on_error not in ON_ERROR:
        raise OptionError(f"on_error must be one of {ON_ERROR}; got {on_error!r}.")
