"""A report as Markdown and as one HTML file that needs nothing else."""

import base64
import html
import io
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from markdown_it import MarkdownIt

from udtw.data.atomic import write_atomically
from udtw.errors import ShapeError
from udtw.experiments.page import page

# Raw HTML stays text, and images could only come from outside the file.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).disable("image")
NUMBER = re.compile(r"[+−-]?\.?\d[\d.,]*(e[+-]?\d+)?( ?%)?( ?± ?[\d.,]+( ?%)?)?|[+−-]?inf|nan|–|")


class Block(Protocol):
    """A part of a document in both languages."""

    def markdown(self) -> str: ...
    def html(self) -> str: ...


class Document:
    """Texts, tables and figures in the order in which they are added."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._blocks: list[Block] = []
        self._figures: list[Figure] = []

    def text(self, markdown: str) -> None:
        """Paragraphs, headings, lists, links and code in Markdown; in the HTML file, raw HTML shows as text.

        Put foreign strings through `escape_markdown`.
        """
        self._blocks.append(Text(markdown.strip()))

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str | None = None) -> None:
        """Cells are plain text: floats get four digits, None a dash. Columns of numbers are aligned on the right."""
        cells = [[cell_text(value) for value in row] for row in rows]
        for i, row in enumerate(cells):
            if len(row) != len(columns):
                raise ShapeError(
                    f"Row {i} of table {title!r} has {len(row)} cells, but there are {len(columns)} columns."
                )
        self._blocks.append(Table(title, [str(column) for column in columns], cells, note))

    def figure(self, figure: Any, caption: str) -> None:
        """A matplotlib figure as it is now: it may be changed or closed afterwards."""
        buffer = io.BytesIO()
        # Without the version of matplotlib, so that equal figures are equal files.
        figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None})
        block = Figure(f"figure-{len(self._figures) + 1:02d}.png", buffer.getvalue(), caption)
        self._figures.append(block)
        self._blocks.append(block)

    def write(self, folder: str | os.PathLike) -> Path:
        """Write report.md, its figures and report.html into ``folder``; returns the path of the last."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for figure in self._figures:
            write_atomically(target / figure.name, figure.png)
        markdown = [f"# {escape_markdown(self.title)}", *(block.markdown() for block in self._blocks)]
        write_atomically(target / "report.md", ("\n\n".join(markdown) + "\n").encode())
        body = "\n".join(block.html() for block in self._blocks)
        write_atomically(target / "report.html", page(self.title, body).encode())
        return target / "report.html"


@dataclass(frozen=True)
class Text:
    source: str

    def markdown(self) -> str:
        return self.source

    def html(self) -> str:
        return MARKDOWN.render(self.source)


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str | None

    def _numeric(self) -> list[bool]:
        return [
            bool(self.rows) and all(NUMBER.fullmatch(row[c]) for row in self.rows) for c in range(len(self.columns))
        ]

    def markdown(self) -> str:
        rule = ["---:" if numeric else "---" for numeric in self._numeric()]
        lines = [
            [escape_markdown(c) for c in self.columns],
            rule,
            *([escape_markdown(c) for c in r] for r in self.rows),
        ]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        note = f"\n\n{escape_markdown(self.note)}" if self.note else ""
        return f"**{escape_markdown(self.title)}**\n\n{table}{note}"

    def html(self) -> str:
        kinds = [' class="number"' if numeric else "" for numeric in self._numeric()]
        head = "".join(
            f'<th scope="col"{kind}>{html.escape(c)}</th>' for c, kind in zip(self.columns, kinds, strict=True)
        )
        body = "\n".join(
            "<tr>" + "".join(f"<td{kind}>{html.escape(c)}</td>" for c, kind in zip(row, kinds, strict=True)) + "</tr>"
            for row in self.rows
        )
        note = f'\n<p class="note">{html.escape(self.note)}</p>' if self.note else ""
        # The focus makes a wide table scrollable by keyboard.
        return (
            f'<div class="table" tabindex="0"><table>\n<caption>{html.escape(self.title)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>{note}"
        )


@dataclass(frozen=True)
class Figure:
    name: str
    png: bytes
    caption: str

    def markdown(self) -> str:
        return f"![{escape_markdown(self.caption)}]({self.name})\n\n*{escape_markdown(self.caption)}*"

    def html(self) -> str:
        caption = html.escape(self.caption)
        source = f"data:image/png;base64,{base64.b64encode(self.png).decode()}"
        return f'<figure><img alt="{caption}" src="{source}"><figcaption>{caption}</figcaption></figure>'


def cell_text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def escape_markdown(text: str) -> str:
    """``text`` as one line of Markdown that shows exactly it."""
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~!$])", r"\\\1", line)
