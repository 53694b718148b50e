"""Replaces ``<!-- metrics -->`` in a page by the table of metrics, so that no page lists them by hand."""

from udtw._engine.metrics import METRICS

MARKER = "<!-- metrics -->"


def on_page_markdown(markdown: str, **_: object) -> str:
    """Called by MkDocs for every page."""
    return markdown.replace(MARKER, table()) if MARKER in markdown else markdown


def table() -> str:
    """The metrics as a Markdown table."""
    lines = ["| name | distance | parameters | lengths may differ | variances |", "|---|---|---|---|---|"]
    for metric in METRICS.values():
        params = ", ".join(f"`{name}={value!r}`" for name, value in metric.params.items())
        marks = " | ".join("yes" if mark else "no" for mark in (metric.elastic, metric.uncertain))
        lines.append(f"| `{metric.name}` | {metric.summary} | {params} | {marks} |")
    return "\n".join(lines)
