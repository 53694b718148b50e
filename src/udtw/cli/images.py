"""``udtw images …``: the commands for few-shot classification of images, each in its own module."""

import typer

from udtw.cli.images_embed import embed
from udtw.cli.images_eval import evaluate
from udtw.cli.images_show import show
from udtw.cli.images_train import train

app = typer.Typer(name="images", rich_markup_mode="markdown")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context) -> None:
    """Few-shot classification of images by their tokens: embed a data set, train, eval, show.

    Without any data: `udtw images embed synthetic --out tokens --backbone patches`.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for name, command in (("embed", embed), ("train", train), ("eval", evaluate), ("show", show)):
    app.command(name)(command)
