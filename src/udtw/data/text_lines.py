"""Lines of text files."""

from pathlib import Path

from udtw.errors import DataError


def read_lines(path: Path) -> list[str]:
    """The lines of a text file in UTF-8."""
    try:
        # Not splitlines(): it also splits at characters that editors do not count as line ends.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file: {error}. Save it as UTF-8.") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error
