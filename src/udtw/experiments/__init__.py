"""Experiments as independent units: computed once, kept at once, reported together (extra ``experiments``)."""

try:
    import joblib  # noqa: F401
    import markdown_it  # noqa: F401
    import rich  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("joblib", "markdown_it", "rich"):
        raise
    raise ImportError(
        f"udtw.experiments needs {error.name}; install it with: pip install 'udtw[experiments]'"
    ) from error

from udtw.experiments.document import Document, escape_markdown
from udtw.experiments.runner import Failure, Summary, run
from udtw.experiments.store import Store
from udtw.experiments.units import Unit

__all__ = ["Document", "Failure", "Store", "Summary", "Unit", "escape_markdown", "run"]
