"""``udtw skeleton …``: the commands for actions of skeletons, each in its own module."""

import typer

from udtw.cli.skeleton_eval import evaluate
from udtw.cli.skeleton_prepare import prepare
from udtw.cli.skeleton_show import show
from udtw.cli.skeleton_train import train

app = typer.Typer(name="skeleton", rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    """Few-shot recognition of actions from skeletons: prepare a data set, train, eval, show.

    Without any data: `udtw skeleton train synthetic --out model.safetensors`.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for name, command in (("prepare", prepare), ("train", train), ("eval", evaluate), ("show", show)):
    app.command(name)(command)
