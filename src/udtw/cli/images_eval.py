"""``udtw images eval``: the accuracy of a trained model on images of novel classes."""

from pathlib import Path
from typing import Annotated

import typer

from udtw.cli import options
from udtw.cli.images_embed import N_WAY
from udtw.cli.output import note, show


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model that `udtw images train` wrote.")],
    tokens: Annotated[Path, typer.Argument(help="The tokens that `udtw images embed` wrote, with the same backbone.")],
    split: Annotated[str, typer.Option(help="Test on the classes of this split, or on `all`.")] = "test",
    episodes: Annotated[int, typer.Option(help="Test episodes.")] = 1000,
    n_way: Annotated[
        int | None, typer.Option(help="Classes per episode; by default 5, or as many as there are.")
    ] = None,
    n_shot: Annotated[int, typer.Option(help="Labelled images per class.")] = 1,
    n_query: Annotated[
        int | None, typer.Option(help="Queries per class; by default 15, or fewer if the classes are smaller.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Accuracy on novel classes over episodes, with its 95 % confidence interval.

    With tokens of another data set than in training, this is the cross-domain accuracy.

    Examples:

    - `udtw images eval model.safetensors tokens/synthetic`

    - `udtw images eval mini.safetensors tokens/cub --n-shot 5 --episodes 2000 --json`
    """
    from udtw.fewshot.episodes import queries_for
    from udtw.images import ImageRecognizer, open_tokens

    recognizer = ImageRecognizer.load(model)
    novel = open_tokens(tokens)
    novel = novel if split == "all" else novel.of_split(split)
    n_way = min(N_WAY, len(set(novel.labels.tolist()))) if n_way is None else n_way
    if n_way < N_WAY:
        note(f"{split} has {len(set(novel.labels.tolist()))} classes: episodes are {n_way}-way")
    n_query = queries_for(novel.labels, n_shot, 15) if n_query is None else n_query
    found = recognizer.evaluate(novel, n_way=n_way, n_shot=n_shot, n_query=n_query, n_episodes=episodes, seed=seed)
    what = {"n_way": n_way, "n_shot": n_shot, "n_query": n_query, "episodes": episodes, "model": str(model)}
    show(f"{novel.name}, {split}: {found}", {"accuracy": found.mean, "half_width_95": found.half_width, **what}, json)
