"""Experiments as independent units: computed once, kept at once, reported together (extra ``experiments``)."""

try:
    import joblib  # noqa: F401
    import markdown_it  # noqa: F401
    import rich  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("joblib", "markdown_it", "rich"):
        raise
    raise ImportError(f"experiments needs {error.name}; install it with: pip install 'udtw[experiments]'") from error

from experiments.runner import Failure, Summary, run
from experiments.store import Store
from experiments.units import Unit
from udtw.demo.document import Document, escape_markdown

__all__ = ["Document", "Failure", "Store", "Summary", "Unit", "escape_markdown", "run"]
