"""``udtw demo`` and ``udtw explore``: everything on generated data, and an interactive page."""

from pathlib import Path
from typing import Annotated

import typer

from udtw.cli import options
from udtw.cli.command import Force
from udtw.cli.output import messages, note, show_table


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report and its figures.")] = Path("out"),
    quick: Annotated[bool, typer.Option("--quick", help="Tiny sizes: only shows that everything runs.")] = False,
    force: Force = False,
) -> None:
    """Average, classify, forecast, and recognize actions and images, on generated data, in a few minutes.

    Prints tables that compare uDTW with other distances, and writes a report with figures: open OUT/report.html.

    Examples:

    - `udtw demo`

    - `udtw demo --out look --quick`
    """
    from udtw.demo import FULL, QUICK, SUMMARY, run_demo, summary
    from udtw.demo.run import check_folder

    if not force:
        check_folder(out)
    parts, report = run_demo(out, QUICK if quick else FULL, messages())
    typer.echo(f"{SUMMARY}:")
    for task, verdict, own, rival, _ in summary(parts):
        typer.echo(f"- {task}: {verdict} (uDTW {own}, {rival})")
    for part in parts:
        typer.echo()
        show_table(part.title, part.columns, part.rows, part.note)
    typer.echo(f"\nOpen {report} for the tables with figures. Now yours: udtw align a.csv b.csv")


def explore(
    data_dir: options.DataDir = None,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8050,
    host: Annotated[str, typer.Option(help="Loopback address to listen on; others are refused.")] = "127.0.0.1",
    model: Annotated[
        Path | None, typer.Option(help="A model of `udtw images train`, whose uncertainty the tab of images shows.")
    ] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Backbone of the model's tokens, as in `udtw images embed --backbone`.")
    ] = None,
    all_tabs: Annotated[bool, typer.Option("--all-tabs", help="Show images and skeletons as well.")] = False,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
) -> None:
    """Match two series in the browser: an example, series of the UCR archive in `--data-dir`, or two files of yours.

    The page says which matches to trust, and lets you break a sensor with the mouse. It is served to this machine only
    and loads nothing from elsewhere; Ctrl-C ends it.

    Examples:

    - `udtw explore`

    - `udtw explore --data-dir ~/UCRArchive_2018 --port 0 --no-browser`

    - `udtw explore --model model.safetensors --backbone "sift?image_size=48"`
    """
    from udtw.explorer import serve

    serve(
        data_dir,
        host=host,
        port=port,
        model=model,
        backbone=backbone,
        all_tabs=all_tabs,
        open_browser=browser,
        say=note,
    )
