"""The command ``udtw`` (extra ``cli``): align, average, classify, forecast and reproduce, from a terminal."""

try:
    import rich
    import typer
except ModuleNotFoundError as error:
    if error.name not in ("rich", "typer"):
        raise
    raise ImportError(f"The command udtw needs {error.name}; install it with: pip install 'udtw[cli]'") from error

from udtw.cli.app import app, main
