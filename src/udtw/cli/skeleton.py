"""``udtw skeleton …``: the commands for actions of skeletons, each in its own module."""

import typer

from udtw.cli.skeleton_prepare import prepare
from udtw.cli.skeleton_show import show

app = typer.Typer(name="skeleton", rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    """Few-shot recognition of actions from skeletons. Begin with `udtw skeleton prepare --help`."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for command in (prepare, show):
    app.command()(command)
