"""``udtw skeleton train``: train a few-shot recogniser of actions."""

from typing import Annotated

import typer

from udtw.cli import options, training
from udtw.cli.skeleton_data import OnError, OnErrorOption, load
from udtw.cli.training import Mode, Objective
from udtw.fewshot.model import comparator_names


def train(
    name: Annotated[
        str,
        typer.Argument(help="A data set as for `udtw skeleton prepare`, or `synthetic`."),
    ],
    out: training.Out,
    data_dir: options.SkeletonDir = None,
    metric: Annotated[str, options.name_option("How two clips are compared", "comparator", comparator_names)] = "udtw",
    mode: Annotated[Mode, typer.Option(help="With labels in episodes, or without labels by a dictionary.")] = (
        Mode.supervised
    ),
    objective: training.ObjectiveOption = Objective.cross_entropy,
    gamma: options.Gamma = None,
    beta: options.Beta = None,
    steps: training.Steps = 300,
    classes: Annotated[
        int | None, typer.Option(help="Train on this many of the training classes; by default on all.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="Any other setting of udtw.skeleton.Recipe, as in `--setting width=64 --setting depth=0`."),
    ] = None,
    episodes_per_step: training.EpisodesPerStep = 1,
    devices: training.Devices = 1,
    accelerator: training.Accelerator = "cpu",
    strategy: training.Strategy = "auto",
    on_error: OnErrorOption = OnError.stop,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Train on the training classes of the data set's protocol; novel classes are not used.

    Stop it at any time: the same command resumes from the last checkpoint and ends with the same weights.

    Examples:

    - `udtw skeleton train synthetic --out model.safetensors --steps 100`

    - `udtw skeleton train utd-mhad --data-dir ~/skeletons --metric udtw --out udtw.safetensors`

    - `udtw skeleton train folder --data-dir ~/my-clips --setting n_way=3 --out mine.safetensors`

    - `udtw skeleton train ntu120 --data-dir prepared --classes 100 --steps 30000 --devices 2 --strategy ddp
    --episodes-per-step 2 --out ntu120.safetensors`
    """
    from udtw.skeleton import ActionRecognizer, Recipe
    from udtw.skeleton.datasets import protocol

    recipe = Recipe.from_dict(
        {"metric": metric, "mode": str(mode), "objective": str(objective)}
        | options.given(gamma=gamma, beta=beta)
        | {"n_steps": steps, "seed": seed, "episodes_per_step": episodes_per_step}
        | dict(training.parse_setting(text) for text in setting or [])
    )
    fabric = training.launch(accelerator, devices, strategy)
    main = fabric is None or fabric.is_global_zero
    skeletons = load(name, data_dir, on_error, recipe.block_size, main)
    chosen = skeletons.subset(protocol(skeletons, classes).train)
    recognizer = ActionRecognizer(recipe, skeletons.graph, skeletons[0].frames.shape[3])
    training.with_progress(
        recipe.n_steps, main, lambda tick: recognizer.fit(chosen, checkpoint_path=out, fabric=fabric, tick=tick)
    )
    if main:
        training.show_trained(recognizer, name, out, {"clips": len(chosen)}, json)
