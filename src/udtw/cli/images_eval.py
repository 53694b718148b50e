"""``udtw images eval``: how well a trained model classifies images of classes that it was not trained on."""

from pathlib import Path
from typing import Annotated

import typer

from udtw.cli import options
from udtw.cli.output import show


def evaluate(
    model: Annotated[Path, typer.Argument(help="What `udtw images train` wrote.")],
    tokens: Annotated[Path, typer.Argument(help="What `udtw images embed` wrote, with the same backbone.")],
    split: Annotated[str, typer.Option(help="The classes to test on; `all` of them.")] = "test",
    episodes: Annotated[int, typer.Option(help="Test episodes.")] = 1000,
    n_way: Annotated[int, typer.Option(help="Classes an episode.")] = 5,
    n_shot: Annotated[int, typer.Option(help="Labelled images a class.")] = 1,
    n_query: Annotated[
        int | None, typer.Option(help="Queries a class; by default 15, or what the classes allow.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Accuracy on novel classes over episodes, with its 95 % confidence interval.

    Tokens of another data set make it cross-domain.

    Examples:

    - `udtw images eval model.safetensors tokens/synthetic`

    - `udtw images eval mini.safetensors tokens/cub --n-shot 5 --episodes 2000 --json`
    """
    from udtw.fewshot.episodes import queries_for
    from udtw.images import ImageRecognizer, open_tokens

    recognizer = ImageRecognizer.load(model)
    novel = open_tokens(tokens)
    novel = novel if split == "all" else novel.of_split(split)
    n_query = queries_for(novel.labels, n_shot, 15) if n_query is None else n_query
    found = recognizer.evaluate(novel, n_way=n_way, n_shot=n_shot, n_query=n_query, n_episodes=episodes, seed=seed)
    what = {"n_way": n_way, "n_shot": n_shot, "n_query": n_query, "episodes": episodes, "model": str(model)}
    show(f"{novel.name}, {split}: {found}", {"accuracy": found.mean, "half_width_95": found.half_width, **what}, json)
