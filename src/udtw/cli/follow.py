"""``udtw follow``: where in a reference a live stream is, line by line as it arrives."""

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from udtw._engine.follower import Follower, Position
from udtw.cli.files import read_series
from udtw.cli.output import note
from udtw.data.table import AS_IT_IS, ReadOptions
from udtw.errors import DataError, OptionError

MISSING = ("", "nan", "na", "null", "none")
COLUMNS = ("step", "index", "expected", "low", "high", "speed", "remaining", "fits")


def follow(
    reference: Annotated[Path, typer.Argument(metavar="REFERENCE", help="File of the series that is expected.")],
    stream: Annotated[
        str,
        typer.Argument(
            metavar="STREAM",
            help="- for standard input, or a file: text with one step per line. A first line of names chooses the "
            "columns of the reference; without one the columns are those of the reference, without its time.",
        ),
    ] = "-",
    reading: ReadOptions = AS_IT_IS,
    level: Annotated[float, typer.Option(help="Probability that the position lies in its interval.")] = 0.9,
    lag: Annotated[
        int, typer.Option(help="Also tell the position this many steps ago, in the light of what came since.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per step.")] = False,
) -> None:
    """Follow a live stream through a reference: its position now, the interval, and the time that is left.

    Every step of the stream is answered at once by a line: the most probable and the expected step of the reference,
    the interval that holds the position with probability `--level`, the speed, the expected number of steps until the
    reference ends, and whether the stream still fits. Where it no longer does, and where it does again, is also told on
    standard error. Empty cells are missing values. Stop with Ctrl-C.

    Examples:

    - `tail -f sensor.csv | udtw follow cycle.csv -`

    - `udtw follow score.csv performance.csv --lag 10 --json`
    """
    if str(reference) == "-":
        raise OptionError("The reference is read as a whole; give a file, and - for the stream.")
    expected = read_series(reference, reading)
    follower = Follower(expected.values, level=level, lag=lag)
    now, names = None, [*COLUMNS, *(["smoothed", "smoothed_low", "smoothed_high"] if lag else [])]
    if not as_json:
        typer.echo(",".join(names))
    with nullcontext(sys.stdin) if stream == "-" else open(stream, encoding="utf-8-sig") as lines:
        for step in _steps(lines, "standard input" if stream == "-" else stream, expected.names, reading.decimal):
            fitted = now is None or now.fits
            now = follower.update(step[None])
            print(json.dumps(asdict(now)) if as_json else _row(now, names), flush=True)
            if now.fits != fitted:
                change = "the stream fits again" if now.fits else f"the stream no longer fits, since step {now.lost_at}"
                note(f"step {now.step}: {change}")
    if now is None:
        raise DataError(f"{stream} holds no step.")
    left = f"about {now.remaining:.0f} steps are left" if now.index < len(expected) - 1 else "the reference has ended"
    note(f"the stream stopped after {now.step + 1} steps at {now.expected:.1f} of {len(expected) - 1}; {left}")


def _row(now: Position, names: list[str]) -> str:
    values: dict[str, Any] = asdict(now)
    if "smoothed" in names:
        place = now.smoothed
        values |= {"smoothed": None, "smoothed_low": None, "smoothed_high": None}
        if place is not None:
            values |= {"smoothed": place.expected, "smoothed_low": place.low, "smoothed_high": place.high}
    cells = (values[name] for name in names)
    return ",".join(
        "" if one is None else f"{one:.6g}" if isinstance(one, float) else str(one).lower() for one in cells
    )


def _steps(lines: Iterable[str], where: str, names: list[str], decimal: str | None) -> Iterator[np.ndarray]:
    """Yield every line as a step (d,), as soon as it is there."""
    separator: str | None = None
    chosen: list[int] | None = None
    for number, line in enumerate(lines, 1):
        text = line.strip("\r\n\ufeff")
        if not text.strip():
            continue
        if chosen is None:
            separator = next((one for one in ";\t," if one in text and one != decimal), None)
        cells = [one.strip().strip('"') for one in text.split(separator)]
        if chosen is None:
            chosen = list(range(len(names)))
            if not all(_is_value(one, decimal) for one in cells):
                missing = [name for name in names if name not in cells]
                if missing:
                    raise DataError(
                        f"{where} has no column {', '.join(missing)} of the reference; its columns are "
                        f"{', '.join(cells)}. Choose those of both with --columns."
                    )
                chosen, width = [cells.index(name) for name in names], len(cells)
                continue
            width = len(names)
        if len(cells) != width:
            raise DataError(
                f"{where}, line {number}: {len(cells)} value(s), expected {width} ({', '.join(names)}). The steps "
                "before were followed."
            )
        values = [cells[one] for one in chosen]
        wrong = [one for one in values if not _is_value(one, decimal)]
        if wrong:
            raise DataError(f"{where}, line {number}: {wrong[0]!r} is not a number. The steps before were followed.")
        yield np.array([_value(one, decimal) for one in values])


def _is_value(cell: str, decimal: str | None) -> bool:
    try:
        _value(cell, decimal)
    except ValueError:
        return False
    return True


def _value(cell: str, decimal: str | None) -> float:
    return np.nan if cell.lower() in MISSING else float(cell.replace(",", ".") if decimal == "," else cell)
