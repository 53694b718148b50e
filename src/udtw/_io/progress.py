"""The progress bar of everything that takes long: on standard error, and only where it is wanted."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


class Advance(Protocol):
    """``advance(steps=1, note="loss 0.12")`` moves the bar on; the note is shown behind it."""

    def __call__(self, steps: int = 1, note: str | None = None) -> None: ...


@contextmanager
def progress_bar(title: str, total: int | None, shown: bool = True, console: Any = None) -> Iterator[Advance]:
    """Draw a bar of ``total`` steps while the block runs; yields an `Advance`, which does nothing unless ``shown``.

    ``console`` is a `rich.console.Console`; by default one on standard error.

    >>> with progress_bar("fit", total=3, shown=False) as advance:
    ...     for step in range(3):
    ...         advance(note=f"loss {step}")
    """
    if not shown:
        yield lambda steps=1, note=None: None
        return
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ModuleNotFoundError as error:
        raise ImportError("The progress bar is drawn by rich; install it with: pip install 'udtw[progress]'") from error
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    console = console or Console(stderr=True, highlight=False)
    # By default the estimate of the remaining time ignores steps that ended more than 30 s ago, so all longer steps.
    with Progress(*columns, console=console, speed_estimate_period=3600) as bar:
        task = bar.add_task(title, total=total, note="")

        def advance(steps: int = 1, note: str | None = None) -> None:
            bar.update(task, advance=steps)
            if note is not None:
                bar.update(task, note=note)

        yield advance
