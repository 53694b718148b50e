"""``udtw skeleton eval``: the accuracy of a trained recogniser on novel actions."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from udtw.cli import options
from udtw.cli.output import show
from udtw.cli.skeleton_data import OnError, OnErrorOption, load


class Inference(StrEnum):
    auto = "auto"
    alignment = "alignment"
    codes = "codes"


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model that `udtw skeleton train` wrote.")],
    name: Annotated[str, typer.Argument(help="The data set.")],
    data_dir: options.SkeletonDir = None,
    episodes: Annotated[int, typer.Option(help="Test episodes.")] = 1000,
    n_way: Annotated[int, typer.Option(help="Classes per episode.")] = 5,
    n_shot: Annotated[int, typer.Option(help="Labelled clips per class.")] = 1,
    n_query: Annotated[
        int | None, typer.Option(help="Queries per class; by default 10, or fewer if the classes are smaller.")
    ] = None,
    inference: Annotated[
        Inference, typer.Option(help="By alignment with the supports, or by dictionary codes (unsupervised models).")
    ] = Inference.auto,
    on_error: OnErrorOption = OnError.stop,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Accuracy on the novel classes of the data set's protocol, with its 95 % confidence interval.

    If the protocol names one exemplar per class (NTU), all other clips of the novel classes are compared with these;
    otherwise episodes are drawn.

    Examples:

    - `udtw skeleton eval model.safetensors synthetic`

    - `udtw skeleton eval udtw.safetensors utd-mhad --data-dir ~/skeletons --episodes 2000 --json`
    """
    from udtw.fewshot import EpisodeSampler
    from udtw.fewshot.episodes import queries_for
    from udtw.fewshot.evaluation import accuracy_of, evaluate_scores
    from udtw.fewshot.model import predict
    from udtw.skeleton import ActionRecognizer
    from udtw.skeleton.datasets import protocol

    recognizer = ActionRecognizer.load(model)
    skeletons = load(name, data_dir, on_error, recognizer.recipe.block_size)
    parts = protocol(skeletons)
    novel = skeletons.subset(parts.novel)
    if parts.exemplars is None:
        n_query = queries_for(novel.labels, n_shot) if n_query is None else n_query
        sampler = EpisodeSampler(novel.labels, n_way, n_shot, n_query, seed)
        accuracy = evaluate_scores(recognizer.scores(novel, inference=str(inference)), sampler, episodes)
        what = {"n_way": n_way, "n_shot": n_shot, "n_query": n_query, "episodes": episodes}
    else:
        known = skeletons.subset(parts.exemplars)
        found = predict(recognizer.scores(novel, known, inference=str(inference)), known.labels)
        accuracy = accuracy_of((found == novel.labels).astype(float))
        what = {"n_way": len(known), "n_shot": 1, "test_clips": len(novel)}
    result = {"accuracy": accuracy.mean, "half_width_95": accuracy.half_width, **what, "model": str(model)}
    show(f"{name}, novel classes: {accuracy}", result, json)
