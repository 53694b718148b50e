"""Explore how alignments depend on their settings on a local web page (extra ``cli``)."""

try:
    import dash
except ModuleNotFoundError as error:
    if error.name != "dash":
        raise
    raise ImportError("udtw.explorer needs Dash; install it with: pip install 'udtw[cli]'") from error

from udtw.explorer.app import create_app, serve
