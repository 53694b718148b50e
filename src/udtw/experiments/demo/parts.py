"""What every part of the demo gives back, and how it is shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rich.table import Table

from udtw.experiments.document import Document

Tick = Callable[[str], None]
"""Says what is computed next; called once before each step of the progress bar."""

NAMES = {
    "euclidean": "Euclidean",
    "dtw": "DTW",
    "soft_dtw": "soft-DTW",
    "soft_dtw_divergence": "soft-DTW divergence",
    "udtw": "uDTW",
}


@dataclass(frozen=True)
class Part:
    """A heading, what was done, one table and some figures."""

    heading: str
    text: str
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str
    figures: list[tuple[Any, str]] = field(default_factory=list)
    """(matplotlib figure, caption)"""

    def add_to(self, document: Document) -> None:
        document.text(f"## {self.heading}\n\n{self.text}")
        document.table(self.title, self.columns, self.rows, note=self.note)
        for figure, caption in self.figures:
            document.figure(figure, caption)

    def table(self) -> Table:
        """For the terminal."""
        table = Table(title=self.title, caption=self.note, title_justify="left", caption_justify="left")
        for i, column in enumerate(self.columns):
            table.add_column(column, justify="right" if i else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


def mean_std(values: Sequence[float], digits: int) -> str:
    """Over the seeds; one value has no deviation."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"
