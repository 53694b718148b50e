"""``udtw images train``: train a few-shot classifier of images on cached tokens."""

from pathlib import Path
from typing import Annotated

import typer

from udtw.cli import options, training
from udtw.cli.training import Mode, Objective
from udtw.fewshot.model import comparator_names


def train(
    tokens: Annotated[Path, typer.Argument(help="The tokens that `udtw images embed` wrote.")],
    out: training.Out,
    split: Annotated[str, typer.Option(help="Train on the classes of this split, or on `all`.")] = "train",
    metric: Annotated[
        str, options.name_option("How two images are compared (`protonet`: pooled)", "comparator", comparator_names)
    ] = "udtw",
    mode: Annotated[
        Mode, typer.Option(help="With labels in episodes, or without labels by telling augmented views apart.")
    ] = (Mode.supervised),
    objective: training.ObjectiveOption = Objective.cross_entropy,
    gamma: options.Gamma = None,
    beta: Annotated[
        float | None,
        typer.Option(
            help="Weight β of the uncertainty regulariser Ω (udtw).", show_default="1 or 0.1, depending on the mode"
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
        {"metric": metric, "mode": str(mode), "objective": str(objective)}
        | {"n_steps": steps, "seed": seed, "episodes_per_step": episodes_per_step}
        | options.given(gamma=gamma, beta=beta)
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
