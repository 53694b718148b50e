"""JSON files that name their ``format`` and ``version`` beside their content."""

from pathlib import Path
from typing import Any

from udtw._io import strict_json
from udtw.errors import FileFormatError


def read_versioned(path: Path, form: str, version: int, what: str) -> dict[str, Any]:
    """The JSON object in ``path``, which must have this format and version.

    ``what`` the folder of ``path`` should hold, for messages: "a folder of tokens".
    """
    try:
        content = strict_json.loads(path.read_text(encoding="utf-8"))
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
