"""What commands print and write: results on standard output, messages on standard error, tables and figures."""

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from udtw._io.atomic import write_atomically
from udtw._io.strict_json import plain
from udtw.errors import OptionError

if TYPE_CHECKING:
    from udtw._io.items import Skipped

SEPARATORS = {".csv": ",", ".tsv": "\t"}
LISTED = 5
"""Number of items left out that are listed."""
SHOWN = 20
"""Number of predictions that are printed."""
failures: list[Path] = []
"""Outputs of the running command that could not be written."""


def messages() -> Console:
    """Return a new console on standard error, for progress and messages; new, since tests replace the stream."""
    return Console(stderr=True, highlight=False)


def working(text: str) -> Any:
    """Return a context that shows ``text``; before it, say so if kernels have to be compiled."""
    if not _kernels_compiled():
        note("compiling kernels for this machine: about a minute, once")
    return messages().status(text)


def _kernels_compiled() -> bool:
    """Return whether Numba keeps kernels, or is not there to compile any."""
    try:
        from udtw._kernels.cpu.launch import usable
    except ImportError:
        return True
    return any(Path(usable.stats.cache_path).glob("forward.*.nbi"))


def error_line(text: str) -> None:
    """Print an error in one line."""
    typer.echo(f"error: {' '.join(text.split())}", err=True)


def note(text: str) -> None:
    """Print a message."""
    typer.echo(text, err=True)


def list_skipped(skipped: "Sequence[Skipped]", more: str = "", listed: int | None = LISTED) -> None:
    """Print the first items that were left out, and the number of others; ``more`` says where these are listed."""
    for one in skipped[:listed]:
        note(f"left out {one.name}: {one.reason}")
    if listed is not None and len(skipped) > listed:
        note(f"left out {len(skipped) - listed} more{more}")


def show(title: str, result: Mapping[str, Any], as_json: bool) -> None:
    """Print a result as a table of names and values, or as one JSON object in which NaN and infinity are null."""
    if as_json:
        typer.echo(json.dumps(plain("the result", result, lambda _: None), indent=2, ensure_ascii=False))
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


def show_predictions(
    model: Path, names: Sequence[str], classes: Sequence[str], probabilities: np.ndarray, skipped: "Sequence[Skipped]",
    out: Path | None, as_json: bool, kind: str = "clip",
) -> None:  # fmt: skip
    """Write and print the most probable class of every item, and the probabilities (n, n_classes) of all."""
    rows: list[dict[str, Any]] = [
        {kind: name, "class": classes[int(shares.argmax())], "probability": float(shares.max())}
        | {f"p_{one}": float(share) for one, share in zip(classes, shares, strict=True)}
        for name, shares in zip(names, probabilities, strict=True)
    ]
    if out is not None:
        write_table(out, rows)
    if as_json:
        about = {"model": str(model), "classes": list(classes), "left_out": [one.name for one in skipped]}
        show("Predictions", about | {"predictions": rows}, as_json)
        return
    cells = [[row[kind], row["class"], f"{row['probability']:.3f}"] for row in rows[:SHOWN]]
    rest = f"{len(rows) - SHOWN} more; --out writes all. " if len(rows) > SHOWN else ""
    show_table("Predictions", [kind, "class", "probability"], cells, f"{rest}{len(classes)} classes.")


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


def check_table_name(path: Path, flag: str = "--out") -> None:
    """Raise `OptionError` unless `write_table` can write a file of that name."""
    if path.suffix.lower() not in (*SEPARATORS, ".json"):
        raise OptionError(f"{flag} {path.name}: use a name that ends in .csv, .tsv or .json.")


def write_file(path: Path, content: bytes, flag: str) -> None:
    """Write a file atomically, and say so; if that fails say why, and let the command print its result all the same."""
    with writing(path, flag):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


@contextmanager
def writing(path: Path, flag: str) -> Iterator[None]:
    """Report that ``path`` was written within the context, or as an error why it could not be."""
    try:
        yield
        note(f"wrote {path}")
    except OSError as error:
        failures.append(path)
        error_line(f"{flag} {path} cannot be written: {error.strerror or error}. The result is printed only.")


def write_table(path: Path, rows: list[dict[str, Any]], flag: str = "--out") -> None:
    """Write rows with the same names atomically, as CSV, TSV or JSON by the ending; None is an empty cell or null."""
    check_table_name(path, flag)
    kind = path.suffix.lower()
    if kind == ".json":
        text = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    else:
        written = io.StringIO()
        writer = csv.writer(written, delimiter=SEPARATORS[kind], lineterminator="\n")
        writer.writerows([list(rows[0]), *(row.values() for row in rows)])
        text = written.getvalue()
    write_file(path, text.encode(), flag)


def check_figure_name(path: Path, flag: str = "--plot") -> None:
    """Raise `OptionError` unless `save_figure` can write a file of that name."""
    from matplotlib.figure import Figure

    if path.suffix[1:].lower() not in Figure().canvas.get_supported_filetypes():
        raise OptionError(f"{flag} {path.name}: a figure needs a name that ends in .png, .pdf or .svg.")


def save_figure(figure: Any, path: Path, flag: str = "--plot") -> None:
    """Write a matplotlib figure atomically, in the format of the file's ending."""
    check_figure_name(path, flag)
    kind = path.suffix[1:].lower()
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200)
    write_file(path, buffer.getvalue(), flag)
