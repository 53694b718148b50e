"""``udtw images show``: figures of the uncertainty and the matches of a trained model."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from udtw.cli import options
from udtw.cli.output import save_figure
from udtw.cli.output import show as show_result

N_IMAGES = 6


class Picture(StrEnum):
    uncertainty = "uncertainty"
    match = "match"
    components = "components"


def show(
    context: typer.Context,
    model: Annotated[Path, typer.Argument(help="The model that `udtw images train` wrote.")],
    tokens: Annotated[Path, typer.Argument(help="The tokens that `udtw images embed` wrote, with the same backbone.")],
    out: Annotated[Path, typer.Option(help="Write the figure here (.png, .pdf or .svg).")],
    what: Annotated[Picture, typer.Option(help="Which figure.")] = Picture.uncertainty,
    data_dir: options.ImageDir = None,
    split_file: options.SplitFile = None,
    split: Annotated[str, typer.Option(help="Images of the classes of this split, or of `all`.")] = "test",
    image: Annotated[
        list[str] | None,
        typer.Option(help="Name of an image, may be repeated; by default drawn by the seed."),
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Draw the uncertainty of a model, its matches, or its features.

    - `uncertainty`: σ of every patch over the image, from blue (certain) to red (uncertain), beside the backbone's
    attention if it was stored (`embed --attention`)

    - `match`: an image aligned with one of its class and with one of another: the strongest patch matches and the
    coupling. With `--image`: three names, two of one class, then one of another

    - `components`: the first three principal components of the tokens as colors, before and after the projection

    For uDTW the result also has the rank correlation of the uncertainty with the attention, if it was stored, and with
    the contrast (the distance of a token to the mean token of its image), over all images of the split. It is negative
    if uncertainty is low where attention is high.

    Examples:

    - `udtw images show model.safetensors tokens/synthetic --out uncertainty.png`

    - `udtw images show cub.safetensors tokens/cub --data-dir ~/CUB_200_2011 --what match --out match.pdf`
    """
    from udtw.images import ImageRecognizer, load_images, open_tokens
    from udtw.images.reverse_attention import measure_reverse_attention
    from udtw.plots.image_views import show_components, show_match, show_uncertainty

    recognizer = ImageRecognizer.load(model)
    chosen = open_tokens(tokens)
    chosen = chosen if split == "all" else chosen.of_split(split)
    # Where the images were when they were embedded, unless the command line says otherwise.
    explicit = str(context.get_parameter_source("data_dir")).endswith("COMMANDLINE")
    data_dir = data_dir if explicit else chosen.origin.get("data_dir", data_dir)
    images = load_images(chosen.name, data_dir, split_file=split_file or chosen.origin.get("split_file"))
    if what is Picture.match:
        places = _places(chosen, image) if image else _triple(chosen, seed)
        figure: Any = show_match(recognizer, chosen, images, *_three(places))
    else:
        drawn = np.random.default_rng(seed).permutation(len(chosen))[:N_IMAGES]
        places = _places(chosen, image) if image else [int(i) for i in drawn]
        make = show_uncertainty if what is Picture.uncertainty else show_components
        figure = make(recognizer, chosen, images, places)
    save_figure(figure, out, "--out")
    result: dict[str, Any] = {"model": str(model), "images": [chosen.names[i] for i in places], "picture": str(out)}
    if recognizer.recipe.metric == "udtw":
        for map_name, found in measure_reverse_attention(recognizer, chosen).items():
            result[f"rank_correlation_with_{map_name}"] = str(found)
    show_result("Picture", result, json)


def _places(tokens: Any, names: list[str]) -> list[int]:
    from udtw.errors import OptionError

    for name in names:
        if name not in tokens.names:
            raise OptionError(f"{tokens.name} has no image {name!r} here; one is {tokens.names[0]!r}.")
    return [tokens.names.index(name) for name in names]


def _three(places: list[int]) -> tuple[int, int, int]:
    from udtw.errors import OptionError

    if len(places) != 3:
        raise OptionError(f"--what match takes three images: two of one class, then one of another; got {len(places)}.")
    return places[0], places[1], places[2]


def _triple(tokens: Any, seed: int) -> list[int]:
    """Two images of one class and one of another, drawn by the seed."""
    from udtw.fewshot import EpisodeSampler

    episode = EpisodeSampler(tokens.labels, 2, 1, 1, seed).episode(0)
    return [int(episode.support[0, 0]), int(episode.query[0, 0]), int(episode.support[1, 0])]
