"""``udtw images``: embed a data set once, train on its tokens, evaluate, classify new images, and draw."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from udtw.cli import options, training
from udtw.cli.output import LISTED, list_skipped, note, save_figure, show, show_predictions
from udtw.cli.training import Dask, Mode, dask_cluster
from udtw.errors import OptionError
from udtw.fewshot.model import comparator_names

N_WAY = 5
"""Classes per episode by default."""


class Preset(StrEnum):
    photo = "photo"
    drawing = "drawing"


def embed(
    name: Annotated[str, typer.Argument(metavar=options.IMAGE_SETS, help="Which data set.")],
    out: Annotated[Path, typer.Option(help="Folder for the tokens, created if needed.")],
    data_dir: options.ImageDir = None,
    backbone: Annotated[
        str,
        typer.Option(
            help="`patches`, `patches-grey`, `sift`, `dinov3`, `efficientnet-lite0`, `hf:ID-or-FOLDER`, "
            "`onnx:FILE#OUTPUT`; settings after a question mark, as in `dinov3?image_size=224&pool=7`."
        ),
    ] = "patches",
    views: Annotated[int, typer.Option(help="Augmented views of each image; needed for training without labels.")] = 0,
    augmentation: Annotated[Preset, typer.Option(help="How views are made.")] = Preset.photo,
    attention: Annotated[bool, typer.Option("--attention", help="Also store the backbone's attention.")] = False,
    split: Annotated[str | None, typer.Option(help="Only the classes of `train`, `val` or `test`.")] = None,
    split_file: options.SplitFile = None,
    per_class: options.PerClass = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1: all cores.")] = 1,
    batch_size: Annotated[int, typer.Option(help="Images per batch of the backbone.")] = 32,
    on_error: Annotated[
        options.OnError, typer.Option(help="Stop at an image that cannot be read, or leave it out and list it.")
    ] = options.OnError.skip,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace tokens in OUT that are of other images or of another backbone.")
    ] = False,
    seed: options.Seed = 0,
    dask: Dask = None,
    json: options.Json = False,
) -> None:
    """Extract the tokens of a data set once; training and evaluation read them and never run the backbone.

    Stop it at any time: the same command continues where it stopped. Run it again after images were changed, and only
    the shards with changed images are written again. Data sets are read as published, as folders or archives; `folder`
    is any folder with a subfolder of images for each class, `synthetic` is generated.

    Examples:

    - `udtw images embed synthetic --backbone patches --views 2 --out tokens/synthetic`

    - `udtw images embed cub --data-dir ~/CUB_200_2011 --backbone dinov3 --attention --jobs 2 --out tokens/cub`

    - `udtw images embed folder --data-dir ~/photos --backbone "hf:facebook/dinov2-small?pool=8" --out tokens/photos`
    """
    from udtw.images import embed as extract
    from udtw.images import load_backbone, load_images, open_tokens

    begin = time.perf_counter()
    images = load_images(name, data_dir, split_file=split_file)
    for one in images.notes:
        note(one)
    if split is not None:
        images = images.of_split(split)
    if per_class is not None:
        images = images.limited(per_class)
    with dask_cluster(dask):
        found = extract(
            images, load_backbone(backbone), out, views=views, augmentation=str(augmentation) if views else None,
            seed=seed, attention=attention, n_jobs=jobs, batch_size=batch_size, on_error=str(on_error),
            replace=replace, progress=True, origin=_origin(backbone, data_dir, split_file),
        )  # fmt: skip
    list_skipped(found.skipped, "; --json lists all", None if json else LISTED)
    for text in split_notes(open_tokens(out)):
        note(text)
    result = {
        "images": found.images, "left_out": [one.name for one in found.skipped] if json else len(found.skipped),
        "shards_written": found.written, "shards_kept": found.kept, "seconds": time.perf_counter() - begin,
        "tokens": str(out),
    }  # fmt: skip
    show(f"Tokens of {name}", result, json)


def _origin(backbone: str, data_dir: Path | None, split_file: Path | None) -> dict[str, str]:
    """Return what later commands need to find the images and the backbone again."""
    places = {"data_dir": data_dir, "split_file": split_file}
    found = {key: str(path.expanduser().absolute()) for key, path in places.items() if path is not None}
    return {"backbone": backbone, **found}


def split_notes(tokens: Any) -> list[str]:
    """How many classes each split has, and what that means for episodes if they are few."""
    there = set(tokens.labels.tolist())
    sizes = {split: len(there.intersection(labels)) for split, labels in tokens.splits.items()}
    total = sum(sizes.values())
    notes = [f"classes: {', '.join(f'{split} {count}' for split, count in sizes.items() if count)} of {total}"]
    for split, command in (("train", "train"), ("test", "eval")):
        if 1 < (few := sizes.get(split, 0)) < N_WAY:
            notes.append(f"{split} has {few} of {total} classes: episodes of `udtw images {command}` will be {few}-way")
    return notes


def train(
    tokens: Annotated[Path, typer.Argument(help="The tokens that `udtw images embed` wrote.")],
    out: training.Out,
    split: Annotated[str, typer.Option(help="Train on the classes of this split, or on `all`.")] = "train",
    metric: Annotated[
        str, options.name_option("How two images are compared (`protonet`: pooled)", "comparator", comparator_names)
    ] = "udtw",
    mode: Annotated[
        Mode, typer.Option(help="Train on labeled episodes, or without labels by telling augmented views apart.")
    ] = (Mode.supervised),
    objective: training.ObjectiveOption = None,
    preset: training.PresetOption = training.Preset.default,
    gamma: options.Gamma = None,
    beta: Annotated[
        float | None,
        typer.Option(
            help="Weight β of the uncertainty regularizer Ω (udtw).", show_default="1 or 0.1, depending on the mode"
        ),
    ] = None,
    steps: training.Steps = 300,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="Any other setting of udtw.images.ImageRecipe, as in `--setting order=hilbert`."),
    ] = None,
    episodes_per_step: training.EpisodesPerStep = 1,
    devices: training.Devices = 1,
    accelerator: training.Accelerator = "cpu",
    strategy: training.Strategy = "auto",
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Train the projection and the uncertainty of tokens; the backbone is not changed.

    Stop it at any time: the same command resumes from the last checkpoint and ends with the same weights.

    Examples:

    - `udtw images train tokens/synthetic --out model.safetensors --steps 100`

    - `udtw images train tokens/cub --metric udtw --objective similarity --out cub.safetensors`

    - `udtw images train tokens/omniglot --mode unsupervised --metric soft_dtw --out omniglot.safetensors`
    """
    from udtw.images import ImageRecipe, ImageRecognizer, open_tokens

    recipe = ImageRecipe.from_dict(
        {"metric": metric, "mode": str(mode), "preset": str(preset)}
        | {"n_steps": steps, "seed": seed, "episodes_per_step": episodes_per_step}
        | options.given(gamma=gamma, beta=beta, objective=None if objective is None else str(objective))
        | dict(training.parse_setting(text) for text in setting or [])
    )
    fabric = training.launch(accelerator, devices, strategy)
    main = fabric is None or fabric.is_global_zero
    chosen = open_tokens(tokens)
    chosen = chosen if split == "all" else chosen.of_split(split)
    recognizer = ImageRecognizer(recipe, chosen.dim)
    training.with_progress(
        recipe.n_steps, main, lambda tick: recognizer.fit(chosen, checkpoint_path=out, fabric=fabric, tick=tick)
    )
    if main:
        training.show_trained(recognizer, chosen.name, out, {"images": len(chosen)}, json)


def evaluate(
    model: Annotated[Path, typer.Argument(help="The model that `udtw images train` wrote.")],
    tokens: Annotated[Path, typer.Argument(help="The tokens that `udtw images embed` wrote, with the same backbone.")],
    split: Annotated[str, typer.Option(help="Test on the classes of this split, or on `all`.")] = "test",
    episodes: Annotated[int, typer.Option(help="Test episodes.")] = 1000,
    n_way: Annotated[int, typer.Option(help="Classes per episode, or as many as there are.")] = N_WAY,
    n_shot: Annotated[int, typer.Option(help="Labeled images per class.")] = 1,
    n_query: Annotated[
        int | None, typer.Option(help="Queries per class; by default 15, or fewer if the classes are smaller.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Estimate the accuracy on novel classes over episodes, with its 95 % confidence interval.

    With tokens of another data set than in training, this is the cross-domain accuracy.

    Examples:

    - `udtw images eval model.safetensors tokens/synthetic`

    - `udtw images eval mini.safetensors tokens/cub --n-shot 5 --episodes 2000 --json`
    """
    from udtw.fewshot.episodes import fitting_n_way, queries_for
    from udtw.images import ImageRecognizer, open_tokens

    recognizer = ImageRecognizer.load(model)
    novel = open_tokens(tokens)
    novel = novel if split == "all" else novel.of_split(split)
    n_way = fitting_n_way(novel.labels, n_way)
    n_query = queries_for(novel.labels, n_shot, 15) if n_query is None else n_query
    found = recognizer.evaluate(novel, n_way=n_way, n_shot=n_shot, n_query=n_query, n_episodes=episodes, seed=seed)
    what = {"n_way": n_way, "n_shot": n_shot, "n_query": n_query, "episodes": episodes, "model": str(model)}
    show(f"{novel.name}, {split}: {found}", {"accuracy": found.mean, "half_width_95": found.half_width, **what}, json)


def predict(
    model: Annotated[Path, typer.Argument(help="The model that `udtw images train` wrote.")],
    images: Annotated[list[Path], typer.Argument(metavar="IMAGES...", help="Image files.")],
    support: Annotated[Path, typer.Option(help="Folder with a subfolder of example images for each class.")],
    out: options.Predictions = None,
    backbone: Annotated[
        str | None,
        typer.Option(help="The backbone of the model's tokens.", show_default="that of `udtw images embed`"),
    ] = None,
    json: options.Json = False,
) -> None:
    """Classify new images by a few examples of each class; the classes need not be those of the training.

    Writes the class and its probability for each image, and the probability of every class. Images that cannot be
    decoded are named and left out.

    Examples:

    - `udtw images predict model.safetensors new/*.jpg --support examples --out predictions.csv`
    """
    from udtw._io.progress import progress_bar
    from udtw.images import ImageRecognizer, load_backbone, load_support, predict_images

    recognizer = ImageRecognizer.load(model)
    spec = backbone or recognizer.backbone_spec
    if spec is None:
        raise OptionError(f"{model} does not record the backbone of its tokens; pass --backbone.")
    network = load_backbone(spec)
    if recognizer.backbone not in (None, network.identity):
        raise OptionError(
            f"{model} was trained on tokens of {recognizer.backbone}; {spec} is another backbone. Pass --backbone."
        )
    known = load_support(support)
    with progress_bar("reading images", len(known) + len(images), not json) as advance:
        found = predict_images(recognizer, network, images, known, lambda: advance(1))
    list_skipped(found.skipped, listed=None)
    show_predictions(model, found.names, found.classes, found.probabilities, found.skipped, out, json, "image")


N_DRAWN = 6
"""Images of a figure by default."""


class Picture(StrEnum):
    uncertainty = "uncertainty"
    match = "match"
    components = "components"


def draw(
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
        drawn = np.random.default_rng(seed).permutation(len(chosen))[:N_DRAWN]
        places = _places(chosen, image) if image else [int(i) for i in drawn]
        make = show_uncertainty if what is Picture.uncertainty else show_components
        figure = make(recognizer, chosen, images, places)
    save_figure(figure, out, "--out")
    result: dict[str, Any] = {"model": str(model), "images": [chosen.names[i] for i in places], "picture": str(out)}
    if recognizer.recipe.metric == "udtw":
        for map_name, found in measure_reverse_attention(recognizer, chosen).items():
            result[f"rank_correlation_with_{map_name}"] = str(found)
    show("Picture", result, json)


def _places(tokens: Any, names: list[str]) -> list[int]:
    for name in names:
        if name not in tokens.names:
            raise OptionError(f"{tokens.name} has no image {name!r} here; one is {tokens.names[0]!r}.")
    return [tokens.names.index(name) for name in names]


def _three(places: list[int]) -> tuple[int, int, int]:
    if len(places) != 3:
        raise OptionError(f"--what match takes three images: two of one class, then one of another; got {len(places)}.")
    return places[0], places[1], places[2]


def _triple(tokens: Any, seed: int) -> list[int]:
    """Two images of one class and one of another, drawn by the seed."""
    from udtw.fewshot import EpisodeSampler

    episode = EpisodeSampler(tokens.labels, 2, 1, 1, seed).episode(0)
    return [int(episode.support[0, 0]), int(episode.query[0, 0]), int(episode.support[1, 0])]
