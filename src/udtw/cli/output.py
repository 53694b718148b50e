"""What commands print in the terminal: results on standard output, everything else on standard error."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table


def messages() -> Console:
    """A console on standard error, for progress and messages; a new one each time, since tests replace the stream."""
    return Console(stderr=True, highlight=False)


def error_line(text: str) -> None:
    """Print an error in one line."""
    typer.echo(f"error: {' '.join(text.split())}", err=True)


def note(text: str) -> None:
    """Print a message."""
    typer.echo(text, err=True)


def show(title: str, result: Mapping[str, Any], as_json: bool) -> None:
    """Print a result as a table of names and values, or as one JSON object."""
    if as_json:
        typer.echo(json.dumps(_json_value(result), indent=2, ensure_ascii=False))
        return
    table = Table(title=title, show_header=False, title_justify="left")
    for name, value in result.items():
        table.add_row(name.replace("_", " "), _text(value))
    Console(highlight=False).print(table)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> None:
    """Print a table with headings; the first column is left-aligned, the others are right-aligned."""
    table = Table(title=title, caption=note, title_justify="left", caption_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        shown = [_text(item) for item in value[:8]]
        return ", ".join(shown + ["…"] * (len(value) > 8))
    return "none" if value is None else str(value)


def _json_value(value: Any) -> Any:
    """``value`` in JSON types; NaN and infinity become null, which every JSON parser accepts."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _json_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def check_figure_name(path: Path, flag: str = "--plot") -> None:
    """Raise `OptionError` unless `save_figure` can write a file of that name."""
    from matplotlib.figure import Figure

    from udtw.errors import OptionError

    if path.suffix[1:].lower() not in Figure().canvas.get_supported_filetypes():
        raise OptionError(f"{flag} {path.name}: a figure needs a name that ends in .png, .pdf or .svg.")


def save_figure(figure: Any, path: Path, flag: str = "--plot") -> None:
    """Write a matplotlib figure atomically, in the format of the file's ending."""
    import io

    from udtw._io.atomic import write_atomically

    check_figure_name(path, flag)
    kind = path.suffix[1:].lower()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, buffer.getvalue())
    note(f"wrote {path}")
