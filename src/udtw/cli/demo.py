"""``udtw demo``: everything at once, on generated data."""

from pathlib import Path
from typing import Annotated

import typer

from udtw.cli.output import messages


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and its figures.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that everything runs.")] = False,
) -> None:
    """Average, classify, forecast, recognise and tell apart on generated data, against the baselines, in a few minutes.

    Prints the tables and leaves a report with figures: open OUT/report.html.

    Examples:

    - `udtw demo`

    - `udtw demo --out look --quick`
    """
    from rich.console import Console

    from udtw.experiments.demo import FULL, QUICK, run_demo

    parts, report = run_demo(out, QUICK if quick else FULL, messages())
    console = Console(highlight=False)
    for part in parts:
        console.print()
        console.print(part.table())
    typer.echo(f"\nOpen {report} for the tables with figures.")
