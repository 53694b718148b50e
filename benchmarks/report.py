"""The results as tables (terminal and Markdown) and as JSON."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import rows
from benchmarks.rows import Row
from udtw._io.atomic import write_atomically

TITLES = {
    "sweep-length": "Training step by length (time of one call)",
    "sweep-batch": "Training step by batch (length 128)",
    "sweep-dimension": "Training step by feature dimension (16 pairs of length 128)",
    "sweep-memory": "Peak memory of one pair by length (MB above baseline)",
}
_FIXED = ("varied", "batch", "length", "dim")


def write_text(path: Path, content: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, content.encode())


def write_json(path: Path, results: dict[str, Any]) -> None:
    """Write all raw numbers."""
    write_text(path, json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return rows.duration(value["median"])
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def sweep_table(points: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of one sweep, with our advantage beside each peer's time."""
    names = [name for name in points[0] if name not in _FIXED]
    shape = [name for name in _FIXED if name != "varied" and name in points[0]] or ["varied"]
    lines = []
    for point in points:
        line = [str(point[name]) for name in shape]
        for name in names:
            text, ours = _cell(point[name]), point.get("udtw")
            if name != "udtw" and isinstance(point[name], dict) and isinstance(ours, dict):
                text += f" ({point[name]['median'] / ours['median']:.1f}×)"
            line.append(text)
        lines.append(line)
    return ["length" if name == "varied" else name for name in shape] + names, lines


def tables(
    found: Iterable[Row], sweeps: dict[str, list[dict[str, Any]]]
) -> list[tuple[str, list[str], list[list[str]]]]:
    """Return (title, headings, lines) of everything measured."""
    result = []
    lines = [rows.cells(row) for row in found]
    if lines:
        result.append(("Required", rows.HEADINGS, lines))
    return result + [(TITLES[name], *sweep_table(points)) for name, points in sweeps.items() if points]


def print_tables(console: Console, found: Iterable[Row], sweeps: dict[str, list[dict[str, Any]]]) -> None:
    """Show all tables."""
    for title, headings, lines in tables(found, sweeps):
        table = Table(title=title, title_justify="left")
        for heading in headings:
            table.add_column(heading, overflow="fold")
        for line in lines:
            table.add_row(*line, style="red" if line[-1] == "no" else None)
        console.print(table)


def markdown(found: Iterable[Row], sweeps: dict[str, list[dict[str, Any]]], notes: Sequence[str]) -> str:
    """Format the tables for a README."""
    parts = []
    for title, headings, lines in tables(found, sweeps):
        body = "\n".join("| " + " | ".join(line) + " |" for line in [headings, ["---"] * len(headings), *lines])
        parts.append(f"**{title}**\n\n{body}\n")
    return "\n".join([*parts, *(f"{note}\n" for note in notes)])
