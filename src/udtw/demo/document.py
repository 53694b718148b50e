"""Write reports in Markdown and as a self-contained HTML file, and format their cells."""

import base64
import html
import io
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from markdown_it import MarkdownIt

from udtw._io.atomic import write_atomically
from udtw.errors import ShapeError

# Raw HTML is shown as text. Images are disabled because they would be loaded from outside the file.
MARKDOWN = MarkdownIt("commonmark", {"html": False}).disable("image")
NUMBER = re.compile(r"[+−-]?\.?\d[\d.,]*(e[+-]?\d+)?( ?%)?( ?± ?[\d.,]+( ?%)?)?|[+−-]?inf|nan|–|")


class Block(Protocol):
    """Render a part of a document in both formats."""

    def markdown(self) -> str: ...
    def html(self) -> str: ...


class Document:
    """Collect texts, tables and figures of a report in the order of their calls."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._blocks: list[Block] = []
        self._figures: list[Figure] = []

    def text(self, markdown: str) -> None:
        """Add paragraphs, headings, lists, links or code in Markdown; raw HTML is shown as text.

        Use `escape_markdown` for strings from elsewhere.
        """
        self._blocks.append(Text(markdown.strip()))

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str | None = None) -> None:
        """Add a table of plain text: floats with four digits, a dash for None, and right-aligned columns of numbers."""
        cells = [[cell_text(value) for value in row] for row in rows]
        for i, row in enumerate(cells):
            if len(row) != len(columns):
                raise ShapeError(
                    f"Row {i} of table {title!r} has {len(row)} cells, but there are {len(columns)} columns."
                )
        self._blocks.append(Table(title, [str(column) for column in columns], cells, note))

    def figure(self, figure: Any, caption: str) -> None:
        """Add a matplotlib figure in its current state; it may be changed or closed afterwards."""
        buffer = io.BytesIO()
        # Without the version of matplotlib, equal figures are equal files.
        figure.savefig(buffer, format="png", dpi=150, bbox_inches="tight", metadata={"Software": None})
        block = Figure(f"figure-{len(self._figures) + 1:02d}.png", buffer.getvalue(), caption)
        self._figures.append(block)
        self._blocks.append(block)

    def write(self, folder: str | os.PathLike) -> Path:
        """Write report.md, its figures and report.html into ``folder``; return the path of report.html."""
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
        # With tabindex, a wide table can be scrolled by keyboard.
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
    """Format the value of a cell."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def escape_markdown(text: str) -> str:
    r"""Escape ``text`` as one line of Markdown that shows it literally.

    >>> from experiments import escape_markdown
    >>> escape_markdown("a_b | <c>")
    'a\\_b \\| &lt;c&gt;'
    """
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~!$])", r"\\\1", line)


def mean_std(values: Sequence[float], digits: int) -> str:
    """Format ``mean ± standard deviation`` over seeds; the mean alone for one value."""
    mean = f"{np.mean(values):.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {np.std(values, ddof=1):.{digits}f}"


STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --line: #d8dce2; --soft: #5b6470; --tint: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e6ea; --paper: #15171a; --line: #363b43; --soft: #9aa3af; --tint: #1e2126; }
}
body { margin: 0 auto; max-width: 60rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.6 system-ui, sans-serif; overflow-wrap: break-word; }
h1, h2, h3 { line-height: 1.25; margin: 2.2em 0 0.6em; }
h1 { margin-top: 0; }
a { color: LinkText; }
code { background: var(--tint); padding: 0.1em 0.3em; border-radius: 3px; font-size: 0.9em; }
pre { background: var(--tint); padding: 0.8rem 1rem; overflow-x: auto; }
pre code { padding: 0; }
.table { overflow-x: auto; margin: 1.5rem 0 0.5rem; }
table { border-collapse: collapse; font-size: 0.92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.4rem; }
th, td { padding: 0.3rem 0.8rem; text-align: left; vertical-align: top; max-width: 18em;
  border-bottom: 1px solid var(--line); }
thead th { border-bottom: 2px solid var(--soft); }
tbody tr:hover { background: var(--tint); }
.number { text-align: right; }
td.number { white-space: nowrap; }
@media (max-width: 40rem) {
  body { padding: 1rem 0.75rem 3rem; }
  h1 { font-size: 1.5rem; }
  table { font-size: 0.8rem; }
  th, td { padding: 0.3rem 0.25rem; max-width: 9.5em; }
}
.note, figcaption { color: var(--soft); font-size: 0.9rem; margin: 0.4rem 0 1.5rem; }
figure { margin: 1.5rem 0; }
img { max-width: 100%; background: #fff; border-radius: 4px; }
@media print { .table { overflow: visible; } }
"""


def page(title: str, body: str) -> str:
    """Return an HTML page with light and dark colors, for any window width, offline; ``title`` is plain text."""
    safe = html.escape(title)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{safe}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<h1>{safe}</h1>
{body}
</main>
</body>
</html>
"""
