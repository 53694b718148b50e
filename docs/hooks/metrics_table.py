"""Replace ``<!-- metrics -->`` in a page by the table of metrics (MkDocs hook)."""

from udtw._engine.metrics import METRICS

MARKER = "<!-- metrics -->"


def on_page_markdown(markdown: str, **_: object) -> str:
    """Insert the table into a page; MkDocs calls this for every page."""
    return markdown.replace(MARKER, table()) if MARKER in markdown else markdown


def table() -> str:
    """Return the metrics as a Markdown table."""
    lines = ["| name | distance | parameters | lengths may differ | variances |", "|---|---|---|---|---|"]
    for metric in METRICS.values():
        params = ", ".join(f"`{name}={value!r}`" for name, value in metric.params.items())
        marks = " | ".join("yes" if mark else "no" for mark in (metric.elastic, metric.uncertain))
        lines.append(f"| `{metric.name}` | {metric.summary} | {params} | {marks} |")
    return "\n".join(lines)
