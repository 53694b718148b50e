"""The explorer: a local web page that shows how alignments depend on their settings (extra ``explore``)."""

try:
    import dash  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "dash":
        raise
    raise ImportError("udtw.explorer needs Dash; install it with: pip install 'udtw[explore]'") from error

from udtw.explorer.app import create_app
from udtw.explorer.server import serve

__all__ = ["create_app", "serve"]
