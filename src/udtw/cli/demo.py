"""``udtw demo``: all tasks on generated data."""

from pathlib import Path
from typing import Annotated

import typer

from udtw.cli.output import messages, show_table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and its figures.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that everything runs.")] = False,
) -> None:
    """Average, classify, forecast, and recognise actions and images, on generated data, in a few minutes.

    Prints tables that compare uDTW with other distances, and writes a report with figures: open OUT/report.html.

    Examples:

    - `udtw demo`

    - `udtw demo --out look --quick`
    """
    from udtw.demo import FULL, QUICK, run_demo

    parts, report = run_demo(out, QUICK if quick else FULL, messages())
    for part in parts:
        typer.echo()
        show_table(part.title, part.columns, part.rows, part.note)
    typer.echo(f"\nOpen {report} for the tables with figures.")
