"""A progress bar on standard error, drawn only if it is wanted."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(title: str, total: int, shown: bool) -> Iterator[Callable[..., None]]:
    """Gives a function ``advance(steps=1)``."""
    if not shown:
        yield lambda steps=1: None
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ModuleNotFoundError as error:
        raise ImportError("The progress bar is drawn by rich; install it with: pip install 'udtw[progress]'") from error
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True, highlight=False)) as bar:
        task = bar.add_task(title, total=total)
        yield lambda steps=1: bar.advance(task, steps)
